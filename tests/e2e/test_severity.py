"""Severity, the whole way: rows in, a judge over HTTP, alerts at a webhook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.support.llm import Asked, LLMServer, Reply, status, verdict
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
            "recheck_share": 0,  # calls are counted
        },
        "evaluators": [{"type": "violence"}],
        "canary": {"interval": None},
        "alerts": [{"evaluator": "violence", **one} for one in alerts],
        "notify": [{"type": "webhook", "url": hook.address}],
    }


def send(monitor: MonitorProcess, name: str, responses: list[str], **more: str) -> None:
    before = monitor.total("ragmonitor_evaluations_total")
    rows = [
        {
            "request_id": f"{name}-{at}",
            "app": "shop",
            "request": "What happened?",
            "response": one,
            **more,
        }
        for at, one in enumerate(responses)
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
            send(monitor, "mild", ["severity 0"] * 80 + ["severity 2"] * 30)
            wait_until(lambda: len(alerts_at(hook)) == 1, 40, "the warning")
            (warned,) = alerts_at(hook)
            assert warned["labels"]["severity"] == "warning"
            assert warned["labels"]["defect_rule"] == "low or higher"
            assert "27.3 % of the answers from shop" in warned["annotations"]["description"]
            assert (
                "are of level low or higher (2 or more) according to violence" in warned["annotations"]["description"]
            )
            send(monitor, "severe", ["severity 6"] * 12)
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
            where = "/api/v1/answers?evaluator=violence&defect_rule=low%20or%20higher&outcome=score&limit=200"

            def listed() -> bool:
                return sum(1 + one["duplicates"] for one in json.loads(monitor.get(where))["answers"]) == 42

            wait_until(listed, 20, "all defects in the list of answers")
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


def twice(asked: Asked) -> Reply:
    """A judge that takes back what it found if the response says so: `back 6`, asked a second time, is 0."""
    word, _, score = asked.data["response"].rpartition(" ")
    second = "second of two readers" in asked.prompt
    return verdict(
        observations=[], explanation="scripted", score=0 if second and word.startswith("back") else int(score)
    )


def assert_both_judgements_are_shown(monitor: MonitorProcess, request: str, said: str, score: int) -> None:
    """On the case page, in its results and in what explains them."""

    def explained() -> bool:
        steps = json.loads(monitor.get(f"/api/v1/why?trace={request}"))["steps"]
        return any(one["what"] == "second judgement" and f"{said} (score {score})" in one["text"] for one in steps)

    def shown() -> bool:
        try:
            page = monitor.get(f"/case/{request}")
        except HTTPError:
            return False  # not stored yet
        return f"Judged severe, so judged again (scripted-1): {said}, score <b>{score}</b>." in page

    wait_until(explained, 30, f"the second judgement of {request} in its explanation")
    wait_until(shown, 30, f"the second judgement of {request} on its page")


SEVERE = [{"severe": {"level": "high"}}, {"warning": "90%"}]


def test_a_severe_case_that_a_second_judgement_confirms_pages_and_one_that_it_refutes_does_not(tmp_path: Path) -> None:
    with LLMServer() as llm, webhook() as hook:
        llm.always(twice)
        with MonitorProcess(tmp_path, configuration(llm, hook, SEVERE)) as monitor:
            send(monitor, "harmless", ["calm 0", "mild 5"], session_id="a")
            assert monitor.total("ragmonitor_severe_confirmed_total") == 0
            assert {at["outcome"] for at, _ in monitor.samples()["ragmonitor_severe_verdicts_total"]} == {
                "confirmed",
                "refuted",
                "unscored",
            }
            send(monitor, "refuted", ["back 6", "back 7"], session_id="b")
            wait_until(lambda: monitor.total("ragmonitor_severe_verdicts_total", outcome="refuted") == 2, 20, "refuted")
            asked = len(llm.requests)
            send(monitor, "severe", ["gore 6", "gore 7"], session_id="c")
            wait_until(lambda: alerts_at(hook), 40, "the page")
            (paged,) = alerts_at(hook)
            assert len(llm.requests) == asked + 4
            assert paged["labels"] == {
                "alertname": "RagSevereCase",
                "app": "shop",
                "evaluator": "violence",
                "severity": "critical",
            }
            text = paged["annotations"]["description"]
            assert text.startswith("An answer from shop was judged severe twice: level high (6 or more)")
            assert "rag-monitor why severe-" in text
            assert "%" not in text
            assert paged["rate"] is paged["lower"] is paged["threshold"] is None
            monitor.wait_for_total(1, "ragmonitor_severe_confirmed_total")  # two cases of one session
            assert monitor.total("ragmonitor_severe_verdicts_total", outcome="confirmed") == 2
            assert_both_judgements_are_shown(monitor, "refuted-0", "not severe", 0)
            assert_both_judgements_are_shown(monitor, "severe-0", "severe again", 6)
            shown = json.loads(monitor.get("/api/v1/overview"))["apps"][0]["rates"][0]
            assert (shown["state"], shown["firing"][0]["name"]) == ("critical", "RagSevereCase")
            assert_balanced(monitor.samples())

            trace = text.partition("rag-monitor why ")[2].partition("`")[0]
            call = json.dumps({"request_id": trace, "name": "violence", "label": "right"}).encode()
            assert monitor.post(call, "/v1/feedback", "application/json") == 200
            wait_until(lambda: monitor.total("ragmonitor_severe_called_total", call="right") == 1, 20, "the call")
            assert monitor.total("ragmonitor_evaluations_total", evaluator="violence_external") == 0
            assert monitor.terminate(12) == 0
        with MonitorProcess(tmp_path, configuration(llm, hook, SEVERE)) as monitor:
            words = "10 in 10 such cases were right so far (1 called right or wrong)"
            wait_until(lambda: words in monitor.get("/alerts"), 40, "the call, kept")
            assert monitor.terminate(12) == 0


def test_a_severe_case_that_cannot_be_judged_again_pages_no_one(tmp_path: Path) -> None:
    def fails_twice(asked: Asked) -> Reply:
        return status(500) if "second of two readers" in asked.prompt else severity(asked)

    with LLMServer() as llm, webhook() as hook:
        llm.always(fails_twice)
        with MonitorProcess(tmp_path, configuration(llm, hook, SEVERE)) as monitor:
            send(monitor, "severe", ["gore 7"])
            wait_until(lambda: monitor.total("ragmonitor_severe_verdicts_total", outcome="unscored") == 1, 60, "that")
            send(monitor, "fine", ["calm 0"])
            assert monitor.total("ragmonitor_severe_confirmed_total") == 0
            assert monitor.terminate(12) == 0
        assert alerts_at(hook) == []
