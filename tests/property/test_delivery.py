"""However a trace is delivered, within what assembly promises, its reading is the same.

The promise: pauses shorter than `idle_timeout` (60 s) until all roots seen have ended, shorter than `grace_period` (10
s) from then on, and no more than `max_age` (600 s) in all. What comes later than that is counted as late and changes
nothing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.clock import ManualClock
from monitor.extraction import compose
from monitor.model.case import ReadingStatus, TraceReading
from monitor.model.span import EncodedGroup, Part, SpanBatch
from monitor.model.trace import Closed
from monitor.pipeline.assembly import AssemblySettings, ClosedTrace
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.ingest.head import HeadSampling
from monitor.transport.otlp import limits, wire
from monitor.transport.otlp.decode import decode
from tests.support.examples import examples
from tests.support.hostile_traces import TRACES, read_parts
from tests.support.traces import SETUPS, captured_parts

SETTINGS = AssemblySettings()
QUIET, IDLE = float(SETTINGS.grace_period), float(SETTINGS.idle_timeout)

pytestmark = pytest.mark.timeout(1200)


class Monitor:
    """The way from the bytes of requests to readings: cutting, head sampling at rate 1, assembly, decoding, reading."""

    def __init__(self, largest: int = 2**22) -> None:
        self.largest = largest
        self.clock = ManualClock()
        self.assembly = Assembly(SETTINGS)
        self.head = HeadSampling(self.assembly.is_open, self.assembly.shared, [b"gen_ai"])
        self.closed: list[ClosedTrace] = []

    def deliver(self, parts: Sequence[Part]) -> None:
        """Send `parts` as a sender does: the spans in one request and the log records in another, grouped by origin."""
        for signal in ("traces", "logs"):
            mine = [part for part in parts if part.signal == signal]
            by_origin = itertools.groupby(mine, key=lambda part: (part.resource, part.scope))
            groups = [EncodedGroup(*origin, [part.encoded for part in several]) for origin, several in by_origin]
            body = wire.join(groups)
            groups, refused = limits.without_oversized(wire.split(body), self.largest, 2**20)
            found = self.head.sort(SpanBatch("s", signal, groups, refused=refused), 1.0)  # type: ignore[arg-type]
            common: Any = {"app": "a", "source": "s", "ack": None, "now": self.clock.monotonic(), "received_at": 0.0}
            for trace_id, missing in found.refused.items():
                self.assembly.refuse(trace_id, missing.parts, probability=missing.probability, **common)
            for trace_id, kept in found.kept.items():
                self.assembly.add(trace_id, kept.parts, probability=kept.probability, **common)

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.closed += self.assembly.due(self.clock.monotonic())

    def readings(self) -> dict[bytes, TraceReading]:
        """Wait until everything is closed; every trace once, by its id."""
        self.wait(IDLE)
        assert len({one.trace_id for one in self.closed}) == len(self.closed)
        return {one.trace_id: _reading(one) for one in self.closed}


def _reading(one: ClosedTrace) -> TraceReading:
    trace = decode(
        one.trace_id,
        one.parts,
        closed=one.closed,
        app=one.app,
        source=one.source,
        probability=one.probability,
        received_at=one.received_at,
        refused=one.refused,
    )
    return compose.read(trace, registry.conventions())


def kept(parts: Sequence[Part]) -> list[Part]:
    """The parts that the head takes: log records that are nobody's of ours are left at the door."""
    return [part for part in parts if part.signal == "traces" or b"gen_ai" in part.encoded]


@st.composite
def requests(draw: st.DrawFn, parts: Sequence[Part]) -> list[list[Part]]:
    """All parts, some more than once, in any order, in requests of any size; or the root first or last of all."""
    shuffler = draw(st.randoms(use_true_random=False))
    order = [*parts, *draw(st.lists(st.sampled_from(parts), max_size=4))]
    shuffler.shuffle(order)
    first = draw(st.sampled_from((None, True, False)))
    if first is not None:
        order.sort(key=lambda part: part.is_root is not first)
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=6)))
    pieces = [order[start:end] for start, end in itertools.pairwise([0, *cuts, len(order)])]
    return [piece for piece in pieces if piece]


def _roots_ended(parts: Sequence[Part]) -> bool:
    ended = {part.span_id for part in parts if part.is_root and part.ended_ns}
    return bool(ended) and ended == {part.span_id for part in parts if part.is_root}


WHOLE = [trace for trace in TRACES if _roots_ended(trace[2])]


@pytest.mark.parametrize("setup", SETUPS)
def test_any_split_order_repetition_and_delay_within_the_promise_gives_the_same_reading(setup: str) -> None:
    traces = list(captured_parts(setup).items())

    @examples(10)
    @given(st.sampled_from(traces), st.data())
    def delivered(trace: tuple[bytes, list[Part]], data: st.DataObject) -> None:
        trace_id, parts = trace[0], kept(trace[1])
        monitor, came = Monitor(), list[Part]()
        for request in data.draw(requests(parts)):
            monitor.deliver(request)
            came += request
            limit = QUIET if _roots_ended(came) else IDLE
            monitor.wait(data.draw(st.floats(0, limit * 0.99)))
            assert not monitor.closed
        reading = monitor.readings()[trace_id]
        reason = Closed.ROOT_ENDED if any(part.is_root for part in parts) else Closed.IDLE
        assert reading == read_parts(trace_id, parts, reason)
        assert [one.closed for one in monitor.closed] == [reason]

    delivered()


