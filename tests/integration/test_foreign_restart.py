"""Verdicts of others over a restart and a reload: each tool keeps its name, its rate and its alert."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.feedback import came, post
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp_spans import send_spans, span
from tests.support.tools import wait_until

MANY = 40
GIVEN: dict[str, Any] = {
    "evaluators": [{"type": "overlap_groundedness"}],
    "feedback": {"evaluators": {"tone": {}, "csat": {"lowest": 1, "highest": 5, "below": 3}}},
    "alerts": [{"evaluator": "tone", "critical": "20%"}, {"evaluator": "csat", "critical": "20%"}],
    "reload": {"http": True},
}


numbers = itertools.count(1)


def ids(number: int) -> list[str]:
    """Ids of further traces."""
    return [f"{one:032x}" for one in itertools.islice(numbers, number)]


def say(monitor: MonitorProcess, name: str, number: int, label: str) -> None:
    """Scores of one tool, by POST."""
    post(monitor, *({"trace_id": one, "app": "shop", "name": name, "label": label} for one in ids(number)))


def annotate(monitor: MonitorProcess, name: str, number: int, label: str) -> None:
    """Scores of another tool, as annotations of spans."""
    said = {"name": name, "label": label, "annotator_kind": "LLM"}
    attributes = {f"annotations.0.annotation.{key}": value for key, value in said.items()}
    send_spans(monitor, *(span(one, 1, attributes) for one in ids(number)))


def shown(monitor: MonitorProcess) -> dict[str, tuple[str, int, int]]:
    """The source, the evaluated answers and the defects of each rate on the page, by evaluator."""
    apps = json.loads(monitor.get("/api/v1/overview"))["apps"]
    return {
        rate["evaluator"]: (rate["source"], rate["evaluated"], rate["defects"]) for app in apps for rate in app["rates"]
    }


def checked(monitor: MonitorProcess) -> dict[str, tuple[int, bool]]:
    """The scores that the last check of each alert was of, and whether it fires, by evaluator."""
    alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return {
        one["evaluator"]: (one["evaluated"], one["status"] == "firing")
        for one in alerts
        if one["evaluator"] in ("tone", "csat")
    }


def series(monitor: MonitorProcess, name: str = "ragmonitor_evaluations_total") -> set[tuple[str, str]]:
    """The evaluators and versions that have series, as Prometheus sees them."""
    return {(at["evaluator"], at["version"]) for at, _ in monitor.samples()[name] if at["version"] in SOURCES}


SOURCES: Sequence[str] = ("openinference", "feedback")
BEFORE = {
    "tone": ("feedback", MANY, 0),
    "tone_openinference": ("openinference", MANY, MANY),
    "csat": ("feedback", MANY, MANY),
    "quality": ("openinference", 5, 0),
}
AFTER = {
    **BEFORE,
    "tone": ("feedback", MANY + 1, 0),
    "tone_openinference": ("openinference", 2 * MANY, 2 * MANY),
}


def test_a_restart_and_a_reload_add_up_no_two_tools_and_hide_none(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, GIVEN) as monitor:
        say(monitor, "tone", MANY, "good")
        came(monitor, MANY, outcome="scored")
        annotate(monitor, "tone", MANY, "bad")
        say(monitor, "csat", MANY, "bad")
        annotate(monitor, "quality", 5, "good")
        wait_until(lambda: shown(monitor) == BEFORE, 30, "the rates of all")
        wait_until(lambda: checked(monitor) == {"tone": (MANY, False), "csat": (MANY, True)}, 40, "the alert")
        known = {(name, source) for name, (source, _, _) in BEFORE.items()}
        assert monitor.terminate() == 0

        monitor.start()
        assert shown(monitor) == BEFORE
        assert series(monitor) == series(monitor, "ragmonitor_evaluator_info") == known
        assert all(f"evaluator={name}" in monitor.get("/") for name in BEFORE)
        annotate(monitor, "tone", MANY, "bad")
        came(monitor, MANY, outcome="scored")
        say(monitor, "tone", 1, "good")
        wait_until(lambda: shown(monitor) == AFTER, 30, "the rates of all after the restart")
        wait_until(lambda: checked(monitor) == {"tone": (MANY + 1, False), "csat": (MANY, True)}, 40, "one alert")

        assert monitor.reload(slices=["tenant"]).startswith("200")
        assert shown(monitor) == AFTER
        annotate(monitor, "tone", 1, "bad")
        last = {**AFTER, "tone_openinference": ("openinference", 2 * MANY + 1, 2 * MANY + 1)}
        wait_until(lambda: shown(monitor) == last, 30, "the rates of all after the reload")
        wait_until(lambda: checked(monitor) == {"tone": (MANY + 1, False), "csat": (MANY, True)}, 40, "one alert")
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0
