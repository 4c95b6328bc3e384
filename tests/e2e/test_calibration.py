"""From a person's labels to series of the running monitor, through real results and the command."""

from __future__ import annotations

import json
import time
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx

from monitor.model.label import is_test
from monitor.storage.history.reader import HistoryReader, Search
from tests.support.command import command, read_rows, write_rows
from tests.support.monitor import MonitorProcess
from tests.support.review import ANA, REVIEWERS
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
SENT = 8


def row(number: int) -> dict[str, Any]:
    answer = BAD if number % 2 else GOOD
    return {"id": f"case-{number}", "app": "shop", "question": "Can I get my money back?", "contexts": [CONTEXT],
            "response": answer}  # fmt: skip


def test_the_running_monitor_exports_the_labels_of_the_version_it_judges_with(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    monitor = MonitorProcess(tmp_path, {"evaluators": [{"type": EVALUATOR}], "alerts": []})
    monitor.config["sinks"].append({"type": "jsonl", "path": str(results)})
    with monitor:
        for number in range(SENT):
            monitor.post(json.dumps(row(number)).encode(), "/v1/cases", "application/json")
        wait_until(lambda: results.exists() and len(read_rows(results)) == SENT, 20, "all verdicts")
        assert monitor.total("ragmonitor_calibration_labels") == 0
        assert monitor.terminate() == 0

    told = read_rows(results)
    labels = write_rows(tmp_path / "labels.jsonl", [{"id": one["id"], "defect": True} for one in told])
    saved = command("calibrate", labels, "-c", tmp_path / "config.yaml", "--save")
    assert saved.exit_code == 0, saved.output
    (tmp_path / "state" / "calibration.json").write_text(
        (tmp_path / "state" / "calibration.json").read_text().replace('"judges": [', '"judges": [' + OTHER, 1)
    )

    with monitor:
        samples = wait_until(lambda: monitor.samples().get("ragmonitor_calibration_labels"), 20, "the labels")
        assert isinstance(samples, list)
        found = {(at["verdict"], at["truth"]): value for at, value in samples}
        assert found == {
            ("defect", "defect"): SENT / 2, ("good", "defect"): SENT / 2, ("defect", "good"): 0, ("good", "good"): 0,
        }  # fmt: skip
        judging = {at["version"] for at, _ in monitor.samples()["ragmonitor_evaluations_total"]}
        assert {at["version"] for at, _ in samples} == judging
        assert monitor.total("ragmonitor_events_total", event="calibration_read") == 1


def labels(
    monitor: MonitorProcess, kind: str, at: float, *, number: int, judged: str, said: str
) -> list[dict[str, Any]]:
    """Labels that measure the judge, of answers that are no longer in the history, as our own files have them."""
    ((about, _), *_) = monitor.samples()["ragmonitor_evaluations_total"]
    names = islice((name for n in count() if is_test(name := f"{kind}-{n}")), number)
    return [
        {"id": name, "request_id": name, "app": "shop", "evaluator": EVALUATOR,
         "version": about["version"], "judged_defect": judged == "defect", "weight": 1, "draw": "uniform",
         "probability": 0.1, "human_label": said, "reviewer": "ana", "labelled_at": at}
        for name in names
    ]  # fmt: skip


def alert(monitor: MonitorProcess, name: str) -> tuple[str, str]:
    """The status of an alert and what it says; empty while there is none."""
    found = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
    return next(((one["status"], one["description"]) for one in found if one["name"] == name), ("", ""))


def taken(monitor: MonitorProcess, rows: list[dict[str, Any]]) -> None:
    """Import labels beside the monitor, and let a reviewer label one answer, which makes it look at all of them."""
    done = command(
        "labels", "--import", write_rows(monitor.folder / "in.jsonl", rows), "-c", monitor.folder / "config.yaml"
    )
    assert f"new: {len(rows)}" in done.output, done.output
    base = {"headers": {"x-review-token": ANA}, "timeout": 120, "trust_env": False}
    url = f"http://127.0.0.1:{monitor.metrics_port}/api/v1/review"
    case = httpx.get(f"{url}/next?app=shop&evaluator={EVALUATOR}", **base).json()
    label = {"result": case["result_id"], "verdict": "cannot_tell", "level": None, "comment": "", "seen": None}
    assert httpx.post(f"{url}/labels", json=label, **base).status_code == 200


def test_an_alert_on_the_corrected_rate_follows_labels_and_labels_show_that_the_judge_is_worse(tmp_path: Path) -> None:
    (tmp_path / "reviewers").write_text(REVIEWERS)
    (tmp_path / "reviewers").chmod(0o600)
    settings: dict[str, Any] = {
        "evaluators": [{"type": EVALUATOR}],
        "alerts": [{"evaluator": EVALUATOR, "critical": "15%", "rate": "corrected"}],
        "storage": {"path": str(tmp_path / "state"), "texts": "all"},
        "review": {"enabled": True, "reviewers": {"token_file": str(tmp_path / "reviewers")}},
    }
    rows = [{**row(number), "response": BAD if number % 3 == 0 else GOOD} for number in range(240)]
    with MonitorProcess(tmp_path, settings) as monitor:
        history = HistoryReader(tmp_path / "state" / "history.db")
        before = time.time() - 20 * 86_400

        def sent(some: list[dict[str, Any]], number: int) -> None:
            assert monitor.post(json.dumps(some).encode(), "/v1/cases", "application/json") == 200
            stored = Search(outcome="score", limit=240)
            wait_until(lambda: len(history.search(stored)) == number, 60, "all results on disk")

        sent(rows[:12], 12)
        few = labels(monitor, "found", before, number=100, judged="defect", said="defect")
        few += labels(monitor, "passed", before, number=120, judged="good", said="good")
        taken(monitor, few + labels(monitor, "alarmed", before, number=60, judged="defect", said="good"))
        sent(rows[12:], 240)
        words = "The rate is corrected by human labels (100 defects, 180 good answers)."
        ended = wait_until(lambda: fits(alert(monitor, "RagDefectRateHigh"), words, "240 scored"), 60, "a look")
        assert ended == "ok", "a third is flagged, and much of that is the judge's errors"

        taken(monitor, labels(monitor, "also", before, number=400, judged="defect", said="defect"))
        words = "The rate is corrected by human labels (500 defects, 180 good answers)."
        ended = wait_until(
            lambda: fits(alert(monitor, "RagDefectRateHigh"), words), 60, "the alert to follow the labels"
        )
        assert ended == "firing"
        assert alert(monitor, "RagJudgeDisagrees")[0] in ("", "ok")

        taken(monitor, labels(monitor, "missed", time.time(), number=30, judged="good", said="defect"))
        wait_until(lambda: alert(monitor, "RagJudgeDisagrees")[0] == "firing", 60, "RagJudgeDisagrees")
        wait_until(lambda: monitor.total("ragmonitor_judge_as_good_probability") < 0.005, 60, "its gauge")


def fits(found: tuple[str, str], *words: str) -> str:
    """The status of an alert whose description has all of these words; else empty."""
    return found[0] if all(one in found[1] for one in words) else ""


OTHER = json.dumps({"evaluator": EVALUATOR, "version": "0+older", "cells": [], "audited": []}) + ","
