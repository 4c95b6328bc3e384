"""Requests whose enclosing spans went to another backend, and prompts made with a service's own template."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor import registry
from monitor.extraction import compose
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import ContextStatus, Reading, ReadingStatus, TraceReading
from monitor.model.span import RefusedParts
from monitor.model.trace import Closed
from tests.support.traces import Builder, documents

ELSEWHERE = "e" * 16


def read(build: Builder, closed: Closed = Closed.IDLE, **settings: object) -> Reading:
    found = compose.read(build.trace(closed), registry.conventions(), ExtractionSettings.model_validate(settings))
    return found.last


def enclosed(parent: str = ELSEWHERE, **root: str) -> Builder:
    """A request below a span that was sent elsewhere."""
    build = Builder()
    said = {"input.value": "Why?", "output.value": "Because.", **root}
    top = build.oi("CHAIN", {key: value for key, value in said.items() if value}, parent, root=False)
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), top)
    build.llm("Context: One.\nQuestion: Why?", "Because.", top)
    return build


def test_a_span_that_states_question_and_answer_is_a_request_wherever_its_parent_is() -> None:
    assert read(enclosed()).status is ReadingStatus.READY


@pytest.mark.parametrize("closed", [Closed.EVICTED, Closed.SHUTDOWN])
def test_but_not_while_its_parent_may_still_come(closed: Closed) -> None:
    assert read(enclosed(), closed).status is ReadingStatus.INCOMPLETE


@pytest.mark.parametrize("silent", ["input.value", "output.value"])
def test_a_span_that_does_not_state_both_may_be_a_part(silent: str) -> None:
    assert read(enclosed(**{silent: ""})).status is ReadingStatus.INCOMPLETE


def test_two_parts_of_a_request_are_not_whole() -> None:
    build = enclosed()
    build.oi("RETRIEVER", documents("retrieval.documents", ["Two."]), ELSEWHERE, root=False)
    assert read(build).status is ReadingStatus.INCOMPLETE


def test_a_circle_is_not_whole() -> None:
    build = enclosed(parent=f"{2:016x}")
    assert read(build).status is ReadingStatus.INCOMPLETE


def test_parts_are_whole_where_the_configuration_says_that_parents_are_elsewhere() -> None:
    build = Builder()
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), ELSEWHERE, root=False)
    build.llm("Context: One.\nQuestion: Why?", "Because.", ELSEWHERE, root=False)
    assert read(build).status is ReadingStatus.INCOMPLETE
    assert read(build, orphans_are_roots=True).status is ReadingStatus.READY


def test_a_prompt_is_taken_apart_by_the_services_own_template() -> None:
    build = Builder()
    build.llm("Du kennst nur dies >> One. Two. << und wirst gefragt >> Why? <<", "Because.")
    assert read(build).case.context_status is ContextStatus.NO_RETRIEVAL
    template = "Du kennst nur dies >> {context} << und wirst gefragt >> {question} <<\n"
    reading = read(build, prompt_templates=[template])
    assert reading.status is ReadingStatus.READY
    assert reading.case.request.query == "Why?"
    assert [document.content for document in reading.case.retrieved_context] == ["One. Two."]
    assert reading.case.context_source == "prompt"


def test_a_template_of_the_system_prompt_leaves_the_question_to_the_user_message() -> None:
    build = Builder()
    build.llm("Why?", "Because.", system="Facts: [1] One. [end of facts]")
    reading = read(build, prompt_templates=["Facts: {context} [end of facts]"])
    assert (reading.status, reading.case.request.query) == (ReadingStatus.READY, "Why?")


def test_a_template_filled_with_nothing_is_an_empty_retrieval() -> None:
    build = Builder()
    build.llm("Facts: \nAsked: Why?", "I do not know.")
    reading = read(build, prompt_templates=["Facts: {context}\nAsked: {question}"])
    assert (reading.status, reading.case.context_status) == (ReadingStatus.READY, ContextStatus.RETRIEVED_NOTHING)


LOST = RefusedParts("traces", "larger than max_span_bytes", 1)


def refused(build: Builder, *parts: RefusedParts) -> TraceReading:
    return compose.read(replace(build.trace(), refused=parts), registry.conventions())


def test_a_request_of_which_a_span_was_refused_is_incomplete_however_whole_the_rest_looks() -> None:
    build = enclosed(parent="")
    assert build.read().status is ReadingStatus.READY
    (reading,) = refused(build, LOST).readings
    assert reading.status is ReadingStatus.INCOMPLETE
    assert reading.error == "the monitor refused 1 span larger than max_span_bytes"


def test_every_reason_is_told_with_its_number() -> None:
    (reading,) = refused(enclosed(), LOST._replace(number=2), RefusedParts("logs", "that cannot be read", 1)).readings
    assert reading.error == ("the monitor refused 2 spans larger than max_span_bytes, 1 log record that cannot be read")


def test_what_is_left_of_a_trace_is_no_proof_that_it_is_no_request() -> None:
    build = Builder()
    build.span("GET /ask", {"http.route": "/ask"})
    assert build.read().status is ReadingStatus.NO_REQUEST
    assert [one.status for one in refused(build, LOST).readings] == [ReadingStatus.INCOMPLETE]
    assert [one.status for one in refused(Builder(), LOST).readings] == [ReadingStatus.INCOMPLETE], "nothing is left"


def test_of_several_requests_none_is_read() -> None:
    build = Builder()
    top = build.span("batch")
    for question in ("Why is it blue?", "Who made it?"):
        build.llm(question, f"That is about {question}", build.oi("CHAIN", {"input.value": question}, top))
    assert len(build.read_all().readings) == 2
    assert [one.status for one in refused(build, LOST).readings] == [ReadingStatus.INCOMPLETE]
