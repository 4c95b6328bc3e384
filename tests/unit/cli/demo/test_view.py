"""What the demo reads of a running monitor: rates, trends, states and the ledger, as the parts really say them."""

from __future__ import annotations

import pytest

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy, AlertWindow
from monitor.cli.demo import view as seen
from monitor.clock import ManualClock
from monitor.model.case import Case, Request
from monitor.model.outcome import EvaluationResult, Evidence, Score
from monitor.pipeline.ledger import Ledger, RequestOutcome, TraceOutcome
from monitor.stages import Runtime
from monitor.statistics.windows import Windows
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics

POLICY = AlertPolicy(
    evaluator="overlap_groundedness", warning=0.1, critical=0.3, windows=(AlertWindow(window=60.0, z=2.33),)
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000.0)


@pytest.fixture
def windows(clock: ManualClock) -> Windows:
    return Windows(clock)


def judge(windows: Windows, clock: ManualClock, good: int, bad: int, app: str = "acme") -> None:
    for number in range(good + bad):
        windows.add(app, "overlap_groundedness", clock.now(), 1.0, number < bad)


def test_a_row_has_the_rate_of_the_last_minute_with_its_interval(windows: Windows, clock: ManualClock) -> None:
    judge(windows, clock, good=75, bad=25)
    clock.advance(5)
    (row,) = seen.rates(windows, (), clock.now())
    assert (row.app, row.evaluator, row.rate, row.judged) == ("acme", "overlap_groundedness", 0.25, 100)
    assert row.lower is not None
    assert row.upper is not None
    assert 0.15 < row.lower < 0.25 < row.upper < 0.4
    clock.advance(200)
    (row,) = seen.rates(windows, (), clock.now())
    assert (row.rate, row.judged, row.state) == (None, 0, "not enough data")


def test_the_trend_runs_from_the_oldest_interval_to_now_with_gaps_where_nothing_was_judged(
    windows: Windows, clock: ManualClock
) -> None:
    judge(windows, clock, good=10, bad=0)
    clock.advance(20)
    judge(windows, clock, good=5, bad=5)
    clock.advance(10)
    judge(windows, clock, good=0, bad=3)
    (row,) = seen.rates(windows, (), clock.now())
    assert list(row.trend)[-4:] == [
        None,
        0.0,
        None,
        8 / 13,
    ]  # the newest holds the last whole interval and the running one
    assert len(row.trend) == 12


def test_before_the_alerts_are_checked_a_rate_is_not_called_ok(windows: Windows, clock: ManualClock) -> None:
    judge(windows, clock, good=400, bad=4)
    (row,) = seen.rates(windows, (), clock.now())
    assert (row.judged, row.state, row.threshold) == (404, "not enough data", None)


@pytest.mark.parametrize(
    ("judged", "state", "severity"),
    [
        ((1, 0), "not enough data", None),
        ((400, 4), "ok", None),
        ((300, 75), "warning", "warning"),
        ((50, 50), "critical", "critical"),
    ],
)
def test_the_state_is_that_of_the_gravest_alert(
    windows: Windows, clock: ManualClock, judged: tuple[int, int], state: str, severity: str | None
) -> None:
    good, bad = judged
    judge(windows, clock, good, bad)
    engine = AlertEngine([POLICY], windows)
    engine.evaluate(clock.now())
    clock.advance(3)
    states = engine.evaluate(clock.now())
    (row,) = seen.rates(windows, states, clock.now())
    assert (row.state, row.threshold) == (state, 0.1)
    shown = seen.alerts(states, clock.now())
    assert [alert.severity for alert in shown] == ([severity] if severity else [])
    for alert in shown:
        assert alert.lower > alert.threshold
        assert (alert.firing_for, alert.window) == (3, 60)


def test_the_ledger_adds_up_over_apps_and_sources() -> None:
    metrics = Metrics()
    ledger = Ledger(metrics)
    for app in ("one", "two"):
        for _ in range(3):
            ledger.received(app, "otlp_http")
        ledger.found(app, "otlp_http", 1)
        ledger.request_ended(app, "otlp_http", RequestOutcome.EVALUATED)
        ledger.ended(app, "otlp_http", TraceOutcome.READ)
    ledger.passed("one", "otlp_grpc", TraceOutcome.SAMPLED_OUT, 4)
    shown = dict(seen.ledger(metrics))
    assert next(iter(shown)) == "received"
    received = shown.pop("received")
    assert (received, shown["evaluated"], shown["sampled_out"], shown["pending"]) == (10, 2, 4, 4)
    assert sum(shown.values()) == received


def judged(question: str, value: float, at: float, *, defect: bool = True) -> EvaluationResult:
    return EvaluationResult(
        case=Case(request_id=f"{question}{at}", request=Request(question), response="made up", app="acme"),
        evaluator="overlap_groundedness",
        version="1",
        outcome=Score(value, "why", evidence=(Evidence("made", "absent", 0, 4), Evidence("elsewhere", "absent"))),
        weight=1.0,
        level="unsupported",
        defect=defect,
        evaluated_at=at,
    )


@pytest.mark.anyio
async def test_the_worst_answers_are_the_lowest_recent_defects_each_question_once(clock: ManualClock) -> None:
    metrics = Metrics()
    latest = seen.Latest()
    async with latest.open(Runtime(clock=clock, metrics=metrics, events=Events(metrics), health=Health())) as deliver:
        for one in (
            judged("old", 0.0, 10),
            judged("twice", 0.3, 101),
            judged("twice", 0.1, 102),
            judged("fine", 0.9, 103, defect=False),
            judged("low", 0.2, 104),
            judged("lower", 0.05, 105),
            judged("least bad", 0.4, 106),
        ):
            await deliver([one])
    found = latest.worst(since=100)
    assert [(one.question, one.score) for one in found] == [("lower", 0.05), ("twice", 0.1), ("low", 0.2)]
    assert found[0].unsupported == [(0, 4)]
