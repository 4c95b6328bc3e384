"""What the monitor says of correct answers without any configuration: nothing false."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, says, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

GERMAN = [
    "Jahrespläne können innerhalb von dreißig Tagen nach dem Kauf vollständig erstattet werden.",
    "Ja, Sie bekommen Ihr Geld zurück, wenn Sie den Jahresplan innerhalb von 30 Tagen kündigen.",
    "Monatspläne werden leider nicht erstattet.",
    "Nein, für Monatspläne gibt es keine Erstattung.",
    "Nur Jahrespläne sind erstattungsfähig, und zwar dreißig Tage lang.",
    "Das ist möglich, solange der Kauf nicht länger als dreißig Tage zurückliegt.",
    "Der volle Betrag wird zurückgezahlt. Das gilt aber nur für Jahrespläne.",
    "Bei einem Jahresplan haben Sie dreißig Tage Zeit.",
    "Sie können den Jahresplan nach dem Kauf einen Monat lang zurückgeben.",
    "Monatspläne sind nicht erstattungsfähig. Jahrespläne schon, und zwar innerhalb von dreißig Tagen.",
]
REFUSALS = [
    "I don't know.",
    "I'm sorry, but I can't help with that.",
    "The provided documents do not contain information about this.",
    "I could not find that in the documents. Please contact our support team.",
    "Unfortunately, I don't have enough information to answer this question.",
    "Das steht leider nicht in den Dokumenten.",
    "Dazu habe ich leider keine Informationen gefunden.",
    "I cannot answer this question based on the context.",
]


def ask(monitor: MonitorProcess, app: str, answers: list[str]) -> None:
    service = RagService.over_http(monitor.http, app)
    for number, answer in enumerate(answers):
        service.ask(f"Can I get my money back after {number} days?", answer)
    service.flush()
    service.close()


def alerts(monitor: MonitorProcess) -> list[tuple[str, str, str]]:
    """The alerts that are firing: app, name, severity."""
    found = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return sorted((one["app"], one["name"], one["severity"]) for one in found if one["status"] == "firing")


def skipped(monitor: MonitorProcess, app: str, reason: str, evaluator: str = "overlap_groundedness") -> float:
    return monitor.total("ragmonitor_skipped_total", app=app, evaluator=evaluator, reason=reason)


def test_correct_answers_in_another_language_and_correct_refusals_raise_no_alert(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path) as monitor:
        ask(monitor, "german", GERMAN * 6)
        ask(monitor, "careful", [GOOD] * 60 + REFUSALS * 5)
        ask(monitor, "broken", [BAD] * 60)
        monitor.wait_for_total(220, "ragmonitor_requests_total", outcome="evaluated")
        # The third app is the proof that alerts have been looked at since.
        wait_until(lambda: ("broken", "RagDefectRateHigh", "critical") in alerts(monitor), 60, "the justified alert")
        assert {app for app, _, _ in alerts(monitor)} == {"broken"}
        assert skipped(monitor, "german", "language_mismatch") == 60
        assert skipped(monitor, "careful", "refusal") == 40
        assert monitor.total("ragmonitor_evaluations_total", app="careful", defect="true") == 0
        assert monitor.total("ragmonitor_evaluations_total", app="broken", defect="true") == 60
        assert_balanced(monitor.samples())
        page = monitor.get("/")
        assert "No answer was scored: 60 skipped (the documents are in another language)." in page
        assert "Skipped since start: 40 (the answer only refuses)." in page
        assert re.findall(r'data-name="(?:retrieved|no retrieval)">(\d+)\W', page) == ["100", "0"] * 3
        url = f"http://127.0.0.1:{monitor.metrics_port}"
        shown = " ".join(command("top", "--once", "--url", url).stdout.split())
        assert "overlap_groundedness skipped 100 % of german's answers since start" in shown
        assert "overlap_groundedness skipped 40 % of careful's answers since start" in shown
        asked = ("why", "-e", "overlap_groundedness", "--app", "german", "--url", url)
        said = "the answer (or the question) is in a different language from the documents"
        wait_until(lambda: said in command(*asked).stdout, 30, "the requests in the request log")


def test_a_claim_that_the_answer_does_not_make_counts_for_nothing_and_is_counted(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(inventive)
        chosen: dict[str, Any] = {
            "judge": {"model": "openai/scripted", "api_base": llm.url, "api_key": "none", "recheck_share": 0},
            "evaluators": [{"type": "faithfulness"}, {"type": "relevance"}],
            "canary": {"interval": None},
        }
        with MonitorProcess(tmp_path, chosen) as monitor:
            ask(monitor, "shop", [GOOD])
            wait_until(lambda: scores(monitor), 40, "the score")
            assert monitor.total("ragmonitor_claims_not_found_total", app="shop", evaluator="faithfulness") == 2
            listed = monitor.samples()["ragmonitor_claims_not_found_total"]
            assert [labels["evaluator"] for labels, _ in listed if labels["app"] == "shop"] == ["faithfulness"]
            assert monitor.total("ragmonitor_evaluations_total", evaluator="faithfulness", defect="true") == 1
            wait_until(
                lambda: monitor.total("ragmonitor_evaluations_total", evaluator="relevance", level="relevant") == 1,
                20,
                "the verdict on relevance",
            )
            ask(monitor, "shop", [BAD])
            wait_until(lambda: unscored(monitor) == 1, 40, "the verdict without any claim of the answer")
            assert monitor.total("ragmonitor_claims_not_found_total", app="shop", evaluator="faithfulness") == 4
            assert_balanced(monitor.samples())


def scores(monitor: MonitorProcess) -> float:
    return monitor.total("ragmonitor_evaluations_total", evaluator="faithfulness")


def unscored(monitor: MonitorProcess) -> float:
    return monitor.total("ragmonitor_unscored_total", evaluator="faithfulness", reason="malformed")


def inventive(asked: Asked) -> Reply:
    """A judge that makes up two claims of every answer, of a good one reads one, and on relevance likes to talk."""
    if "`claims`" not in asked.prompt:
        fine = {"observations": ["it answers"], "explanation": "it answers the question", "score": 5}
        return says(f"Here is my verdict:\n\n```json\n{json.dumps(fine)}\n```\n\nI hope that this helps.")
    invented = [{"quote": "Mars is red", "verdict": "supported", "note": "n"}] * 2
    answer = asked.data["response"]
    real = [{"quote": f"\u201c{answer.upper()}\u201d", "verdict": "absent", "note": "n"}] if answer == GOOD else []
    return verdict(claims=[*real, *invented], explanation="as read")
