"""What reading from Kafka costs: traces a second for one, two and three replicas, processor time a message.

    python -m benchmarks.kafka [--messages 30000]        (needs java and mvn: a real Apache Kafka is started)

A message is one trace of six spans, about 6 kB, keyed by its id. Monitors join a topic with six partitions, stand still
while it is filled, and go on: the time runs until the group has committed all of it, so until every tenth trace is
judged by `overlap_groundedness`. Beside them, in the same run, what kafka-python costs alone.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tests.support.kafka import Broker
from tests.support.kafka_fleet import LETTERS, Fleet, Template, left
from tests.support.tools import wait_until

_PARTITIONS = 6
_PADDING = 1_400
_LONGEST = 600.0


class Figures(NamedTuple):
    """Messages a second, and microseconds of processor a message in all processes together."""

    per_second: float
    microseconds: float


def messages(count: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Traces of their own: key and value."""
    template, draw = Template(padding=_PADDING), random.Random(seed)
    for _ in range(count):
        trace_id = f"{draw.getrandbits(128) | 1:032x}"
        yield trace_id.encode(), template.messages(trace_id)[0]


def produce(broker: Broker, topic: str, made: list[tuple[bytes, bytes]]) -> Figures:
    """Write them, acknowledged."""
    from kafka import KafkaProducer  # noqa: PLC0415 - logs at import

    producer = KafkaProducer(bootstrap_servers=broker.address, acks="all", linger_ms=10)
    producer.partitions_for(topic)
    began, processor = time.monotonic(), time.process_time()
    for key, value in made:
        producer.send(topic, value, key=key)
    producer.flush()
    figures = _figures(len(made), time.monotonic() - began, time.process_time() - processor)
    producer.close()
    return figures


def bare(broker: Broker, topic: str, count: int) -> Figures:
    """Read them and do nothing."""
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415

    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, number) for number in range(_PARTITIONS)])
    began, processor, read = time.monotonic(), time.process_time(), 0
    while read < count:
        read += sum(len(records) for records in consumer.poll(timeout_ms=500).values())
    figures = _figures(count, time.monotonic() - began, time.process_time() - processor)
    consumer.close()
    return figures


def monitors(
    broker: Broker, folder: Path, replicas: int, made: list[tuple[bytes, bytes]], *, rate: float = 0.1
) -> Figures:
    """A group of monitors on a topic of its own, which keep `rate` of the traces."""
    topic = f"spans-{replicas}-{rate:g}"
    broker.create_topics(topic, partitions=_PARTITIONS)
    source: dict[str, Any] = {
        "type": "kafka",
        "brokers": broker.address,
        "group": topic,
        "topics": {topic: "otlp_proto"},
    }
    config = {
        "sources": [{**source, "session_timeout": "5m"}],
        "sampling": {"traces": rate},
        "assembly": {"grace_period": "1s"},
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [],
        "log": {"level": "WARNING"},
    }
    folder.mkdir()
    with Fleet(folder, replicas, config) as fleet:
        name, each = "ragmonitor_consumer_assigned_partitions", _PARTITIONS // replicas
        wait_until(
            lambda: all(one.total(name) == each for one in fleet.replicas), 120, "its partitions for each replica"
        )
        time.sleep(2)
        for one in fleet.replicas:
            one.send_signal(signal.SIGSTOP)
        produce(broker, topic, made)
        before = sum(_cpu_seconds(fleet))
        for one in fleet.replicas:
            one.send_signal(signal.SIGCONT)
        began = time.monotonic()
        while left(broker, topic, [topic]):
            if time.monotonic() - began > _LONGEST:
                raise SystemExit(f"{replicas} replicas were not done after {_LONGEST:g} s")
            time.sleep(0.2)
        seconds = time.monotonic() - began
        return _figures(len(made), seconds, sum(_cpu_seconds(fleet)) - before)


def _figures(count: int, seconds: float, processor: float) -> Figures:
    return Figures(count / seconds, processor / count * 1e6)


def _cpu_seconds(fleet: Fleet) -> Iterator[float]:
    for one in fleet.replicas:
        assert one.process is not None
        fields = Path(f"/proc/{one.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        yield (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--messages", type=int, default=30_000)
    made = list(messages(ask.parse_args().messages))
    size = sum(len(value) for _, value in made) / len(made)
    load = os.getloadavg()[0]
    table = Table(
        "what", title=f"{len(made):,} messages of {size / 1000:.1f} kB; {os.cpu_count()} cores, load {load:.1f} before"
    )
    for name in ("messages (traces) a second", "processor a message, us"):
        table.add_column(name, justify="right")

    def add(what: str, got: Figures) -> None:
        table.add_row(what, f"{got.per_second:,.0f}", f"{got.microseconds:.0f}")

    with tempfile.TemporaryDirectory(prefix="kafka-benchmark-") as name:
        folder = Path(name)
        with Broker(folder / "broker") as broker:
            broker.create_topics(LETTERS, partitions=1)
            broker.create_topics("bare", partitions=_PARTITIONS)
            add("kafka-python, writing", produce(broker, "bare", made))
            add("kafka-python, reading and doing nothing", bare(broker, "bare", len(made)))
            add("1 replica that keeps nothing", monitors(broker, folder / "monitors-0", 1, made, rate=0.0))
            for replicas in (1, 2, 3):
                got = monitors(broker, folder / f"monitors-{replicas}", replicas, made)
                add(f"{replicas} replica{'s' if replicas > 1 else ''}", got)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
