"""What becomes of each message: taken, put aside, kept until there is room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import anyio
import pytest
from kafka import TopicPartition

from monitor.model.row import RowBatch
from monitor.sources import _kafka_messages
from monitor.sources._kafka_messages import Bounds, Messages
from monitor.sources._kafka_topics import Topic
from monitor.transport.kafka.dead_letters import DeadLetters
from monitor.transport.kafka.values import Partition, Unreadable
from monitor.transport.otlp import wire
from tests.support.intakes import RecordingIntake
from tests.support.kafka_source import Record, export
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio


class Consumer:
    """Hands out what it was given, then waits for ever."""

    busy = 0

    def __init__(self, items: list[tuple[Partition, Any]]) -> None:
        self.items = items
        self.at_rest = anyio.Event()

    @property
    def unfinished(self) -> int:
        if self.busy:
            self.at_rest.set()
        return self.busy

    def pop(self) -> tuple[Partition, Any] | None:
        return self.items.pop(0) if self.items else None

    async def next(self) -> NoReturn:
        self.at_rest.set()
        await anyio.sleep_forever()
        raise AssertionError


class Letters:
    def __init__(self) -> None:
        self.sent: list[tuple[bytes | None, dict[str, str]]] = []

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        known = {name.removeprefix("ragmonitor."): text.decode() for name, text in headers}
        self.sent.append((value, known))


class Bench:
    """One topic with one partition, and what became of the messages in it."""

    def __init__(self, topic: str = "spans", holds: Topic | None = None, **intake: Any) -> None:
        self.topic, self.holds = topic, holds or Topic(encoding="otlp_proto")
        self.partition = Partition(TopicPartition(topic, 0), 0, 0.0)
        self.intake, self.letters, self.runtime = RecordingIntake(**intake), Letters(), runtime()
        self.dropped: set[int] = set()
        """The traces that head sampling drops."""
        self.intake.drops = lambda trace_id: int.from_bytes(trace_id) in self.dropped  # type: ignore[method-assign]

    async def take(self, *items: Any) -> None:
        made = [
            (self.partition, one if isinstance(one, Unreadable) else Record(self.topic, 0, number, one))
            for number, one in enumerate(items)
        ]
        consumer = Consumer(made)
        async with anyio.create_task_group() as sending, anyio.create_task_group() as work:
            letters = DeadLetters(self.letters, "dead", (self.topic,), self.runtime, sending)
            messages = Messages(
                consumer,
                self.intake,
                letters=letters,
                topics={self.topic: self.holds},
                bounds=Bounds(10, 1000, 1000, 100),
                runtime=self.runtime,
            )
            work.start_soon(messages.run)
            await consumer.at_rest.wait()
            work.cancel_scope.cancel()

    def count(self, outcome: str) -> float:
        return total(self.runtime.metrics, "ragmonitor_consumer_messages_total", topic=self.topic, outcome=outcome)

    @property
    def reasons(self) -> list[str]:
        return [known["reason"] for _, known in self.letters.sent]


async def test_a_message_is_done_with_when_all_that_hangs_on_it_is() -> None:
    bench = Bench(hold=True)
    await bench.take(export(1), export(2))
    assert bench.intake.traces == [1, 2]
    assert bench.partition.offsets.mark == 0
    bench.intake.settle()
    assert bench.partition.offsets.mark == 2
    assert bench.count("taken") == 2


async def test_a_message_without_a_value_is_counted_and_passed() -> None:
    bench = Bench()
    await bench.take(None, export(1))
    assert (bench.partition.offsets.mark, bench.count("empty"), bench.count("taken")) == (2, 1, 1)
    assert not bench.letters.sent


async def test_what_is_no_request_and_what_is_too_much_is_put_aside() -> None:
    bench = Bench()
    await bench.take(b"\xff", export(1) * 11, export(1))
    assert bench.reasons == ["invalid", "too_large"]
    assert "trace_id" not in bench.letters.sent[1][1]  # what is too much is not looked into
    assert bench.partition.offsets.mark == 3


async def test_a_span_that_is_too_large_is_counted_and_its_message_put_aside_where_it_holds_no_other() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(export(5))
    request.resource_spans[0].scope_spans[0].spans[0].name = "x" * 2000
    alone = request.SerializeToString()
    bench = Bench()
    await bench.take(alone, alone + export(6))
    assert bench.reasons == ["too_large"]
    assert bench.letters.sent[0][1]["trace_id"] == f"{5:032x}"[:16]
    assert bench.intake.traces == [6]
    refused = [group for batch in bench.intake.batches for group in batch.refused]  # type: ignore[union-attr]
    assert [wire.trace_id_of(item) for group in refused for item in group.items] == [(5).to_bytes(16)] * 2
    assert total(bench.runtime.metrics, "ragmonitor_spans_total", source="kafka", outcome="too_large") == 2
    assert bench.partition.offsets.mark == 2


async def test_a_message_is_put_aside_where_all_of_it_is_invalid_and_not_where_some_is() -> None:
    bench = Bench()
    bench.intake.reject = 1
    await bench.take(export(1), export(1) + export(2))
    assert bench.reasons == ["rejected"]
    assert bench.partition.offsets.mark == 2


async def test_a_fault_of_ours_stops_no_other_message() -> None:
    bench = Bench()
    bench.intake.fault = ValueError("with the text of a user")
    await bench.take(export(1))
    assert bench.reasons == ["fault"]
    assert bench.letters.sent[0][1]["error"] == "ValueError"
    assert bench.partition.offsets.mark == 1
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="receiver_failed") == 1


async def test_without_room_a_message_waits_with_its_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_messages, "_AGAIN", 0.01)
    bench = Bench()
    bench.intake.busy = True

    async def room() -> None:
        await until(lambda: bench.intake.refused >= 3)
        assert bench.partition.offsets.held == 1
        bench.intake.busy = False

    async with anyio.create_task_group() as beside:
        beside.start_soon(room)
        await bench.take(export(1), export(2))
    assert bench.intake.traces == [1, 2]


async def test_a_message_that_waits_is_dropped_when_its_partition_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_messages, "_AGAIN", 0.01)
    bench = Bench()
    bench.intake.busy = True

    async def move() -> None:
        await until(lambda: bench.intake.refused >= 3)
        bench.intake.hand_over(bench.partition.offsets.outstanding)
        await anyio.sleep(0.03)  # it may look again, as often as it likes: what is void is not taken
        bench.intake.busy = False

    async with anyio.create_task_group() as beside:
        beside.start_soon(move)
        await bench.take(export(1))
    assert not bench.intake.batches
    assert bench.partition.offsets.mark == 0


async def test_messages_in_a_row_that_sampling_drops_go_together_and_each_is_counted_and_done_with() -> None:
    bench = Bench()
    bench.dropped = {1, 2, 4, 5, 6}
    await bench.take(*map(export, range(1, 7)))
    assert bench.intake.batches_of_traces == [[1, 2], [3], [4, 5, 6]]
    assert (bench.partition.offsets.mark, bench.count("taken")) == (6, 6)


async def test_a_message_goes_alone_where_sampling_may_keep_some_of_it() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(export(1))
    request.resource_spans[0].scope_spans[0].spans[0].trace_state = "ot=rv:ffffffffffffff"
    bench = Bench()
    bench.dropped = {1, 2}
    await bench.take(export(1), export(1) + export(3), request.SerializeToString(), export(1) + export(2), export(2))
    assert bench.intake.batches_of_traces == [[1], [1, 3], [1], [1, 2, 2]]


async def test_dropped_messages_wait_for_room_and_are_left_to_others_when_their_partition_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_kafka_messages, "_AGAIN", 0.01)
    bench = Bench()
    bench.dropped, bench.intake.busy = {1, 2}, True

    async def room() -> None:
        await until(lambda: bench.intake.refused >= 3)
        assert bench.partition.offsets.held == 2
        bench.intake.hand_over(list(bench.partition.offsets.outstanding)[:1])
        refused = bench.intake.refused
        await until(lambda: bench.intake.refused >= refused + 2)
        bench.intake.busy = False

    async with anyio.create_task_group() as beside:
        beside.start_soon(room)
        await bench.take(export(1), export(2))
    assert bench.intake.traces == [2]
    assert bench.count("taken") == 1


async def test_a_fault_at_dropped_messages_puts_each_aside_that_has_it() -> None:
    bench = Bench()
    bench.dropped, bench.intake.fault = {1, 2}, ValueError("with the text of a user")
    await bench.take(export(1), export(2))
    assert bench.reasons == ["fault", "fault"]
    assert bench.partition.offsets.mark == 2


async def test_a_batch_that_nobody_can_read_is_noted_and_passed_as_a_whole() -> None:
    bench = Bench()
    await bench.take(Unreadable(0, 5, "checksum", "CorruptRecordError"))
    ((value, known),) = bench.letters.sent
    assert value == b""
    assert (known["offset"], known["last_offset"], known["reason"]) == ("0", "4", "checksum")
    assert bench.partition.offsets.mark == 5


async def test_rows_are_one_a_line_and_faults_among_them_are_counted() -> None:
    row = json.dumps({"request": "why?", "response": "because"}).encode()
    bench = Bench("rows", Topic(encoding="case", app="shop"))
    await bench.take(row + b"\n" + row, row + b"\n{}", b"{}", b"not json")
    taken = [one for one in bench.intake.batches if isinstance(one, RowBatch)]
    assert [(len(one.rows), one.invalid) for one in taken] == [(2, 0), (1, 1), (0, 1), (0, 1)]
    assert {one.app for batch in taken for one in batch.rows} == {"shop"}
    assert bench.reasons == ["rejected", "rejected"]
    assert bench.partition.offsets.mark == 4


async def test_fields_of_rows_that_are_not_read_are_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    plain = {"request": "why?", "response": "because"}
    rows = [{**plain, "latency": 3}, {**plain, "latency": 4, "mood": "good"}, plain, {**plain, "latency": 5}]
    endless = [{**plain, **{f"field-{number}-{at}": 1 for at in range(20)}} for number in range(10)]
    bench = Bench("rows", Topic(encoding="case"))
    with caplog.at_level("WARNING"):
        await bench.take(*(json.dumps(row).encode() for row in (*rows, *endless)))
    said = [record.fields["fields"] for record in caplog.records]  # type: ignore[attr-defined]
    assert said[:2] == ["latency", "mood"]
    assert total(bench.runtime.metrics, "ragmonitor_consumer_rows_with_unread_fields_total", topic="rows") == 13
    names = [name for one in said for name in one.split(", ")]
    assert len(names) == len(set(names)) == _kafka_messages._MOST_NAMES


async def test_json_and_logs_are_read_as_configured() -> None:
    record = {"traceId": f"{8:032x}", "spanId": f"{1:016x}", "body": {"stringValue": "said"}}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    bench = Bench("otlp_logs", Topic(encoding="otlp_json"))
    await bench.take(body, b"[]", b"{")
    (batch,) = bench.intake.batches
    assert getattr(batch, "signal", "") == "logs"
    assert bench.reasons == ["invalid", "invalid"]


async def test_too_many_unfinished_messages_hold_the_next_ones_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_messages, "_MESSAGES_AT_ONCE", 1)
    monkeypatch.setattr(Consumer, "busy", 100)
    bench = Bench()
    await bench.take(export(1), export(2))
    assert bench.intake.traces == [1]


@pytest.mark.parametrize(
    ("share", "holds", "warned"), [(0.5, "otlp_proto", 1), (1.0, "otlp_proto", 0), (0.5, "case", 0)]
)
async def test_spans_without_a_key_are_warned_of_once_where_others_may_get_the_rest(
    share: float, holds: Any, warned: int
) -> None:
    bench = Bench(holds=Topic(encoding=holds))
    bench.runtime.share.set("kafka", share)
    await bench.take(export(1), export(2))
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="kafka_unkeyed") == warned
