"""A conversation counts once for each evaluator, and as defective with its first defect."""

from __future__ import annotations

from dataclasses import replace

from monitor.pipeline.metrics.sessions import SessionMetrics
from monitor.statistics.session_products import FORGET_AFTER, LONGEST, SessionMemory
from tests.support.results import judged
from tests.support.runtime import runtime, total

DAY = "a day"


def of(session, *, defect=False, user="", weight=1.0):
    made = replace(judged(1, defect=defect), weight=weight)
    return replace(made, case=replace(made.case, session_id=session, user_id=user))


def counted(*results, most=100):
    """The judged and the defective sessions; between two results, `DAY` lets more than a day pass."""
    lent = runtime()
    counting = SessionMetrics(lent.metrics, SessionMemory(lent.clock, most))
    counting.prepare("shop", "groundedness", "1")
    for one in results:
        if one is DAY:
            lent.clock.advance(FORGET_AFTER + 1)
        else:
            counting.count("shop", one)
    return total(lent.metrics, "ragmonitor_sessions_total"), total(lent.metrics, "ragmonitor_sessions_defective_total")


def test_a_conversation_with_several_defects_is_one_with_at_least_one():
    assert counted(of("a"), of("a", defect=True), of("a", defect=True), of("b")) == (2, 1)


def test_a_conversation_of_answers_of_unequal_weight_counts_once():
    weights = (0.1 + 0.2, 3.0, 1 / 3, 1e6)
    assert counted(*(of("a", defect=defect, weight=one) for one in weights for defect in (False, True))) == (1, 1)


def test_an_answer_without_a_session_counts_nowhere():
    assert counted(of(""), of("", defect=True), of("", user="one", defect=True)) == (0, 0)


def test_a_session_that_goes_on_after_a_day_of_silence_is_another():
    assert counted(of("a", defect=True), of("a", defect=True)) == (1, 1)
    assert counted(of("a", defect=True), DAY, of("a", defect=True)) == (2, 2)


def test_an_id_that_all_answers_share_is_counted_in_parts():
    assert counted(*(of("a", defect=True) for _ in range(2 * LONGEST))) == (2, 2)


def test_sessions_without_end_are_forgotten_from_the_oldest_on():
    many = [of(f"s{number}") for number in range(101)]
    assert counted(*many, of("s100")) == (101, 0)
    assert counted(*many, of("s0")) == (102, 0)
