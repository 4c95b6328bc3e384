"""Convert OTLP in its JSON encoding to the bytes of the binary encoding.

The mapping is protobuf's JSON mapping with the exceptions of the OpenTelemetry protocol (section "JSON Protobuf
Encoding" of https://opentelemetry.io/docs/specs/otlp/): ids are hex, enums are integers, unknown fields are ignored.
The tables are built from the message descriptors, so a field added to the protocol is read without a change here.

Where the protocol leaves a choice, the snake_case name of a field is read like its lowerCamelCase name (ignoring it
would lose data silently), and the name of an enum value like its number. A span with a malformed id becomes a span
without ids, which intake rejects and counts; its neighbours are kept. Half a character (an escaped lone surrogate, as
JavaScript produces when it cuts a text within an emoji) is replaced by U+FFFD.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.errors import InvalidData, TooLarge, surrogates
from monitor.model.span import Signal
from monitor.transport.otlp.limits import MAX_MEMBERS
from monitor.transport.otlp.wire import beginning

MAX_VALUES = 500_000
"""Maximum JSON values in one body. Python needs about 100 bytes for each: this bounds the memory used by parsing, and
the time for which the parser holds up all other threads."""

_MAX_DEPTH = 90  # nested messages; the protobuf parser stops at 100, and requests wrap spans three deep
_REQUESTS: dict[Signal, Any] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
_OUTLINE: dict[Signal, tuple[tuple[str, str], ...]] = {
    "traces": (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans", "spans")),
    "logs": (("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records")),
}
_UNUSUAL = frozenset({"trace_id", "trace_state", "traceState"})  # keys that keep a span from being thinned out
_OUTLINES: Any = object()  # a key that no JSON object can have: its value is encoded fields of the message
_TRACE_ID = ("traceId", "trace_id")
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
# An unterminated string is one match, too: otherwise each of its escaped quotes would be tried as a start.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)', re.DOTALL)
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
_PIECE = 64 * 1024
_BACKSLASH = ord("\\")

_Converter: TypeAlias = Callable[[Any], Any]

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
_INT32, _UINT32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)
_INT64, _UINT64 = (-(2**63), 2**63 - 1), (0, 2**64 - 1)
_RANGES = {
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
}
Setter: TypeAlias = Callable[[Any, Any, int], None]


class _Misfit(Exception):  # noqa: N818 - never leaves the JSON mapping
    """A value that does not fit its field; its path is added, innermost first, while the exception propagates."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []


class _MalformedId(Exception):  # noqa: N818 - never leaves this module
    """An id of a span that is not hex or does not have the right length: the span is void."""


def to_protobuf(
    signal: Signal, body: bytes, max_items: int | None = None, drops: Callable[[bytes], bool] | None = None
) -> bytes:
    """Convert `body`, an OTLP/JSON export request, to a serialised export request.

    A span without tracestate is reduced to its trace id if `drops` says that its trace is dropped.

    Raises `InvalidData`, with the place, for a body that is not JSON, is ambiguous (a key twice, both arms of a oneof)
    or has a value that does not fit its field; `TooLarge` for more than `max_items` spans, log records or groups of
    them, or for more than `MAX_VALUES` values.
    """
    data = _parse(body)
    if max_items is not None and _longest_level(signal, data) > max_items:
        raise TooLarge(f"the request has more than {max_items} spans or log records")
    if drops is not None:
        _thin_out(data, drops)
    request = _REQUESTS[signal]()
    try:
        _fill(request, data, _table(request.DESCRIPTOR), 0)
        encoded: bytes = request.SerializeToString()
    except _Misfit as misfit:
        place = "".join(reversed(misfit.path)).lstrip(".") or "the body"
        raise InvalidData(f"{place}: {misfit}") from None
    except (EncodeError, RecursionError):
        raise InvalidData("the body is nested too deeply") from None
    return encoded


