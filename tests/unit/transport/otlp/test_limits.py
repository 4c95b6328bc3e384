from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData, Overloaded, TooLarge
from monitor.model.span import EncodedGroup, RefusedGroup
from monitor.transport.otlp import limits, wire
from tests.support.otlp import length_delimited, span_request

LIMIT = 1000


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 40))
def test_28_all_members_of_a_gzip_stream_are_inflated(parts: list[bytes], level: int, padding: int) -> None:
    stream = b"".join(gzip.compress(part, level) for part in parts) + bytes(padding)
    assert limits.inflate(stream, LIMIT) == b"".join(parts)


@given(st.binary(min_size=1, max_size=200), st.data())
def test_28_a_gzip_stream_that_is_cut_short_is_invalid(content: bytes, data: st.DataObject) -> None:
    stream = gzip.compress(content)
    whole = gzip.compress(b"first") if data.draw(st.booleans()) else b""
    cut = data.draw(st.integers(0 if not whole else 1, len(stream) - 1))
    with pytest.raises(InvalidData):
        limits.inflate(whole + stream[:cut], LIMIT)


@given(st.binary(max_size=100))
def test_28_bytes_that_are_no_gzip_are_invalid(content: bytes) -> None:
    with pytest.raises(InvalidData):
        limits.inflate(content, LIMIT)


@pytest.mark.parametrize("rest", [b"x", b"\0" * 70_000 + b"x", zlib.compress(b"a"), gzip.compress(b"a")[:-1] + b"x"])
def test_28_a_gzip_stream_followed_by_something_else_is_invalid(rest: bytes) -> None:
    with pytest.raises(InvalidData):
        limits.inflate(gzip.compress(b"content") + rest, 200_000)


def test_25_a_stream_that_inflates_to_the_limit_is_taken_and_to_one_byte_more_is_not() -> None:
    for parts in ([LIMIT], [LIMIT - 1, 1], [0, LIMIT]):
        whole = b"".join(gzip.compress(bytes(part)) for part in parts)
        assert len(limits.inflate(whole, LIMIT)) == LIMIT
        with pytest.raises(TooLarge):
            limits.inflate(whole + gzip.compress(b"1"), LIMIT)
    with pytest.raises(TooLarge):
        limits.inflate(gzip.compress(bytes(LIMIT + 1)), LIMIT)


def test_28_the_size_at_the_end_is_believed_only_where_it_can_be_true() -> None:
    large = gzip.compress(bytes(LIMIT) + random.Random(0).randbytes(80_000))
    ends_with = {size: large[:-4] + size.to_bytes(4, "little") for size in (10, LIMIT + 1, 2**32 - 1)}
    assert limits.inflated_size(ends_with[10], LIMIT) == 10
    assert limits.inflated_size(ends_with[2**32 - 1], LIMIT) == LIMIT  # no such stream has so many
    with pytest.raises(TooLarge):
        limits.inflated_size(ends_with[LIMIT + 1], LIMIT)
    assert limits.inflated_size(b"{" + ends_with[LIMIT + 1], LIMIT) == 0
    # What is small is inflated, and not believed.
    assert limits.inflated_size(gzip.compress(bytes(50 * LIMIT)), LIMIT) == LIMIT
    with pytest.raises(InvalidData):
        limits.inflate(gzip.compress(b"content")[:-4] + (LIMIT + 1).to_bytes(4, "little"), LIMIT)


def test_a_stream_of_countless_members_is_invalid() -> None:
    with pytest.raises(InvalidData, match="more than 1024 members"):
        limits.inflate(gzip.compress(b"") * 20_000, LIMIT)


def test_a_request_is_cut_as_by_the_wire_format() -> None:
    body = span_request(3).SerializeToString()
    assert limits.cut(body, 3) == wire.split(body)
    with pytest.raises(TooLarge, match="more than 2 spans"):
        limits.cut(body, 2)


