"""The requests of a trace are the same for any order and repetition of its spans, and none is lost or counted twice."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.extraction import compose, partition
from monitor.model.case import TraceReading
from monitor.model.trace import Trace
from tests.support.examples import examples
from tests.support.traces import TRACE_ID, Builder, documents

WORDS = ("bicycle", "battery", "helmet", "ferry", "insurance", "harbour", "deposit", "warranty", "lamp", "gear")


@dataclass(frozen=True)
class Asked:
    """One question as a service may trace it."""

    stated: bool
    retrieves: bool
    helped: bool


asked = st.builds(Asked, stated=st.booleans(), retrieves=st.booleans(), helped=st.booleans())


def built(several: list[Asked], *, enclosed: bool) -> Builder:
    build = Builder()
    root = build.span("POST /chat", {"session.id": "s"}, kind=2) if enclosed else ""
    for number, one in enumerate(several):
        word = WORDS[number % len(WORDS)]
        question = f"What is to be known of the {word} number {number} of this shop?"
        answer = f"All about {word} {number}: it is kept in the store room {number}."
        top = root
        if one.stated:
            top = build.oi("CHAIN", {"input.value": question, "output.value": answer}, root)
        if one.helped:
            build.llm(f"Write a search query for: {question}", f"{word} {number}", top)
        text = f"The handbook on {word} {number}."
        if one.retrieves:
            build.oi("RETRIEVER", {"input.value": question, **documents("retrieval.documents", [text])}, top)
        build.llm(f"Context: {text}\nQuestion: {question}", answer, top)
    return build


def read(trace: Trace) -> TraceReading:
    return compose.read(trace, registry.conventions())


def pairs(found: TraceReading) -> list[tuple[str, str]]:
    return [(one.case.request.query, one.case.response) for one in found.readings]


@given(st.lists(asked, min_size=2, max_size=6), st.booleans(), st.randoms(use_true_random=False))
def test_every_question_is_one_request_for_any_order_and_repetition_of_spans(
    several: list[Asked], enclosed: bool, shuffler: random.Random
) -> None:
    build = built(several, enclosed=enclosed)
    found = read(build.trace())
    assert len(found.readings) == len(several)
    assert len({one.case.request_id for one in found.readings}) == len(several)
    assert len({query for query, _ in pairs(found)}) == len(several)
    again = [*build.spans, *shuffler.choices(build.spans, k=4)]
    shuffler.shuffle(again)
    assert read(Trace(TRACE_ID, tuple(again), app="seen-first", source="test")) == found


@given(st.lists(asked, min_size=2, max_size=6), st.data())
def test_every_span_belongs_to_at_most_one_request(several: list[Asked], data: st.DataObject) -> None:
    found = read(built(several, enclosed=data.draw(st.booleans())).trace())
    spans = [one.span_id for reading in found.readings for one in reading.joined]
    assert len(spans) == len(set(spans))


@examples(12)
@given(st.integers(0, 40))
def test_requests_are_conserved_beyond_the_limit(further: int) -> None:
    number = partition.MAX_REQUESTS + further
    found = read(built([Asked(True, False, False)] * number, enclosed=True).trace())
    assert len(found.readings) + found.left_out == number
