"""From a row to its case: which shape it has, whose it is, what it says, and what is missing."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import orjson

from monitor.errors import InvalidData
from monitor.extraction import slices, values
from monitor.extraction.rows import fields, mlflow_trace
from monitor.extraction.rows.fields import Fields, Said
from monitor.extraction.rows.shapes import SHAPES, Shape
from monitor.model.case import EVALUABLE, Case, Reading, ReadingStatus
from monitor.model.row import Row
from monitor.model.span import Value
from monitor.model.trace import Trace

ReadTrace: TypeAlias = Callable[[Trace], Reading]

_NAMES_SHOWN: Final = 12
_NAME_LENGTH: Final = 40
_LONGEST_ID: Final = 256
_HEX_LENGTH: Final = 32
_HEX: Final = frozenset("0123456789abcdef")
_LATEST: Final = 2**32
_UNITS: Final = (1, 1e3, 1e6, 1e9)
"""What a timestamp may count in a second: seconds, milliseconds, microseconds, nanoseconds."""


def recognise(value: object, *, app: str = "") -> Row:
    """The row that a parsed JSON value is. `app` stands where it names none.

    Raises `InvalidData` that names the fields it has and those that each shape is known by.
    """
    if not isinstance(value, dict):
        raise InvalidData(f"a row must be a JSON object, not {_kind(value)}")
    _shape(value)
    try:
        content = orjson.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"the row cannot be stored: {error}") from None
    traced_id, service = mlflow_trace.named(value if mlflow_trace.is_trace(value) else value.get("trace"))
    named = fields.label(value.get("app")) or fields.label(service) or app
    return Row(_request_id(value, traced_id), named, content)


def read(
    row: Row, read_trace: ReadTrace, *, source: str, probability: float = 1.0, received_at: float = 0.0
) -> Reading:
    """What a row says. What it leaves open is read from the trace that it carries. Never raises on what it holds.

    `read_trace` makes a trace into a reading; `probability` is that with which the row was kept, `received_at` the
    wall-clock second at which it came.
    """
    content: dict[str, Value] = orjson.loads(row.content)
    shape = _shape(content)
    said = shape.say(content)
    traced = said.traced
    whole = read_trace(replace(traced.trace, app=row.app, source=source)) if traced is not None else None
    base = whole.case if whole is not None else Case(request_id=row.request_id, usage=said.usage)
    if said.documents is not None:
        shown = tuple(document for document in said.documents if document.content or document.doc_id)
        base = replace(base, retrieved_context=shown, context_source=said.context_source if shown else "none")
    case = replace(
        base,
        request_id=row.request_id,
        request=said.request or base.request,
        response=said.response or base.response,
        model=fields.label(content.get("model")) or base.model,
        session_id=fields.label(content.get("session_id")) or base.session_id or (traced.session_id if traced else ""),
        user_id=fields.label(content.get("user_id")) or base.user_id or (traced.user_id if traced else ""),
        app=row.app,
        source=source,
        convention=said.convention if said.convention is not None else base.convention or shape.name,
        attributes=_attributes(content, {**base.attributes, **(traced.facts if traced else {})}),
        expected_response=said.expected_response,
        expected_retrieved_context=said.expected_documents,
        probability=probability,
        answered_at=_timestamp(content.get("timestamp")) or base.answered_at or received_at,
    )
    status, error = _verdict(said, whole, case)
    return Reading(status, case, error, whole.joined if whole is not None else ())


def _verdict(said: Said, whole: Reading | None, case: Case) -> tuple[ReadingStatus, str]:
    if said.verdict is not None and said.verdict[0] not in EVALUABLE:
        return said.verdict
    if whole is not None and said.request is None and said.response is None and said.documents is None:
        return whole.status, whole.error
    missing = [name for name, text in (("question", case.request.query), ("answer", case.response)) if not text]
    if whole is not None and (missing or said.documents is None) and not _leaves_open(whole):
        return whole.status, whole.error
    if missing:
        return ReadingStatus.CONTENT_MISSING, f"the row has no {' and no '.join(missing)}"
    given = said.documents or ()
    lost = sum(not document.content for document in given)
    if lost:
        return ReadingStatus.CONTENT_MISSING, f"the texts of {lost} of {len(given)} retrieved documents are missing"
    return _with_context(said, whole, case), ""


def _leaves_open(whole: Reading) -> bool:
    """Whether a trace says only what it says: one without a retrieval may well belong to a row that had one."""
    return whole.status in (ReadingStatus.READY, ReadingStatus.NO_CONTEXT, ReadingStatus.NOT_RAG)


def _with_context(said: Said, whole: Reading | None, case: Case) -> ReadingStatus:
    """Ready, too, where nothing is said of a context: `no_context` is only what is known to have found nothing."""
    if case.retrieved_context:
        return ReadingStatus.READY
    if said.verdict is not None:
        return said.verdict[0]
    if said.documents is not None or (whole is not None and whole.status is ReadingStatus.NO_CONTEXT):
        return ReadingStatus.NO_CONTEXT
    return ReadingStatus.READY


def _shape(row: Fields) -> Shape:
    """The shape of a row. Raises `InvalidData` that names its fields, and those that shapes are known by."""
    best = max(SHAPES, key=lambda shape: shape.score(row))  # the first of those with as many fields
    if best.score(row) >= 0:
        return best
    shown = ", ".join(repr(name[:_NAME_LENGTH]) for name in list(row)[:_NAMES_SHOWN]) or "no fields at all"
    more = f" and {len(row) - _NAMES_SHOWN} more" if len(row) > _NAMES_SHOWN else ""
    raise InvalidData(f"the row has {shown}{more}; expected one of: {'; '.join(map(str, SHAPES))}")


def _request_id(row: dict[str, Value], traced: str) -> str:
    told = (
        values.text(values.first(row, ("request_id", "trace_id"))).strip()
        or traced.strip()
        or values.text(row.get("id")).strip()
    )
    if not told or len(told) > _LONGEST_ID:
        held = told.encode("utf-8", "surrogatepass") if told else orjson.dumps(row, option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(held, digest_size=16).hexdigest()
    digits = told.removeprefix("tr-").lower()  # MLflow's mark on the id that OTLP carries bare
    return digits if len(digits) == _HEX_LENGTH and _HEX.issuperset(digits) else told


def _attributes(row: Fields, found: Mapping[str, str]) -> dict[str, str]:
    given = values.unfold(row.get("attributes"))
    own = slices.of_attributes(given) if isinstance(given, Mapping) else {}
    return dict([*own.items(), *(pair for pair in found.items() if pair[0] not in own)][: slices.MAX_SLICES])


def _timestamp(value: Value) -> float:
    """Seconds since 1970, out of a number in any usual unit or an ISO 8601 text (UTC without a zone); else 0."""
    number = values.number(value)
    if number is None and isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value.strip())
            number = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    seconds = next((number / unit for unit in _UNITS if number < _LATEST * unit), 0.0) if number is not None else 0.0
    return max(seconds, 0.0)


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return {str: "a text", bool: "a truth value", type(None): "null"}.get(type(value), "a number")
