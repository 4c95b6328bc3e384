"""The cost of reading from Kafka: traces a second for one, two and three replicas, processor time per message.

    python -m benchmarks.kafka [--messages 30000] [--quick] [--against CHECKOUT]

It needs java and mvn: a real Apache Kafka is started. A message is one trace of six spans, about 15 kB
(`benchmarks.traffic`), keyed by its id. Monitors join a topic with six partitions, are stopped while it is filled, and
then continue: the time runs until the group has committed all of it, so until every tenth trace is judged by
`overlap_groundedness`. The cost of kafka-python alone is measured in the same run. With `--against` another checkout
is measured, too.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.running import HERE, Monitor, cpu_seconds, get, running, wait_for
from benchmarks.traffic import SPANS_IN_TRACE, Service
from tests.support.kafka import Broker
from tests.support.kafka_fleet import LETTERS, left

_PARTITIONS = 6
_LONGEST = 600.0


class Figures(NamedTuple):
    """Messages per second, and microseconds of processor time per message in all processes together."""

    per_second: float
    microseconds: float


def messages(count: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """Yield distinct traces, each as key and value."""
    for request in Service(seed).requests(count, SPANS_IN_TRACE):
        key = request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex().encode()
        yield key, request.SerializeToString()


def produce(broker: Broker, topic: str, made: list[tuple[bytes, bytes]]) -> Figures:
    """Write the messages and wait for their acknowledgement."""
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
    """Read the messages and do nothing with them."""
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
    broker: Broker, replicas: int, made: list[tuple[bytes, bytes]], *, rate: float = 0.1, checkout: Path = HERE
) -> Figures:
    """Run a group of monitors of `checkout` on a separate topic; they keep the share `rate` of the traces."""
    topic = f"spans-{replicas}-{rate:g}-{random.SystemRandom().randrange(10**9)}"
    broker.create_topics(topic, partitions=_PARTITIONS)
    source = {"type": "kafka", "brokers": broker.address, "group": topic, "topics": {topic: "otlp_proto"}}
    config = {
        "sources": [{**source, "session_timeout": "5m"}],
        "sampling": {"traces": rate},
        "assembly": {"grace_period": "1s"},
        "evaluators": [{"type": "overlap_groundedness"}],
    }
    with ExitStack() as stack:
        group = [stack.enter_context(running(config, checkout=checkout)) for _ in range(replicas)]
        each = _PARTITIONS // replicas
        wait_for(lambda: all(_assigned(one) == each for one in group), 120, "its partitions for each replica")
        time.sleep(2)
        for one in group:
            os.kill(one.pid, signal.SIGSTOP)
        produce(broker, topic, made)
        before = sum(cpu_seconds(one.pid) for one in group)
        for one in group:
            os.kill(one.pid, signal.SIGCONT)
        began = time.monotonic()
        wait_for(lambda: not left(broker, topic, [topic]), _LONGEST, "the end of all messages", every=0.2)
        seconds = time.monotonic() - began
        return _figures(len(made), seconds, sum(cpu_seconds(one.pid) for one in group) - before)


def _assigned(monitor: Monitor) -> int:
    lines = get(monitor.ports["metrics"], "/metrics").splitlines()
    name = "ragmonitor_consumer_assigned_partitions"
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(name))


def _figures(count: int, seconds: float, processor: float) -> Figures:
    return Figures(count / seconds, processor / count * 1e6)


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--messages", type=int, default=30_000)
    ask.add_argument("--quick", action="store_true", help="one replica that keeps nothing, and one that keeps a tenth")
    ask.add_argument("--against", type=Path, help="another checkout")
    options = ask.parse_args()
    made = list(messages(options.messages))
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
            checkouts = {
                "": HERE,
                **({f", {options.against.name}": options.against.resolve()} if options.against else {}),
            }
            for rate, what in ((0.0, "1 replica that keeps nothing"), (0.1, "1 replica")):
                for other, checkout in checkouts.items():
                    add(what + other, monitors(broker, 1, made, rate=rate, checkout=checkout))
            for replicas in () if options.quick else (2, 3):
                add(f"{replicas} replicas", monitors(broker, replicas, made))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
