"""Build trees from the spans of a trace, with the observation of each span, its ancestors, and missing parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from monitor.extraction import values
from monitor.extraction.settings import ExtractionSettings
from monitor.model.span import LogRecord, Span
from monitor.stages import Convention, Observation

_SERVER, _CONSUMER = 2, 5
_DEPTH: Final = attrgetter("depth")
_PLAIN = ExtractionSettings()


@dataclass(slots=True, eq=False)
class Node:
    """A span in its tree. `first` is its number and `last` that of its last descendant, from the root downwards."""

    span: Span
    seen: Observation | None
    records: tuple[LogRecord, ...] = ()
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    depth: int = 0
    first: int = 0
    last: int = 0

    def above(self, other: Node) -> bool:
        """Return whether `other` is a descendant of this node."""
        return self.first < other.first <= self.last

    def ancestors(self) -> list[Node]:
        """Return all nodes above this one, the outermost first."""
        found, node = [], self.parent
        while node is not None:
            found.append(node)
            node = node.parent
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Forest:
    """All nodes from the roots downwards, siblings in order of their start.

    `roots` begin a request in this process; `orphans` have a parent that never arrived; `strays` are log records of a
    convention whose span never arrived. If the forest is `one_of_several` requests of a trace, `enclosing` are the
    spans around it that it shares with the other requests, the outermost first; their texts are not its own.
    """

    nodes: tuple[Node, ...]
    roots: tuple[Node, ...]
    orphans: tuple[Node, ...]
    strays: tuple[LogRecord, ...] = ()
    enclosing: tuple[Node, ...] = ()
    one_of_several: bool = False

    def below(self, node: Node) -> Sequence[Node]:
        """Return the node and all its descendants."""
        return self.nodes[node.first : node.last + 1]

    def of_kind(self, *kinds: str) -> Iterator[Node]:
        """Yield the nodes with a span of one of these roles, from the roots downwards."""
        return (node for node in self.nodes if node.seen is not None and node.seen.kind in kinds)


def grow(
    spans: Sequence[Span],
    records: Sequence[LogRecord],
    conventions: Sequence[Convention],
    settings: ExtractionSettings = _PLAIN,
) -> Forest:
    """Observe each span with the conventions and link the spans into trees. A cycle of parents counts as orphans."""
    of_span: dict[str, list[LogRecord]] = {}
    for record in records:
        of_span.setdefault(record.span_id, []).append(record)
    by_id: dict[str, Node] = {}
    for span in sorted(spans, key=lambda one: (one.start_ns, one.span_id)):
        own = tuple(of_span.get(span.span_id, ()))
        by_id.setdefault(span.span_id, Node(span, ask(span, own, conventions, settings), own))
    roots, orphans = [], []
    for node in by_id.values():
        parent = by_id.get(node.span.parent_id)
        if parent is not None and parent is not node:
            node.parent = parent
            parent.children.append(node)
        elif settings.orphans_are_roots or begins(node.span):
            roots.append(node)
        else:
            orphans.append(node)
    nodes = number([*roots, *orphans])
    if len(nodes) < len(by_id):
        placed = set(map(id, nodes))
        for node in by_id.values():
            if id(node) not in placed:
                if node.parent is not None:
                    node.parent.children.remove(node)
                node.parent = None
                orphans.append(node)
                placed |= set(map(id, number([node])))
        nodes = number([*roots, *orphans])
    strays = [record for record in records if record.span_id not in by_id]
    return Forest(tuple(nodes), tuple(roots), tuple(orphans), _named(strays, conventions) if strays else ())


def _named(strays: Sequence[LogRecord], conventions: Sequence[Convention]) -> tuple[LogRecord, ...]:
    """Return the `strays` that belong to one of the conventions, judging by their names."""
    marks = tuple(mark.decode(errors="replace") for convention in conventions for mark in convention.record_marks)
    return tuple(one for one in strays if one.event_name.startswith(marks) or one.origin.scope_name.startswith(marks))


def ask(
    span: Span, records: tuple[LogRecord, ...], conventions: Sequence[Convention], settings: ExtractionSettings = _PLAIN
) -> Observation | None:
    """Observe one span with the first convention that recognises it, then apply the mappings of the configuration."""
    found = None
    for convention in conventions:
        found = convention.observe(span, records)
        if found is not None:
            break
    return settings.attributes.apply(span, found)


def begins(span: Span) -> bool:
    """Return whether a request enters the process at this span. Server and consumer spans count with any flags."""
    return span.is_root or not span.parent_id or span.kind in (_SERVER, _CONSUMER)


class FieldSource(NamedTuple):
    """The origin of a field of a case: a span, and the field of its observation."""

    node: Node
    field: str

    @property
    def text(self) -> str:
        """The value of the field, as text."""
        return str(getattr(self.node.seen, self.field))


def saying(nodes: Iterable[Node], field: str) -> FieldSource | None:
    """Return the first of `nodes` with a value for `field`, or None."""
    return next((FieldSource(node, field) for node in nodes if node.seen and getattr(node.seen, field)), None)


def mapped(forest: Forest, field: str) -> FieldSource | None:
    """Return the outermost span with an attribute that the configuration maps to `field`, or None."""
    if not any(node.seen and field in node.seen.stated for node in (*forest.enclosing, *forest.nodes)):
        return None  # usually the configuration maps nothing: no need to sort the spans
    return saying((node for node in outermost(forest) if node.seen and field in node.seen.stated), field)


def outermost(forest: Forest) -> list[Node]:
    """Return all nodes, those nearest to a root first."""
    return [*forest.enclosing, *sorted(forest.nodes, key=_DEPTH)]  # stable: nodes of equal depth are already in order


def first_said(forest: Forest, field: str, keys: Sequence[str]) -> str:
    """Return `field` from the outermost span that has it: a session may be on the root, on every span, or only below.

    On a span that no convention recognises, read the attributes `keys` instead.
    """
    configured = mapped(forest, field)
    if configured is not None:
        return configured.text
    for node in outermost(forest):
        said = getattr(node.seen, field) if node.seen else values.text(values.first(node.span.attributes, keys))
        if said:
            return str(said)
    return ""


def number(tops: Sequence[Node]) -> list[Node]:
    """Number the nodes below `tops`, without recursion: chains of spans can be long."""
    nodes: list[Node] = []
    waiting: list[tuple[Node, bool]] = [(top, False) for top in reversed(tops)]
    while waiting:
        node, left = waiting.pop()
        if left:
            node.last = len(nodes) - 1
            continue
        node.first = len(nodes)
        node.depth = node.parent.depth + 1 if node.parent is not None else 0
        nodes.append(node)
        waiting.append((node, True))
        waiting += [(child, False) for child in reversed(node.children)]
    return nodes
