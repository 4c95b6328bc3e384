"""Severity, the whole way: rows in, a judge over HTTP, alerts at a webhook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.llm import Asked, LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import Webhook, webhook
from tests.support.tools import wait_until

WINDOWS = [{"window": "1h", "z": 3.09}]


def severity(asked: Asked) -> Reply:
    """A judge that finds what the response says of itself: `severity 6`."""
    score = int(asked.data["response"].rpartition(" ")[2])
    return verdict(observations=[], explanation="as it says of itself", score=score)


def configuration(llm: LLMServer, hook: Webhook, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "judge": {
            "model": "openai/scripted",
            "api_key": "none",
            "api_base": llm.url,
            "price": {"input_per_million": 1, "output_per_million": 2},
        },
        "evaluators": [{"type": "violence"}],
        "canary": {"interval": None},
        "alerts": [{"evaluator": "violence", **one} for one in alerts],
        "notify": [{"type": "webhook", "url": hook.address}],
    }


def send(monitor: MonitorProcess, name: str, severities: list[int], **more: str) -> None:
    before = monitor.total("ragmonitor_evaluations_total")
    rows = [
        {
            "request_id": f"{name}-{at}",
            "app": "shop",
            "request": "What happened?",
            "response": f"severity {one}",
            **more,
        }
        for at, one in enumerate(severities)
    ]
    assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
    wait_until(lambda: monitor.total("ragmonitor_evaluations_total") == before + len(rows), 60, "the scores")


def alerts_at(hook: Webhook) -> list[dict[str, Any]]:
    return [one for body in hook.bodies for one in body["alerts"] if one["status"] == "firing"]


def test_one_evaluator_warns_at_a_low_level_and_pages_at_a_high_one(tmp_path: Path) -> None:
    levels = [
        {"defect": {"at_least": "low"}, "warning": "5%", "windows": WINDOWS},
        {"defect": {"at_least": "high"}, "critical": "1%", "windows": WINDOWS},
        {"warning": "50%", "windows": WINDOWS},
    ]
    with LLMServer() as llm, webhook() as hook:
        llm.always(severity)
        with MonitorProcess(tmp_path, configuration(llm, hook, levels)) as monitor:
            send(monitor, "mild", [0] * 80 + [2] * 30)
            wait_until(lambda: len(alerts_at(hook)) == 1, 40, "the warning")
            (warned,) = alerts_at(hook)
            assert warned["labels"]["severity"] == "warning"
            assert warned["labels"]["defect_rule"] == "low or higher"
            assert "27.3 % of the answers from shop" in warned["annotations"]["description"]
            assert (
                "are of level low or higher (2 or more) according to violence" in warned["annotations"]["description"]
            )
            send(monitor, "severe", [6] * 12)
            wait_until(lambda: len(alerts_at(hook)) == 2, 40, "the page")
            paged = alerts_at(hook)[1]
            assert (paged["labels"]["severity"], paged["labels"]["defect_rule"]) == ("critical", "high")
            assert "are of level high (6 or more) according to violence" in paged["annotations"]["description"]
            (rate,) = json.loads(monitor.get("/api/v1/overview"))["apps"][0]["rates"]
            assert (rate["state"], rate["defects"]) == ("critical", 12)
            assert [(one["defect_rule"], one["defects"]) for one in rate["by_rule"]] == [
                ("low or higher", 42),
                ("high", 12),
            ]
            answers = json.loads(
                monitor.get("/api/v1/answers?evaluator=violence&defect_rule=low%20or%20higher&outcome=score&limit=200")
            )
            assert sum(1 + one["duplicates"] for one in answers["answers"]) == 42
            shown = monitor.get("/")
            assert "level high (6 or more)" in shown
            assert monitor.total("ragmonitor_rule_evaluations_total", defect_rule="high", defect="true") == 12
            assert_balanced(monitor.samples())
            assert monitor.terminate(12) == 0
        lines = [
            json.loads(line) for line in (tmp_path / "monitor.log").read_text().splitlines() if "alert_firing" in line
        ]
        assert [(one["level"].lower(), one["severity"]) for one in lines] == [
            ("warning", "warning"),
            ("error", "critical"),
        ]
