"""The demo's traffic: recorded traces under new ids, delivered to a real port however it answers."""

from __future__ import annotations

import asyncio
import gzip
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor import registry
from monitor.cli.demo import feeder
from monitor.clock import SystemClock
from monitor.errors import InvalidData
from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.extraction import compose
from monitor.model.case import ReadingStatus
from monitor.model.outcome import Score
from monitor.model.trace import Closed
from monitor.transport.otlp import decode, wire
from tests.support.tools import until

pytestmark = pytest.mark.anyio

NOW_NS = 1_800_000_000_000_000_000


def spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for group in request.resource_spans for scoped in group.scope_spans for span in scoped.spans]


@pytest.fixture(scope="module")
def recordings() -> dict[str, feeder.Recording]:
    return feeder.load()


def all_traces(recordings: dict[str, feeder.Recording]) -> Iterator[ExportTraceServiceRequest]:
    for recording in recordings.values():
        yield from recording.supported
        yield from recording.unsupported


class TestRecordings:
    def test_both_services_answered_every_question_both_ways(self, recordings: dict[str, feeder.Recording]) -> None:
        assert set(recordings) == {feeder.DEGRADING, feeder.STEADY}
        assert {len(kind) for r in recordings.values() for kind in (r.supported, r.unsupported)} == {62}

    def test_each_trace_is_whole_with_one_root_and_the_name_of_its_service(
        self, recordings: dict[str, feeder.Recording]
    ) -> None:
        for app, recording in recordings.items():
            for trace in (*recording.supported, *recording.unsupported):
                ids = {span.span_id for span in spans(trace)}
                assert [span.parent_span_id for span in spans(trace) if span.parent_span_id not in ids] == [b""]
                assert len({span.trace_id for span in spans(trace)}) == 1
                names = [a.value.string_value for a in trace.resource_spans[0].resource.attributes if "name" in a.key]
                assert app in names

    def test_nothing_tells_of_the_machine_they_were_recorded_on(self) -> None:
        for path in feeder.TRAFFIC.glob("*.pb.gz"):
            body = gzip.decompress(path.read_bytes())
            for word in (b"/home/", b"/root", b"/tmp", b"/usr/", b"site-packages", b"host.name", b"process."):
                assert word not in body

    def test_they_are_small_enough_to_ship(self) -> None:
        assert sum(path.stat().st_size for path in feeder.TRAFFIC.glob("*.pb.gz")) < 300_000


class TestReading:
    @pytest.mark.parametrize(("kind", "defective"), [("supported", (0.0, 0.05)), ("unsupported", (0.95, 1.0))])
    async def test_the_monitor_reads_every_trace_and_tells_supported_from_made_up(
        self, recordings: dict[str, feeder.Recording], kind: str, defective: tuple[float, float]
    ) -> None:
        evaluator, rule = OverlapGroundedness(), OverlapGroundedness.default_defect
        for app, recording in recordings.items():
            verdicts = []
            for trace in getattr(recording, kind):
                body = feeder.freshen(trace, random.Random(7), NOW_NS, "s").SerializeToString()
                parts = wire.offline_parts("traces", wire.split(body))
                closed = decode.decode(
                    parts[0][0],
                    [part for _, part in parts],
                    closed=Closed.ROOT_ENDED,
                    app=app,
                    source="test",
                    probability=1.0,
                    received_at=0.0,
                )
                (reading,) = compose.read(closed, registry.conventions()).readings
                assert (reading.status, len(reading.case.retrieved_context)) == (ReadingStatus.READY, 3)
                found = await evaluator.evaluate(reading.case, None)
                assert isinstance(found, Score)
                verdicts.append(rule.matches(found))
            assert defective[0] <= sum(verdicts) / len(verdicts) <= defective[1]