def _parse(body: bytes) -> Any:
    check_values(body)
    try:
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError:
            body = surrogates.without_lone(body)
            data = orjson.loads(body)
        again = orjson.dumps(data)
        # A duplicate key is missing from the parsed data, with its colon. Most exporters write exactly the bytes that
        # orjson writes. For others, counting colons is as good as a strict parser at a tenth of the cost, except for
        # colons written as escapes: those need the strict parser.
        if again != body and (body.count(b":") != again.count(b":") or _ESCAPED_COLON.search(body)):
            json.loads(body, object_pairs_hook=_without_duplicates)
    except orjson.JSONDecodeError as error:
        raise InvalidData(f"the body is not JSON: {error}") from None
    except (ValueError, orjson.JSONEncodeError, RecursionError) as error:
        raise InvalidData(f"the body cannot be read: {error}") from None
    return data


def check_values(body: bytes) -> None:
    """Raise `TooLarge` for a body with more than `MAX_VALUES` JSON values, before a parser creates objects for them."""
    if _more_values_than(MAX_VALUES, body):
        raise TooLarge(f"the body has more than {MAX_VALUES} JSON values")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:64]!r} occurs twice in one object")


def _more_values_than(limit: int, body: bytes) -> bool:
    """Return whether `body` contains more than `limit` values, without creating objects for them."""

    def marks(text: bytes) -> int:
        return text.count(b",") + text.count(b"{") + text.count(b"[")

    if len(body) <= limit or marks(body) <= limit:
        return False
    found, within_string, start = 0, False, 0
    while start < len(body):  # in pieces: one call for all of it would hold up the other threads
        end = min(start + _PIECE, len(body))
        if body[end - 1] == _BACKSLASH:  # do not split an escape: continue to the byte after the last backslash
            end = min(len(body) - len(body[end:].lstrip(b"\\")) + 1, len(body))
        text = b'"' + body[start:end] if within_string else body[start:end]
        outside, strings = _STRING.subn(rb"\1", text)
        found += marks(outside)
        if found > limit:
            return True
        within_string = strings > outside.count(b'"')  # the last string does not end in this piece
        start = end
    return False


def _longest_level(signal: Signal, data: Any) -> int:
    """Return the largest of the numbers of resources, scopes and items in the request."""
    return max(sum(map(len, lists)) for lists in _lists(signal, data))


def _lists(signal: Signal, data: Any) -> list[list[list[Any]]]:
    """Return the lists of resources, of scopes and of items in the request; values that are not lists are skipped."""
    found: list[list[list[Any]]] = []
    level = [data]
    for camel, snake in _OUTLINE[signal]:
        lists = [one.get(camel) or one.get(snake) for one in level if isinstance(one, dict)]
        found.append([one for one in lists if isinstance(one, list)])
        level = [item for one in found[-1] for item in one]
    return found


def _thin_out(data: Any, drops: Callable[[bytes], bool]) -> None:
    """Replace dropped spans by the bytes that head sampling reads. Unusual spans are left unchanged."""
    for scoped in (one for scopes in _lists("traces", data)[1] for one in scopes if isinstance(one, dict)):
        spans = scoped.get("spans")
        if not isinstance(spans, list):
            continue
        left: list[Any] = []
        outlines: list[bytes] = []
        last, outline = None, b""
        for span in spans:
            if type(span) is dict and not _UNUSUAL.isdisjoint(span):
                left.append(span)
                continue
            hex_id = span.get("traceId") if type(span) is dict else None
            if hex_id is None or hex_id != last:
                last, outline = hex_id, _outline(hex_id, drops)
            if outline:
                outlines.append(outline)
            else:
                left.append(span)
        if outlines:
            scoped["spans"] = left
            scoped[_OUTLINES] = b"".join(outlines)


