"""The offset that may be committed is the end of the unbroken run of messages that are done with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.transport.kafka.values import Offsets


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[int]]:
    """Where reading begins; what is taken, as (offset, following) with gaps; the order in which it is settled."""
    start = draw(st.integers(0, 50))
    taken, at = [], start
    for _ in range(draw(st.integers(0, 30))):
        offset = at + draw(st.integers(0, 3))
        at = offset + draw(st.integers(1, 4))
        taken.append((offset, at))
    order = draw(st.permutations(range(len(taken))))
    return start, taken, order[: draw(st.integers(0, len(order)))]


@given(histories())
def test_the_mark_is_the_unbroken_run_in_any_order_of_settling(
    history: tuple[int, list[tuple[int, int]], list[int]],
) -> None:
    start, taken, order = history
    offsets = Offsets(start)
    acks = [offsets.take(offset, following) for offset, following in taken]
    done: set[int] = set()
    for number in order:
        before = offsets.mark
        acks[number].settle()
        done.add(number)
        first_open = next((one for one in range(len(taken)) if one not in done), len(taken))
        assert offsets.mark == (taken[first_open - 1][1] if first_open else start)
        assert offsets.mark >= before
        assert all(offsets.mark <= taken[one][0] for one in range(len(taken)) if one not in done)
    assert len(offsets.outstanding) == len(taken) - len(done)
    assert offsets.position == (taken[-1][1] if taken else start)


@given(histories(), st.data())
def test_void_receipts_hold_the_mark_whether_they_are_settled_or_not(
    history: tuple[int, list[tuple[int, int]], list[int]], data: st.DataObject
) -> None:
    start, taken, order = history
    offsets = Offsets(start)
    acks = [offsets.take(offset, following) for offset, following in taken]
    for number in order:
        acks[number].settle()
    mark = offsets.mark
    left = list(offsets.outstanding)
    for ack in left:
        ack.make_void()
    for ack in data.draw(st.permutations(left)):
        ack.settle()
    assert offsets.mark == mark


def test_what_is_no_message_is_passed_once_all_before_it_is_done() -> None:
    offsets = Offsets(5)
    offsets.pass_to(7)
    assert offsets.mark == 7
    ack = offsets.take(7)
    offsets.pass_to(9)
    offsets.pass_to(8)
    assert (offsets.mark, offsets.position) == (7, 9)
    ack.settle()
    assert offsets.mark == 9


def test_an_offset_that_was_passed_cannot_be_taken_again() -> None:
    offsets = Offsets(5)
    offsets.take(5)
    for offset in (4, 5):
        with pytest.raises(ValueError, match="after 6 was reached"):
            offsets.take(offset)


def test_the_oldest_message_is_the_one_that_holds_the_mark() -> None:
    offsets = Offsets()
    first, second = offsets.take(0, timestamp=10.0), offsets.take(1, timestamp=11.0)
    second.settle()
    assert (offsets.oldest, offsets.held) == (10.0, 2)
    first.settle()
    assert (offsets.oldest, offsets.held) == (None, 0)


def test_a_message_with_several_holders_is_done_with_when_the_last_one_is() -> None:
    offsets = Offsets()
    ack = offsets.take(0).share()
    ack.settle()
    assert offsets.mark == 0
    ack.settle()
    assert offsets.mark == 1
