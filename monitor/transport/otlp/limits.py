"""Bound the bytes, spans and requests of senders before anything is decoded.

A few kilobytes of gzip can hold two million empty spans, each of which takes about a hundred bytes once decoded. So a
request passes three cheap checks in order: bytes after inflating, spans in the outline, and bytes and fields in each
span, resource and scope.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from isal import igzip_lib, isal_zlib

from monitor.errors import InvalidData, Overloaded, TooLarge
from monitor.model.span import EncodedGroup, RefusedGroup
from monitor.transport.otlp import wire

MAX_MEMBERS = 10_000
"""Maximum attributes, events and links of one span together, and maximum attributes of a log record, resource or scope.
SDKs stop at 128 each."""

MAX_REQUEST_MEMBERS = 300_000
"""Maximum attributes, events and links of all spans of one request: ten thousand spans with thirty each."""

LARGE = "larger than max_span_bytes"
LARGE_RESOURCE = f"of a resource or scope larger than max_resource_bytes, or with more than {MAX_MEMBERS} attributes"
MANY_MEMBERS = f"with more than {MAX_MEMBERS} attributes, events and links"

_MAX_GZIP_MEMBERS = 1024
_GZIP, _ZLIB = 31, 15  # wbits of zlib: headers and trailers of gzip or its own, the largest window
_MAGIC = b"\x1f\x8b\x08"  # how a gzip stream begins
_MOST_FROM_A_BYTE = 1032  # deflate makes at most 258 bytes of two bits
_CHEAP = 65_536  # a gzip stream of up to this many bytes is inflated up to the limit, whatever size its trailer claims
_PIECE = 65_536
_SMALL_ITEM = 16_384  # an item this small cannot take more than half a megabyte when decoded
_SPLITTABLE = 256 * 1024  # parsing this few bytes takes at most 10 MB and some milliseconds, even if they are hostile
_SMALLEST = 2  # bytes of a resource, scope, span or log record in a body, even if it is empty
_ENVELOPES = 6  # fields around each span, if every span has its own resource and scope
_VARINT, _LENGTH_DELIMITED = 0, 2
_FIXED_LENGTHS = {1: 8, 5: 4}


def inflated_size(body: bytes, limit: int) -> int:
    """Return how many bytes to expect from a gzip stream, up to `limit`; the real number may be different.

    A stream ends with the size of its last member. It is trusted only up to the most that `body` can inflate to, since
    the end of a damaged or truncated stream can claim any size. Raises `TooLarge` for a plausible size beyond the
    limit, except for a small body: inflating that one shows whether it is too large or damaged.
    """
    if not body.startswith(_MAGIC):
        return 0
    said, most = int.from_bytes(body[-4:], "little"), len(body) * _MOST_FROM_A_BYTE
    if limit < said <= most and len(body) > _CHEAP:
        raise _too_many_bytes(limit)
    return min(said, most, limit)


def inflate(body: bytes, limit: int) -> bytes:
    """Decompress a gzip stream of one or more members, or a zlib stream, to at most `limit` bytes.

    Raises `TooLarge` if there is more, without inflating more than `limit` bytes; `InvalidData` if the stream is
    damaged, truncated or followed by other data.
    """
    try:
        stream = isal_zlib.decompressobj(_ZLIB if body.startswith(b"\x78") else _GZIP)
        # Allocating the expected size avoids growing step by step.
        content = stream.decompress(body, inflated_size(body, limit) + 1)
        if not stream.eof and len(content) <= limit:
            content += stream.decompress(stream.unconsumed_tail, limit + 1 - len(content))
        if len(content) > limit:
            raise _too_many_bytes(limit)
        if stream.eof and not stream.unused_data:
            return content
        if stream.eof:
            return _inflate_members(content, memoryview(body)[len(body) - len(stream.unused_data) :], limit)
    except igzip_lib.IsalError as error:  # type: ignore[misc] # its stub gives the instance for the class
        raise InvalidData(f"the gzip stream is damaged: {error}") from None
    raise InvalidData("the gzip stream is truncated")


def _inflate_members(first: bytes, rest: memoryview, limit: int) -> bytes:
    """Inflate the members after the first in pieces, because zlib copies the rest of its input for each member."""
    content = bytearray(first)
    for _ in range(_MAX_GZIP_MEMBERS):
        if (not rest or rest[0] == 0) and bytes(rest).count(0) == len(rest):
            return bytes(content)  # padding with zeros is allowed
        stream = isal_zlib.decompressobj(_GZIP)
        while not stream.eof:
            if not rest:
                raise InvalidData("the gzip stream is truncated")
            piece = rest[:_PIECE]
            content += stream.decompress(piece, limit + 1 - len(content))
            if len(content) > limit:
                raise _too_many_bytes(limit)
            rest = rest[len(piece) - len(stream.unused_data) :]
    raise InvalidData(f"the gzip stream has more than {_MAX_GZIP_MEMBERS} members")


def _too_many_bytes(limit: int) -> TooLarge:
    return TooLarge(f"the decompressed body exceeds {limit} bytes")


def cut(body: bytes, max_items: int) -> list[EncodedGroup]:
    """Split an untrusted body as `wire.split` does.

    Raises `TooLarge` for more than `max_items` spans or log records, resources, or scopes, even if they are empty;
    `InvalidData` for a body that is not a request.
    """
    if len(body) > _SPLITTABLE:
        _count(body, max_items)
    request = wire.parse(body)
    if len(body) > _SMALLEST * max_items:
        # The parsed outline knows their number before Python creates an object for each.
        if len(request.groups) > max_items:
            raise _too_many(max_items, "resources")
        if sum(len(group.scoped) for group in request.groups) > max_items:
            raise _too_many(max_items, "scopes")
        if sum(len(scoped.items) for group in request.groups for scoped in group.scoped) > max_items:
            raise _too_many(max_items)
    return wire.groups_of(request)


def without_oversized(
    groups: Sequence[EncodedGroup], max_bytes: int, max_resource_bytes: int
) -> tuple[Sequence[EncodedGroup], Sequence[RefusedGroup]]:
    """Remove items of more than `max_bytes` bytes or `MAX_MEMBERS` members; return the groups and the removed items.

    All items of a resource or scope with more than `max_resource_bytes` bytes or `MAX_MEMBERS` members are removed. A
    group with no items left is not returned: nobody may decode a resource that is too large.

    Raises `TooLarge` if the remaining items have more than `MAX_REQUEST_MEMBERS` members in total.
    """
    smallest_limit = min(max_bytes, _SMALL_ITEM), min(max_resource_bytes, _SMALL_ITEM)
    if all(_is_small(group, *smallest_limit) for group in groups):
        _check_members(groups)
        return groups, ()
    kept: list[EncodedGroup] = []
    refused: list[RefusedGroup] = []
    resource, resource_fits = b"", True
    for group in groups:
        if group.resource is not resource:  # scopes of the same resource are adjacent
            resource, resource_fits = group.resource, _fits(group.resource, max_resource_bytes)
        scope_fits = _fits(group.scope, max_resource_bytes)
        if not resource_fits or not scope_fits:
            known = resource if resource_fits else b"", group.scope if scope_fits else b""
            refused.append(RefusedGroup(*known, group.items, LARGE_RESOURCE))
            continue
        fitting: list[bytes] = []
        for item in group.items:
            if _fits(item, max_bytes):
                fitting.append(item)
            else:
                why = LARGE if len(item) > max_bytes else MANY_MEMBERS
                refused.append(RefusedGroup(resource, group.scope, [item], why))
        if fitting:
            kept.append(group._replace(items=fitting))
    _check_members(kept)
    return kept, [group for group in refused if group.items]


def _check_members(groups: Sequence[EncodedGroup]) -> None:
    """Raise `TooLarge` for too many members. They are counted only if the bytes suffice for that many."""
    if sum(sum(map(len, group.items)) for group in groups) <= 2 * MAX_REQUEST_MEMBERS:
        return
    items = [item for group in groups for item in group.items]
    if sum(item.count(tag) for item in items for tag in _MEMBER_TAGS) <= MAX_REQUEST_MEMBERS:
        return
    budget = _Budget(MAX_REQUEST_MEMBERS + _OTHER_FIELDS * len(items))
    for item in items:
        try:
            for _ in _fields(item, 0, len(item), 0, budget):
                pass
        except TooLarge:
            message = f"the request has more than {MAX_REQUEST_MEMBERS} attributes, events and links"
            raise TooLarge(message) from None
        except InvalidData:
            continue  # undecodable: intake rejects and counts it


_OTHER_FIELDS = 16  # fields of a span besides attributes, events and links, each of which occurs once
_MEMBER_TAGS = [bytes([number << 3 | 2 | more]) for number in (6, 9, 11, 13) for more in (0, 0x80)]
"""The first byte of an attribute (of a log record, of a span), event and link; a tag may be padded to more bytes."""


def _is_small(group: EncodedGroup, item_bytes: int, resource_bytes: int) -> bool:
    """Return whether all items, the resource and the scope of a group are within these sizes."""
    resource, scope, items = group
    return (
        max(map(len, items), default=0) <= item_bytes
        and len(resource) <= resource_bytes
        and len(scope) <= resource_bytes
    )


def _fits(item: bytes, max_bytes: int) -> bool:
    if len(item) <= _SMALL_ITEM:
        return len(item) <= max_bytes
    if len(item) > max_bytes:
        return False
    try:
        for _ in _fields(item, 0, len(item), 0, _Budget(MAX_MEMBERS)):
            pass
    except TooLarge:
        return False
    except InvalidData:
        pass  # undecodable: intake rejects and counts it
    return True


def _count(body: bytes, max_items: int) -> None:
    """Walk the outline of a request, without allocating memory, until it ends or has too many items of a kind."""
    scopes = items = 0
    budget = _Budget(max_items * (_ENVELOPES + 1) + 100)
    for groups, (group_start, group_end) in enumerate(_fields(body, 0, len(body), 1, budget), 1):
        for scope_start, scope_end in _fields(body, group_start, group_end, 2, budget):
            scopes += 1
            for _ in _fields(body, scope_start, scope_end, 2, budget):
                items += 1
                if items > max_items:
                    raise _too_many(max_items)
            if scopes > max_items:
                raise _too_many(max_items, "scopes")
        if groups > max_items:
            raise _too_many(max_items, "resources")


def _too_many(max_items: int, what: str = "spans or log records") -> TooLarge:
    return TooLarge(f"the request has more than {max_items} {what}")


class _Budget:
    """The number of fields that may still be examined."""

    __slots__ = ("left",)

    def __init__(self, fields: int) -> None:
        self.left = fields


def _fields(data: bytes, at: int, end: int, wanted: int, budget: _Budget) -> Iterator[tuple[int, int]]:
    """Yield the positions in `data` of the contents of a message's length-delimited fields numbered `wanted`."""
    wanted_tag = wanted << 3 | _LENGTH_DELIMITED
    while at < end:
        budget.left -= 1
        if budget.left < 0:
            raise TooLarge("the request has too many fields")
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, at = _varint(data, at)
        elif kind == _VARINT:
            (_, at), length = _varint(data, at), 0
        elif kind in _FIXED_LENGTHS:
            length = _FIXED_LENGTHS[kind]
        else:
            raise InvalidData(f"the body is not an OTLP export request: a field of wire type {kind}")
        start, at = at, at + length
        if tag == wanted_tag and at <= end:
            yield start, at
    if at != end:
        raise InvalidData("the body is not an OTLP export request: a field exceeds its message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
        shift += 7
    raise InvalidData("the body is not an OTLP export request: an unterminated number")


class InFlightRequests:
    """The running requests and the bytes they hold, bounded over all connections of one receiver."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self.requests = 0
        self.bytes = 0

    def lease(self) -> Lease:
        """Open the account of one request; leaving its context closes it."""
        return Lease(self)

    def _check(self, more: int, started: bool) -> None:
        if more > 0 and self.bytes + more > self._max_bytes:
            raise Overloaded(f"requests in progress use {self.bytes} of {self._max_bytes} bytes")
        if not started and self.requests >= self._max_requests:
            raise Overloaded(f"{self.requests} requests are in progress, the maximum")

    def _hold(self, more: int) -> None:
        self._check(more, started=True)
        self.bytes += more

    def _start(self) -> None:
        self._check(0, started=False)
        self.requests += 1


class Lease:
    """The bytes held by one request; `largest` is the largest number it has asked for."""

    __slots__ = ("_bytes", "_in_flight", "_started", "largest")

    def __init__(self, in_flight: InFlightRequests) -> None:
        self._in_flight = in_flight
        self._bytes = 0
        self._started = False
        self.largest = 0

    def expect(self, size: int) -> None:
        """Raise `Overloaded` if there is no room for `size` more bytes or for another request. Reserves nothing."""
        self.largest = max(self.largest, self._bytes + size)
        self._in_flight._check(size, self._started)  # noqa: SLF001 - the two classes belong together

    def hold(self, size: int) -> None:
        """Set the total bytes held by the request to `size`. Raises `Overloaded` if there is no room for them."""
        self.largest = max(self.largest, size)
        self._in_flight._hold(size - self._bytes)  # noqa: SLF001
        self._bytes = size

    def start(self) -> None:
        """Mark the request as complete and running. Raises `Overloaded` if too many are running."""
        self._in_flight._start()  # noqa: SLF001
        self._started = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_flight.bytes -= self._bytes
        self._in_flight.requests -= self._started
