"""A conversation counts once for each evaluator, and as defective with its first defect."""

from __future__ import annotations

from dataclasses import replace

from monitor.pipeline.metrics import sessions
from monitor.pipeline.metrics.sessions import SessionMetrics
from tests.support.results import judged
from tests.support.runtime import runtime, total


def of(session, *, defect=False, at=1000.0):
    made = judged(1, defect=defect, evaluated_at=at)
    return replace(made, case=replace(made.case, session_id=session))


def counted(*results):
    metrics = runtime().metrics
    counting = SessionMetrics(metrics)
    counting.prepare("shop", "groundedness", "1")
    for one in results:
        counting.count("shop", one)
    return total(metrics, "ragmonitor_sessions_total"), total(metrics, "ragmonitor_sessions_defective_total")


def test_a_conversation_with_several_defects_is_one_with_at_least_one():
    assert counted(of("a"), of("a", defect=True), of("a", defect=True), of("b")) == (2, 1)


def test_an_answer_without_a_session_counts_nowhere():
    assert counted(of(""), of("", defect=True)) == (0, 0)


def test_a_session_that_goes_on_after_a_day_of_silence_is_another():
    late = 1000.0 + sessions.IDLE
    assert counted(of("a", defect=True), of("a", defect=True, at=late)) == (1, 1)
    assert counted(of("a", defect=True), of("a", defect=True, at=late + 1)) == (2, 2)


def test_sessions_without_end_are_forgotten_from_the_oldest_on():
    many = [of(f"s{number}") for number in range(sessions.AT_MOST + 1)]
    assert counted(*many, of(f"s{sessions.AT_MOST}")) == (sessions.AT_MOST + 1, 0)
    assert counted(*many, of("s0")) == (sessions.AT_MOST + 2, 0)
