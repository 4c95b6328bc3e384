"""Turn a row into a case: find its shape, id and service, read its fields, and decide its status."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import orjson

from monitor.errors import InvalidData
from monitor.extraction import slices, values
from monitor.extraction.partition import MAX_REQUESTS
from monitor.extraction.rows import fields, mlflow_trace
from monitor.extraction.rows.fields import Fields, Said
from monitor.extraction.rows.printed import PrintedCase, context_status
from monitor.extraction.rows.shapes import SHAPES, Shape
from monitor.extraction.settings import Turns
from monitor.model.case import Case, ContextStatus, Reading, ReadingStatus, TraceReading, Usage, app_name
from monitor.model.row import Row
from monitor.model.span import Value
from monitor.model.trace import Trace

ReadTrace: TypeAlias = Callable[[Trace], TraceReading]

_NAMES_SHOWN: Final = 12
_NAME_LENGTH: Final = 40
_LONGEST_ID: Final = 256
_HEX_LENGTH: Final = 32
_HEX: Final = frozenset("0123456789abcdef")
_LATEST: Final = 2**32
_UNITS: Final = (1, 1e3, 1e6, 1e9)
"""Units of a timestamp for each second: seconds, milliseconds, microseconds, nanoseconds."""


def recognise(value: object, *, app: str = "") -> Row:
    """Return the row in a parsed JSON value. `app` applies to a row that does not name an app.

    Raises `InvalidData` that lists the fields of the row and the fields that identify each shape.
    """
    if not isinstance(value, dict):
        raise InvalidData(f"a row must be a JSON object, not {_kind(value)}")
    shape = shape_of(value)
    try:
        content = orjson.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"the row cannot be stored: {error}") from None
    traced_id, service = mlflow_trace.named(value if mlflow_trace.is_trace(value) else value.get("trace"))
    named = next(filter(None, map(app_name, (fields.label(value.get("app")), service, app))), "")
    return Row(_request_id(value, traced_id), named, content, shape.unused(value))


def read(
    row: Row,
    read_trace: ReadTrace,
    *,
    source: str,
    turns: Turns = "all",
    probability: float = 1.0,
    received_at: float = 0.0,
) -> TraceReading:
    """Read a row, and take what it leaves out from the trace that it carries. Never raises on hostile content.

    A row with a conversation has a request for each question in it, or only for the `last`; a row with a trace has the
    requests of the trace. `read_trace` turns a trace into readings; `probability` is the probability with which the row
    was kept, `received_at` the time it arrived, in seconds since 1970.
    """
    content: dict[str, Value] = orjson.loads(row.content)
    shape = shape_of(content)
    last = shape.read(content)
    if last.printed is not None:
        case = replace(
            last.printed.case,
            request_id=row.request_id,
            app=row.app,
            source=source,
            probability=probability,
            answered_at=last.printed.case.answered_at or received_at,
        )
        return TraceReading((_printed(last.printed, case),))
    traced = last.traced
    whole = read_trace(replace(traced.trace, app=row.app, source=source)) if traced is not None else None
    arrival = _Arrival(row, content, shape.name, source, probability, received_at)
    if whole is not None and len(whole.readings) > 1 and last.states_nothing:
        found = [_reading(arrival, last, one, f"/{one.case.request_id.rpartition('/')[2]}") for one in whole.readings]
        return TraceReading(tuple(found), whole.left_out)
    said = [*last.earlier, last][-MAX_REQUESTS:] if turns == "all" else [last]
    if len(said) == 1:
        return TraceReading((_reading(arrival, last, whole.last if whole is not None else None),))
    found = [_reading(arrival, one, None, f"/{one.turn}") for one in said]
    return TraceReading(tuple(found), last.turn - len(said))


class _Arrival(NamedTuple):
    """A row with the facts of its arrival."""

    row: Row
    content: dict[str, Value]
    shape: str
    source: str
    probability: float
    received_at: float


def _reading(arrival: _Arrival, said: Said, whole: Reading | None, within: str = "") -> Reading:
    """Turn one request of a row into a case; `within` is appended to the row's id if the row has several."""
    row, content, traced = arrival.row, arrival.content, said.traced
    base = whole.case if whole is not None else Case(request_id=row.request_id)
    if said.documents is not None:
        shown = tuple(
            document for document in said.documents if document.content or document.doc_id or document.doc_uri
        )
        base = replace(
            base,
            retrieved_context=shown,
            context_source="row" if shown else "none",
            context_status=context_status(said.documents),
        )
    session = fields.label(content.get("session_id")) or base.session_id or (traced.session_id if traced else "")
    case = replace(
        base,
        request_id=row.request_id + within,
        app=row.app,
        source=arrival.source,
        probability=arrival.probability,
        request=said.request or base.request,
        response=said.response or base.response,
        model=fields.label(content.get("model")) or base.model,
        usage=said.usage if said.usage != Usage() else base.usage,
        prompt=said.prompt or base.prompt,
        session_id=session or (row.request_id if within else ""),
        user_id=fields.label(content.get("user_id")) or base.user_id or (traced.user_id if traced else ""),
        convention=base.convention or arrival.shape,
        attributes=_attributes(content, {**base.attributes, **(traced.facts if traced else {})}),
        expected_response=said.expected_response,
        expected_retrieved_context=said.expected_documents,
        answered_at=_timestamp(content.get("timestamp")) or base.answered_at or arrival.received_at,
    )
    status, error = _status(said, whole, case)
    return Reading(status, case, error, whole.joined if whole is not None else ())


