"""Where each field of a case was taken from, and what was there but not used."""

from __future__ import annotations

import pytest

from monitor import registry
from monitor.cli.cases import lines
from monitor.extraction import compose
from monitor.extraction.provenance import Provenance, explain
from monitor.extraction.settings import AttributeMap, ExtractionSettings
from monitor.model.trace import Closed
from monitor.transport.otlp.decode import decode
from tests.support.traces import SETUPS, Builder, captured_parts, documents


def explained(build: Builder, settings: ExtractionSettings | None = None) -> Provenance:
    (found,) = explain(build.trace(), registry.conventions(), settings)
    return found


def keys(found: Provenance, field: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(origin.span_name, origin.keys) for origin in found.origins[field]]


def stuffed() -> Builder:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why is it so?", "output.value": "Because it is.", "session.id": "s"})
    build.oi("RETRIEVER", {"input.value": "reason", **documents("retrieval.documents", ["One."])}, root)
    build.llm("Context: One.\nQuestion: Why is it so?", "Because it is.", root)
    return build


def test_each_field_has_its_span_and_its_keys() -> None:
    found = explained(stuffed())
    assert keys(found, "question") == [("chain", ("input.value",))]
    assert keys(found, "answer") == [("chain", ("output.value",))]
    assert keys(found, "session") == [("chain", ("session.id",))]
    assert keys(found, "model") == [("llm", ("llm.model_name",))]
    assert keys(found, "context") == [
        ("retriever", ("retrieval.documents.*.document.content", "retrieval.documents.*.document.id"))
    ]
    assert {origin.convention for origins in found.origins.values() for origin in origins} == {"openinference"}


def test_a_query_that_was_not_the_question_is_named() -> None:
    (left,) = explained(stuffed()).unused
    assert (left.said, left.origin.span_name, left.origin.keys) == ("query", "retriever", ("input.value",))


def test_candidates_that_a_reranker_replaced_are_named() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "So."})
    build.oi("RETRIEVER", documents("retrieval.documents", ["Alpha text.", "Beta text."]), root)
    ranked = {
        **documents("reranker.input_documents", ["Alpha text."]),
        **documents("reranker.output_documents", ["Gamma text."]),
    }
    build.oi("RERANKER", ranked, root)
    build.llm("Context: Gamma text.\nQuestion: Why?", "So.", root)
    found = explained(build)
    assert [origin.span_name for origin in found.origins["context"]] == ["reranker"]
    assert ("documents", "retriever") in {(one.said, one.origin.span_name) for one in found.unused}


def test_an_attribute_that_no_dialect_knows_is_named_once_for_all_spans() -> None:
    build = stuffed()
    for name in ("one", "two"):
        build.span(name, {"acme.notes": "a note that nobody has a name for"}, f"{1:016x}")
    left = [one for one in explained(build).unused if not one.said]
    assert [(one.origin.keys, one.spans, one.size) for one in left] == [(("acme.notes",), 2, 33)]


def test_a_mapped_attribute_is_named_as_the_source() -> None:
    build = Builder()
    build.span("ask", {"acme.q": "Why?", "acme.docs": ["One."], "acme.a": "So."})
    settings = ExtractionSettings(attributes=AttributeMap(question="acme.q", documents="acme.docs", answer="acme.a"))
    found = explained(build, settings)
    assert keys(found, "context") == [("ask", ("acme.docs",))]
    assert found.origins["question"][0].convention == "configuration"


def test_log_records_are_named_as_sources() -> None:
    build = Builder()
    span = build.span("chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    build.log("gen_ai.user.message", span, {"content": "Context: One.\nQuestion: Why?"})
    build.log("gen_ai.choice", span, {"index": 0, "finish_reason": "stop", "message": {"content": "So."}})
    found = explained(build)
    assert keys(found, "question") == [("chat", ("log record gen_ai.user.message",))]
    assert keys(found, "answer") == [("chat", ("log record gen_ai.choice",))]


def test_a_trace_of_nobody_is_explained_too() -> None:
    build = Builder()
    build.span("GET /health", {"note": "a text of some length that nobody reads"})
    found = explained(build)
    assert found.reading == build.read()
    assert not any(found.origins.values())
    assert [one.origin.keys for one in found.unused] == [("note",)]


@pytest.mark.parametrize("setup", [name for name in SETUPS if name.startswith("captures/")])
def test_explaining_changes_no_reading_and_names_a_source_for_all_that_was_read(setup: str) -> None:
    conventions = registry.conventions()
    for trace_id, parts in list(captured_parts(setup).items())[:4]:
        trace = decode(trace_id, parts, closed=Closed.ROOT_ENDED, app="a", source="s", probability=1.0, received_at=0.0)
        (found,) = explain(trace, conventions)
        assert (found.reading,) == compose.read(trace, conventions).readings
        case = found.reading.case
        named = {field for field, origins in found.origins.items() if any(origin.keys for origin in origins)}
        there = {"question": case.request.query, "history": case.request.history, "context": case.retrieved_context}
        there |= {"answer": case.response, "model": case.model, "usage": case.usage.total_tokens}
        assert {field for field, value in there.items() if value} <= named
        assert all("\n" not in line for line in lines(found))
