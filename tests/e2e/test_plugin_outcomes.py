"""An evaluator or a sampler of a plug-in that fails costs its own evaluation: no other result, and no process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.storage.history.reader import HistoryReader
from tests.support import plugins
from tests.support.llm import LLMServer
from tests.support.monitor import MonitorProcess, assert_balanced

CODE = """
import sys
from typing import ClassVar

from monitor.plugins import DefectRule, Evaluator, Evidence, Scale, Score, Skipped, Unscored


class Label(str):
    pass


RETURNED = {
    "text-reason": lambda: Skipped("no_response"),
    "unknown-reason": lambda: Skipped("the secret of a user"),
    "unscored-reason": lambda: Unscored("the secret of a user"),
    "text-evidence": lambda: Score(1.0, "x", evidence=("the secret of a user",)),
    "no-evidence": lambda: Score(1.0, "x", evidence=None),
    "claims-below-0": lambda: Score(1.0, "x", claims_not_found=-1),
    "contradicts": lambda: Score(1.0, "x", contradicts=True),
    "facts": lambda: Score(1.0, "x", facts={"language": 5}),
    "exit": lambda: sys.exit(4),
    "own-text": lambda: Score(1.0, "x", label=Label("good")),
}


class Careless(Evaluator):
    name: ClassVar[str] = "careless"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(bad=0.0, good=0.5)
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)

    async def evaluate(self, case, judge):
        return RETURNED[case.response]()
"""
SAMPLER = """
from monitor.plugins import FixedSampler


class Moody(FixedSampler):
    def probability(self, case):
        return {"good": 1.0}[case.response]
"""
ERRORS = (
    "unknown-reason",
    "unscored-reason",
    "text-evidence",
    "no-evidence",
    "claims-below-0",
    "contradicts",
    "facts",
    "exit",
)
ANSWERS = ("text-reason", "own-text", *ERRORS)


@pytest.mark.parametrize("processes", [0, 1], ids=["in the process of the monitor", "in a worker"])
def test_a_careless_evaluator_costs_its_own_score_and_nothing_else(tmp_path: Path, processes: int) -> None:
    kept = tmp_path / "results.jsonl"
    config: dict[str, Any] = {
        "evaluators": [{"type": "careless"}, {"type": "refusal_pattern"}, {"type": "response_length"}],
        "alerts": [],
        "scoring": {"processes": processes},
    }
    monitor = MonitorProcess(tmp_path, config)
    monitor.config["sinks"].append({"type": "jsonl", "path": str(kept)})
    entries = {"evaluators": {"careless": "careless_plugin:Careless"}}
    monitor.environment = plugins.install_package(
        tmp_path / "plugins", "careless_plugin", {"careless_plugin.py": CODE}, entries
    )
    rows = [{"request_id": one, "question": "What?", "contexts": ["That."], "answer": one} for one in ANSWERS]
    with monitor:
        assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(len(ANSWERS), "ragmonitor_traces_total", outcome="read")
        monitor.wait_for_total(0, "ragmonitor_traces_pending")
        monitor.wait_for_total(3 * len(ANSWERS), "ragmonitor_sink_results_total", sink="jsonl", outcome="sent")
        assert_balanced(monitor.samples())
        count = monitor.total
        assert count("ragmonitor_unscored_total", evaluator="careless", reason="error") == len(ERRORS)
        assert count("ragmonitor_skipped_total", evaluator="careless", reason="no_response") == 1
        assert count("ragmonitor_evaluations_total", evaluator="careless") == 1
        assert count("ragmonitor_workers_replaced_total") == 0
        assert count("ragmonitor_database_unwritten_records_total") == 0
        assert monitor.terminate() == 0
    results = HistoryReader(tmp_path / "state" / "history.db").results(limit=1000)
    assert len(results) == 3 * len(ANSWERS), "no evaluator loses a result to another"
    assert len(kept.read_text().splitlines()) == 3 * len(ANSWERS)
    reasons = {row["request_id"]: row["detail"] for row in results if row["outcome"] == "unscored"}
    assert reasons.keys() == set(ERRORS)
    assert reasons["text-evidence"] == "Score.evidence contains an object of type str, not Evidence"
    log = monitor.log.read_text()
    assert log.count('"evaluator_failed"') == len(ERRORS)
    assert "Skipped.reason is not one of context_not_recorded" in log
    assert "secret" not in log
    with monitor:  # and nothing is left that could end the next process
        monitor.wait_for_total(0, "ragmonitor_spool_records")


def test_a_careless_sampler_costs_the_evaluations_that_it_cannot_decide(tmp_path: Path) -> None:
    with LLMServer() as llm:
        judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1}
        moody = {"sample": {"type": "moody"}}
        evaluators = [{"type": "coherence", **moody}, {"type": "refusal_pattern", **moody}, {"type": "response_length"}]
        monitor = MonitorProcess(tmp_path, {"judge": judge, "evaluators": evaluators, "alerts": []})
        entries = {"samplers": {"moody": "moody_plugin:Moody"}}
        monitor.environment = plugins.install_package(
            tmp_path / "plugins", "moody_plugin", {"moody_plugin.py": SAMPLER}, entries
        )
        with monitor:
            rows = [
                {"question": f"What {n}?", "contexts": ["That."], "answer": "good" if n else "bad"} for n in range(3)
            ]
            assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
            monitor.wait_for_total(3, "ragmonitor_traces_total", outcome="read")
            monitor.wait_for_total(0, "ragmonitor_traces_pending")
            assert_balanced(monitor.samples())
            assert monitor.total("ragmonitor_unscored_total", evaluator="coherence", reason="error") == 1
            assert monitor.total("ragmonitor_unscored_total", evaluator="refusal_pattern", reason="error") == 1
            assert monitor.total("ragmonitor_evaluations_total", evaluator="refusal_pattern") == 2
            assert monitor.total("ragmonitor_evaluations_total", evaluator="response_length") == 3
            assert "the sampler moody raised KeyError" in monitor.log.read_text()
