"""Alerts that fire go on after a restart: since when, and for as long as they are held; not after a long stop."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from monitor.alerts.incidents import DOWN_AFTER
from monitor.alerts.kept import KEPT_AT_MOST, as_kept, from_kept, kept_of, restored
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState, AlertStatus, AlertTracker, ConditionResult, Subject
from monitor.statistics.rates import Estimate
from tests.support.alerts import state

NOW = 1_700_000_000.0
HOLD = 600.0
SUBJECT = Subject("RagDefectRateHigh", Severity.CRITICAL, "shop", "groundedness", "2", "severe")
BAD = ConditionResult(AlertStatus.FIRING, "71 % are bad.", 0.1, 3600.0, Estimate(0.7, 0.6, 0.8, 100, 70))
GOOD = ConditionResult(AlertStatus.OK, "1 % is bad.", 0.1, 3600.0, Estimate(0.01, 0.0, 0.02, 100, 1))


def look(tracker: AlertTracker, finding: ConditionResult, now: float, subject: Subject = SUBJECT) -> AlertState:
    return tracker.advance(subject, finding, summary="The rate is high.", hold=HOLD, now=now)


def restart(tracker: AlertTracker, now: float) -> AlertTracker:
    made = restored(json.loads(json.dumps(kept_of(tracker)())), now)
    made.on_reload("")
    return made


def test_an_alert_that_fires_goes_on_after_a_restart_as_it_was() -> None:
    tracker = AlertTracker()
    look(tracker, BAD, NOW)
    tracker = restart(tracker, NOW + 60)
    again = look(tracker, BAD, NOW + 60)
    assert (again.status, again.since) == (AlertStatus.FIRING, NOW)


def test_an_alert_that_is_held_ends_after_a_restart_when_it_would_have_without() -> None:
    tracker = AlertTracker()
    fired = look(tracker, BAD, NOW)
    look(tracker, GOOD, NOW + 100)
    tracker = restart(tracker, NOW + 200)
    assert look(tracker, GOOD, NOW + 100 + HOLD - 1) == fired
    assert look(tracker, GOOD, NOW + 100 + HOLD).status is AlertStatus.OK


def test_after_a_long_stop_alerts_begin_anew() -> None:
    tracker = AlertTracker()
    look(tracker, BAD, NOW)
    assert look(restart(tracker, NOW + DOWN_AFTER + 1), BAD, NOW + DOWN_AFTER + 1).since == NOW + DOWN_AFTER + 1
    assert look(restart(tracker, NOW + DOWN_AFTER), BAD, NOW + DOWN_AFTER).since == NOW


def test_a_second_restart_before_the_first_look_forgets_nothing() -> None:
    tracker = AlertTracker()
    look(tracker, BAD, NOW)
    for _ in range(3):
        tracker = restart(tracker, NOW + 60)
    assert look(tracker, BAD, NOW + 60).since == NOW


def test_an_alert_that_nothing_asks_for_any_more_is_not_kept() -> None:
    tracker = AlertTracker()
    look(tracker, BAD, NOW)
    tracker = restart(tracker, NOW + 60)
    look(tracker, GOOD, NOW + 60, replace(SUBJECT, app="bank"))
    assert kept_of(tracker)() == {}


def test_nothing_is_kept_and_so_nothing_written_while_nothing_fires() -> None:
    tracker, current = AlertTracker(), []
    for at in range(3):
        look(tracker, GOOD, NOW + at)
        current.append(kept_of(tracker)())
    assert current == [{}] * 3


def test_of_many_alerts_the_newest_are_kept() -> None:
    tracker = AlertTracker()
    for at in range(KEPT_AT_MOST + 2):
        look(tracker, BAD, NOW + at, replace(SUBJECT, app=f"app-{at}"))
    alerts: Any = kept_of(tracker)()["alerts"]
    assert {one["state"]["app"] for one in alerts} == {f"app-{at}" for at in range(2, KEPT_AT_MOST + 2)}


def test_a_state_comes_back_as_it_was_kept() -> None:
    fired = look(AlertTracker("https://runbooks.example"), BAD, NOW)
    assert from_kept(json.loads(json.dumps(as_kept(fired)))) == fired


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    one = replace(state(app="kb/\ud800"), annotations={"description": "71 %: document \udfff"})
    kept = as_kept(one)
    assert json.dumps(kept, ensure_ascii=False).encode()
    assert (kept["app"], kept["annotations"]) == ("kb/?", {"description": "71 %: document ?"})


FIRES = {"state": as_kept(look(AlertTracker(), BAD, NOW)), "quiet_since": None}


@pytest.mark.parametrize(
    "kept",
    [
        None,
        {},
        {"checked": NOW},
        {"alerts": [FIRES]},
        {"checked": "now", "alerts": [FIRES]},
        {"checked": NOW, "alerts": {"a": FIRES}},
        {"checked": NOW, "alerts": [3, [], {}, {"state": 7}, {"state": {**FIRES["state"], "since": -1}}]},
    ],
)
def test_what_is_no_record_of_alerts_is_ignored(kept: Any) -> None:
    assert list(restored(kept, NOW).firing()) == []


def test_a_record_that_can_be_read_is_taken_beside_one_that_cannot() -> None:
    found = restored({"checked": NOW, "alerts": [3, {**FIRES, "quiet_since": "soon", "another": 1}]}, NOW)
    assert [(one.name, quiet) for one, quiet in found.firing()] == [("RagDefectRateHigh", None)]
