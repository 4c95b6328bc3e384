"""What a judge costs, the whole way: results, digest and metric agree, and all that is paid is in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, says, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

GROUP = [{"type": "violence", "group": "harm"}, {"type": "self_harm", "group": "harm"}]


def monitor_of(folder: Path, llm: LLMServer, evaluators: Sequence[dict[str, Any]], **more: Any) -> MonitorProcess:
    judge = {
        "model": "openai/scripted",
        "api_key": "none",
        "api_base": llm.url,
        "price": {"input_per_million": 1000, "output_per_million": 2000},
        "recheck_share": more.pop("recheck_share", 0),
    }
    found = {"judge": judge, "evaluators": evaluators, "canary": {"interval": None}, "alerts": [], **more}
    monitor = MonitorProcess(folder, found)
    monitor.config["sinks"].append({"type": "jsonl", "path": str(folder / "results.jsonl")})
    return monitor


def harmful(asked: Asked) -> Reply:
    """A judge that finds the worst, in every part of a question."""
    parts = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    one = {"observations": [], "explanation": "scripted", "score": 7}
    return verdict(**(dict.fromkeys(parts, one) if "score" not in parts else one))


class Spending:
    """What a monitor and its results say was spent."""

    def __init__(self, monitor: MonitorProcess, llm: LLMServer) -> None:
        self.monitor, self.llm = monitor, llm

    def send(self, rows: int, results: int) -> list[dict[str, Any]]:
        """Send so many answers; their results."""
        body = [
            {"request_id": f"r-{at}", "app": "shop", "request": "What happened?", "response": f"Answer {at}."}
            for at in range(rows)
        ]
        assert self.monitor.post(json.dumps(body).encode(), "/v1/cases", "application/json") == 200
        lines = self.monitor.folder / "results.jsonl"
        wait_until(lambda: lines.exists() and lines.read_bytes().count(b"\n") == results, 60, "the results")
        return [json.loads(line) for line in lines.read_text().splitlines()]

    def digest(self) -> dict[str, Any]:
        path = self.monitor.folder / "config.yaml"
        return json.loads(command("digest", "-c", path, "--since", "1h", "--format", "json").stdout)["judge"]

    def agrees(self, results: list[dict[str, Any]]) -> float:
        """The dollars of the metric, which those of results and digest are as well, and so are the calls."""
        calls = len(self.llm.requests)
        self.monitor.wait_for_total(100 * calls, "ragmonitor_judge_tokens_total", direction="input")
        dollars = self.monitor.total("ragmonitor_judge_cost_dollars_total")
        assert dollars == pytest.approx(calls * 0.14)
        assert sum(one["judge"]["dollars"] for one in results) == pytest.approx(dollars)
        assert sum(one["judge"]["attempts"] for one in results) == calls
        wait_until(lambda: self.digest()["calls"] == calls, 30, "the digest")
        assert self.digest()["dollars"] == pytest.approx(dollars)
        assert_balanced(self.monitor.samples())
        return dollars


def test_replies_that_cannot_be_used_are_in_what_was_spent(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(says("I would say five of five."))
        with monitor_of(tmp_path, llm, GROUP) as monitor:
            spending = Spending(monitor, llm)
            results = spending.send(4, results=8)
            assert {(one["outcome"], one["reason"]) for one in results} == {("unscored", "malformed")}
            assert len(llm.requests) == 4 * 3 * 2  # the group, then each of two: each is asked to repair its reply
            assert spending.agrees(results) > 0
            assert monitor.terminate(12) == 0


def test_second_judgements_and_repeats_are_in_what_was_spent(tmp_path: Path) -> None:
    alerts = [{"evaluator": "violence", "severe": {"level": "high"}}]
    with LLMServer() as llm:
        llm.always(harmful)
        with monitor_of(tmp_path, llm, [{"type": "violence"}], recheck_share=1, alerts=alerts) as monitor:
            spending = Spending(monitor, llm)
            results = spending.send(3, results=3)
            assert [(one["second"]["outcome"], one["recheck"]) for one in results] == [("confirmed", "same")] * 3
            assert len(llm.requests) == 3 * 3
            assert spending.agrees(results) > 0
            assert monitor.terminate(12) == 0


def test_every_evaluator_of_a_group_is_repeated_and_tells_its_version(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(harmful)
        with monitor_of(tmp_path, llm, GROUP, recheck_share=1) as monitor:
            spending = Spending(monitor, llm)
            results = spending.send(3, results=6)
            assert {(one["evaluator"], one["recheck"]) for one in results} == {
                ("violence", "same"),
                ("self_harm", "same"),
            }
            assert all(one["judge"]["asked"] for one in results)
            assert len(llm.requests) == 3 * (1 + 2)
            assert spending.agrees(results) > 0
            for name in ("violence", "self_harm"):
                assert monitor.total("ragmonitor_judge_rechecks_total", evaluator=name, outcome="same") == 3
                assert monitor.total("ragmonitor_service_version_info", evaluator=name) == 1
            assert spending.digest()["evaluations"] == 6
            assert monitor.terminate(12) == 0
