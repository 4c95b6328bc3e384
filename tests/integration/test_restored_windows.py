"""A restart: the baseline of a regression comes back from the history, whatever `storage.retention` says.

Not that of another version of the evaluator: what another instrument has measured is nothing to compare with. Nor are
the scores of two sources, where both had a name at some time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy, Family
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.state import AlertState, AlertStatus
from monitor.app.warm_start import fill, label_apps
from monitor.clock import ManualClock
from monitor.model.external import ScoreSource
from monitor.model.outcome import DefectRule, EvaluationResult
from monitor.pipeline.feedback.names import PastScores
from monitor.sinks.history import HistorySink
from monitor.statistics.change import DAY, HOUR
from monitor.statistics.windows import Windows
from monitor.telemetry.metrics import OVERFLOW, Capped
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
MIDNIGHT = 19_675 * DAY
HOURS = 12 * 24 + 5
SHOP = {"shop": "shop"}


async def test_the_week_before_is_known_again_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    before = Windows(clock, baselines=True)
    history = HistorySink(path=tmp_path / "history.db", retention=HOUR)
    async with history.open(runtime(clock)) as deliver:
        for number in range(HOURS * 4):
            defect = number % 9 == 0 or 700 < number < 720
            clock.advance(900)
            at = clock.now() - 60
            before.add("shop", "grounded", at, 2.0, defect)
            one = judged(number, evaluator="grounded", defect=defect)
            await deliver([replace(one, evaluated_at=at, case=replace(one.case, app="shop"), weight=2.0)])
        after = Windows(clock, baselines=True)
        assert await fill(after, history, clock.now(), {"grounded": "v1"}, SHOP) == {"shop"}
    changes, days = before.changes("shop", "grounded", clock.now())
    assert set(changes) == {HOUR, 6 * HOUR, DAY, 3 * DAY}
    assert days == 7
    assert after.changes("shop", "grounded", clock.now()) == (changes, days)


async def test_windows_without_baselines_read_no_more_than_they_need(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    history = HistorySink(path=tmp_path / "history.db")
    async with history.open(runtime(clock)) as deliver:
        await deliver([replace(judged(1), evaluated_at=clock.now() - 2 * DAY)])
        windows = Windows(clock)
        assert await fill(windows, history, clock.now(), {"groundedness": "v1"}, SHOP) == set()
    assert windows.keys() == ()


class Days:
    """A history of twenty verdicts an hour by whatever version, and a restart."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(MIDNIGHT)
        self.history = HistorySink(path=folder / "history.db")
        self.number = 0

    async def pass_hours(self, hours: int, rate: float, version: str) -> None:
        async with self.history.open(runtime(self.clock)) as deliver:
            for _ in range(hours):
                self.clock.advance(HOUR)
                for each in range(20):
                    self.number += 1
                    one = judged(self.number, evaluator="grounded", version=version, defect=each < 20 * rate)
                    await deliver([replace(one, evaluated_at=self.clock.now() - 60, weight=2.0)])

    async def state_after_a_restart(self, version: str) -> AlertState:
        """The alert as a new process sees it that has the evaluator in `version`."""
        windows, current = Windows(self.clock, baselines=True), {"grounded": version}
        assert await fill(windows, self.history, self.clock.now(), current, SHOP) == {"shop"}
        policy = AlertPolicy.model_validate({"evaluator": "grounded", "app": "shop", "regression": True})
        (state,) = AlertEngine([policy], windows, versions=current).evaluate(self.clock.now())
        return state


@pytest.mark.lengthy
async def test_another_version_is_not_compared_with_what_the_one_before_it_judged(tmp_path: Path) -> None:
    days = Days(tmp_path)
    await days.pass_hours(9 * 24, 0.05, "1")
    await days.pass_hours(6, 0.25, "2")
    state = await days.state_after_a_restart("2")
    assert state.status is AlertStatus.NOT_ENOUGH_DATA
    assert "0 of the 3 incident-free days" in state.annotations["description"]
    assert state.labels["version"] == "2"
    assert (await days.state_after_a_restart("1")).status is AlertStatus.OK


@pytest.mark.lengthy
async def test_the_same_rise_in_one_version_is_a_regression(tmp_path: Path) -> None:
    days = Days(tmp_path)
    await days.pass_hours(9 * 24, 0.05, "1")
    await days.pass_hours(6, 0.25, "1")
    state = await days.state_after_a_restart("1")
    assert state.status is AlertStatus.FIRING
    assert dict(state.labels) == {
        "alertname": "RagDefectRateRegression",
        "app": "shop",
        "evaluator": "grounded",
        "version": "1",
        "severity": "warning",
    }


@pytest.mark.lengthy
async def test_a_version_that_comes_back_has_its_baseline_again(tmp_path: Path) -> None:
    days = Days(tmp_path)
    await days.pass_hours(8 * 24, 0.05, "1")
    await days.pass_hours(24, 0.05, "2")
    await days.pass_hours(6, 0.25, "1")
    assert (await days.state_after_a_restart("1")).status is AlertStatus.FIRING


