"""Feedback on a trace with several requests finds the one that it is about."""

from __future__ import annotations

from monitor.model.case import Case
from monitor.pipeline.feedback.boost import RecentCases

TRACE = "ab" * 16


def known(*numbers):
    cases = RecentCases()
    for number in numbers:
        cases.add(Case(request_id=f"{TRACE}/{number:016x}", span_id=f"{number + 1:016x}"), {}, "")
    return cases


def test_feedback_on_a_whole_trace_is_on_its_last_request():
    assert known(2, 4).of(TRACE).request_id == f"{TRACE}/{4:016x}"


def test_feedback_on_a_span_is_on_the_request_of_that_span():
    assert known(2, 4).of(TRACE, f"{2:016x}").request_id == f"{TRACE}/{2:016x}", "the span that states the request"
    assert known(2, 4).of(TRACE, f"{3:016x}").request_id == f"{TRACE}/{2:016x}", "the call that answered"


def test_feedback_on_a_request_is_on_that_request():
    assert known(2, 4).of(f"{TRACE}/{2:016x}").request_id == f"{TRACE}/{2:016x}"
    assert known(2, 4).of("cd" * 16) is None


def test_the_only_request_of_a_trace_is_found_whatever_the_span():
    cases = RecentCases()
    cases.add(Case(request_id=TRACE, span_id="1" * 16), {}, "answer-7")
    assert cases.of(TRACE, "9" * 16).request_id == TRACE
    assert cases.of("response:answer-7").request_id == TRACE


def test_its_memory_has_a_bound_and_the_newest_cases_are_known():
    cases = RecentCases(256 * 1024)
    for number in range(2_000):
        cases.add(Case(request_id=f"{number:032x}/1", span_id=f"{number:016x}"), {"prompt.version": "7"}, f"a-{number}")
        assert cases.size <= 256 * 1024
    newest = f"{1_999:032x}/1"
    assert cases.of(newest).request_id == cases.of("response:a-1999").request_id == newest
    assert cases.of("0" * 32) is None
    assert cases.of("response:a-0") is None


def test_a_case_with_huge_names_is_not_remembered_and_displaces_no_other():
    cases = RecentCases(256 * 1024)
    cases.add(Case(request_id=TRACE), {}, "")
    for number in range(100):
        cases.add(Case(request_id=f"huge-{number}", session_id="\N{SNOWMAN}" * 100_000), {}, "")
    assert cases.of(TRACE) is not None
    assert cases.of("huge-0") is None


def test_a_case_that_comes_again_is_counted_once():
    cases = RecentCases()
    cases.add(Case(request_id=TRACE), {}, "answer-1")
    size = cases.size
    cases.add(Case(request_id=TRACE), {}, "answer-2")
    assert cases.size == size
    assert cases.of("response:answer-1") is None
    assert cases.of("response:answer-2").request_id == TRACE
