"""When confirmed severe cases page, when they only warn, and what the texts say."""

from __future__ import annotations

import pytest

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy, SevereSettings, export_thresholds
from monitor.alerts.severe import SevereLog
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock
from monitor.model.outcome import DefectRule
from monitor.model.severe import SevereCall, SevereCase
from monitor.statistics.windows import Windows
from tests.support.runtime import runtime

HOUR, DAY = 3600.0, 86400.0
RULES = {"violence": DefectRule("at_least", 6, levels=("high",))}


class World:
    def __init__(self, **options: object) -> None:
        self.clock = ManualClock()
        settings = SevereSettings.model_validate(options)
        policies = [AlertPolicy(evaluator="violence", severe=settings)]
        self.log = SevereLog(policies, RULES)
        windows = Windows(self.clock)
        windows.add("shop", "violence", self.clock.now(), 1.0, False)
        self.engine = AlertEngine(policies, windows, severe=self.log, page="http://page")
        self.number = 0

    def confirm(self, *, sessions: int = 1, every: float = 0.0) -> list[str]:
        made = []
        for _ in range(sessions):
            self.clock.advance(every)
            self.number += 1
            made.append(f"trace-{self.number}")
            case = SevereCase("shop", "violence", self.clock.now(), made[-1])
            assert self.log.confirm(case, f"session-{self.number}")
        return made

    def states(self) -> dict[str, AlertState]:
        return {one.severity.value: one for one in self.engine.evaluate(self.clock.now())}

    def firing(self) -> list[str]:
        return [severity for severity, one in self.states().items() if one.firing]


def test_the_first_confirmed_case_pages_for_an_hour() -> None:
    world = World()
    assert world.firing() == []
    world.confirm()
    assert world.firing() == ["critical"]
    world.clock.advance(HOUR)
    assert world.firing() == []


def test_the_page_names_the_level_and_how_to_see_the_case_and_gives_no_rate() -> None:
    world = World()
    world.confirm()
    page = world.states()["critical"]
    text = page.annotations["description"]
    assert text == (
        "An answer from shop was judged severe twice: level high (6 or more) according to violence. Nobody has called"
        " such a case right or wrong yet. In the 30 days before, 0 such sessions were not called right. See"
        " `rag-monitor why trace-1`."
    )
    assert page.annotations["answers_url"] == "http://page/why?trace=trace-1"
    assert (page.estimate, page.threshold, page.window) == (None, None, None)


def test_cases_of_one_session_count_once_a_day() -> None:
    world = World()
    case = SevereCase("shop", "violence", world.clock.now(), "a")
    assert world.log.confirm(case, "one")
    world.clock.advance(DAY / 2)
    assert not world.log.confirm(SevereCase("shop", "violence", world.clock.now(), "b"), "one")
    world.clock.advance(DAY + 1)
    assert world.log.confirm(SevereCase("shop", "violence", world.clock.now(), "c"), "one")


def test_after_three_unexplained_cases_a_single_one_warns_and_two_within_an_hour_page() -> None:
    world = World()
    world.confirm(sessions=3, every=2 * HOUR)
    world.clock.advance(2 * HOUR)
    world.confirm()
    assert world.firing() == ["warning"]
    text = world.states()["warning"].annotations["description"]
    assert "In 30 days, 3 such sessions were not called right, so a page needs 2 sessions within an hour." in text
    assert "trace-4`, trace-3" in text
    world.confirm()
    assert world.firing() == ["critical"]


def test_a_case_that_is_called_right_no_longer_counts_against_pages() -> None:
    world = World()
    made = world.confirm(sessions=3, every=2 * HOUR)
    world.clock.advance(2 * HOUR)
    world.log.call(made[0], "violence", SevereCall.RIGHT)
    world.log.call(made[1], "violence", SevereCall.WRONG)
    world.confirm()
    assert world.firing() == ["critical"]
    description = world.states()["critical"].annotations["description"]
    assert "About 5 in 10 such cases were right so far (2 called right or wrong)" in description


def test_each_pages_always_and_says_how_many_false_pages_to_expect() -> None:
    world = World(page="each")
    world.confirm(sessions=40, every=2 * HOUR)
    assert world.firing() == ["critical"]
    text = world.states()["critical"].annotations["description"]
    assert "With `page: each`, expect about 40 false pages in 30 days." in text


def test_cases_older_than_thirty_days_are_forgotten() -> None:
    world = World()
    world.confirm(sessions=10, every=2 * HOUR)
    world.clock.advance(31 * DAY)
    world.confirm()
    assert world.firing() == ["critical"]


def test_with_very_many_unexplained_cases_none_pages_and_the_text_says_so() -> None:
    world = World(max_false_pages=0.01)
    world.confirm(sessions=1500, every=60.0)
    assert world.firing() == ["warning"]
    assert "so this alert no longer pages" in world.states()["warning"].annotations["description"]


def test_an_unknown_case_cannot_be_called() -> None:
    assert World().log.call("nothing", "violence", SevereCall.RIGHT) is None


@pytest.mark.parametrize("session", ["", "x" * 1_000_000, "\ud800", "\x00"])
def test_hostile_sessions_are_counted_like_others(session: str) -> None:
    world = World()
    case = SevereCase("shop", "violence", world.clock.now(), "a")
    assert world.log.confirm(case, session)
    assert not world.log.confirm(case, session)


def test_more_sessions_than_are_remembered_do_not_grow_memory() -> None:
    world = World()
    for number in range(10_050):
        world.log.confirm(SevereCase("shop", "violence", world.clock.now(), str(number)), str(number))
    assert len(world.log._sessions) == 10_000


def test_the_limits_are_exported_for_the_rules() -> None:
    metrics = runtime().metrics
    policies = [
        AlertPolicy(evaluator="violence", severe=SevereSettings()),
        AlertPolicy(evaluator="violence", app="docs", severe=SevereSettings(page="each")),
    ]
    export_thresholds(policies, ["shop"], metrics)

    def limit(app: str, sessions: str) -> float | None:
        labels = {"app": app, "evaluator": "violence", "sessions": sessions}
        return metrics.registry.get_sample_value("ragmonitor_severe_unexplained_limit_sessions", labels)

    assert [limit("shop", one) for one in "12345"] == [2, 46, 151, 309, 506]
    assert limit("docs", "1") == float("inf")