@examples(30)
@given(st.lists(st.sampled_from(WHOLE), min_size=2, max_size=12, unique_by=lambda trace: trace[1]), st.data())
def test_traces_that_come_at_the_same_time_do_not_touch_each_other(
    traces: list[tuple[str, bytes, list[Part]]], data: st.DataObject
) -> None:
    monitor = Monitor()
    parts = [part for _, _, several in traces for part in kept(several)]
    for request in data.draw(requests(parts)):  # at most seven, which may all lie between two parts of one trace
        monitor.deliver(request)
        monitor.wait(data.draw(st.floats(0, QUIET / 8)))
    found = monitor.readings()
    assert {trace_id: rows_of(reading) for trace_id, reading in found.items()} == {
        trace_id: rows_of(read_parts(trace_id, kept(several))) for _, trace_id, several in traces
    }


def rows_of(found: TraceReading) -> list[dict[str, Any]]:
    return [one.as_row() for one in found.readings]


WITH_RECORDS = [trace for trace in WHOLE if len({part.signal for part in kept(trace[2])}) > 1]


@pytest.mark.parametrize("records_first", [True, False])
@examples(30)
@given(trace=st.sampled_from(WITH_RECORDS), pause=st.floats(0, QUIET * 0.99))
def test_log_records_may_come_before_their_spans_and_after_them(
    *, trace: tuple[str, bytes, list[Part]], pause: float, records_first: bool
) -> None:
    _, trace_id, parts = trace
    monitor = Monitor()
    for signal in ("logs", "traces") if records_first else ("traces", "logs"):
        monitor.deliver([part for part in kept(parts) if part.signal == signal])
        monitor.wait(pause)
    assert monitor.readings()[trace_id] == read_parts(trace_id, kept(parts))


@examples(30)
@given(st.sampled_from(WHOLE), st.randoms(use_true_random=False), st.data())
def test_a_span_that_is_sent_before_it_has_ended_and_again_after_is_read_as_it_ended(
    trace: tuple[str, bytes, list[Part]], shuffler: random.Random, data: st.DataObject
) -> None:
    _, trace_id, parts = trace
    spans = [part for part in parts if part.signal == "traces"]
    early = [unended(part) for part in data.draw(st.lists(st.sampled_from(spans), min_size=1, max_size=3))]
    order = [*early, *kept(parts)]
    shuffler.shuffle(order)
    monitor = Monitor()
    for part in order:
        monitor.deliver([part])
    assert monitor.readings()[trace_id] == read_parts(trace_id, kept(parts))


@examples(60)
@given(st.sampled_from(WHOLE), st.data())
def test_a_trace_of_which_a_part_is_refused_is_incomplete_wherever_that_part_comes(
    trace: tuple[str, bytes, list[Part]], data: st.DataObject
) -> None:
    _, trace_id, parts = trace
    refused = data.draw(st.sampled_from(kept(parts)))
    if refused.signal == "traces" and data.draw(st.booleans()):
        changed = refused._replace(encoded=refused.encoded + b"\x2a\x02\xff\xff")  # a name that is no UTF-8
    else:
        changed = refused._replace(encoded=refused.encoded + b"\xfa\x7f\x82\x80\x80\x02" + bytes(2**22 + 2))
    monitor = Monitor()
    for request in data.draw(requests([changed if part is refused else part for part in kept(parts)])):
        monitor.deliver(request)
        monitor.wait(data.draw(st.floats(0, QUIET * 0.99)))
    (reading,) = monitor.readings()[trace_id].readings
    assert reading.status is ReadingStatus.INCOMPLETE
    assert reading.error.startswith("the monitor refused ")


def unended(part: Part) -> Part:
    """The span as an SDK would send it while it runs: without end, status, and the attributes that come last."""
    proto = wire.SpanProto.FromString(part.encoded)
    proto.ClearField("end_time_unix_nano")
    proto.ClearField("status")
    del proto.attributes[len(proto.attributes) // 2 :]
    return wire.span_part(proto.SerializeToString(), part.resource, part.scope)


@examples(30)
@given(st.sampled_from(WHOLE), st.data())
def test_what_comes_later_than_the_promise_is_late_and_changes_nothing(
    trace: tuple[str, bytes, list[Part]], data: st.DataObject
) -> None:
    _, trace_id, parts = trace
    late = data.draw(st.sampled_from([part for part in parts if not part.is_root] or parts))
    early = [part for part in kept(parts) if part is not late]
    if not _roots_ended(early):
        return
    monitor = Monitor()
    monitor.deliver(early)
    monitor.wait(QUIET)
    assert [one.closed for one in monitor.closed] == [Closed.ROOT_ENDED]
    monitor.deliver([late])
    assert monitor.readings() == {trace_id: read_parts(trace_id, early)}
