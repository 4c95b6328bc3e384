"""`make kafka`: an Apache Kafka to try the monitor with, until Ctrl-C."""

from __future__ import annotations

import random
import signal
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.kafka import Broker
from tests.support.kafka_traces import Traffic

TOPICS = {"otlp_spans": 6, "otlp_logs": 6, "rag_cases": 3, "rag_results": 3, "rag_dead_letters": 1}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rag-monitor-kafka-") as folder:
        broker = Broker(Path(folder) / "broker", port=_usual_port())
        print("Starting Kafka (the first time Maven fetches it) ...", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            broker.start()
            for topic, partitions in TOPICS.items():
                broker.create_topics(topic, partitions=partitions)
            with Traffic(broker.address) as traffic:
                traffic.traces("otlp_spans", 20, bad=0.2)
                traffic.rows("rag_cases", 20)
            print(_WELCOME.format(address=broker.address, topics=", ".join(TOPICS)), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            print("\nStopping Kafka; its data goes with it.")
        except (pytest.fail.Exception, pytest.skip.Exception) as error:
            sys.exit(str(error))
        finally:
            # A terminal's Ctrl-C has reached Kafka too.
            broker.stop()


_WELCOME = """Kafka listens on {address}, on this machine only.
Topics: {topics}; 20 traces of six spans are in otlp_spans (OTLP protobuf), 20 rows in rag_cases (JSON).

More of both:        .venv/bin/python -m tests.support.demo_kafka {address} 100
A row of your own:   echo '{{"request": "Q?", "response": "A.", "retrieved_context": [{{"content": "C."}}]}}' | \\
                       .venv/bin/kafka-python producer -b {address} -t rag_cases
What lies in there:  .venv/bin/kafka-python consumer -b {address} -t rag_cases -C auto_offset_reset=earliest

Ctrl-C stops it."""


def produce(address: str, count: int) -> None:
    with Traffic(address, seed=random.getrandbits(32)) as traffic:
        traffic.traces("otlp_spans", count, bad=0.2)
        traffic.rows("rag_cases", count)
    print(f"{count} traces are in otlp_spans, {count} rows in rag_cases")


def _usual_port() -> int | None:
    with socket.socket() as probe:
        return None if probe.connect_ex(("127.0.0.1", 9092)) == 0 else 9092


if __name__ == "__main__":
    if len(sys.argv) == 3:
        produce(sys.argv[1], int(sys.argv[2]))
    else:
        main()
