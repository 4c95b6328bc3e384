"""What boosted sampling has learned survives a restart, and is known to every replica that reads the same topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka import Broker
from tests.support.kafka_source import produce
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

TRACES = 100
SAID = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}


def monitor(folder: Path, llm: LLMServer, topic: dict[str, Any] | None = None) -> MonitorProcess:
    folder.mkdir(exist_ok=True)
    made = MonitorProcess(
        folder,
        {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url},
            "evaluators": [
                {"type": "overlap_groundedness"},
                {"type": "relevance", "sample": {"per_hour": 3600, "boost": "overlap_groundedness", "slope": 1.2}},
            ],
            "alerts": [],
        },
    )
    made.config["sinks"] += [topic] if topic else []
    return made


def ask(running: MonitorProcess) -> float:
    """Send traces; the number of verdicts that were learned from, when all are judged and delivered."""
    service = RagService.over_http(running.http)
    for number in range(TRACES):
        service.ask(f"Can I get my money back after {number} days?")
    service.flush()
    service.close()

    def done() -> bool:
        judged = running.total("ragmonitor_requests_total", outcome="evaluated")
        return judged == TRACES and not running.total("ragmonitor_traces_pending")

    wait_until(done, 60, "the verdicts")
    assert_balanced(running.samples())
    return running.total("ragmonitor_sampling_learned_results_total")


def replayed(running: MonitorProcess) -> float:
    return running.total("ragmonitor_sampling_replayed_results_total")


def test_after_a_restart_the_samplers_know_what_the_history_tells_before_the_first_trace(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(verdict(**SAID))
        process = monitor(tmp_path, llm).start()
        learned = ask(process)
        assert learned > 0
        assert replayed(process) == 0
        assert process.terminate(20) == 0
        with process:
            assert replayed(process) == learned
            assert process.total("ragmonitor_sampling_learned_results_total") == 0


@pytest.mark.timeout(900)
def test_a_replica_hears_what_another_judges_and_a_new_one_without_a_disk_what_all_have(
    kafka: Broker, tmp_path: Path
) -> None:
    kafka.create_topics("memory.results")
    produce(kafka, "memory.results", [(None, b"[" * 100_000)])  # as anyone with access may write: it costs only itself
    topic = {"type": "kafka", "brokers": kafka.address, "topic": "memory.results"}
    with LLMServer() as llm:
        llm.always(verdict(**SAID))
        with monitor(tmp_path / "first", llm, topic) as first, monitor(tmp_path / "second", llm, topic) as second:
            learned = ask(first)
            assert learned > 0
            wait_until(lambda: replayed(second) == learned, 30, "what the first has judged")
            assert replayed(first) == 0
            assert first.total("ragmonitor_sink_failures_total") == 0
            assert first.terminate(20) == 0
            assert second.terminate(20) == 0
        with monitor(tmp_path / "third", llm, topic) as third:
            wait_until(lambda: replayed(third) == learned, 30, "what was judged before")