@pytest.mark.parametrize(
    "bomb",
    [
        length_delimited(1, length_delimited(2, b"\x12\x00" * 1_000_000)),
        length_delimited(1, b"\x12\x00" * 1_000_000),
        b"\x0a\x00" * 1_000_000,
        b"\x08\x00" * 1_000_000,
        length_delimited(1, length_delimited(2, b"\x98\x80\x00\x00" * 300_000)),
    ],
    ids=["spans", "scopes", "resources", "unknown fields", "unknown fields with long tags"],
)
def test_a_bomb_of_spans_or_envelopes_is_too_large(bomb: bytes) -> None:
    with pytest.raises(TooLarge):
        limits.cut(bomb, 10_000)


@pytest.mark.parametrize("envelope", [b"\x0a\x00", b"\x8a\x00\x00", b"\x12\x00", b"\x92\x00\x00"])
@pytest.mark.parametrize("number", [11_000, 80_000])
def test_empty_resources_and_scopes_are_counted_like_spans_in_a_body_of_any_size(envelope: bytes, number: int) -> None:
    body = envelope * number if envelope[0] & 0x7F == 0x0A else length_delimited(1, envelope * number)
    with pytest.raises(TooLarge, match=r"more than 10000 (resources|scopes)"):
        limits.cut(body, 10_000)
    assert sum(len(group.items) for group in limits.cut(body, number)) == 0


def test_large_requests_with_fixed_width_and_unknown_fields_are_counted_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "_SPLITTABLE", 0)
    odd = b"\x99\x06" + bytes(8) + b"\x9d\x06" + bytes(4) + b"\x98\x06\xff\x01" + length_delimited(15, b"odd")
    body = odd + length_delimited(1, odd + length_delimited(2, odd + length_delimited(2, b"span") * 3 + odd)) + odd
    (group,) = limits.cut(body, 3)
    assert group.items == [b"span"] * 3
    with pytest.raises(TooLarge):
        limits.cut(body, 2)


@given(st.binary(max_size=80), st.booleans())
def test_counting_never_passes_what_has_more_items(noise: bytes, nested: bool) -> None:
    """Whatever the bytes: a count that passes is that of the cut, and what is not countable is not cut either."""
    body = length_delimited(1, length_delimited(2, noise)) if nested else noise
    try:
        groups = wire.split(body)
    except InvalidData:
        return
    resources = len(wire._Request.FromString(body).groups)
    held = max(sum(len(group.items) for group in groups), len(groups), resources)
    try:
        limits._count(body, held)
    except InvalidData as error:
        # Groups, of which the protocol has none, are the one thing that the wire format reads and counting does not.
        assert "wire type 3" in str(error) or "wire type 4" in str(error)  # noqa: PT017 - not always raised
    if held:
        with pytest.raises(InvalidData):
            limits._count(body, held - 1)


def test_oversized_items_are_left_out_and_counted() -> None:
    small, large = b"s" * 10, b"l" * 11
    groups = [EncodedGroup(b"r", b"c", [small, large]), EncodedGroup(b"r", b"d", [large])]
    kept, left_out = limits.without_oversized(groups, 10, 1)
    assert [group.items for group in kept] == [[small]]
    assert left_out == [
        RefusedGroup(b"r", b"c", [large], "larger than max_span_bytes"),
        RefusedGroup(b"r", b"d", [large], "larger than max_span_bytes"),
    ]
    assert limits.without_oversized(groups, 11, 1) == (groups, ())
    assert limits.without_oversized([], 10, 1) == ([], ())


def test_a_span_of_a_million_attributes_is_left_out_and_a_long_text_is_not() -> None:
    many = length_delimited(9, b"") * 1_000_000
    long = length_delimited(9, length_delimited(2, length_delimited(1, b"x" * 1_000_000)))
    groups = [EncodedGroup(b"", b"", [many, long, b"\xff" * 20_000])]
    kept, left_out = limits.without_oversized(groups, 4_000_000, 1)
    # What cannot be decoded is for intake to reject.
    assert [len(item) for item in kept[0].items] == [len(long), 20_000]
    assert left_out == [RefusedGroup(b"", b"", [many], "with more than 10000 attributes, events and links")]


