"""A quota at work in a real monitor: it thins the loud app alone, and after a crash nothing is drawn anew."""

from __future__ import annotations

import json
from typing import Any

from tests.support.llm import LLMServer, hang, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import CONTEXT, GOOD
from tests.support.tools import wait_until

LOUD, QUIET = 120, 4


def configuration(llm: LLMServer) -> dict[str, Any]:
    return {
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "timeout": "60s"},
        "evaluators": [{"type": "relevance", "sample": 1.0}],
        "traffic": {"quotas": {"loud": {"per_hour": 120}}},
        "alerts": [],
    }


def send(monitor: MonitorProcess, app: str, number: int) -> None:
    """Send rows with the same ids in every run: by them it is decided which are evaluated."""
    rows = [
        {"id": f"{app}-{one}", "app": app, "question": f"Money back after {one} days?", "contexts": [CONTEXT],
         "response": GOOD}
        for one in range(number)
    ]  # fmt: skip
    assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200


def test_the_loud_app_is_thinned_and_what_was_drawn_holds_after_a_crash(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(hang())
        monitor = MonitorProcess(tmp_path, configuration(llm)).start()

        def selected(app: str) -> float:
            return monitor.total("ragmonitor_evaluations_selected_total", app=app)

        def drawn() -> bool:
            ended = monitor.total("ragmonitor_requests_total", app="loud", outcome="evaluated")
            return selected("quiet") == QUIET and ended + selected("loud") == LOUD

        send(monitor, "loud", LOUD)
        send(monitor, "quiet", QUIET)
        wait_until(drawn, 30, "all to be drawn")
        chosen = selected("loud")
        assert 1 <= chosen <= 40  # of 120, ten at first and two a minute later on are expected
        assert monitor.total("ragmonitor_quota_thinned_cases_total", app="loud") >= LOUD - 10
        assert monitor.total("ragmonitor_quota_thinned_cases_total", app="quiet") == 0
        wait_until(lambda: len(llm.requests) >= min(chosen, 4), 30, "questions to the judge")
        assert_balanced(monitor.samples())
        no_answer = {"id": "last", "app": "shop", "question": "Why?", "contexts": ["So."]}
        # What was drawn is on the disk when the next delivery is acknowledged.
        assert monitor.post(json.dumps(no_answer).encode(), "/v1/cases", "application/json") == 200
        monitor.kill()

        llm.always(verdict(observations=["it answers"], explanation="it answers the question", score=5))
        with monitor:
            wait_until(lambda: monitor.total("ragmonitor_evaluations_total") == chosen + QUIET, 40, "the verdicts")
            assert monitor.total("ragmonitor_quota_thinned_cases_total") == 0, "nothing is drawn anew"
            assert selected("loud") == chosen
            assert monitor.total("ragmonitor_evaluation_weight_total", app="quiet") == QUIET
            assert monitor.total("ragmonitor_evaluation_weight_total", app="loud") > 2 * chosen
            assert_balanced(monitor.samples())