class TestFreshen:
    def test_every_id_is_new_and_the_tree_of_spans_is_the_same(self, recordings: dict[str, feeder.Recording]) -> None:
        rng = random.Random(3)
        for trace in all_traces(recordings):
            before, after = spans(trace), spans(feeder.freshen(trace, rng, NOW_NS, "s"))
            renamed = {old.span_id: new.span_id for old, new in zip(before, after, strict=True)}
            assert len(set(renamed.values())) == len(renamed)
            assert not set(renamed) & set(renamed.values())
            assert [renamed.get(old.parent_span_id, b"") for old in before] == [new.parent_span_id for new in after]
            assert {new.trace_id for new in after}.isdisjoint({old.trace_id for old in before})
            assert len({new.trace_id for new in after}) == 1

    def test_the_last_span_ends_at_the_given_time_and_durations_stay(
        self, recordings: dict[str, feeder.Recording]
    ) -> None:
        trace = next(all_traces(recordings))
        before, after = spans(trace), spans(feeder.freshen(trace, random.Random(3), NOW_NS, "s"))
        assert max(span.end_time_unix_nano for span in after) == NOW_NS
        assert [s.end_time_unix_nano - s.start_time_unix_nano for s in before] == [
            s.end_time_unix_nano - s.start_time_unix_nano for s in after
        ]

    def test_the_recording_itself_is_left_as_it_was(self, recordings: dict[str, feeder.Recording]) -> None:
        trace = next(all_traces(recordings))
        before = trace.SerializeToString(deterministic=True)
        feeder.freshen(trace, random.Random(3), NOW_NS, "s")
        assert trace.SerializeToString(deterministic=True) == before

    def test_links_and_events_move_with_their_spans(self) -> None:
        trace = ExportTraceServiceRequest()
        made = trace.resource_spans.add().scope_spans.add().spans
        first = made.add(trace_id=b"t" * 16, span_id=b"1" * 8, end_time_unix_nano=100)
        first.events.add(time_unix_nano=90)
        second = made.add(trace_id=b"t" * 16, span_id=b"2" * 8, parent_span_id=b"1" * 8, end_time_unix_nano=90)
        second.links.add(trace_id=b"t" * 16, span_id=b"1" * 8)
        second.links.add(trace_id=b"o" * 16, span_id=b"3" * 8)
        one, two = spans(feeder.freshen(trace, random.Random(1), NOW_NS, "s"))
        assert (two.links[0].trace_id, two.links[0].span_id) == (one.trace_id, one.span_id)
        assert two.links[1].trace_id not in (b"o" * 16, one.trace_id)
        assert one.events[0].time_unix_nano == NOW_NS - 10

    def test_two_replays_of_one_trace_share_no_id(self, recordings: dict[str, feeder.Recording]) -> None:
        rng = random.Random(3)
        trace = next(all_traces(recordings))
        one, other = (spans(feeder.freshen(trace, rng, NOW_NS, "s")) for _ in range(2))
        assert {s.span_id for s in one}.isdisjoint({s.span_id for s in other})

    def test_every_span_belongs_to_the_given_session(self, recordings: dict[str, feeder.Recording]) -> None:
        trace = next(all_traces(recordings))
        assert sessions_of(feeder.freshen(trace, random.Random(3), NOW_NS, "s-1")) == {"s-1"}


def sessions_of(request: ExportTraceServiceRequest) -> set[str]:
    return {a.value.string_value for span in spans(request) for a in span.attributes if a.key == "session.id"}


def test_the_schedule_is_healthy_first_and_then_grows_to_its_height() -> None:
    schedule = feeder.Schedule(healthy=20, growing=10, low=0.1, high=0.5)
    assert [schedule.share(at) for at in (0, 20, 25, 30, 1000)] == pytest.approx([0.1, 0.1, 0.3, 0.5, 0.5])
    assert feeder.Schedule(healthy=5, growing=0, high=1).share(4.9) == 0
    assert feeder.Schedule(healthy=5, growing=0, high=1).share(5) == 1


OK, BUSY = (200, {}, b""), (503, {"retry-after": "0.1"}, b"")
Answer = tuple[int, dict[str, str], bytes]


class Endpoint:
    """A real port that gives the scripted answers in turn, then 200, and keeps what it was sent."""

    def __init__(self, answers: list[Answer], wanted: int) -> None:
        self.requests: list[tuple[dict[str, str], str, ExportTraceServiceRequest]] = []
        self.arrived = anyio.Event()
        loop = asyncio.get_running_loop()
        kept = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def do_POST(self) -> None:
                body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
                fields = {key.lower(): value for key, value in self.headers.items()}
                kept.requests.append((fields, self.path, ExportTraceServiceRequest.FromString(body)))
                status, headers, answer = answers.pop(0) if answers else OK
                self.send_response(status)
                for key, value in {**headers, "content-length": str(len(answer))}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(answer)
                if len(kept.requests) >= wanted:
                    loop.call_soon_threadsafe(kept.arrived.set)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # so that closing waits for them, and no socket outlives the test
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"


