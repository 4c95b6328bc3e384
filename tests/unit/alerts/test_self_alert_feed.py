"""Which results count for the alerts in process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.self_alert import AlertFeed, Observed, SelfAlertChecks
from monitor.clock import ManualClock
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score, Unscored, UnscoredReason
from monitor.statistics.windows import Windows
from tests.support.results import judged


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.windows = Windows(self.clock)
        self.checks = SelfAlertChecks(Observed(self.clock))
        self.feed = AlertFeed(self.windows, RuleWindows((), self.clock), self.checks, str.upper)

    def hear(self, number: int, **changed: object) -> None:
        for one in range(number):
            self.feed.on_result(self.result(one, **changed))

    def result(self, number: int, **changed: object) -> EvaluationResult:
        made = judged(number)
        case = replace(made.case, app="shop", answered_at=self.clock.now())
        return replace(made, evaluator="grounded", evaluated_at=self.clock.now(), case=case, **changed)

    def scored(self) -> int:
        return self.windows.sums("SHOP", "grounded", 3600, self.clock.now()).judged

    def wrong(self) -> set[str]:
        return {alert.name for alert, _, finding in self.checks.find(self.clock.now()) if finding.status == "firing"}


def test_a_live_score_counts_in_the_rates_under_the_label_of_its_app() -> None:
    world = World()
    world.hear(3, outcome=Score(4.0, ""))
    assert world.scored() == 3


def test_a_score_counts_at_the_time_of_its_answer() -> None:
    world = World()
    late = world.result(1, outcome=Score(4.0, ""))
    world.clock.advance(7200)
    world.feed.on_result(replace(late, evaluated_at=world.clock.now()))
    assert world.scored() == 0


@pytest.mark.parametrize("scope", [one for one in RateScope if one is not RateScope.LIVE])
def test_what_is_not_live_counts_nowhere(scope: RateScope) -> None:
    world = World()
    world.hear(3, outcome=Score(4.0, ""), scope=scope)
    world.hear(100, outcome=Unscored(UnscoredReason.TIMEOUT), scope=scope)
    assert (world.scored(), world.wrong()) == (0, set())


def test_an_external_score_counts_in_the_rates_and_one_that_is_missing_says_nothing_about_this_monitor() -> None:
    world = World()
    world.hear(3, outcome=Score(4.0, ""), score_source=ScoreSource.FEEDBACK)
    world.hear(100, outcome=Unscored(UnscoredReason.MALFORMED), score_source=ScoreSource.FEEDBACK)
    assert (world.scored(), world.wrong()) == (3, set())


def test_evaluations_without_a_score_count_for_the_alerts_on_the_monitor_itself() -> None:
    world = World()
    world.hear(100, outcome=Unscored(UnscoredReason.TIMEOUT))
    assert (world.scored(), world.wrong()) == (0, {"RagUnscoredHigh"})
