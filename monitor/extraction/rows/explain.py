"""Explain how a row was read: the keys behind each field of the case, and the keys that are not used.

They are found by reading the row again: a key that can be null without changing a field does not contribute to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import orjson

from monitor.errors import InvalidData
from monitor.extraction.provenance import FieldOrigin, Provenance, Unused
from monitor.extraction.rows import common
from monitor.extraction.rows.reading import recognise, shape_of
from monitor.model.case import Case, Reading
from monitor.model.row import Row
from monitor.model.span import Value

ReadRow: TypeAlias = Callable[[Row], Sequence[Reading]]

_FIELDS: Final[Mapping[str, Callable[[Case], object]]] = {
    "question": lambda case: case.request.query,
    "history": lambda case: case.request.history,
    "context": lambda case: (case.retrieved_context, case.context_status),
    "answer": lambda case: case.response,
    "reference": lambda case: case.expected_response,
    "expected": lambda case: case.expected_retrieved_context,
    "prompt": lambda case: case.prompt,
    "model": lambda case: case.model,
    "usage": lambda case: case.usage,
    "session": lambda case: case.session_id,
    "user": lambda case: case.user_id,
    "app": lambda case: case.app,
    "attributes": lambda case: case.attributes,
    "time": lambda case: (case.answered_at, case.seconds),
}
_NAMING: Final = frozenset({"request_id", "trace_id", "id", "label", "group"})
"""Keys that are used, but not for a field that is explained."""

_INNER: Final = 50
"""Maximum number of keys of an inner object that are examined one by one; with more, the object is one part."""

_MOST_UNUSED: Final = 200

_Part: TypeAlias = tuple[str, ...]


def explain(row: Row, read: ReadRow) -> list[Provenance]:
    """Return the origins of the fields of each request in a row. Reads the row again for each of its keys."""
    content: dict[str, Value] = orjson.loads(row.content)
    shape = shape_of(content)
    readings = read(row)
    foreign = list(common.unread(content, shape.fields, shape.names))
    parts = [part for part in _parts(content) if part[0] not in foreign and part[0] not in _NAMING]
    whole = _read(content, row.app, read)
    gone: list[_Part] = []
    for part in reversed(parts):
        if _read(_without(content, [*gone, part]), row.app, read) == whole:
            gone.append(part)
    needed = [part for part in parts if part not in gone]
    lesser = [(part, _read(_without(content, [*gone, part]), row.app, read)) for part in needed]
    unused = [
        Unused(FieldOrigin(shape.name, "", "", (".".join(part),)), "", _size(_value(content, part)))
        for part in [*((name,) for name in foreign), *reversed(gone)][:_MOST_UNUSED]
    ]
    found = []
    for number, reading in enumerate(readings):
        origins = {}
        for name in _FIELDS:
            telling = [(part, left) for part, left in lesser if _differs(whole, left, number, name)]
            if name == "history":  # a request without a question has no history: the question does not contribute to it
                own = [one for one in telling if not _differs(whole, one[1], number, "question")]
                telling = own or telling
            keys = [".".join(part) for part, _ in telling]
            origins[name] = [FieldOrigin(shape.name, "", "", tuple(keys))] if keys and _has(reading.case, name) else []
        found.append(Provenance(reading, origins, unused))
    return found


def _parts(content: Mapping[str, Value]) -> Iterator[_Part]:
    """Yield the keys of a row that have a value; for an object, its inner keys."""
    for name, value in content.items():
        if value is None:
            continue
        if isinstance(value, Mapping) and 0 < len(value) <= _INNER:
            yield from ((name, inner) for inner, held in value.items() if held is not None)
        else:
            yield (name,)


def _without(content: Mapping[str, Value], gone: Sequence[_Part]) -> dict[str, Value]:
    """Return the row with some parts replaced by null."""
    lesser = dict(content)
    for part in gone:
        if len(part) == 1:
            lesser[part[0]] = None
        else:
            inner = lesser[part[0]]
            lesser[part[0]] = {**inner, part[1]: None} if isinstance(inner, Mapping) else inner
    return lesser


def _value(content: Mapping[str, Value], part: _Part) -> Value:
    held = content.get(part[0])
    return held.get(part[1]) if len(part) > 1 and isinstance(held, Mapping) else held


def _read(content: Mapping[str, Value], app: str, read: ReadRow) -> list[dict[str, object]]:
    """Return the fields of each request; an empty list if it is no longer a valid row."""
    try:
        row = recognise(dict(content), app="" if content.get("app") is None else app)
    except InvalidData:
        return []
    return [{name: value(one.case) for name, value in _FIELDS.items()} for one in read(row)]


def _differs(
    whole: Sequence[Mapping[str, object]], lesser: Sequence[Mapping[str, object]], number: int, name: str
) -> bool:
    return len(whole) != len(lesser) or whole[number][name] != lesser[number][name]


def _has(case: Case, name: str) -> bool:
    return bool(_FIELDS[name](case) != _FIELDS[name](Case(request_id="")))


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value, default=str))
