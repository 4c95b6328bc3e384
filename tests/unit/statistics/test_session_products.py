"""Sums of products are the squares of sessions, in memory that does not grow."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.statistics.session_products import FORGET_AFTER, LONGEST, SessionMemory, alone

EVALUATOR = ("groundedness", "1")
answers = st.lists(
    st.tuples(st.integers(0, 5), st.floats(1, 100), st.booleans()), min_size=1, max_size=60
)  # session, weight, defect


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def bad(memory: SessionMemory, session: int, weight: float = 1.0) -> float:
    """What a defect adds to the products of defects."""
    return memory.add(key(session), EVALUATOR, weight, defect=True).defects


@given(answers)
def test_sums_of_what_answers_add_are_the_squares_of_their_sessions(
    given_answers: list[tuple[int, float, bool]],
) -> None:
    memory = SessionMemory(ManualClock())
    sums = [0.0, 0.0, 0.0]
    every: dict[int, float] = defaultdict(float)
    defects: dict[int, float] = defaultdict(float)
    for session, weight, defect in given_answers:
        found = memory.add(key(session), EVALUATOR, weight, defect=defect)
        sums = [one + more for one, more in zip(sums, found, strict=True)]
        every[session] += weight
        defects[session] += weight if defect else 0.0
    expected = (
        sum(one**2 for one in defects.values()),
        sum(one**2 for one in every.values()),
        sum(every[session] * one for session, one in defects.items()),
    )
    assert sums == pytest.approx(expected)


@given(st.floats(1, 100), st.booleans())
def test_an_answer_alone_adds_what_the_first_of_a_session_adds(weight: float, defect: bool) -> None:
    assert alone(weight, defect=defect) == SessionMemory(ManualClock()).add(key(1), EVALUATOR, weight, defect=defect)


def test_evaluators_and_their_versions_have_sessions_of_their_own() -> None:
    memory = SessionMemory(ManualClock())
    for instrument in (EVALUATOR, ("groundedness", "2"), ("violence", "1")):
        assert memory.add(key(1), instrument, 2.0, defect=True) == alone(2.0, defect=True)
    assert bad(memory, 1) == 1 + 2 * 2


def test_the_sessions_that_were_idle_longest_are_forgotten_first() -> None:
    memory = SessionMemory(ManualClock(), most=3)
    for session in (1, 2, 3, 1, 4):  # 2 makes room for 4
        bad(memory, session)
    assert bad(memory, 1) == 1 + 2 * 2
    assert bad(memory, 2) == 1
    assert bad(memory, 4) == 1 + 2
    assert bad(memory, 3) == 1, "it made room for 2"


def test_a_session_without_an_answer_for_a_day_is_a_new_one() -> None:
    clock = ManualClock()
    memory = SessionMemory(clock)
    bad(memory, 1)
    clock.advance(FORGET_AFTER - 1)
    assert bad(memory, 1) == 3
    clock.advance(FORGET_AFTER + 1)
    assert bad(memory, 1) == 1


def test_an_id_that_all_answers_share_is_cut_into_sessions() -> None:
    memory = SessionMemory(ManualClock())
    found = [bad(memory, 1) for _ in range(3 * LONGEST)]
    assert found == [1 + 2 * (number % LONGEST) for number in range(3 * LONGEST)]
