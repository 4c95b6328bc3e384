"""Three replicas share what lies in Kafka, through everything that may befall them: nothing is lost."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.statistics import consistent_sampling
from tests.support.kafka import Broker
from tests.support.kafka_fleet import LETTERS, Fleet, Load, account, dead_letters, wait_for_all
from tests.support.llm import LLMServer, slow, verdict
from tests.support.monitor import assert_balanced

FULL = bool(os.environ.get("RAGMONITOR_FULL"))
"""The size that the promise was made for; without it a quarter, which shows the same in less time."""

TRACES, BLOWS = (20_000, 40) if FULL else (6_000, 12)
OUTAGE = 30.0
JUDGED = 0.1
LARGEST_MB = 600
SAID = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}

# kafka-python leaves the sockets of refused connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    yield
    gc.collect()


def configuration(broker: Broker, llm: LLMServer, sample: Any, group: str = "fleet") -> dict[str, Any]:
    connection = {"type": "kafka", "brokers": broker.address}
    topics = {f"{group}.spans": "otlp_proto", f"{group}.rows": "case"}
    return {
        "sources": [{**connection, "group": group, "topics": topics, "session_timeout": "4s"}],
        "sinks": [{**connection, "topic": f"{group}.results"}],
        "assembly": {"grace_period": "500ms", "idle_timeout": "60s"},
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url},
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "relevance", "sample": sample}],
        "sampling": {"salt": "fleet"},
        "alerts": [],
    }


def create(broker: Broker, group: str, partitions: int = 6) -> None:
    broker.create_topics(f"{group}.spans", f"{group}.rows", f"{group}.results", partitions=partitions)


@pytest.mark.timeout(6000 if FULL else 1800)
def test_nothing_is_lost_whatever_befalls_replicas_and_broker(tmp_path: Path) -> None:
    """Every trace and row has its results, every message that cannot be read is put aside, nothing stands still."""
    with Broker(tmp_path / "broker") as broker, LLMServer() as llm:
        llm.always(lambda asked: slow(verdict(**SAID), 0.2 + int(asked.at * 1000) % 8 / 10))
        broker.create_topics(LETTERS, partitions=1)
        create(broker, "fleet")
        load = Load(broker, "fleet.spans", "fleet.rows")
        for _ in range(4):
            load.send(TRACES // 8, to_be_spoilt=True)
        load.spoil()
        fleet = Fleet(tmp_path, 3, configuration(broker, llm, f"{JUDGED:.0%}"))
        began = time.monotonic()
        with fleet:
            strike(fleet, load)
            outage = threading.Thread(target=stop_for_a_while, args=(broker,))
            outage.start()
            while outage.is_alive():
                fleet.befall()
                fleet.check()
            strike(fleet, load)
            wait_for_all(broker, "fleet", ["fleet.spans", "fleet.rows"], 400)
            fleet.wait_ready()
            fleet.check()
            seconds = time.monotonic() - began
            for one in fleet.replicas:
                assert_balanced(one.samples())
            failures = fleet.total("ragmonitor_sink_failures_total")
        told = account(broker, "fleet.results")
        letters = dead_letters(broker)
        print(
            f"\n{len(load.traces)} traces in {load.messages} messages, {len(load.rows)} rows, {len(load.poison)} bad;"
            f" {seconds:.0f} s; {dict(fleet.befell)}; lives {[one.lives for one in fleet.replicas]};"
            f" {len(told.results)} results, {told.repeats} repeats, {told.changed} of them of another score;"
            f" {letters.total()} dead letters; peak MB {[round(one.peak_mb) for one in fleet.replicas]}"
        )
        all_ids = {*load.traces, *load.rows}
        chosen = {one for one in all_ids if consistent_sampling.chosen(one, "fleet", JUDGED)}
        wanted = {(one, "overlap_groundedness") for one in all_ids} | {(one, "relevance") for one in chosen}
        missing = wanted - told.results.keys()
        assert not missing, f"{len(missing)} results are missing, such as {sorted(missing)[:5]}"
        assert not told.results.keys() - wanted
        for results in told.results.values():
            assert results[0]["outcome"] == "score"
            assert len({one["id"] for one in results}) == 1, "a repeat must be recognisable"
        assert not failures
        places = {(one.topic, one.partition, one.offset) for one in load.poison}
        assert {(one.topic, one.partition, one.offset) for one in letters} == places
        reasons = {(one.topic, one.partition, one.offset): one.reason for one in letters}
        for one in load.poison:
            expected = "checksum" if one.carries == "checksum" else "invalid"
            assert reasons[one.topic, one.partition, one.offset] == expected
        assert max(one.peak_mb for one in fleet.replicas) < LARGEST_MB


def strike(fleet: Fleet, load: Load) -> None:
    """Blow upon blow, while more comes."""
    for _ in range(BLOWS // 2):
        load.send(TRACES // 2 // BLOWS)
        fleet.befall()
        fleet.check()
        time.sleep(1)


def stop_for_a_while(broker: Broker) -> None:
    broker.stop()
    time.sleep(OUTAGE)
    broker.start()
