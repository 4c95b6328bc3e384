"""Where the first batch after a damaged one begins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.transport.kafka.corrupt_batches import next_readable

logs = st.lists(st.tuples(st.integers(1, 400), st.booleans()), min_size=1, max_size=12)


@given(logs, st.data())
def test_the_next_batch_is_found_whatever_lies_around_and_in_few_questions(
    log: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """A log of batches, each of some length and damaged or not: exactly the one that is met is stepped over."""
    batches, at = [], 0
    for length, damaged in log:
        batches.append((at, at + length, damaged))
        at += length
    begin, end, damaged = data.draw(st.sampled_from(batches))
    first = data.draw(st.integers(begin, end - 1))
    asked: list[int] = []

    def fault_at(offset: int) -> int | None:
        asked.append(offset)
        base, _, bad = next(one for one in batches if one[0] <= offset < one[1])
        return base if bad else None

    assert next_readable(first, at, fault_at) == (end if damaged else first)
    assert len(asked) <= 2 + 2 * (end - begin).bit_length()
    assert all(first <= one < at for one in asked)