def test_the_items_of_an_oversized_resource_or_scope_are_left_out_and_counted() -> None:
    many = length_delimited(1, b"") * 20_000
    groups = [
        EncodedGroup(b"r" * 101, b"", [b"a", b"b"]),
        EncodedGroup(b"", b"s" * 101, [b"c"]),
        EncodedGroup(b"r" * 100, b"s" * 100, [b"d"]),
    ]
    kept, left_out = limits.without_oversized(groups, 10, 100)
    assert [group.items for group in kept] == [[b"d"]]
    assert [group[:3] for group in left_out] == [(b"", b"", [b"a", b"b"]), (b"", b"", [b"c"])]
    assert {group.why for group in left_out} == {limits.LARGE_RESOURCE}
    crowded = [EncodedGroup(many, b"s", [b"a"]), EncodedGroup(b"r", many, [b"b"]), EncodedGroup(many, b"s", [])]
    left_out = limits.without_oversized(crowded, 10, 1_000_000)[1]
    assert [group[:3] for group in left_out] == [(b"", b"s", [b"a"]), (b"r", b"", [b"b"])]
    long = length_delimited(1, length_delimited(2, length_delimited(1, b"x" * 900_000)))
    assert not limits.without_oversized([EncodedGroup(long, long, [b"a"])], 10, 1_000_000)[1]


@pytest.mark.parametrize("attribute", [b"\x4a\x00", b"\xca\x00\x00"])
def test_a_request_with_too_many_attributes_over_all_its_spans_is_refused(attribute: bytes) -> None:
    spans = [attribute * 5_000] * 100
    with pytest.raises(TooLarge, match="more than 300000 attributes, events and links"):
        limits.without_oversized([EncodedGroup(b"", b"", spans)], 100_000, 10)
    assert limits.without_oversized([EncodedGroup(b"", b"", spans[:50])], 100_000, 10)[1] == ()
    usual = length_delimited(1, bytes(16)) + length_delimited(2, bytes(8)) + length_delimited(5, b"x") + attribute * 29
    assert limits.without_oversized([EncodedGroup(b"", b"", [usual] * 10_000)], 100_000, 10)[1] == ()
    text = length_delimited(9, length_delimited(2, length_delimited(1, b"J" * 15_000)))
    assert limits.without_oversized([EncodedGroup(b"", b"", [text] * 100)], 100_000, 10)[1] == ()


def test_a_resource_of_nine_million_attributes_is_refused_without_a_walk_through_them() -> None:
    """It is longer than any resource may be: its attributes are never looked at."""
    huge = memoryview(bytes(19_000_000))
    left_out = limits.without_oversized([EncodedGroup(bytes(huge), b"", [b"a"])], 10, 1_000_000)[1]
    assert [group[:3] for group in left_out] == [(b"", b"", [b"a"])]


def test_requests_in_work_are_bounded_in_bytes_and_number_and_give_back_what_they_held() -> None:
    in_flight = limits.InFlightRequests(max_requests=2, max_bytes=10)
    with in_flight.lease() as first, in_flight.lease() as second, in_flight.lease() as third:
        first.start()
        first.hold(6)
        first.hold(4)
        second.start()
        second.hold(6)
        assert (in_flight.requests, in_flight.bytes) == (2, 10)
        with pytest.raises(Overloaded):
            third.hold(1)
        with pytest.raises(Overloaded):
            third.start()
        with pytest.raises(Overloaded):
            first.hold(5)
        first.hold(3)
        third.hold(1)
    assert (in_flight.requests, in_flight.bytes) == (0, 0)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.integers(1, 5))
def test_members_of_any_sizes_in_any_order_are_inflated_whole(members: list[bytes], times: int) -> None:
    contents = [member * times for member in members]
    body = b"".join(gzip.compress(content) for content in contents)
    assert limits.inflate(body, 1 << 20) == b"".join(contents)


@given(st.binary(min_size=1, max_size=3000), st.integers(0, 2999))
def test_not_a_byte_more_than_the_limit_is_let_in(content: bytes, limit: int) -> None:
    if len(content) <= limit:
        assert limits.inflate(gzip.compress(content), limit) == content
    else:
        with pytest.raises(TooLarge):
            limits.inflate(gzip.compress(content), limit)
