"""The learned order in a real monitor: it learns from verdicts, survives, and begins again with another judge."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from monitor.storage.history.reader import HistoryReader
from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, filtered, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

# The judge dislikes what the overlap likes: the long answer repeats the document, the short one adds a little.
LONG = (
    "Annual plans can be refunded in full. Annual plans can be refunded within thirty days of purchase. Monthly plans"
    " are not refundable. Refunded in full within thirty days. Monthly plans are not."
)
SHORT = "Annual plans can be refunded in full within thirty days, our cheerful staff promises."
EACH = 40
HOSTILE = (
    "",
    " \n\t",
    "x" * 300_000,
    "0 " * 50_000,
    "\u0628\u0639\u062f \u062b\u0644\u0627\u062b\u064a\u0646",
    "\U0001f600" * 999,
    "\x00\x1b[2J",
)


def by_length(asked: Asked) -> Reply:
    if asked.data["response"].startswith(("Annual", "Monthly")):
        score = 1 if len(asked.data["response"]) == len(LONG) else 5
        return verdict(claims=[], explanation="as scripted", score=score)
    return filtered()  # no verdict: such an answer teaches nothing


def configuration(llm: LLMServer, model: str = "openai/scripted") -> dict[str, Any]:
    return {
        "judge": {"model": model, "api_key": "none", "api_base": llm.url, "timeout": "60s"},
        "evaluators": [
            {"type": "learned_groundedness"},
            {"type": "overlap_groundedness"},
            {"type": "groundedness"},
        ],
        "alerts": [],
    }


def worst(monitor: MonitorProcess, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(monitor.get(f"/api/v1/worst?{urlencode(query)}"))
    return found


def of(monitor: MonitorProcess, app: str, **query: str) -> dict[str, Any]:
    (found,) = worst(monitor, app=app, **query)["apps"]
    return found  # type: ignore[no-any-return]


def scores(monitor: MonitorProcess, trace: str) -> dict[str, float]:
    """The scores of an answer by evaluator; empty until both local ones are stored."""
    found = json.loads(monitor.get(f"/api/v1/cases/{trace}"))["results"]
    local = {one["evaluator"]: one["score"] for one in found if one["score"] is not None}
    return local if {"overlap_groundedness", "learned_groundedness"} <= local.keys() else {}


def probed(monitor: MonitorProcess, app: str) -> list[dict[str, float]]:
    """The scores of a long and of a short answer that get no verdict."""
    service = RagService.over_http(monitor.http, app)
    traces = [service.ask(answer=f"So: {text}") for text in (LONG, SHORT)]
    service.flush()
    service.close()
    return [wait_until(lambda trace=trace: scores(monitor, trace), 60, "the local scores") for trace in traces]


def stay_whole_with_texts_of_strangers(monitor: MonitorProcess, service: RagService, already: int) -> None:
    for text in HOSTILE:
        service.ask(answer=text)
    service.flush()
    service.close()
    wait_until(lambda: monitor.total("ragmonitor_traces_total") == already + len(HOSTILE), 60, "all traces")
    assert_balanced(monitor.samples())
    assert monitor.total("ragmonitor_ranking_evaluations_total", app="shop") >= 2 * EACH + 4
    assert monitor.total("ragmonitor_evaluations_total", evaluator="learned_groundedness") == 0


def test_an_order_learns_from_verdicts_survives_a_kill_and_begins_again_with_another_judge(tmp_path) -> None:
    with LLMServer() as llm:
        llm.always(by_length)
        monitor = MonitorProcess(tmp_path, configuration(llm)).start()
        untaught = probed(monitor, "shop")
        assert untaught[0]["overlap_groundedness"] > untaught[1]["overlap_groundedness"]
        assert untaught[0]["learned_groundedness"] > untaught[1]["learned_groundedness"]
        assert of(monitor, "shop")["order"] == "overlap_groundedness"

        service = RagService.over_http(monitor.http)
        for _ in range(EACH):
            service.ask(answer=LONG)
            service.ask(answer=SHORT)
        service.flush()
        history = HistoryReader(tmp_path / "state" / "history.db")
        wait_until(lambda: len(history.past_results()) == 2 * EACH, 120, "the verdicts in the history")
        wait_until(lambda: of(monitor, "shop")["taught"] == 2 * EACH, 60, "the verdicts to be learned")
        taught = probed(monitor, "shop")
        assert taught[0]["overlap_groundedness"] == untaught[0]["overlap_groundedness"]
        assert taught[0]["learned_groundedness"] < 0.5 < taught[1]["learned_groundedness"]

        shown = of(monitor, "shop")
        assert shown["auroc_before"] < shown["auroc_learned"]
        assert (shown["order"], shown["defects"], shown["verdicts"]) == ("learned_groundedness", EACH, 2 * EACH)
        first = shown["answers"][0]
        assert first["learned"] == taught[0]["learned_groundedness"]
        assert first["before"] == taught[0]["overlap_groundedness"]
        assert "For a defect: " in first["results"][0]["explanation"]
        everything = of(monitor, "shop", judged="any", limit="200")["answers"]
        assert sum(1 + one["duplicates"] for one in everything) > sum(1 + one["duplicates"] for one in shown["answers"])
        page = monitor.get("/worst?app=shop")
        assert f"{shown['auroc_before']:.3f}" in page
        assert f"{shown['auroc_learned']:.3f}" in page

        told = json.loads(
            command("top", "--json", "--once", "--url", f"http://127.0.0.1:{monitor.metrics_port}").stdout
        )
        assert {one["app"]: (one["auroc_before"], one["auroc_learned"]) for one in told["worst"]} == {
            "shop": (shown["auroc_before"], shown["auroc_learned"])
        }
        drawn = command("top", "--once", "--url", f"http://127.0.0.1:{monitor.metrics_port}").stdout
        both = f"overlap_groundedness {shown['auroc_before']:.3f}, learned_groundedness {shown['auroc_learned']:.3f}"
        words = f"worst answers of shop by learned_groundedness; AUROC over {2 * EACH} verdicts: {both}"
        assert words in " ".join(drawn.split())

        assert probed(monitor, "other") == untaught, "another app learns nothing of it"
        assert of(monitor, "other")["taught"] == 0
        stay_whole_with_texts_of_strangers(monitor, service, already=2 * EACH + 6)
        monitor.kill()

        monitor.start()
        wait_until(lambda: of(monitor, "shop")["taught"] == 2 * EACH, 60, "the verdicts of the process before")
        assert probed(monitor, "shop") == taught
        again = of(monitor, "shop")
        assert (again["auroc_before"], again["auroc_learned"]) == (shown["auroc_before"], shown["auroc_learned"])
        assert monitor.terminate(20) == 0

        monitor.config = {**monitor.config, **configuration(llm, "openai/another")}
        with monitor:
            assert probed(monitor, "shop") == untaught
            assert of(monitor, "shop")["taught"] == 0