@asynccontextmanager
async def endpoint(*answers: Answer, wanted: int = 1) -> AsyncIterator[Endpoint]:
    made = Endpoint(list(answers), wanted)
    thread = threading.Thread(target=lambda: made.server.serve_forever(poll_interval=0.05))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        await anyio.to_thread.run_sync(made.server.server_close)


async def feed_until_arrived(to: Endpoint, **options: Any) -> feeder.Sent:
    sent = feeder.Sent()
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                lambda: feeder.feed(to.url, SystemClock(), random.Random(5), traces_per_second=40, sent=sent, **options)
            )
            await to.arrived.wait()
            tasks.cancel_scope.cancel()
    return sent


class TestFeed:
    async def test_it_posts_gzipped_protobuf_with_traces_that_have_just_ended(self) -> None:
        async with endpoint(wanted=2) as port:
            await feed_until_arrived(port)
        fields, path, request = port.requests[0]
        assert path == "/v1/traces"
        assert (fields["content-type"], fields["content-encoding"]) == ("application/x-protobuf", "gzip")
        assert len({span.trace_id for span in spans(request)}) == 10
        age = SystemClock().now() - max(span.end_time_unix_nano for span in spans(request)) / 1e9
        assert -1 < age < 20

    async def test_a_refused_delivery_is_sent_again_and_counted_once(self) -> None:
        async with endpoint(BUSY, BUSY, wanted=4) as port:
            sent = await feed_until_arrived(port)
        bodies = [request.SerializeToString(deterministic=True) for _, _, request in port.requests[:3]]
        assert bodies[0] == bodies[1] == bodies[2]
        assert sent.retries == 2
        assert sent.traces in (10, 20)  # the second batch is the fourth request; its answer may be on its way

    async def test_a_port_that_does_not_listen_yet_is_tried_again(self) -> None:
        async with endpoint() as port:
            late = port.url
        sent = feeder.Sent()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: feeder.feed(late, SystemClock(), random.Random(5), sent=sent))
            await until(lambda: sent.retries >= 1, "another attempt")
            tasks.cancel_scope.cancel()
        assert sent.traces == 0

    @pytest.mark.parametrize("answer", [(400, {}, b"bad"), (200, {}, b"{}")])
    async def test_an_answer_that_says_the_traffic_is_wrong_ends_it_with_the_reason(self, answer: Answer) -> None:
        async with endpoint(answer) as port:
            with anyio.fail_after(120), pytest.raises(InvalidData, match=r"127\.0\.0\.1"):
                await feeder.feed(port.url, SystemClock(), random.Random(5), traces_per_second=40)

    async def test_spans_that_the_endpoint_rejects_are_not_passed_over(self) -> None:
        partial = ExportTraceServiceResponse()
        partial.partial_success.rejected_spans = 3
        partial.partial_success.error_message = "no span id"
        async with endpoint((200, {}, partial.SerializeToString())) as port:
            with anyio.fail_after(120), pytest.raises(InvalidData, match="rejected 3 spans: no span id"):
                await feeder.feed(port.url, SystemClock(), random.Random(5), traces_per_second=40)

    async def test_only_the_degrading_service_sends_unsupported_answers(self) -> None:
        now = {feeder.DEGRADING: feeder.Schedule(healthy=0, growing=0, high=1.0)}
        async with endpoint(wanted=3) as port:
            sent = await feed_until_arrived(port, schedules=now)
        assert sent.unsupported == sent.by_app[feeder.DEGRADING] > 0
        assert sent.by_app[feeder.STEADY] > 0

    async def test_a_session_asks_three_questions_and_never_comes_back(self) -> None:
        async with endpoint(wanted=4) as port:
            await feed_until_arrived(port)
        traces: dict[str, set[bytes]] = {}
        for _, _, request in port.requests[:4]:
            for span in spans(request):
                (session,) = (a.value.string_value for a in span.attributes if a.key == "session.id")
                traces.setdefault(session, set()).add(span.trace_id)
        unfinished = [session for session, asked in traces.items() if len(asked) != 3]
        assert len(traces) >= 13
        assert len(unfinished) <= 2  # the last one of each service

    async def test_an_endpoint_that_is_not_http_is_refused(self) -> None:
        with pytest.raises(InvalidData, match="http://HOST:PORT/PATH"):
            await feeder.feed("localhost:4318", SystemClock(), random.Random(5))
