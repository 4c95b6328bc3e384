"""Which span says what: the outermost that says it, and first of all what the configuration has mapped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from monitor.content import values
from monitor.content.forest import Forest, Node


class Source(NamedTuple):
    """Where a field of a case was taken from: a span, and the field of its observation."""

    node: Node
    field: str

    @property
    def text(self) -> str:
        """What it says, where that is a text."""
        return str(getattr(self.node.seen, self.field))


def saying(nodes: Iterable[Node], field: str) -> Source | None:
    """The first of `nodes` that says something of `field`."""
    return next((Source(node, field) for node in nodes if node.seen and getattr(node.seen, field)), None)


def mapped(forest: Forest, field: str) -> Source | None:
    """The outermost span that holds what the configuration has mapped to `field`."""
    return saying((node for node in outermost(forest) if node.seen and field in node.seen.stated), field)


def outermost(forest: Forest) -> list[Node]:
    """All nodes, those nearest to a root first."""
    return sorted(forest.nodes, key=lambda node: (node.depth, node.first))


def first_said(forest: Forest, field: str, keys: Sequence[str]) -> str:
    """What the outermost span that says it says: sessions stand on the root, on every span, or only below the root.

    Spans that no dialect knows are asked for `keys`.
    """
    configured = mapped(forest, field)
    if configured is not None:
        return configured.text
    for node in outermost(forest):
        said = getattr(node.seen, field) if node.seen else values.text(values.first(node.span.attributes, keys))
        if said:
            return str(said)
    return ""
