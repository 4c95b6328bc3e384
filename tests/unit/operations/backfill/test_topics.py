"""Topics are read again in the order of their times, however unevenly a broker hands out their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from monitor.config import Config
from monitor.operations.backfill import topics
from monitor.operations.backfill.traffic import Replay, from_kafka
from monitor.sources.kafka import KafkaSource
from tests.support.kafka_source import Record
from tests.support.kafka_traces import in_parts, rag_trace, trace_id

START = 1_700_000_000
"""When the first message was written, in seconds."""


class Found(NamedTuple):
    offset: int


class ScriptedConsumer:
    """A consumer of kafka-python, of `logs`: by topic, of each partition its messages.

    A poll hands out messages of one partition, those that are not paused in turn: of the first of a topic 500, of the
    others 100, so that the first is ahead.
    """

    def __init__(self, logs: dict[str, list[list[Record]]], **_: object) -> None:
        self.logs = logs
        self._fetcher = SimpleNamespace(_next_partition_records=None)
        self.at: dict[Any, int] = {}
        self.paused: set[Any] = set()
        self.silent: set[Any] = set()

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(len(self.logs[topic])))

    def assign(self, parts: list[Any]) -> None:
        self.at = dict.fromkeys(parts, 0)

    def end_offsets(self, parts: list[Any]) -> dict[Any, int]:
        return {part: len(self.logs[part.topic][part.partition]) for part in parts}

    def offsets_for_times(self, times: dict[Any, int]) -> dict[Any, Found | None]:
        found = {}
        for part, time in times.items():
            later = (one for one in self.logs[part.topic][part.partition] if one.timestamp >= time)
            first = next(later, None)
            found[part] = None if first is None else Found(first.offset)
        return found

    def seek(self, part: Any, offset: int) -> None:
        self.at[part] = offset

    def position(self, part: Any) -> int:
        return self.at[part]

    def pause(self, *parts: Any) -> None:
        self.paused |= {*parts}

    def resume(self, *parts: Any) -> None:
        self.paused -= {*parts}

    def poll(self, timeout_ms: int) -> dict[Any, list[Record]]:
        for part, at in self.at.items():
            log = self.logs[part.topic][part.partition]
            if part not in self.paused and at < len(log) and part.partition not in self.silent:
                del self.at[part]  # its turn comes after the others
                self.at[part] = min(at + (100 if part.partition else 500), len(log))
                return {part: log[at : self.at[part]]}
        return {}

    def close(self) -> None:
        pass


def log(topic: str, partition: int, *messages: tuple[float, bytes]) -> list[Record]:
    """The messages of a partition, each with the seconds after the start at which it was written."""
    return [
        Record(topic, partition, offset, value, timestamp=int((START + at) * 1000))
        for offset, (at, value) in enumerate(messages)
    ]


def traces(seed: int, number: int, *, apart: float = 0.5) -> list[tuple[float, bytes]]:
    """Traces that begin `apart` seconds after each other, each in three messages within two seconds."""
    found = [
        (one * apart + at, part.SerializeToString())
        for one in range(number)
        for at, part in enumerate(in_parts(rag_trace(trace_id(seed, one)), 3))
    ]
    return sorted(found, key=lambda one: one[0])


def ids(seed: int, number: int) -> set[str]:
    return {trace_id(seed, one) for one in range(number)}


@pytest.fixture
def backfilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[Any]]:
    """Read what a broker has in `logs`; each of `sources` reads the topics that it names."""

    def read(
        logs: dict[str, list[list[Record]]], *sources: tuple[str, ...], encoding: str = "otlp_proto", **more: Any
    ) -> Iterator[Any]:
        config = Config.model_validate(
            {"alerts": [], "evaluators": [{"type": "overlap_groundedness"}], "storage": {"path": str(tmp_path)}}
        )
        monkeypatch.setattr("kafka.KafkaConsumer", partial(ScriptedConsumer, logs))
        made = [
            KafkaSource.model_validate({"brokers": ["b:1"], "topics": dict.fromkeys(topics_, encoding)})
            for topics_ in sources or [tuple(logs)]
        ]
        until = more.get("until", float("inf"))
        return from_kafka(made, START, until, Replay(config), report=lambda _: None)

    return read


def found_in(cases: Iterator[Any]) -> list[str]:
    return sorted(one.request_id for one in cases)


def test_no_trace_is_split_where_one_partition_is_read_far_ahead_of_another(backfilled) -> None:
    logs = [log("t", number, *traces(number, 400)) for number in range(3)]
    assert found_in(backfilled({"t": logs})) == sorted(ids(0, 400) | ids(1, 400) | ids(2, 400))


def test_no_trace_of_a_source_is_held_open_by_another_that_was_read_first(backfilled) -> None:
    logs = {"a": [log("a", 0, *traces(0, 300))], "b": [log("b", 0, *traces(1, 300))]}
    found = [one.request_id for one in backfilled(logs, ("a",), ("b",))]
    assert sorted(found) == sorted(ids(0, 300) | ids(1, 300))
    assert {trace_id(0, 0), trace_id(1, 0)} == set(found[:2]), "the oldest of both come first"


def test_the_parts_of_a_trace_meet_where_they_are_in_two_partitions(backfilled) -> None:
    messages = traces(0, 400)
    logs = [log("t", 0, *messages[::2]), log("t", 1, *messages[1::2])]
    assert found_in(backfilled({"t": logs})) == sorted(ids(0, 400))


def test_a_message_of_a_producer_whose_clock_is_wrong_closes_no_open_trace(backfilled) -> None:
    right, wrong = traces(0, 200), traces(1, 40)[:39]
    for skew in (1200, -1200):
        mixed = list(right)
        for number, (_, body) in enumerate(wrong):
            at = 1 + 15 * number
            mixed.insert(at, (right[at][0] + skew, body))
        later = [(at + 1201, body) for at, body in mixed]
        assert set(found_in(backfilled({"t": [log("t", 0, *later)]}))) >= ids(0, 200)


def test_a_message_of_a_clock_that_is_behind_splits_no_trace_of_a_partition_that_runs_ahead_by_it(backfilled) -> None:
    behind = traces(0, 400)
    behind.insert(600, (1.0, rag_trace(trace_id(2, 0)).SerializeToString()))
    logs = [log("t", 0, *behind), log("t", 1, *traces(1, 400))]
    assert set(found_in(backfilled({"t": logs}))) >= ids(0, 400) | ids(1, 400)


def test_a_clock_that_is_ahead_ends_no_partition_before_its_end(backfilled) -> None:
    rows = [
        b'{"request_id": "%d", "question": "q", "contexts": ["c"], "response": "a"}' % number for number in range(900)
    ]
    messages = [
        (number / 10 + (1200 if number % 500 == 499 else 0), body)  # the last of a poll is ahead
        for number, body in enumerate(rows)
    ]
    found = found_in(backfilled({"t": [log("t", 0, *messages)]}, encoding="case", until=START + 60))
    assert found == sorted(str(number) for number in range(900) if number % 500 != 499)


def read(consumer: ScriptedConsumer, report: Callable[[str], None]) -> Iterator[topics.Dated]:
    """All messages of the topic `t`."""
    from kafka import TopicPartition

    parts = [TopicPartition("t", number) for number in range(len(consumer.logs["t"]))]
    return topics._Partitions(consumer, parts, START, float("inf"), report).merged()


def test_a_partition_with_no_messages_left_holds_the_time_of_the_others_back_no_more() -> None:
    logs = [log("t", 0, (0, b""), (1, b"")), log("t", 1, *[(one, b"") for one in range(2_000)])]
    found = list(read(ScriptedConsumer({"t": logs}), pytest.fail))
    assert len(found) == 2_002
    assert all(one.reached == one.record.timestamp / 1000 for one in found)


def test_of_a_partition_that_is_ahead_only_little_waits_in_memory() -> None:
    logs = [log("t", number, *[(one / 10, b"") for one in range(20_000)]) for number in (0, 1)]
    consumer = ScriptedConsumer({"t": logs})
    taken = {0: 0, 1: 0}
    for one in read(consumer, pytest.fail):
        taken[one.record.partition] += 1
        for part, at in consumer.at.items():
            assert at - taken[part.partition] <= 2 * 500
    assert taken == {0: 20_000, 1: 20_000}


def test_of_large_messages_fewer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_AHEAD_BYTES", 4_000)
    monkeypatch.setattr(topics, "_AHEAD", 10_000)
    consumer = ScriptedConsumer({"t": [log("t", 0, *[(one, b"-" * 100) for one in range(2_000)])]})
    taken = 0
    for _ in read(consumer, pytest.fail):
        taken += 1
        assert sum(consumer.at.values()) - taken <= 40 + 500
    assert taken == 2_000


def test_a_partition_that_sends_nothing_is_named_and_the_others_are_read_to_their_ends() -> None:
    consumer = ScriptedConsumer({"t": [log("t", number, *[(one, b"") for one in range(1_500)]) for number in (0, 1)]})
    consumer.silent = {1}
    said: list[str] = []
    assert len(list(read(consumer, said.append))) == 1_500
    assert said == ["1 partition sent no message for 15 s; the rest was not read"]
