"""A budget at work in a real monitor: what it spends is counted, and a restart draws nothing anew."""

from __future__ import annotations

from typing import Any

from tests.support.llm import LLMServer, hang, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

TRACES = 100


def configuration(llm: LLMServer) -> dict[str, Any]:
    return {
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "timeout": "60s"},
        "evaluators": [
            {"type": "overlap_groundedness"},
            {"type": "relevance", "sample": {"per_hour": 3600, "boost": "overlap_groundedness", "slope": 1.2}},
        ],
        "alerts": [],
    }


def test_after_a_restart_the_same_cases_are_judged_with_the_probabilities_that_they_had(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(hang())
        monitor = MonitorProcess(tmp_path, configuration(llm)).start()
        service = RagService.over_http(monitor.http)
        for number in range(TRACES):
            service.ask(f"Can I get my money back after {number} days?")
        service.flush()
        service.close()
        wait_until(lambda: monitor.total("ragmonitor_sampling_cases_total") == TRACES, 30, "all to be drawn")
        chosen = monitor.total("ragmonitor_evaluations_selected_total", evaluator="relevance")
        expected = monitor.total("ragmonitor_sampling_expected_total")
        assert 0 < chosen < TRACES
        wait_until(lambda: len(llm.requests) >= min(chosen, 4), 30, "questions to the judge")
        assert_balanced(monitor.samples())
        assert monitor.terminate(10) == 0

        said = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}
        llm.always(verdict(**said))
        with monitor:
            judged = {"evaluator": "relevance"}
            wait_until(lambda: monitor.total("ragmonitor_evaluations_total", **judged) == chosen, 40, "the verdicts")
            assert monitor.total("ragmonitor_evaluations_selected_total", **judged) == chosen
            assert monitor.total("ragmonitor_sampling_cases_total") == 0
            weight = monitor.total("ragmonitor_evaluation_weight_total", **judged)
            assert weight > 1.5 * chosen  # as drawn in the first process: at a share of some 10 %
            assert 0 < expected < TRACES
            assert_balanced(monitor.samples())