def _printed(printed: PrintedCase, case: Case) -> Reading:
    if printed.status is not None and printed.status is not ReadingStatus.READY:
        return Reading(printed.status, case, printed.error)
    lacking = _lacking(case)
    return Reading(ReadingStatus.CONTENT_MISSING if lacking else ReadingStatus.READY, case, lacking or printed.error)


def _status(said: Said, whole: Reading | None, case: Case) -> tuple[ReadingStatus, str]:
    if whole is not None and said.request is None and said.response is None and said.documents is None:
        return whole.status, whole.error
    lacking = _lacking(case)
    if whole is not None and (lacking or said.documents is None) and not _leaves_open(whole):
        return whole.status, whole.error
    if lacking:
        return ReadingStatus.CONTENT_MISSING, lacking
    return ReadingStatus.READY, _unrecorded(said, whole) if case.context_status is ContextStatus.NOT_RECORDED else ""


def _lacking(case: Case) -> str:
    """Return, in words, which required texts a row does not have; empty if it has them."""
    missing = [name for name, text in (("question", case.request.query), ("answer", case.response)) if not text]
    return f"the row has no {' and no '.join(missing)}" if missing else ""


def _unrecorded(said: Said, whole: Reading | None) -> str:
    """Return why the context is unknown although question and answer are known."""
    given = said.documents or ()
    lost = sum(not document.content for document in given)
    if lost:
        return f"the texts of {lost} of {len(given)} retrieved documents are missing"
    return whole.error if whole is not None else ""


def _leaves_open(whole: Reading) -> bool:
    """Return whether the row may override its trace's status: a trace may lack a retrieval that the row reports."""
    return whole.status in (ReadingStatus.READY, ReadingStatus.NO_REQUEST)


def shape_of(row: Fields) -> Shape:
    """Return the shape of a row. Raises `InvalidData` with its fields and the fields that identify each shape."""
    best = max(SHAPES, key=lambda shape: (shape.score(row), shape.asks(row)))  # on a tie, the first
    if best.score(row) >= 0:
        return best
    shown = ", ".join(repr(name[:_NAME_LENGTH]) for name in list(row)[:_NAMES_SHOWN]) or "no fields at all"
    more = f" and {len(row) - _NAMES_SHOWN} more" if len(row) > _NAMES_SHOWN else ""
    meant = [_PLAIN[plain] for name in list(row)[:_NAMES_SHOWN] if (plain := _plain_name(name)) in _PLAIN]
    hint = f" (did you mean {', '.join(map(repr, meant))}?)" if meant and not set(meant) & set(row) else ""
    raise InvalidData(f"the row has {shown}{more}{hint}; expected one of: {'; '.join(map(str, SHAPES))}")


def _plain_name(name: str) -> str:
    """Reduce a name to letters and digits, so that variants match: `Ground Truth` and `ground_truth`."""
    return "".join(char for char in name[:_NAME_LENGTH].casefold() if char.isalnum())


_MARKS: Final = [name for shape in SHAPES for mark in shape.marks for name in mark]
_PLAIN: Final = {_plain_name(name): name for name in reversed(_MARKS)}


def _request_id(row: dict[str, Value], traced: str) -> str:
    stated = (
        values.text(values.first(row, ("request_id", "trace_id"))).strip()
        or traced.strip()
        or values.text(row.get("id")).strip()
    )
    if not stated or len(stated) > _LONGEST_ID:
        hashed = stated.encode("utf-8", "surrogatepass") if stated else orjson.dumps(row, option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(hashed, digest_size=16).hexdigest()
    digits = stated.removeprefix("tr-").lower()  # MLflow's prefix; OTLP carries the same id without it
    return digits if len(digits) == _HEX_LENGTH and _HEX.issuperset(digits) else stated


def _attributes(row: Fields, found: Mapping[str, str]) -> dict[str, str]:
    given = values.unfold(row.get("attributes"))
    own = slices.of_attributes(given) if isinstance(given, Mapping) else {}
    return dict([*own.items(), *(pair for pair in found.items() if pair[0] not in own)][: slices.MAX_SLICES])


def _timestamp(value: Value) -> float:
    """Return seconds since 1970 from a number in any usual unit or an ISO 8601 text (UTC without a zone); else 0."""
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
    return {str: "a text", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
