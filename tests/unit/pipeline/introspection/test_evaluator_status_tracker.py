"""What the states are made from: results of the last while, the judges, and what waits."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from monitor.clock import ManualClock
from monitor.judge.pause import Pause
from monitor.judge.setup import PauseCause
from monitor.model.outcome import EvaluationResult, Outcome, RateScope, Score, Unscored, UnscoredReason
from monitor.pipeline.introspection.evaluator_status import WINDOW, State, StatusTracker, TrackedEvaluator
from tests.support.page import answer
from tests.support.runtime import runtime

NOW = 1_700_000_000.0


@dataclass
class FakeJudge:
    pause: Pause
    fault: str = ""
    held_back: bool = False
    held_back_by: str = ""
    asked_to_wait: str = ""


@dataclass
class Bench:
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    def __post_init__(self) -> None:
        self.runtime = runtime(self.clock)
        self.judges = {name: FakeJudge(Pause(self.clock, self.runtime.events, place=name)) for name in ("", "small")}
        known = [
            TrackedEvaluator("local", None),
            TrackedEvaluator("big", ""),
            TrackedEvaluator("small", "small"),
            TrackedEvaluator("idle", "none", off="judge.model is not set"),
        ]
        self.tracker = StatusTracker(known, self.judges, self.clock, self.runtime.metrics)

    def hear(self, evaluator: str, outcome: Outcome, number: int = 1, scope: RateScope = RateScope.LIVE) -> None:
        for _ in range(number):
            self.tracker.on_result(replace(result(evaluator, outcome), evaluated_at=self.clock.now(), scope=scope))
        self.clock.advance(1.0)

    def state(self, evaluator: str) -> State:
        found = self.tracker.current()[evaluator].state
        for state in State:
            labels = {"evaluator": evaluator, "state": state.value}
            value = self.runtime.metrics.registry.get_sample_value("ragmonitor_evaluator_state", labels)
            assert value == float(state is found), (evaluator, state)
        return found


def result(evaluator: str, outcome: Outcome) -> EvaluationResult:
    return replace(answer(), evaluator=evaluator, outcome=outcome)


SCORE, TIMEOUT = Score(1.0, "fine"), Unscored(UnscoredReason.TIMEOUT)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_before_the_first_result_all_have_never_run_and_all_series_are_there(bench):
    for name in ("local", "big", "small", "idle"):
        assert bench.state(name) is State.NEVER_RUN


def test_one_judge_that_is_paused_pauses_its_own_evaluators_alone(bench):
    for name in ("local", "big", "small"):
        bench.hear(name, SCORE)
    bench.judges["small"].pause.refused(PauseCause.UNPAID, "the bill")
    bench.clock.advance(2.0)
    assert [bench.state(name) for name in ("local", "big", "small")] == [State.OK, State.OK, State.PAUSED]
    assert dict(bench.tracker.pauses())["big"] == ""
    assert "the bill" in dict(bench.tracker.pauses())["small"]


def test_what_is_older_than_15_minutes_is_forgotten(bench):
    bench.hear("big", TIMEOUT, 10)
    assert bench.state("big") is State.ERROR
    bench.clock.advance(920.0)
    assert bench.state("big") is State.OK
    assert "15 min ago" in bench.tracker.current()["big"].why


def test_what_was_judged_afterwards_says_nothing_of_now(bench):
    bench.hear("big", TIMEOUT, 10, scope=RateScope.BACKFILL)
    assert bench.state("big") is State.NEVER_RUN


def test_what_waits_for_its_first_verdict_has_run(bench):
    bench.runtime.metrics.evaluations_pending.labels("shop", "big").inc()
    assert bench.state("big") is State.OK


def test_an_open_breaker_and_a_judge_that_cannot_work_are_errors_of_their_evaluators(bench):
    bench.judges[""].held_back = True
    assert bench.state("big") is State.ERROR
    bench.judges["small"].fault = "torch is missing"
    bench.clock.advance(2.0)
    assert bench.state("small") is State.ERROR
    assert bench.state("local") is State.NEVER_RUN


def test_a_result_of_an_evaluator_that_is_not_configured_any_more_is_ignored(bench):
    bench.hear("gone", SCORE)
    assert "gone" not in bench.tracker.current()


def test_results_of_days_that_nobody_asks_about_are_counted_for_the_window_only(bench):
    def counts() -> int:
        return sum(type(one) is Counter for one in gc.get_objects())

    before = counts()
    for _ in range(2_000):
        bench.hear("local", SCORE)
        bench.clock.advance(14.0)
    assert counts() - before <= WINDOW / 15 + 1


def test_results_of_a_clock_that_was_a_year_ahead_do_not_count_once_it_is_set(bench):
    bench.clock.jump(365 * 86_400.0)
    bench.hear("local", TIMEOUT, 10)
    bench.clock.jump(-365 * 86_400.0)
    bench.hear("local", SCORE, 2)
    bench.clock.advance(2.0)
    assert bench.state("local") is State.OK
