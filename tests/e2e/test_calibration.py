"""From a person's labels to series of the running monitor, through real results and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.command import command, read_rows, write_rows
from tests.support.monitor import MonitorProcess
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


OTHER = json.dumps({"evaluator": EVALUATOR, "version": "0+older", "cells": [], "audited": []}) + ","
