"""What a receiver must be told: each change once, the last state never lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.kept import KEPT_AT_MOST, as_kept
from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.alerts.state import AlertState
from tests.support.alerts import state

Told = list[tuple[str, str]]


def look(delivery: DeliveryState, states: Sequence[AlertState], now: float = 0.0, *, up: bool = True) -> Told:
    """One evaluation, and what the receiver then hears; nothing is accepted where it is down."""
    delivery.update(states, now, 1_700_000_100.0)
    due = delivery.due(now)
    if up:
        delivery.sent(due, now, 1_700_000_100.0)
    return [(notice.state.severity.value, "firing" if notice.ended is None else "resolved") for notice in due]


def test_an_alert_is_told_once_when_it_fires_and_once_when_it_is_over() -> None:
    delivery = DeliveryState()
    assert look(delivery, [state()]) == [("critical", "firing")]
    assert look(delivery, [state()]) == []
    assert look(delivery, [state(False)]) == [("critical", "resolved")]
    assert look(delivery, [state(False)]) == []


def test_what_was_not_accepted_is_due_again() -> None:
    delivery = DeliveryState()
    for _ in range(3):
        assert look(delivery, [state()], up=False) == [("critical", "firing")]
    assert look(delivery, [state()]) == [("critical", "firing")]
    for _ in range(3):
        assert look(delivery, [state(False)], up=False) == [("critical", "resolved")]
    assert look(delivery, [state(False)]) == [("critical", "resolved")]
    assert look(delivery, [state(False)]) == []


def test_an_alert_that_came_and_went_while_the_receiver_was_down_is_counted_and_not_told() -> None:
    delivery = DeliveryState()
    look(delivery, [state()], up=False)
    assert delivery.update([state(False)], 1, 1) == 1
    assert delivery.due(1) == []


def test_an_alert_that_fires_again_before_its_end_was_told_goes_on_for_the_receiver() -> None:
    delivery = DeliveryState()
    look(delivery, [state()])
    look(delivery, [state(False)], up=False)
    assert delivery.update([state()], 1, 1) == 1
    assert delivery.due(1) == []
    assert look(delivery, [state(False)]) == [("critical", "resolved")]


def test_a_warning_is_not_told_while_the_critical_alert_of_the_same_fires() -> None:
    delivery = DeliveryState()
    both = [state(), state(severity="warning")]
    assert look(delivery, both) == [("critical", "firing")]
    assert look(delivery, [state(False), state(severity="warning")]) == [
        ("critical", "resolved"),
        ("warning", "firing"),
    ]
    assert look(delivery, [state(False), state(False, "warning")]) == [("warning", "resolved")]


def test_a_warning_of_another_app_is_told() -> None:
    assert look(DeliveryState(), [state(), state(severity="warning", app="bank")]) == [
        ("critical", "firing"),
        ("warning", "firing"),
    ]


def test_a_warning_told_before_it_became_critical_is_resolved_when_it_is_over() -> None:
    delivery = DeliveryState()
    assert look(delivery, [state(severity="warning")]) == [("warning", "firing")]
    assert look(delivery, [state(), state(severity="warning")]) == [("critical", "firing")]
    over = look(delivery, [state(False), state(False, "warning")])
    assert sorted(over) == [("critical", "resolved"), ("warning", "resolved")]


def test_where_inhibition_is_the_receivers_business_both_are_told() -> None:
    assert look(DeliveryState(inhibits=False), [state(), state(severity="warning")]) == [
        ("critical", "firing"),
        ("warning", "firing"),
    ]


def test_a_firing_alert_is_told_again_for_a_receiver_that_forgets() -> None:
    delivery = DeliveryState(resend=60, forgets_after=240)
    assert look(delivery, [state()], 0) == [("critical", "firing")]
    assert delivery.next_due() == 60
    assert look(delivery, [state()], 59) == []
    assert look(delivery, [state()], 60) == [("critical", "firing")]
    assert delivery.next_due() == 120


def test_an_end_that_the_receiver_found_by_itself_is_counted_and_not_told() -> None:
    delivery = DeliveryState(resend=60, forgets_after=240)
    look(delivery, [state()], 0)
    assert look(delivery, [state(False)], 100, up=False) == [("critical", "resolved")]
    assert delivery.update([state(False)], 240, 0) == 1
    assert delivery.due(240) == []


def test_an_end_is_never_before_its_beginning() -> None:
    delivery = DeliveryState()
    look(delivery, [state(since=2_000_000_000.0)])
    delivery.update([], 0, 1.0)
    (notice,) = delivery.due(0)
    assert notice.ended == 2_000_000_000.0


LINE = "Since 14:05 UTC. 71 % of the rise: prompt.version = v7."


def diagnosed(severity: str = "critical", line: str = LINE) -> AlertState:
    one = state(severity=severity)
    return replace(one, annotations={**one.annotations, "diagnosis": line})


def heard(delivery: DeliveryState, *states: AlertState, up: bool = True) -> list[tuple[str, str]]:
    """What the receiver then gets to know: the severity, and whether the alert, its diagnosis or its end."""
    delivery.update(states, 0.0, 1_700_000_100.0)
    due = delivery.due(0.0)
    if up:
        delivery.sent(due, 0.0, 1_700_000_100.0)
    kinds = ["late" if one.late else "firing" if one.ended is None else "resolved" for one in due]
    return [(one.state.severity.value, kind) for one, kind in zip(due, kinds, strict=True)]


def test_a_diagnosis_that_comes_later_is_sent_once_also_where_it_changes() -> None:
    delivery = DeliveryState(late_diagnosis=True)
    assert heard(delivery, state()) == [("critical", "firing")]
    assert heard(delivery, state()) == []
    assert heard(delivery, diagnosed(), up=False) == [("critical", "late")]
    assert heard(delivery, diagnosed()) == [("critical", "late")]
    assert heard(delivery, diagnosed()) == []
    assert heard(delivery, diagnosed(line="Another.")) == []
    assert heard(delivery, state(False)) == [("critical", "resolved")]
    assert delivery.next_due() == float("inf")


def test_an_alert_that_is_sent_with_its_diagnosis_is_sent_once() -> None:
    delivery = DeliveryState(late_diagnosis=True)
    assert heard(delivery, state(), up=False) == [("critical", "firing")]
    assert heard(delivery, diagnosed()) == [("critical", "firing")]
    assert heard(delivery, state()) == heard(delivery, diagnosed()) == []


def test_without_the_option_and_where_an_alert_is_sent_again_anyway_no_message_is_for_the_diagnosis() -> None:
    for delivery in (DeliveryState(), DeliveryState(resend=60.0)):
        assert heard(delivery, state()) == [("critical", "firing")]
        assert heard(delivery, diagnosed()) == []


def test_the_diagnosis_of_an_alert_that_another_one_explains_waits_with_it() -> None:
    delivery = DeliveryState(late_diagnosis=True)
    assert heard(delivery, state(severity="warning")) == [("warning", "firing")]
    assert heard(delivery, diagnosed("warning"), diagnosed()) == [("critical", "firing")]
    assert heard(delivery, diagnosed("warning"), diagnosed()) == []


def test_the_end_of_an_alert_comes_before_its_diagnosis() -> None:
    delivery = DeliveryState(late_diagnosis=True)
    heard(delivery, state())
    heard(delivery, diagnosed(), up=False)
    assert heard(delivery, state(False)) == [("critical", "resolved")]
    assert heard(delivery, state(False)) == []


WALL = 1_700_000_100.0


def restarted(delivery: DeliveryState, after: float = 5.0, **options: Any) -> DeliveryState:
    """What the next process knows, `after` seconds later; its monotonic clock begins at 0."""
    made = DeliveryState(**options)
    made.restore(json.loads(json.dumps(delivery.kept())), 0.0, WALL + after)
    return made


def deliver(delivery: DeliveryState, *states: AlertState, now: float = 0.0, outcome: str = "accepted") -> Told:
    """One evaluation and one delivery of what is due: `accepted`, `refused`, `unanswered`, or `killed` while it is."""
    delivery.update(states, now, WALL + now)
    due = delivery.due(now)
    delivery.sending(due, now, WALL + now)
    if outcome == "accepted":
        delivery.sent(due, now, WALL + now)
    elif outcome != "killed":
        delivery.refused(due, perhaps=outcome == "unanswered")
    return [(notice.state.severity.value, "firing" if notice.ended is None else "resolved") for notice in due]


def test_after_a_restart_what_still_fires_is_not_told_again_and_its_end_is_told_once() -> None:
    delivery = DeliveryState()
    assert deliver(delivery, state(), state(app="bank")) == [("critical", "firing")] * 2
    delivery = restarted(delivery)
    assert deliver(delivery, state(), state(app="bank")) == []
    delivery = restarted(delivery)
    assert deliver(delivery, state(app="bank")) == [("critical", "resolved")]
    delivery = restarted(delivery)
    assert deliver(delivery, state(app="bank")) == []


def test_the_end_of_an_alert_after_a_restart_says_what_it_was_and_since_when() -> None:
    delivery = DeliveryState()
    deliver(delivery, state())
    delivery = restarted(delivery)
    delivery.update([], 0.0, WALL + 60)
    (notice,) = delivery.due(0.0)
    assert notice.state == state()
    assert notice.ended == WALL + 60


def test_an_end_that_was_not_accepted_before_a_restart_is_told_after_it_with_its_time() -> None:
    delivery = DeliveryState()
    deliver(delivery, state())
    delivery.update([], 1.0, WALL + 1)
    delivery = restarted(delivery)
    delivery.update([], 0.0, WALL + 600)
    (notice,) = delivery.due(0.0)
    assert notice.ended == WALL + 1


def test_what_fires_anew_after_a_long_stop_began_for_the_receiver_when_it_was_announced() -> None:
    delivery = DeliveryState()
    deliver(delivery, state(since=1_700_000_000.0))
    delivery = restarted(delivery)
    assert deliver(delivery, state(since=1_700_000_090.0)) == []
    delivery.update([], 0.0, WALL + 60)
    (notice,) = delivery.due(0.0)
    assert notice.state.since == 1_700_000_000.0


def test_the_diagnosis_that_was_sent_before_a_restart_is_not_sent_again() -> None:
    delivery = DeliveryState(late_diagnosis=True)
    deliver(delivery, diagnosed())
    assert LINE not in json.dumps(delivery.kept()), "it may name words of questions"
    assert deliver(restarted(delivery, late_diagnosis=True), diagnosed()) == []


def test_what_was_being_delivered_when_the_process_was_killed_is_told_again_or_its_end_is() -> None:
    delivery = DeliveryState()
    assert deliver(delivery, state(), outcome="killed") == [("critical", "firing")]
    assert deliver(restarted(delivery), state()) == [("critical", "firing")]
    assert deliver(restarted(delivery)) == [("critical", "resolved")]


def test_what_was_being_delivered_when_a_reload_came_is_told_again_or_its_end_is() -> None:
    delivery, still, over = DeliveryState(), DeliveryState(), DeliveryState()
    deliver(delivery, state(), outcome="killed")
    still.resume(delivery)
    over.resume(delivery)
    assert deliver(still, state()) == [("critical", "firing")]
    assert deliver(over) == [("critical", "resolved")]


def test_an_alert_whose_delivery_was_not_answered_is_sent_again_and_its_end_is_sent() -> None:
    delivery = DeliveryState()
    for _ in range(2):
        assert deliver(delivery, state(), outcome="unanswered") == [("critical", "firing")]
    assert deliver(delivery, state(), outcome="refused") == [("critical", "firing")]
    assert deliver(delivery, outcome="refused") == [("critical", "resolved")]
    assert deliver(delivery) == [("critical", "resolved")]
    assert deliver(delivery) == []


def test_the_end_of_an_alert_that_was_refused_is_not_sent() -> None:
    delivery = DeliveryState()
    assert deliver(delivery, state(), outcome="refused") == [("critical", "firing")]
    assert delivery.kept() == []
    assert deliver(delivery) == []


def test_a_receiver_that_forgets_is_told_at_once_after_a_restart_and_of_an_end_only_while_it_remembers() -> None:
    forgets: dict[str, Any] = {"resend": 60.0, "forgets_after": 240.0, "inhibits": False}
    delivery = DeliveryState(**forgets)
    deliver(delivery, state())
    assert deliver(restarted(delivery, **forgets), state()) == [("critical", "firing")]
    assert deliver(restarted(delivery, after=200.0, **forgets)) == [("critical", "resolved")]
    assert deliver(restarted(delivery, after=240.0, **forgets)) == []


def test_what_a_receiver_that_forgets_was_last_told_counts_after_a_restart() -> None:
    forgets: dict[str, Any] = {"resend": 60.0, "forgets_after": 240.0, "inhibits": False}
    delivery = DeliveryState(**forgets)
    deliver(delivery, state(), now=0.0)
    assert deliver(delivery, state(), now=60.0) == [("critical", "firing")]
    assert deliver(restarted(delivery, after=290.0, **forgets)) == [("critical", "resolved")]


KEPT: dict[str, Any] = {"alert": as_kept(state()), "announced": True, "told_at": WALL, "diagnosed": False}


@pytest.mark.parametrize(
    "kept",
    [
        None,
        {},
        "text",
        [None, 7, "x", []],
        [{**KEPT, "alert": None}],
        [{**KEPT, "alert": {**KEPT["alert"], "status": "ok"}}],
        [{**KEPT, "alert": {**KEPT["alert"], "severity": "fatal"}}],
        [{**KEPT, "alert": {**KEPT["alert"], "since": 1e300}}],
        [{**KEPT, "alert": {**KEPT["alert"], "window": 1e300}}],
        [{**KEPT, "alert": {**KEPT["alert"], "labels": {}}}],
        [{**KEPT, "alert": {**KEPT["alert"], "estimate": {"rate": "much"}}}],
        [{**KEPT, "told_at": "yesterday"}],
        [{**KEPT, "told_at": 1e300}],
    ],
)
def test_what_is_kept_and_cannot_be_read_is_ignored(kept: object) -> None:
    delivery = DeliveryState()
    delivery.restore(kept, 0.0, WALL)
    assert deliver(delivery) == []
    assert deliver(delivery, state()) == [("critical", "firing")]


def test_an_entry_that_can_be_read_is_taken_beside_one_that_cannot() -> None:
    delivery = DeliveryState()
    delivery.restore([{"alert": 3}, {**KEPT, "ended": "soon", "another": 1}], 0.0, WALL)
    assert deliver(delivery, state()) == []


def test_what_is_kept_changes_only_with_what_the_receiver_is_told() -> None:
    delivery = DeliveryState()
    deliver(delivery, state())
    before = delivery.kept()
    later = replace(state(), annotations={"description": "40 % are defective."}, estimate=None)
    assert deliver(delivery, later, now=15.0) == []
    assert delivery.kept() == before
    deliver(delivery, now=30.0)
    assert delivery.kept() == []


def test_of_many_alerts_the_newest_are_kept() -> None:
    delivery = DeliveryState()
    every = [state(app=f"app-{one}") for one in range(KEPT_AT_MOST + 2)]
    deliver(delivery, *every[:2])
    deliver(delivery, *every, now=15.0)
    apps = {one["alert"]["app"] for one in delivery.kept()}  # type: ignore[index]
    assert apps == {f"app-{one}" for one in range(2, KEPT_AT_MOST + 2)}


OUTCOMES = st.sampled_from(["accepted", "refused", "unanswered", "killed"])


@given(st.lists(st.tuples(st.booleans(), st.booleans(), OUTCOMES, st.booleans(), st.booleans()), max_size=30))
def test_whatever_gets_lost_a_receiver_knows_how_things_stand_once_a_delivery_is_confirmed(
    steps: list[tuple[bool, bool, str, bool, bool]],
) -> None:
    """It may hear something twice, over answers that are lost, restarts and kills, and believes nothing wrong."""
    delivery = DeliveryState()
    believed: set[str] = set()
    last = [(critical, False, "accepted", True, False) for critical in (True, False)]
    for critical, warning, outcome, arrives, restart in [*steps, *last]:
        told = deliver(delivery, state(critical), state(warning, "warning"), outcome=outcome)
        if outcome == "accepted" or (outcome != "refused" and arrives):
            for severity, what in told:
                believed = believed - {severity} if what == "resolved" else believed | {severity}
        if outcome == "accepted":
            assert ("critical" in believed) == critical
            assert warning or "warning" not in believed
        if restart or outcome == "killed":
            delivery = restarted(delivery)
    assert believed == set()


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_whatever_happens_a_receiver_that_is_up_again_knows_how_things_stand(
    steps: list[tuple[bool, bool, bool]],
) -> None:
    """Nothing fires twice or ends twice for it, and at the end it believes exactly what is true and told to it."""
    delivery = DeliveryState()
    believed: set[str] = set()
    for critical, warning, up in [*steps, (True, False, True), (False, True, True), (False, False, True)]:
        due = look(delivery, [state(critical), state(warning, "warning")], up=up)
        if not up:
            continue
        for severity, what in due:
            assert (severity in believed) == (what == "resolved")
            believed ^= {severity}
        assert ("critical" in believed) == critical
        assert warning or "warning" not in believed
        assert critical or ("warning" in believed) == warning
    assert believed == set()
