"""What a receiver must be told: each change once, the last state never lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.alerts.state import AlertState
from tests.support.alerts import state

Told = list[tuple[str, str]]


def look(delivery: DeliveryState, states: Sequence[AlertState], now: float = 0.0, *, up: bool = True) -> Told:
    """One evaluation, and what the receiver then hears; nothing is accepted where it is down."""
    delivery.update(states, now, 1_700_000_100.0)
    due = delivery.due(now)
    if up:
        delivery.sent(due, now)
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
        delivery.sent(due, 0.0)
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