def _outline(hex_id: Any, drops: Callable[[bytes], bool]) -> bytes:
    """Return the encoded field `spans` with a span that has only ids; empty if the trace is not dropped."""
    try:
        trace_id = bytes.fromhex(hex_id)
    except (TypeError, ValueError):
        return b""
    if len(hex_id) != 2 * len(trace_id) or len(trace_id) != _ID_BYTES["trace_id"] or not any(trace_id):
        return b""
    return b"\x12\x1c" + beginning(trace_id) + bytes(8) if drops(trace_id) else b""


def _fill(message: Message, data: Any, table: _Table, depth: int) -> None:
    if type(data) is not dict:
        raise _Misfit(f"expected an object, got {_shown(data)}")
    if depth > _MAX_DEPTH:
        raise _Misfit(f"nested more than {_MAX_DEPTH} messages deep")
    for key, value in data.items():
        setter = table.setters.get(key)
        if setter is None:
            camel = table.snake.get(key)
            if camel is None:
                continue
            if camel in data:
                raise _Misfit(f"both {camel} and {key} are given")
            setter = table.setters[camel]
        if value is None:
            continue
        try:
            setter(message, value, depth)
        except _Misfit as misfit:
            misfit.path.append(f".{key}")
            raise


class _Table:
    """The mapping of the members of a JSON object to one message type."""

    def __init__(self) -> None:
        self.setters: dict[str, Setter] = {}
        self.snake: dict[str, str] = {}

    def build(self, descriptor: Descriptor) -> None:
        self.setters[_OUTLINES] = _merge
        for field in descriptor.fields:
            self.setters[field.json_name] = _setter(field)
            if field.name != field.json_name:
                self.snake[field.name] = field.json_name


_tables: dict[str, _Table] = {}


def _table(descriptor: Descriptor) -> _Table:
    known = _tables.get(descriptor.full_name)
    if known is None:
        # Entered before it is built, because a value may contain values of its own type.
        known = _tables[descriptor.full_name] = _Table()
        known.build(descriptor)
    return known


def _setter(field: FieldDescriptor) -> Setter:
    if field.message_type is not None:
        table = _table(field.message_type)
        inner = _message_list(field.name, table) if field.is_repeated else _message(field.name, table)
    elif field.is_repeated:
        inner = _scalar_list(field)
    else:
        inner = _id(field) if field.name in _ID_BYTES else _scalar(field)
    oneof = field.containing_oneof
    if oneof is None:
        return inner
    group = oneof.name

    def one_arm(message: Any, value: Any, depth: int) -> None:
        if message.WhichOneof(group) is not None:
            raise _Misfit(f"{message.WhichOneof(group)} is also given, but only one of them is allowed")
        inner(message, value, depth)

    return one_arm


def _merge(message: Any, encoded: bytes, _depth: int) -> None:
    message.MergeFromString(encoded)


def _message(name: str, table: _Table) -> Setter:
    def set_message(message: Any, value: Any, depth: int) -> None:
        child = getattr(message, name)
        child.SetInParent()
        _fill(child, value, table, depth + 1)

    return set_message


def _message_list(name: str, table: _Table) -> Setter:
    limited, pairs = name in ("attributes", "events", "links"), name == "attributes"

    def set_messages(message: Any, value: Any, depth: int) -> None:
        add = getattr(message, name).add
        if limited and len(_list(value)) > MAX_MEMBERS:
            raise _Misfit(f"{len(value)} is too many; the maximum is {MAX_MEMBERS}")
        for index, item in enumerate(_list(value)):
            child = add()
            if pairs and (pair := _text_pair(item)) is not None:
                child.key, child.value.string_value = pair
                continue
            try:
                _fill(child, item, table, depth + 1)
            except _MalformedId:
                child.Clear()
                with suppress(_MalformedId):  # keep the trace id, if it is valid: that trace is incomplete
                    _fill(child, {key: item[key] for key in _TRACE_ID if key in item}, table, depth + 1)
            except _Misfit as misfit:
                misfit.path.append(f"[{index}]")
                raise

    return set_messages


