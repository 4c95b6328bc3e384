"""A group of monitors on one Kafka: fast traffic for them, their faults, and a check of their results."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.kafka import Broker
from tests.support.kafka_traces import UNREADABLE, Sent, break_checksum, in_parts, poison, rag_trace, row
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import PATIENCE, wait_until

LETTERS = "rag-monitor-dead-letters"
_MARK = "5c" * 10 + "a7" * 6
_STRADDLING = 20  # traces whose messages are interleaved


class Template:
    """A six-span trace in `parts` messages, encoded once: other traces are the same bytes with different ids."""

    def __init__(self, parts: int = 1, *, padding: int = 0) -> None:
        whole = rag_trace(_MARK, padding=padding)
        self._parts = [one.SerializeToString() for one in (in_parts(whole, parts) if parts > 1 else [whole])]

    def messages(self, trace_id: str) -> list[bytes]:
        mark, own = bytes.fromhex(_MARK), bytes.fromhex(trace_id)
        return [part.replace(mark, own).replace(mark[-6:], own[-6:]) for part in self._parts]


class Load:
    """The messages sent to a topic of traces and one of rows, with poison among them; it records all of them.

    Messages of a trace are interleaved with those of others, in one partition if they are keyed. One in a hundred
    messages for traces is poison, of five kinds in turn. The fifth is a good message in a separate batch, whose
    checksum `spoil` breaks.
    """

    def __init__(
        self, broker: Broker, spans: str, rows: str = "", *, parts: int = 3, keyed: bool = True, seed: int = 1
    ) -> None:
        self.traces: list[str] = []
        self.rows: list[str] = []
        self.poison: list[Sent] = []
        self.messages = 0
        self._broker, self._spans, self._rows, self._keyed = broker, spans, rows, keyed
        self._draw = random.Random(seed)
        self._template = Template(parts)

    def send(self, traces: int, *, to_be_spoilt: bool = False) -> None:
        """Send this many traces, a twentieth as many rows, and their poison; return when everything is acknowledged."""
        from kafka import KafkaProducer

        options = {"acks": "all", "linger_ms": 20, "compression_type": "lz4"}
        producer = KafkaProducer(bootstrap_servers=self._broker.address, **options)
        try:
            self._send(producer, traces)
            if to_be_spoilt:
                self._send_alone(producer, self.messages // 250 - sum(one.carries == "checksum" for one in self.poison))
        finally:
            producer.close()

    def _send(self, producer: Any, traces: int) -> None:
        waiting: list[tuple[str, bytes, Any]] = []
        partitions = producer.partitions_for(self._spans)
        for start in range(0, traces, _STRADDLING):
            ids = [self._id() for _ in range(min(_STRADDLING, traces - start))]
            self.traces += ids
            queues = [[(id_, one) for one in self._template.messages(id_)] for id_ in ids]
            while queues:
                at = self._draw.randrange(len(queues))
                id_, message = queues[at].pop(0)
                partition = None if self._keyed else self._draw.randrange(len(partitions))
                producer.send(self._spans, message, key=id_.encode() if self._keyed else None, partition=partition)
                self.messages += 1
                if not queues[at]:
                    del queues[at]
                if self.messages % 125 == 0:
                    kind = UNREADABLE[self.messages // 125 % len(UNREADABLE)]
                    value = poison(kind, "otlp_proto", self._draw)
                    waiting.append((kind, value, producer.send(self._spans, value)))
        for _ in range(traces // 20 if self._rows else 0):
            self.rows.append(f"row-{self._draw.getrandbits(64):x}")
            producer.send(self._rows, json.dumps(row(self.rows[-1])).encode(), key=self.rows[-1].encode())
        producer.flush()
        for kind, value, future in waiting:
            self._note(future.get(30), kind, value)

    def spoil(self) -> None:
        """Break the batches that should be unreadable. The broker is stopped in order for that, and started again."""
        spoilt = [one for one in self.poison if one.carries == "checksum"]
        self._broker.stop()
        for one in spoilt:
            offsets = break_checksum(self._broker.segment(one.topic, one.partition), one.offset)
            assert list(offsets) == [one.offset], "the message had others beside it in its batch"
        self._broker.start()

    def _send_alone(self, producer: Any, count: int) -> None:
        partitions = sorted(producer.partitions_for(self._spans))
        for _ in range(count):
            (value, *_) = self._template.messages(self._id())
            future = producer.send(self._spans, value, partition=self._draw.choice(partitions))
            producer.flush()
            self._note(future.get(30), "checksum", value)

    def _id(self) -> str:
        return f"{self._draw.getrandbits(128) | 1:032x}"

    def _note(self, done: Any, kind: str, value: bytes) -> None:
        self.poison.append(Sent(done.topic, done.partition, done.offset, kind, value))


class Replica(MonitorProcess):
    """A monitor that may be killed, suspended and started again, with or without its disk."""

    peak_mb = 0.0
    lives = 0

    def spawn(self) -> None:
        self.lives += 1
        super().spawn()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def measure(self) -> None:
        """Record the highest memory use of this process."""
        if self.running:
            assert self.process is not None
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                self.peak_mb = max(self.peak_mb, int(found[1]) / 1024)

    def kill(self) -> None:
        self.measure()
        super().kill()

    def lose_disk(self) -> None:
        shutil.rmtree(self.config["storage"]["path"], ignore_errors=True)

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


class Fleet:
    """Replicas of one configuration, and their faults, drawn from a seed."""

    def __init__(self, folder: Path, count: int, config: dict[str, Any], *, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self.befell: Counter[str] = Counter()
        self.replicas: list[Replica] = []
        for number in range(count):
            own = folder / f"replica-{number}"
            own.mkdir()
            made = Replica(own)
            made.config |= {**config, "sinks": [*made.config["sinks"], *config.get("sinks", ())]}
            self.replicas.append(made)

    def start(self) -> Self:
        for one in self.replicas:
            one.spawn()
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until each replica listens, even one that was just restarted. Fails if one has ended by itself."""
        for one in self.replicas:
            wait_until(one.ready, 90, "readiness of a replica")

    def befall(self) -> None:
        """Kill one replica (it may lose its disk) and start it again, or suspend it for some seconds."""
        victim = self._draw.choice(self.replicas)
        kind = self._draw.choice(("killed", "killed without a disk", "suspended", "suspended", "suspended for long"))
        self.befell[kind] += 1
        if kind.startswith("killed"):
            victim.kill()
            if "disk" in kind:
                victim.lose_disk()
            time.sleep(self._draw.uniform(0.2, 2))
            victim.spawn()
        else:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(self._draw.uniform(6, 9) if "long" in kind else self._draw.uniform(0.5, 3))
            victim.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Check that the ledger of each replica that answers balances now."""
        for one in self.replicas:
            one.measure()
            with contextlib.suppress(OSError):
                assert_balanced(one.samples())

    def total(self, name: str, **labels: str) -> float:
        return sum(one.total(name, **labels) for one in self.replicas)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for one in self.replicas:
            one.kill()


def read_all(broker: Broker, topic: str) -> list[Any]:
    """Return every record of a topic, each partition in order."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest")
    try:
        ends = {TopicPartition(topic, number): end for number, end in broker.end_offsets(topic).items()}
        consumer.assign(list(ends))
        found: list[Any] = []
        while any(consumer.position(at) < end for at, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                found += records
    finally:
        consumer.close()
    return found


def left(broker: Broker, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    """Return how many messages the group has not committed, by partition; without partitions that have none."""
    committed = broker.group_offsets(group)
    ends = {(topic, number): end for topic in topics for number, end in broker.end_offsets(topic).items()}
    return {at: end - committed.get(at, 0) for at, end in ends.items() if end != committed.get(at, 0)}


def wait_for_all(broker: Broker, group: str, topics: Sequence[str], seconds: float) -> None:
    """Wait until the group has committed the end of every partition."""
    deadline = time.monotonic() + seconds * PATIENCE
    while missing := left(broker, group, topics):
        assert time.monotonic() < deadline, f"not committed after {seconds * PATIENCE:g} s: {missing}"
        time.sleep(1)


class Account(NamedTuple):
    """Results by request and evaluator; `changed` are repeats with a different score from the first."""

    results: dict[tuple[str, str], list[dict[str, Any]]]
    rows: int
    changed: int

    @property
    def repeats(self) -> int:
        return self.rows - len(self.results)


def account(broker: Broker, topic: str) -> Account:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    records = read_all(broker, topic)
    for record in records:
        result = json.loads(record.value)
        found[result["request_id"], result["evaluator"]].append(result)
    changed = sum(one["score"] != each[0]["score"] for each in found.values() for one in each[1:])
    return Account(dict(found), len(records), changed)


class Dead(NamedTuple):
    topic: str
    partition: int
    offset: int
    reason: str


def dead_letters(broker: Broker) -> Counter[Dead]:
    """Return the positions of the messages with dead letters, the reasons, and the number of letters for each."""
    found: Counter[Dead] = Counter()
    for record in read_all(broker, LETTERS):
        told = {name.removeprefix("ragmonitor."): value.decode() for name, value in record.headers}
        first, last = int(told["offset"]), int(told.get("last_offset", told["offset"]))
        for offset in range(first, last + 1):
            found[Dead(told["topic"], int(told["partition"]), offset, told["reason"])] += 1
    return found
