"""Requests whose enclosing spans went to another backend, and prompts made with a service's own template."""

from __future__ import annotations

import pytest

from monitor import registry
from monitor.extraction import compose
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import ContextStatus, Reading, ReadingStatus
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
