"""Explain how a trace was read: the dialect, span and keys behind each field, and the content that was not used.

A dialect need not report which keys it used. They are found by removal: a key that can be removed from a span without
changing a field does not contribute to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from monitor.extraction import evidence, forest, request, values
from monitor.extraction.compose import Composed, compose
from monitor.extraction.forest import FieldSource, Forest, Node, mapped, outermost, saying
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import ContextStatus, Reading
from monitor.model.span import Value
from monitor.model.trace import Trace
from monitor.stages import Convention, Observation

FIELDS: Final = ("question", "history", "context", "answer", "model", "usage", "session", "user")
"""The fields of a case, in the order in which they are explained."""

_READ: Final = ("query", "history", "messages", "documents", "response", "model", "usage", "session_id", "user_id")
"""The fields of an observation that are explained."""

_INDEX: Final = re.compile(r"(?<=\.)\d+(?=\.|$)")
_ROLES: Final = (("retrieval", "rerank"), ("tool",), ("request", "generation", "embedding", "other"))
"""The roles of spans searched for documents, in this order."""

_CONTENT: Final = 24
"""Minimum characters of an unused value that is reported."""


@dataclass(frozen=True, slots=True)
class FieldOrigin:
    """A span that a field was taken from.

    `keys` are the keys of its attributes, with `*` for any index, and the names of its log records and events.
    """

    convention: str
    span_name: str
    span_id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unused:
    """Content of spans that is not in the case.

    `said` names the field that a dialect read (`query`, `documents`, `response`) if another span won; empty if no
    dialect reads it. `size` is its length in characters, the largest if several `spans` hold it.
    """

    origin: FieldOrigin
    said: str
    size: int
    spans: int = 1


@dataclass(frozen=True, slots=True)
class Provenance:
    """A reading, the origins of each field of its case, and the content that was not used."""

    reading: Reading
    origins: Mapping[str, Sequence[FieldOrigin]]
    unused: Sequence[Unused]


def explain(
    trace: Trace, conventions: Sequence[Convention], settings: ExtractionSettings | None = None
) -> list[Provenance]:
    """Read `trace` and find the origin of every field of each request in it.

    Takes hundreds of times as long as reading alone.
    """
    settings = settings or ExtractionSettings()
    found = compose(trace, conventions, settings)
    return [_of_request(one, conventions, settings) for one in found.requests]


def _of_request(composed: Composed, conventions: Sequence[Convention], settings: ExtractionSettings) -> Provenance:
    nodes = (*composed.forest.enclosing, *composed.forest.nodes)
    parts = {id(node): _Parts(node, conventions, settings) for node in nodes}
    origins = {
        field: [parts[id(one.node)].origin(one.field) for one in found] for field, found in _sources(composed).items()
    }
    left: dict[tuple[str, str, tuple[str, ...]], Unused] = {}
    for node in composed.forest.nodes:
        for one in parts[id(node)].unused(composed):
            key = (one.said, one.origin.span_name if one.said else "", one.origin.keys)
            same = left.get(key, replace(one, spans=0))
            left[key] = replace(same, size=max(same.size, one.size), spans=same.spans + 1)
    unread = sorted((one for one in left.values() if not one.said), key=lambda one: -one.size)
    return Provenance(composed.reading, origins, [*(one for one in left.values() if one.said), *unread])


def _sources(composed: Composed) -> dict[str, list[FieldSource]]:
    """Return the spans that each field of the case was read from."""
    answered, asked, trees = composed.answered, composed.asked, composed.forest
    if answered is None or asked is None:
        return {field: [] for field in FIELDS}
    last, case = answered.last, composed.reading.case
    found: dict[str, Sequence[FieldSource | None]] = {
        "question": [asked.question if case.request.query else None],
        "history": [asked.history],
        "context": _of_context(composed, trees),
        "answer": [answered.source if case.response else None],
        "model": [
            mapped(trees, "model") or (FieldSource(last.node, "model") if last else None) if case.model else None
        ],
        "usage": [FieldSource(node, "usage") for node in request.counted(trees)],
        "session": [saying(outermost(trees), "session_id")],
        "user": [saying(outermost(trees), "user_id")],
    }
    return {field: [one for one in found[field] if one is not None] for field in FIELDS}


def _of_context(composed: Composed, trees: Forest) -> Sequence[FieldSource]:
    """Return the spans that hold the documents, or the model call if they were found in its prompt."""
    given, answered = composed.given, composed.answered
    if given is None or answered is None:
        return []
    if given.source == "prompt":
        return [FieldSource(answered.last.node, "messages")] if answered.last else []
    holding = [FieldSource(node, "documents") for node in trees.nodes if node.seen and node.seen.documents is not None]
    shares = evidence.sharing(given.documents)
    for role in _ROLES:
        own = [one for one in holding if one.node.seen and one.node.seen.kind in role]
        if given.status is ContextStatus.RETRIEVED_NOTHING:
            telling = [one for one in own if not _documents(one)]
        else:
            telling = [one for one in own if shares(_documents(one))]
        if telling:
            return telling
    return []


def _documents(source: FieldSource) -> Any:
    return getattr(source.node.seen, source.field)


class _Parts:
    """The parts of one span, and which of them matter: without these, the span would be read differently."""

    def __init__(self, node: Node, conventions: Sequence[Convention], settings: ExtractionSettings) -> None:
        self._node = node
        self._conventions = conventions
        self._settings = settings
        self._keys: dict[str, list[str]] = {}
        for key in node.span.attributes:
            self._keys.setdefault(_INDEX.sub("*", key), []).append(key)
        recorded = [f"log record {record.event_name}".rstrip() for record in node.records]
        recorded += [f"event {event.name}" for event in node.span.events]
        self._all = (*self._keys, *dict.fromkeys(recorded))

    def origin(self, field: str) -> FieldOrigin:
        """Return the origin of `field`: this span and the parts that it is read from."""
        return self._origin(self._needed(field))

    def unused(self, composed: Composed) -> Iterator[Unused]:
        """Yield the fields of the span that differ from the case, and the texts that no dialect reads."""
        case, seen = composed.reading.case, self._node.seen
        read = {part for field in _READ if seen is not None and getattr(seen, field) for part in self._needed(field)}
        if seen is not None:
            if seen.query and seen.query != case.request.query:
                yield self._unused("query", len(seen.query))
            if seen.response and seen.response != case.response:
                yield self._unused("response", len(seen.response))
            texts = [one.content for one in seen.documents or () if one.content]
            if texts and not evidence.sharing(case.retrieved_context)(seen.documents or ()):
                yield self._unused("documents", sum(map(len, texts)))
        known = " ".join(evidence.folded(text) for part in read for text in self._texts(part))
        for part in self._keys:
            texts = self._texts(part)
            size = sum(map(len, texts))
            if part in read or size < _CONTENT or not any(" " in text.strip() for text in texts):
                continue
            words = [evidence.folded(text) for text in texts]
            if not all(text in known for text in words):
                known = " ".join((known, *words))
                yield Unused(self._origin((part,)), "", size)

    def _unused(self, field: str, size: int) -> Unused:
        return Unused(self.origin(field), field, size)

    def _origin(self, parts: Sequence[str]) -> FieldOrigin:
        span = self._node.span
        return FieldOrigin(self._node.seen.convention if self._node.seen else "", span.name, span.span_id, tuple(parts))

    @cached_property
    def _roles(self) -> tuple[str, ...]:
        """The parts by which a dialect recognises the span and its role."""
        return self._smallest(lambda seen: (seen.kind, seen.convention) if seen is not None else None, ())

    def _needed(self, field: str) -> tuple[str, ...]:
        """Return the parts that give `field` its value."""

        def reading_of(seen: Observation | None) -> object:
            return getattr(seen, field) if seen is not None else None

        found = self._smallest(reading_of, self._roles)
        if not found:  # the part that gives the role may be the value itself
            whole = reading_of(self._node.seen)
            found = tuple(part for part in self._roles if reading_of(self._without((part,))) != whole)
            found = tuple(part for part in found if self._without((part,)) is not None) or found
        return found

    def _smallest(self, reading_of: Callable[[Observation | None], object], kept: Sequence[str]) -> tuple[str, ...]:
        """Return a smallest set of parts, besides the `kept` ones, with which the span is still read the same."""
        whole = reading_of(self._node.seen)
        gone: list[str] = []
        for part in reversed(self._all):
            if part not in kept and reading_of(self._without((*gone, part))) == whole:
                gone.append(part)
        return tuple(part for part in self._all if part not in gone and part not in kept)

    def _without(self, parts: Sequence[str]) -> Observation | None:
        """Observe the span without some of its parts."""
        gone = {key for part in parts for key in self._keys.get(part, ())}
        span = self._node.span
        lesser = replace(
            span,
            attributes={key: value for key, value in span.attributes.items() if key not in gone},
            events=tuple(one for one in span.events if f"event {one.name}" not in parts),
        )
        records = tuple(one for one in self._node.records if f"log record {one.event_name}".rstrip() not in parts)
        return forest.ask(lesser, records, self._conventions, self._settings)

    def _texts(self, part: str) -> list[str]:
        return [_shown(self._node.span.attributes[key]) for key in self._keys.get(part, ())]


def _shown(value: Value) -> str:
    return values.text(value) if isinstance(value, (str, int, float)) else repr(value)
