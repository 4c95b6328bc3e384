"""When a trace is closed, with what, and that no ack and no part is ever lost."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monitor.model.ack import Ack
from monitor.model.span import Part
from monitor.model.trace import Closed
from monitor.pipeline.assembly import Added, AssemblySettings, ClosedTrace, PartCounts
from monitor.pipeline.assembly.traces import Assembly
from tests.support.examples import examples

T1, T2 = b"\x01" * 16, b"\x02" * 16


def span(number: int, *, root: bool = False, ended: bool = True, size: int = 100) -> Part:
    span_id = number.to_bytes(8, "big")
    encoded = span_id + bytes([ended]) * size
    return Part(
        "traces", span_id, b"" if root else b"parent..", root, int(ended) * 10**18, encoded, b"resource", b"scope"
    )


def record(text: bytes) -> Part:
    return Part("logs", b"", b"", False, 0, text, b"resource", b"scope")


def made(**options: Any) -> Assembly:
    return Assembly(AssemblySettings(**options))


def add(assembly: Assembly, trace_id: bytes, *parts: Part, now: float = 0.0, **options: Any) -> Added:
    chosen = {
        "app": "shop",
        "source": "otlp_http",
        "probability": 1.0,
        "ack": None,
        "received_at": 1e9 + now,
        **options,
    }
    return assembly.add(trace_id, parts, now=now, **chosen)


def refuse(assembly: Assembly, trace_id: bytes, number: int = 1, *, now: float = 0.0, **options: Any) -> bool:
    chosen = {"app": "shop", "source": "otlp_http", "probability": 1.0, "ack": None, "received_at": 1e9, **options}
    return assembly.refuse(trace_id, {("traces", "large"): number}, now=now, **chosen)


def closed(assembly: Assembly, now: float) -> list[tuple[bytes, Closed]]:
    return [(one.trace_id, one.closed) for one in assembly.due(now)]


# -- when


def test_a_trace_whose_root_ended_is_whole_once_nothing_came_for_the_quiet_time() -> None:
    assembly = made()
    add(assembly, T1, span(2), now=0)
    add(assembly, T1, span(1, root=True), now=3)
    assert assembly.next_due() == 13
    assert closed(assembly, 12.9) == []
    assert closed(assembly, 13) == [(T1, Closed.ROOT_ENDED)]
    assert assembly.next_due() is None


def test_a_trace_without_a_root_is_closed_as_idle() -> None:
    assembly = made()
    add(assembly, T1, span(2), now=0)
    add(assembly, T1, record(b"log"), now=5)
    assert assembly.next_due() == 65
    assert closed(assembly, 65) == [(T1, Closed.IDLE)]


def test_what_was_refused_counts_as_having_come_for_when_a_trace_is_whole() -> None:
    assembly = made()
    assert refuse(assembly, T1, 2, now=0)
    assert assembly.next_due() == 60
    add(assembly, T1, span(1, root=True), now=3)
    assert not refuse(assembly, T1, now=5)
    (whole,) = assembly.due(15)
    assert (len(whole.parts), whole.closed, whole.refused) == (1, Closed.ROOT_ENDED, (("traces", "large", 3),))
    assert not refuse(assembly, T1, now=16)
    assert (assembly.open_traces, assembly.open_bytes) == (0, 0)


def test_a_root_that_has_not_ended_is_waited_for() -> None:
    assembly = made()
    add(assembly, T1, span(1, root=True, ended=False), now=0)
    assert closed(assembly, 30) == []
    add(assembly, T1, span(1, root=True), now=30)
    (trace,) = assembly.due(40)
    assert trace.closed is Closed.ROOT_ENDED
    assert trace.parts == (span(1, root=True),)


def test_of_two_roots_both_must_have_ended() -> None:
    assembly = made()
    add(assembly, T1, span(1, root=True), span(2, root=True, ended=False), now=0)
    assert assembly.next_due() == 60


def test_a_trace_that_never_rests_is_closed_as_too_old() -> None:
    assembly = made()
    for second in range(0, 600, 5):
        add(assembly, T1, span(second + 1, root=second == 0), now=second)
        assert assembly.due(second) == []
    assert closed(assembly, 600) == [(T1, Closed.TOO_OLD)]


def test_shutdown_closes_everything_with_its_reason() -> None:
    assembly = made()
    add(assembly, T1, span(1, root=True))
    add(assembly, T2, span(2))
    assert {(one.trace_id, one.closed) for one in assembly.close_all(Closed.SHUTDOWN, 1.0)} == {
        (T1, Closed.SHUTDOWN),
        (T2, Closed.SHUTDOWN),
    }
    assert assembly.open_traces == assembly.open_bytes == 0


def test_timers_do_not_pile_up() -> None:
    assembly = made()
    for number in range(20_000):
        trace_id = number.to_bytes(16, "big")
        add(assembly, trace_id, span(1), now=number / 10)
        add(assembly, trace_id, span(2, root=True), now=number / 10)
        assembly.due(number / 10)
    assert len(assembly._timers) <= 2 * assembly.open_traces + 1100


# -- what it carries


def test_the_probability_of_a_trace_is_the_lowest_of_its_parts() -> None:
    assembly = made()
    for number, probability in enumerate((0.5, 0.1, 0.3), start=1):
        add(assembly, T1, span(number, root=True), probability=probability)
    assert assembly.due(100)[0].probability == 0.1


def test_app_source_and_time_are_those_of_the_first_part() -> None:
    assembly = made()
    assert add(assembly, T1, span(1), app="front", source="kafka", received_at=50.0).opened
    assert not add(assembly, T1, span(2), app="back", source="otlp_grpc", received_at=60.0).opened
    assert assembly.oldest_received_at == 50.0
    (trace,) = assembly.due(100)
    assert (trace.app, trace.source, trace.received_at) == ("front", "kafka", 50.0)
    assert assembly.oldest_received_at is None


def test_equal_resources_are_held_once() -> None:
    assembly = made()
    for number in range(1, 4):
        add(
            assembly,
            T1,
            span(number)._replace(resource=bytes(bytearray(b"service.name=x")), scope=bytes(bytearray(b"s"))),
        )
    parts = assembly.due(100)[0].parts
    assert len({id(part.resource) for part in parts}) == len({id(part.scope) for part in parts}) == 1


# -- duplicates, late parts


def test_spans_are_duplicates_by_id_and_records_by_content() -> None:
    assembly = made()
    assert add(assembly, T1, span(1), record(b"a"), span(1), record(b"a"), record(b"b")) == Added(
        PartCounts(kept=1, duplicate=1), PartCounts(kept=2, duplicate=1), opened=True
    )


def test_late_parts_are_counted_and_open_nothing() -> None:
    assembly = made()
    add(assembly, T1, span(1, root=True), record(b"a"))
    assembly.due(10)
    assert add(assembly, T1, span(1, root=True), span(2), record(b"a"), record(b"b"), now=11) == Added(
        PartCounts(duplicate=1, late=1), PartCounts(duplicate=1, late=1), opened=False
    )
    assert assembly.open_traces == 0
    assert assembly.due(1000) == []


def test_a_late_span_whose_id_only_looks_like_one_that_was_in_is_late() -> None:
    assembly = made()
    add(assembly, T1, span(0x0102030405060708, root=True), span(0x1112131415161718))
    assembly.due(10)
    assert add(assembly, T1, span(0x0506070811121314), now=11).spans == PartCounts(late=1)


def test_a_trace_depends_on_both_deliveries_of_a_span_that_ended_in_the_second() -> None:
    assembly = made()
    first, second, third = (Ack(lambda: None) for _ in range(3))
    add(assembly, T1, span(1, ended=False), ack=first)
    add(assembly, T1, span(1), ack=second)
    add(assembly, T1, span(1), ack=third)
    assert assembly.due(100)[0].acks[:-1] == (first, second)


def test_a_closed_trace_is_forgotten_after_its_time_and_beyond_the_number() -> None:
    assembly = made(remember_closed=2, remember_for=100)
    for trace_id in (T1, T2, b"\x03" * 16):
        add(assembly, trace_id, span(1, root=True))
    assembly.due(10)
    assert add(assembly, T1, span(2), now=11).opened
    assert not add(assembly, T2, span(2), now=11).opened
    assembly.due(111)
    assert add(assembly, T2, span(2), now=111).opened


# -- bounds


def test_the_largest_trace_is_evicted_first() -> None:
    assembly = made(max_open_bytes=100_000)
    add(assembly, T1, span(1, root=True, size=60_000))
    for number in range(2, 20):
        add(assembly, number.to_bytes(16, "big"), span(1, root=True, size=5_000))
        assert assembly.open_bytes <= 100_000
    assert closed(assembly, 0)[0] == (T1, Closed.EVICTED)
    assert assembly.open_traces >= 10


def test_eviction_is_due_at_once() -> None:
    assembly = made(max_open_bytes=10_000)
    add(assembly, T1, span(1, size=20_000))
    assert assembly.next_due() == float("-inf")
    assert closed(assembly, 0) == [(T1, Closed.EVICTED)]


@pytest.mark.parametrize("limit", [{"max_trace_bytes": 50_000}, {"max_trace_spans": 60}])
def test_a_trace_beyond_its_limit_is_closed_and_what_still_comes_is_dropped(limit: dict[str, int]) -> None:
    assembly = made(**limit)
    parts = [span(number, size=300) for number in range(1, 101)]
    added = add(assembly, T1, *parts)
    assert added.spans.kept + added.spans.too_large == 100
    assert 50 <= added.spans.kept <= 70
    (trace,) = assembly.due(0)
    assert trace.closed is Closed.TOO_LARGE
    assert len(trace.parts) == added.spans.kept
    assert add(assembly, T1, span(1, size=300), span(1000), record(b"late")) == Added(
        PartCounts(duplicate=1, too_large=1), PartCounts(too_large=1), opened=False
    )


def test_a_huge_trace_does_not_touch_the_small_ones() -> None:
    assembly = made(max_open_bytes=1_000_000, max_trace_bytes=500_000)
    small = [number.to_bytes(16, "big") for number in range(1, 101)]
    for trace_id in small:
        add(assembly, trace_id, span(1, root=True))
    for number in range(1000):
        add(assembly, b"\xff" * 16, span(number + 1, size=1_000))
    assert closed(assembly, 0) == [(b"\xff" * 16, Closed.TOO_LARGE)]
    assert closed(assembly, 10) == [(trace_id, Closed.ROOT_ENDED) for trace_id in small]


def test_memory_is_given_back_to_the_byte() -> None:
    assembly = made()
    rng = random.Random(1)
    for number in range(300):
        add(
            assembly,
            bytes([number % 40]) * 16,
            span(rng.randrange(1, 20), root=True, ended=rng.random() < 0.5),
            record(b"%d" % (number % 7)),
        )
    assert assembly.open_bytes > 0
    assembly.close_all(Closed.SHUTDOWN, 0)
    assert assembly.open_bytes == 0


def of(resource: bytes, number: int = 1) -> Part:
    return span(number)._replace(resource=resource)


def test_resources_count_once_for_all_traces_that_hold_them_until_the_last_is_closed() -> None:
    assembly = made()
    large = b"r" * 1_000_000
    add(assembly, T1, of(large))
    first = assembly.open_bytes
    assert first > 1_000_000
    assert assembly.shared(bytes(bytearray(large))) is large
    add(assembly, T2, of(bytes(bytearray(large))), now=5)
    assert assembly.open_bytes < first + 10_000
    (trace,) = assembly.due(60)
    assert trace.trace_id == T1
    assert assembly.open_bytes > 1_000_000
    assembly.due(65)
    assert assembly.open_bytes == 0
    assert assembly.shared(b"r" * 1_000_000) is not large


def test_what_is_only_looked_up_is_not_kept() -> None:
    assembly = made()
    assembly.shared(b"r" * 1_000_000)
    assert assembly.open_bytes == 0


def test_large_resources_of_open_traces_are_bounded_like_their_spans() -> None:
    assembly = made(max_open_bytes=10_000_000)
    for number in range(100):
        add(assembly, number.to_bytes(16, "big"), of(b"%03d" % number + b"r" * 1_000_000))
        assert assembly.open_bytes <= 10_000_000
    assert sum(one.closed is Closed.EVICTED for one in assembly.due(0)) > 90
    assert assembly.open_traces > 5


def test_a_trace_of_many_large_resources_is_too_large() -> None:
    assembly = made(max_trace_bytes=3_000_000)
    add(assembly, T1, *(of(b"%d" % number + b"r" * 1_000_000, number) for number in range(1, 6)))
    assert closed(assembly, 0) == [(T1, Closed.TOO_LARGE)]


def test_large_traces_make_room_before_small_ones_are_touched() -> None:
    assembly = made(max_open_bytes=1_000_000)
    for number in range(1, 401):
        add(assembly, number.to_bytes(16, "big"), span(1, root=True))
    for number in range(10):
        add(assembly, b"\xff" * 15 + bytes([number]), span(1, size=100_000))
    evicted = [trace_id for trace_id, reason in closed(assembly, 0) if reason is Closed.EVICTED]
    assert evicted
    assert all(trace_id.startswith(b"\xff") for trace_id in evicted)


def test_what_is_closed_is_in_hand_until_its_last_ack_is_settled() -> None:
    assembly = made()
    add(assembly, T1, span(1, root=True, size=5_000))
    (trace,) = assembly.due(10)
    assert (assembly.open_bytes, assembly.in_hand_bytes > 5_000) == (0, True)
    for ack in trace.acks:
        ack.settle()
    assert assembly.in_hand_bytes == 0


def test_which_spans_closed_traces_had_is_remembered_within_a_limit() -> None:
    assembly = made(max_closed_bytes=2 * 8 * 100)  # half of it is for the ids of traces
    for number in range(1, 51):
        add(assembly, number.to_bytes(16, "big"), *(span(one, root=one == 1) for one in range(1, 5)))
    assembly.due(10)
    for number, counts in ((1, PartCounts(late=1)), (50, PartCounts(duplicate=1))):
        added = add(assembly, number.to_bytes(16, "big"), span(1, root=True), now=10)
        assert added == Added(counts, PartCounts(), opened=False)


def test_settings_out_of_order_are_refused() -> None:
    with pytest.raises(ValidationError, match="grace_period <= idle_timeout <= max_age"):
        made(grace_period="2m")


# -- the rules that hold whatever happens


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[Part], list[tuple[list[Part], float]]]:
    """Some parts of one trace, and a way to deliver all: any split, order and repetition, pauses below
    `grace_period`.
    """
    parts = [span(n, root=draw(st.booleans())) for n in range(1, draw(st.integers(1, 8)) + 1)]
    parts += [record(b"log %d" % n) for n in range(draw(st.integers(0, 4)))]
    repeated = draw(st.permutations(parts + draw(st.lists(st.sampled_from(parts), max_size=6))))
    calls: list[tuple[list[Part], float]] = []
    while repeated:
        size = draw(st.integers(1, len(repeated)))
        calls.append((repeated[:size], draw(st.floats(0, 9.9))))
        repeated = repeated[size:]
    return parts, calls


@given(deliveries())
@examples(200)
def test_any_split_order_and_repetition_gives_the_same_trace_once(
    delivery: tuple[list[Part], list[tuple[list[Part], float]]],
) -> None:
    parts, calls = delivery
    assembly = made()
    now, found = 0.0, list[ClosedTrace]()
    for call, pause in calls:
        add(assembly, T1, *call, now=now)
        now += pause
        found += assembly.due(now)
    found += assembly.due(now + 60)
    assert len(found) == 1
    assert sorted(found[0].parts) == sorted(parts)
    assert found[0].closed is (Closed.ROOT_ENDED if any(part.is_root for part in parts) else Closed.IDLE)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),  # trace
            st.lists(
                st.tuples(st.booleans(), st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from((10, 3000))),
                max_size=8,
            ),
            st.floats(0, 70),  # pause after
        ),
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
@examples(300)
def test_every_part_is_counted_once_and_every_receipt_settled_once(
    calls: list[tuple[int, list[tuple[bool, int, bool, bool, int]], float]], rng: random.Random
) -> None:
    assembly = made(
        max_open_bytes=20_000, max_trace_bytes=9_000, max_trace_spans=7, remember_closed=3, remember_for=100
    )
    settled: Counter[int] = Counter()
    acks: list[Ack] = []
    now, kept, closed_parts = 0.0, 0, 0
    found: list[ClosedTrace] = []
    for trace, drawn, pause in calls:
        parts = [
            span(number, root=root, ended=ended, size=size) if is_span else record(b"%d" % number * size)
            for is_span, number, root, ended, size in drawn
        ]
        if not acks or rng.random() < 0.7:  # else one delivery with parts of several traces
            if acks:
                acks[-1].settle()
            acks.append(Ack(partial(settled.update, [len(acks)])))
        if rng.random() < 0.3:
            refuse(assembly, bytes([trace + 1]) * 16, now=now, ack=acks[-1])
            assert assembly.open_bytes <= 20_000
        added = add(assembly, bytes([trace + 1]) * 16, *parts, now=now, ack=acks[-1])
        assert sum(added.spans) == sum(part.signal == "traces" for part in parts)
        assert sum(added.records) == sum(part.signal == "logs" for part in parts)
        assert assembly.open_bytes <= 20_000
        kept += added.spans.kept + added.records.kept
        now += pause
        found += assembly.due(now)
        due = assembly.next_due()
        assert due is None or due > now
    if acks:
        acks[-1].settle()
    found += assembly.close_all(Closed.SHUTDOWN, now)
    for one in found:
        closed_parts += len(one.parts)
        assert len(set(one.acks)) == len(one.acks)
        assert bool(one.acks[:-1]) == bool(one.parts or one.refused)  # the last one is that of the memory
        for ack in one.acks:
            ack.settle()
    assert closed_parts == kept
    assert settled == Counter(range(len(acks)))
    assert assembly.open_bytes == assembly.open_traces == assembly.in_hand_bytes == 0
