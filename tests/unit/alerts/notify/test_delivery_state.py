"""What a receiver must be told: each change once, the last state never lost."""

from __future__ import annotations

from collections.abc import Sequence

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
