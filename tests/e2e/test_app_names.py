"""Services through the running monitor: each has one name everywhere, however it writes its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

NAMES = {
    "\u5ba2\u670d\u3000\u52a9\u624b": "\u5ba2\u670d \u52a9\u624b",  # an ideographic space
    " padded\u00a0bot ": "padded bot",
    "a\u200dcat": "a?cat",
    129 * "x": 128 * "x",
}
"""The names that services state, with those that the monitor has for them."""


def policy(app: str) -> dict[str, Any]:
    windows = [{"window": "10m", "z": 2.33}]
    return {"evaluator": "overlap_groundedness", "app": app, "critical": "15%", "windows": windows}


def overview(monitor: MonitorProcess) -> dict[str, tuple[int, int]]:
    apps = json.loads(monitor.get("/api/v1/overview"))["apps"]
    return {one["app"]: (one["rates"][0]["evaluated"], one["rates"][0]["defects"]) for one in apps if one["rates"]}


def incidents(monitor: MonitorProcess) -> list[dict[str, Any]]:
    found = json.loads(monitor.get("/api/v1/incidents"))["incidents"]
    return [{**one, **json.loads(monitor.get(f"/api/v1/incidents/{one['id']}"))} for one in found]


def found_defects(monitor: MonitorProcess) -> dict[str, int]:
    """The defects in the impact of the incidents that have their worst answers, by app."""
    told = [one for one in incidents(monitor) if one["impact"] and one["answers"]]
    return {one["app"]: one["impact"]["defects"] for one in told}


def test_the_name_of_a_service_is_the_same_in_alerts_incidents_answers_and_commands_however_it_is_written(
    tmp_path: Path,
) -> None:
    config = {
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [policy(name) for name in NAMES],
        "storage": {"path": str(tmp_path / "state"), "texts": "all"},
    }
    number = 30
    with MonitorProcess(tmp_path, config) as monitor:
        for name in NAMES:
            service = RagService.over_http(monitor.http, name)
            for at in range(number):
                service.ask(answer=BAD if at % 2 else GOOD)
            service.close()
        wait_until(
            lambda: found_defects(monitor) == dict.fromkeys(NAMES.values(), number // 2),
            60,
            "an incident of each, with its impact and worst answers",
        )
        for given, app in NAMES.items():
            for written in (given, app):
                answers = json.loads(monitor.get(f"/api/v1/answers?app={quote(written)}&limit=50"))["answers"]
                assert {one["app"] for one in answers} == {app}
            url = ("--url", f"http://127.0.0.1:{monitor.metrics_port}")
            told = command("why", "--evaluator", "overlap_groundedness", "--app", given, *url)
            assert f"selected    {number} of the {number} it applies to" in told.output, told.output
            gated = command(
                "gate", "--fail-on", "overlap_groundedness:5%", "--app", given, "-c", tmp_path / "config.yaml"
            )
            assert gated.exit_code == 1, gated.output
            assert f"{app}, overlap_groundedness" in gated.output
        before = overview(monitor)
        assert before == dict.fromkeys(NAMES.values(), (number, number // 2))
        assert monitor.terminate(60) == 0
        monitor.start()
        wait_until(lambda: overview(monitor) == before, 30, "the same rates under the same names")
        assert_balanced(monitor.samples())
