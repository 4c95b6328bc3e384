"""Spans become trees: who is above whom, which span begins a request, and what never arrived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor import registry
from monitor.extraction import forest
from monitor.extraction.forest import Forest, Node
from monitor.extraction.settings import AttributeMap, ExtractionSettings
from monitor.model.span import LogRecord, Origin, Span
from tests.support.traces import TRACE_ID, Builder

GONE = "e" * 16


def grown(build: Builder, settings: ExtractionSettings | None = None) -> Forest:
    return forest.grow(build.spans, build.records, registry.conventions(), settings or ExtractionSettings())


def names(nodes: object) -> list[str]:
    return [node.span.name for node in nodes]  # type: ignore[attr-defined]


def family() -> tuple[Builder, dict[str, Node]]:
    """A root with two children, of which the first has two children."""
    build = Builder()
    root = build.span("root")
    first = build.span("first", None, root)
    build.span("second", None, root)
    build.span("elder", None, first)
    build.span("younger", None, first)
    return build, {node.span.name: node for node in grown(build).nodes}


def test_nodes_stand_from_the_root_downwards_siblings_by_their_start() -> None:
    build, _ = family()
    build.spans.reverse()
    found = grown(build)
    assert names(found.nodes) == ["root", "first", "elder", "younger", "second"]
    assert [node.depth for node in found.nodes] == [0, 1, 2, 2, 1]
    assert (names(found.roots), found.orphans) == (["root"], ())


def test_spans_that_start_together_stand_in_the_order_of_their_ids() -> None:
    build = Builder()
    root = build.span("root")
    for name in ("b", "a"):
        build.span(name, None, root)
    build.spans[1:] = [replace(span, start_ns=5, span_id=span.name * 16) for span in build.spans[1:]]
    assert names(grown(build).nodes) == ["root", "a", "b"]


def test_a_node_is_above_its_descendants_and_not_above_itself_or_others() -> None:
    _, nodes = family()
    above = {(one, other) for one in nodes for other in nodes if nodes[one].above(nodes[other])}
    assert above == {
        *(("root", other) for other in nodes if other != "root"),
        ("first", "elder"),
        ("first", "younger"),
    }


def test_the_ancestors_of_a_node_are_named_from_the_outermost_inwards() -> None:
    _, nodes = family()
    assert names(nodes["younger"].ancestors()) == ["root", "first"]
    assert nodes["root"].ancestors() == []


def test_below_a_node_are_itself_and_its_descendants() -> None:
    build, nodes = family()
    assert names(grown(build).below(nodes["first"])) == ["first", "elder", "younger"]
    assert names(grown(build).below(nodes["second"])) == ["second"]


def test_a_span_that_came_twice_is_read_once_as_it_began_first() -> None:
    build, _ = family()
    build.spans.append(replace(build.spans[1], name="again", start_ns=build.spans[1].start_ns + 1))
    assert names(grown(build).nodes) == ["root", "first", "elder", "younger", "second"]


@pytest.mark.parametrize(
    ("span", "begins"),
    [
        (Span(TRACE_ID, "1" * 16), True),
        (Span(TRACE_ID, "1" * 16, GONE, is_root=True), True),
        (Span(TRACE_ID, "1" * 16, GONE, kind=2), True),
        (Span(TRACE_ID, "1" * 16, GONE, kind=5), True),
        *((Span(TRACE_ID, "1" * 16, GONE, kind=kind), False) for kind in (0, 1, 3, 4)),
    ],
)
def test_a_request_begins_at_a_root_and_where_a_server_or_a_consumer_took_it_up(span: Span, begins: bool) -> None:
    assert forest.begins(span) is begins
    found = forest.grow([span], (), registry.conventions())
    assert (len(found.roots), len(found.orphans)) == ((1, 0) if begins else (0, 1))


def test_a_server_span_whose_parent_came_is_no_root() -> None:
    build = Builder()
    build.span("inner", None, build.span("outer"), kind=2)
    assert names(grown(build).roots) == ["outer"]


def test_spans_without_their_parent_are_orphans_unless_the_configuration_says_that_parents_are_elsewhere() -> None:
    build = Builder()
    build.span("lost", None, GONE, root=False)
    assert names(grown(build).orphans) == ["lost"]
    assert names(grown(build, ExtractionSettings(orphans_are_roots=True)).roots) == ["lost"]


def test_a_circle_of_parents_is_cut_open_at_its_first_span_and_loses_none() -> None:
    build = Builder()
    ids = [f"{number:016x}" for number in (1, 2, 3)]
    for at, name in enumerate("abc"):
        build.span(name, None, ids[at - 1], root=False)
    build.span("below", None, ids[1])
    found = grown(build)
    assert names(found.nodes) == ["a", "b", "c", "below"]
    assert (found.roots, names(found.orphans)) == ((), ["a"])
    assert [node.depth for node in found.nodes] == [0, 1, 2, 2]


def test_a_span_that_is_its_own_parent_is_an_orphan() -> None:
    build = Builder()
    build.span("root")
    build.span("self", None, f"{2:016x}", root=False)
    assert (names(grown(build).roots), names(grown(build).orphans)) == (["root"], ["self"])


def test_log_records_belong_to_their_span() -> None:
    build = Builder()
    span = build.span("chat", {"gen_ai.operation.name": "chat"})
    build.span("other", None, span)
    build.log("gen_ai.choice", span, {"index": 0, "message": {"content": "So."}})
    found = grown(build)
    assert [len(node.records) for node in found.nodes] == [1, 0]
    assert found.strays == ()


def test_records_of_a_span_that_never_came_are_strays_only_where_a_dialect_knows_their_name_or_scope() -> None:
    build = Builder()
    build.span("root")
    build.log("gen_ai.choice", GONE)
    build.log("app.started", GONE)
    scoped = LogRecord(TRACE_ID, GONE, "", 9, None, {}, Origin("rag", scope_name="gen_ai.client"))
    build.records.append(scoped)
    assert grown(build).strays == (build.records[0], scoped)


def test_a_fact_of_the_whole_is_taken_from_the_outermost_span_that_says_it() -> None:
    build = Builder()
    root = build.span("root")
    deep = build.span("silent", None, root)
    build.oi("CHAIN", {"session.id": "deep"}, deep)
    build.oi("CHAIN", {"session.id": "near"}, root)
    assert forest.first_said(grown(build), "session_id", ("session.id",)) == "near"
    assert forest.first_said(grown(build), "user_id", ("user.id",)) == ""
    build.spans[0] = replace(build.spans[0], attributes={"enduser.id": 7, "session.id": "root"})
    assert forest.first_said(grown(build), "session_id", ("session.id",)) == "root"
    assert forest.first_said(grown(build), "user_id", ("user.id", "enduser.id")) == "7"


def test_a_mapped_attribute_says_it_before_any_span_further_out() -> None:
    build = Builder()
    root = build.span("root", {"session.id": "root"})
    build.span("inner", {"acme.conversation": "mapped"}, root)
    settings = ExtractionSettings(attributes=AttributeMap(session="acme.conversation"))
    found = grown(build, settings)
    assert forest.first_said(found, "session_id", ("session.id",)) == "mapped"
    source = forest.mapped(found, "session_id")
    assert source is not None
    assert (source.text, source.node.span.name) == ("mapped", "inner")
    assert forest.mapped(found, "user_id") is None


def test_a_chain_of_very_many_spans_is_numbered() -> None:
    build = Builder()
    parent = ""
    for number in range(5_000):
        parent = build.span(str(number), None, parent)
    found = grown(build)
    assert [node.depth for node in found.nodes] == list(range(5_000))
    assert {node.last for node in found.nodes} == {4_999}