def _text_pair(item: Any) -> tuple[str, str] | None:
    """Return key and value of a text attribute, which most are; None for any other, which takes the slow path."""
    if type(item) is not dict or len(item) != 2 or type(value := item.get("value")) is not dict or len(value) != 1:  # noqa: PLR2004
        return None
    key, text = item.get("key"), value.get("stringValue")
    return (key, text) if type(key) is str and type(text) is str else None


def _scalar(field: FieldDescriptor) -> Setter:
    name, convert = field.name, _converter(field)

    def set_scalar(message: Any, value: Any, _depth: int) -> None:
        setattr(message, name, convert(value))

    return set_scalar


def _scalar_list(field: FieldDescriptor) -> Setter:
    name, convert = field.name, _converter(field)

    def set_scalars(message: Any, value: Any, _depth: int) -> None:
        getattr(message, name).extend([convert(item) for item in _list(value)])

    return set_scalars


def _id(field: FieldDescriptor) -> Setter:
    name, length = field.name, _ID_BYTES[field.name]
    voids_the_whole = field.full_name.rpartition(".")[0] == "opentelemetry.proto.trace.v1.Span"

    def set_id(message: Any, value: Any, _depth: int) -> None:
        if value == "":
            return
        try:
            decoded = bytes.fromhex(value)
        except (ValueError, TypeError):
            decoded = b""
        # fromhex skips white space, so the text's length must be checked too.
        if len(decoded) == length and len(value) == 2 * length:
            setattr(message, name, decoded)
        elif voids_the_whole:
            raise _MalformedId

    return set_id


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _Misfit(f"expected a list, got {_shown(value)}")
    return value


def _converter(field: FieldDescriptor) -> _Converter:
    """Return the function from a JSON value to a value of `field`, a scalar. It raises `_Misfit`."""
    if field.enum_type is not None:
        names = {value.name: value.number for value in field.enum_type.values}
        return functools.partial(_to_enum, names)
    if field.type in _RANGES:
        lowest, highest = _RANGES[field.type]
        return functools.partial(_to_integer, lowest, highest)
    return {
        FieldDescriptor.TYPE_STRING: _to_string,
        FieldDescriptor.TYPE_BOOL: _to_bool,
        FieldDescriptor.TYPE_BYTES: _to_bytes,
        FieldDescriptor.TYPE_DOUBLE: _to_double,
        FieldDescriptor.TYPE_FLOAT: _to_double,
    }[field.type]


def _to_string(value: Any) -> str:
    if type(value) is not str:
        raise _Misfit(f"expected a text, got {_shown(value)}")
    return value


def _to_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise _Misfit(f"expected true or false, got {_shown(value)}")
    return value


def _to_integer(lowest: int, highest: int, value: Any) -> int:
    number = value
    if (type(value) is str and _INTEGER.fullmatch(value)) or (type(value) is float and value.is_integer()):
        number = int(value)
    if type(number) is not int or not lowest <= number <= highest:
        raise _Misfit(f"expected an integer from {lowest} to {highest}, got {_shown(value)}")
    return number


def _to_enum(names: dict[str, int], value: Any) -> int:
    return names[value] if type(value) is str and value in names else _to_integer(*_INT32, value)


def _to_double(value: Any) -> float:
    if type(value) in (float, int):
        return float(value)
    if type(value) is str and (value in _NOT_FINITE or _NUMBER.fullmatch(value)):
        return float(value)
    raise _Misfit(f'expected a number (or "NaN", "Infinity", "-Infinity"), got {_shown(value)}')


def _to_bytes(value: Any) -> bytes:
    if type(value) is str:
        standard = value.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _Misfit(f"expected bytes in base64, got {_shown(value)}")


def _shown(value: Any) -> str:
    """Describe a value without its text: texts may be prompts."""
    if isinstance(value, (dict, list, str)):
        return {dict: "an object", list: "a list", str: "a text"}[type(value)]
    return "null" if value is None else json.dumps(value)
