"""`RagJudgeDrifted` in process: more of the canary's verdicts have moved than noise explains."""

from __future__ import annotations

from monitor.alerts.engine import AlertEngine
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock
from monitor.model.canary import CanaryRun
from monitor.statistics.windows import Windows

HOUR = 3600.0


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.checks = SelfAlertChecks(Observed(self.clock))
        self.engine = AlertEngine([], Windows(self.clock), checks=self.checks, runbooks="https://e.org")

    def run(self, stricter: int = 0, milder: int = 0, *, tolerance: float = 0.05, evaluator: str = "grounded") -> None:
        """Eight hours pass, then 24 cases are judged."""
        self.clock.advance(8 * HOUR)
        same = 24 - stricter - milder
        at = self.clock.now()
        self.checks.on_canary_run(CanaryRun(at, evaluator, "1+aa", same, stricter, milder, tolerance))

    def firing(self) -> list[AlertState]:
        return [state for state in self.engine.evaluate(self.clock.now()) if state.firing]


def test_five_cases_that_moved_are_told_after_two_runs_with_their_number_and_direction() -> None:
    world = World()
    for _ in range(3):
        world.run()
    world.run(4, 1)
    assert world.firing() == []
    world.run(4, 1)
    (state,) = world.firing()
    assert dict(state.labels) == {
        "alertname": "RagJudgeDrifted",
        "evaluator": "grounded",
        "version": "1+aa",
        "severity": "warning",
    }
    assert state.annotations == {
        "summary": "Judge verdicts on the canary set have drifted from the baseline.",
        "description": (
            "10 of 72 canary verdicts of grounded in the last 1d differ from the baseline (at least 6.75 %; up to 5 %"
            " is noise): 8 stricter, 2 more lenient."
        ),
        "runbook_url": "https://e.org/RagJudgeDrifted.md",
    }


def test_what_noise_explains_and_a_single_bad_run_are_no_alert() -> None:
    world = World()
    world.run(24)
    assert world.firing() == []
    world.clock.advance(24 * HOUR)
    for _ in range(6):
        world.run(3, 2, tolerance=0.2)
    assert world.firing() == []


def test_it_ends_an_hour_after_the_last_day_was_as_before() -> None:
    world = World()
    for _ in range(3):
        world.run(12)
    assert world.firing()
    for _ in range(2):
        world.run()
        assert world.firing()
    world.run()
    assert world.firing()
    world.clock.advance(HOUR + 1)
    assert world.firing() == []


def test_runs_of_another_evaluator_do_not_count() -> None:
    world = World()
    world.run(12)
    world.run(12, evaluator="other")
    assert world.firing() == []


def test_when_the_canary_no_longer_runs_the_alert_ends() -> None:
    world = World()
    for _ in range(3):
        world.run(12)
    assert world.firing()
    world.clock.advance(24 * HOUR)
    world.firing()
    world.clock.advance(HOUR + 1)
    assert world.firing() == []