async def test_sums_by_the_rule_of_an_alert_are_known_again_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    rule = DefectRule("at_least", 6, levels=("high",))
    policies = [AlertPolicy(evaluator="violence", defect=rule, critical=0.01, regression=Family.DEFAULT)]
    before = RuleWindows(policies, clock)
    history = HistorySink(path=tmp_path / "history.db")
    async with history.open(runtime(clock)) as deliver:
        for number in range(600):
            clock.advance(1800)
            one = judged(number, evaluator="violence", defect=False)
            one = replace(one, evaluated_at=clock.now(), weight=2.0, alert_defects={"high": number % 9 == 0})
            before.add(one, "shop", clock.now())
            await deliver([replace(one, case=replace(one.case, app="shop"))])
        after = RuleWindows(policies, clock)
        await fill(Windows(clock), history, clock.now(), {"violence": "v1"}, SHOP, ruled=after)
    known, restored = before.of("violence", "high"), after.of("violence", "high")
    assert known is not None
    assert restored is not None
    for window in (HOUR, DAY):
        assert restored.sums("shop", "violence", window, clock.now()) == known.sums(
            "shop", "violence", window, clock.now()
        )
    assert restored.changes("shop", "violence", clock.now()) == known.changes("shop", "violence", clock.now())


async def test_apps_have_the_labels_again_that_they_had_before_and_no_more_than_there_may_be(tmp_path: Path) -> None:
    clock, odd = ManualClock(MIDNIGHT), "docs\n# HELP x"
    history = HistorySink(path=tmp_path / "history.db")
    names = [*(f"svc-{number}" for number in range(20)), "", odd, odd, "shop", "shop", "shop"]
    async with history.open(runtime(clock)) as deliver:
        for number, name in enumerate(names):
            one = judged(number, evaluator="grounded", app=name)
            await deliver([replace(one, evaluated_at=clock.now() - 60)])
        label, windows = Capped(5, missing="unknown"), Windows(clock, baselines=True)
        apps = await label_apps(label, history, windows, clock.now(), first=["bakery"])
        seen = await fill(windows, history, clock.now(), {"grounded": "v1"}, apps)
    shown = "docs # HELP x"
    assert (apps["shop"], apps[odd], apps[""]) == ("shop", shown, "unknown")
    assert label("bakery") == "bakery"
    assert label("svc-19") == OVERFLOW
    assert seen == {"shop", shown, "unknown", "svc-0", OVERFLOW}
    found = {app: windows.sums(app, evaluator, HOUR, clock.now()).judged for app, evaluator in windows.keys()}  # noqa: SIM118 - not a mapping
    assert found == {"shop": 3, shown: 2, "unknown": 1, "svc-0": 1, OVERFLOW: 19}


class Owners:
    """Who gets which name, as `restore` is told; and whom it was asked about."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.owners = owners
        self.asked: list[PastScores] = []

    def __call__(self, past: Iterable[PastScores]) -> Mapping[str, str]:
        self.asked = sorted(past)
        return self.owners


def tone(number: int, at: float, source: str, *, defect: bool, evaluator: str = "tone") -> EvaluationResult:
    one = judged(number, evaluator=evaluator, version=source, defect=defect, weight=1.0)
    return replace(one, evaluated_at=at, score_source=ScoreSource(source), alert_defects={"label rude": defect})


async def test_windows_hold_the_scores_of_the_source_that_has_the_name_and_none_of_another(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    rule = DefectRule("label", label="rude")
    ruled = RuleWindows([AlertPolicy(evaluator="tone", defect=rule, critical=0.01)], clock)
    history, windows = HistorySink(path=tmp_path / "history.db"), Windows(clock)
    owners = Owners({"tone": "gen_ai_events", "judged": "feedback"})
    at = clock.now() - 120
    async with history.open(runtime(clock)) as deliver:
        await deliver([tone(number, at, "gen_ai_events", defect=False) for number in range(40)])
        await deliver([tone(100 + number, at + 60, "openinference", defect=True) for number in range(40)])
        await deliver([tone(200, at, "feedback", defect=True, evaluator="judged")])
        await fill(windows, history, clock.now(), {"judged": "v1"}, SHOP, ruled=ruled, restore=owners)
    sums = windows.sums("shop", "tone", HOUR, clock.now())
    assert (sums.judged, sums.defects) == (40, 0)
    by_rule = ruled.of("tone", "label rude")
    assert by_rule is not None
    assert by_rule.sums("shop", "tone", HOUR, clock.now()).judged == 40
    assert windows.keys() == (("shop", "tone"),)


async def test_who_had_which_name_is_told_with_its_last_score_and_how_many_are_recent(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT + 12 * HOUR)
    history, windows = HistorySink(path=tmp_path / "history.db"), Windows(clock, longest=DAY, baselines=True)
    now, owners = clock.now(), Owners({})
    async with history.open(runtime(clock)) as deliver:
        for number, at in enumerate((now - 3 * DAY, now - 2 * DAY, now - 600)):
            await deliver([tone(number, at, "gen_ai_events", defect=False)])
        await deliver([tone(10, now - 60, "openinference", defect=False), judged(11, evaluated_at=now - 60)])
        await fill(windows, history, now, {"groundedness": "v1"}, SHOP, restore=owners)
    assert owners.asked == [
        PastScores("tone", ScoreSource.GEN_AI_EVENTS, now - 600, 1, 3),
        PastScores("tone", ScoreSource.OPENINFERENCE, now - 60, 1, 1),
    ]
    assert windows.keys() == (("shop", "groundedness"),)
