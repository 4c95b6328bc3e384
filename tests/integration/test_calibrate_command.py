"""`rag-monitor calibrate`: labels of people, joined with results."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.prometheus.rules import render
from monitor.jobs import calibration
from monitor.storage.history.rows import dump
from tests.support.command import command, write_rows
from tests.support.paths import DOCS
from tests.support.prometheus import get_json, prometheus
from tests.support.tools import require, wait_until

EVALUATOR = "groundedness"
PAGE = DOCS / "statistics.md"


def result(number: int, *, defect: bool, weight: float = 1.0, version: str = "2", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{number:032x}", "request_id": f"trace-{number}", "evaluator": EVALUATOR, "version": version,
        "outcome": "score", "defect": defect, "weight": weight, **fields,
    }  # fmt: skip


def label(number: int, *, defect: bool) -> dict[str, Any]:
    return {"request_id": f"trace-{number}", "evaluator": EVALUATOR, "defect": defect}


@pytest.fixture
def judged(tmp_path: Path) -> tuple[Path, Path]:
    """1000 results, 300 of them labelled: 80 of 100 defects were found, 190 of 200 good answers passed."""
    truth = [number < 100 for number in range(300)]
    verdicts = [number < 80 or 100 <= number < 110 for number in range(300)] + [False] * 700
    results = [result(number, defect=verdict) for number, verdict in enumerate(verdicts)]
    labels = [label(number, defect=one) for number, one in enumerate(truth)]
    return write_rows(tmp_path / "labels.jsonl", labels), write_rows(tmp_path / "results.jsonl", results)


def calibrated(*arguments: object) -> dict[str, Any]:
    ended = command("calibrate", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    (one,) = json.loads(ended.stdout)["evaluators"]
    return one


def test_labels_give_sensitivity_specificity_and_the_rate_without_the_judge_s_errors(judged: tuple[Path, Path]) -> None:
    one = calibrated(judged[0], "-r", judged[1])
    assert one["quality"]["sensitivity"]["value"] == pytest.approx(0.8)
    assert one["quality"]["specificity"]["value"] == pytest.approx(0.95)
    assert one["raw"]["rate"] == pytest.approx(0.09)
    assert one["corrected"]["rate"] == pytest.approx((0.09 - 0.05) / 0.75)
    assert one["corrected"]["lower"] < one["corrected"]["rate"] < one["corrected"]["upper"]


def test_the_printed_table_shows_the_corrected_rate_beside_the_raw_one(judged: tuple[Path, Path]) -> None:
    ended = command("calibrate", judged[0], "-r", judged[1])
    assert ended.exit_code == 0
    assert "raw defect rate" in ended.stdout
    assert "corrected rate" in ended.stdout
    assert "sensitivity and specificity" in ended.stdout


def test_random_audits_correct_by_the_difference(tmp_path: Path) -> None:
    results = [result(number, defect=number % 10 == 0) for number in range(1000)]
    labels = [label(number, defect=number % 20 == 0) for number in range(200)]
    files = write_rows(tmp_path / "labels.jsonl", labels), write_rows(tmp_path / "results.jsonl", results)
    one = calibrated(files[0], "-r", files[1], "--audits")
    assert one["corrected"]["rate"] == pytest.approx(0.05)
    assert "audits" in one["method"]


def saving(folder: Path, judged: tuple[Path, Path], *options: str) -> calibration.Calibration:
    """What `--save` leaves for a monitor whose storage is the folder `state`."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"storage": {"path": str(folder / "state")}}))
    calibrated(judged[0], "-r", judged[1], "-c", config, "--save", *options)
    return calibration.load(folder / "state" / calibration.FILE)


def test_the_labels_sums_are_saved_for_the_running_monitor(judged: tuple[Path, Path], tmp_path: Path) -> None:
    (one,) = saving(tmp_path, judged).judges
    assert (one.evaluator, one.version, one.audited) == (EVALUATOR, "2", [])
    cells = {(cell.verdict, cell.truth): (cell.labels, cell.weight, cell.weight_squares) for cell in one.cells}
    assert cells == {
        (True, True): (80, 80, 80),
        (True, False): (10, 10, 10),
        (False, True): (20, 20, 20),
        (False, False): (190, 190, 190),
    }
    assert (tmp_path / "state" / calibration.FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "state").iterdir()] == [calibration.FILE]


def test_audits_are_saved_with_the_sums_of_all_results_they_were_drawn_from(
    judged: tuple[Path, Path], tmp_path: Path
) -> None:
    (one,) = saving(tmp_path, judged, "--audits").judges
    assert [(of.verdict, of.results, of.weight, of.weight_squares) for of in one.audited] == [
        (True, 90, 90, 90),
        (False, 910, 910, 910),
    ]


def test_labels_of_nothing_leave_what_was_saved(judged: tuple[Path, Path], tmp_path: Path) -> None:
    before = saving(tmp_path, judged)
    nothing = write_rows(tmp_path / "nothing.jsonl", [label(5000, defect=True)])
    ended = command("calibrate", nothing, "-r", judged[1], "-c", tmp_path / "config.yaml", "--save")
    assert ended.exit_code == 1
    assert calibration.load(tmp_path / "state" / calibration.FILE) == before


def test_a_folder_that_cannot_be_written_is_named_with_the_option(judged: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"storage": {"path": str(tmp_path / "state")}}))
    ended = command("calibrate", judged[0], "-r", judged[1], "-c", tmp_path / "config.yaml", "--save")
    assert ended.exit_code == 2
    assert "save: cannot write" in ended.stderr


def test_too_few_labels_measure_the_judge_and_correct_nothing(tmp_path: Path) -> None:
    results = [result(number, defect=number < 5) for number in range(50)]
    labels = [label(number, defect=number < 4) for number in range(50)]
    one = calibrated(
        write_rows(tmp_path / "labels.jsonl", labels), "-r", write_rows(tmp_path / "results.jsonl", results)
    )
    assert one["corrected"] is None
    assert one["method"] == "not corrected: needs 100 labels of each kind"
    assert one["quality"]["sensitivity"]["value"] == 1.0


def test_versions_are_separate_instruments(tmp_path: Path) -> None:
    results = [result(number, defect=True, version=str(number % 2)) for number in range(4)]
    labels = [{"id": one["id"], "defect": True} for one in results]
    files = write_rows(tmp_path / "labels.jsonl", labels), write_rows(tmp_path / "results.jsonl", results)
    ended = command("calibrate", files[0], "-r", files[1], "--json")
    found = json.loads(ended.stdout)["evaluators"]
    assert [one["version"] for one in found] == ["0", "1"]
    assert [one["quality"]["defects"] for one in found] == [2, 2]


def test_a_result_that_stands_twice_counts_once_and_one_without_a_verdict_not_at_all(tmp_path: Path) -> None:
    unscored = result(9, defect=False, outcome="unscored") | {"defect": None}
    results = write_rows(tmp_path / "results.jsonl", [result(1, defect=True), result(1, defect=True), unscored])
    labels = write_rows(tmp_path / "labels.jsonl", [label(1, defect=True), label(9, defect=True)])
    ended = command("calibrate", labels, "-r", results, "--json")
    found = json.loads(ended.stdout)
    assert (found["results"], found["unmatched"]) == (1, 1)
    assert found["evaluators"][0]["raw"]["evaluated"] == 1


def test_prometheus_gets_sums_from_which_the_rules_have_the_same_corrected_rate(judged: tuple[Path, Path]) -> None:
    path = judged[0].with_name("calibration.prom")
    one = calibrated(judged[0], "-r", judged[1], "--metrics", path)
    checked = subprocess.run(
        [require("promtool", "prometheus"), "check", "metrics"],
        input=path.read_text(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")

    (described,) = re.findall(r"```promql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    series = path.read_text() + (
        f'app_evaluator_version:ragmonitor_defect_ratio:rate6h{{app="shop",evaluator="{EVALUATOR}",version="2"}}'
        f" {one['raw']['rate']}\n"
    )
    folder, rules = judged[0].parent / "prometheus", render([], interval=1.0)
    with serving(series) as target, prometheus(folder, [target], rules=rules) as address:

        def answered() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = get_json(f"{address}/api/v1/query", query=described)["data"]["result"]
            return found

        (found,) = wait_until(answered, 30, "a scrape, and an evaluation of all rules")
    assert {"app": "shop", "evaluator": EVALUATOR, "version": "2"}.items() <= found["metric"].items()
    assert float(found["value"][1]) == pytest.approx(one["corrected"]["rate"])


@contextmanager
def serving(text: str) -> Iterator[str]:
    """A target for Prometheus that always says the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(60)


def test_traffic_that_is_not_production_is_in_no_rate(tmp_path: Path) -> None:
    rows = [
        result(1, defect=True),
        result(2, defect=True, scope="non_production"),
        result(3, defect=False, scope="late"),
    ]
    labels = write_rows(tmp_path / "labels.jsonl", [label(number, defect=True) for number in (1, 2, 3)])
    ended = command("calibrate", labels, "-r", write_rows(tmp_path / "results.jsonl", rows), "--json")
    found = json.loads(ended.stdout)
    assert (found["results"], found["unmatched"]) == (2, 1)


def test_a_result_that_people_disagree_on_is_left_out(tmp_path: Path) -> None:
    results = write_rows(tmp_path / "results.jsonl", [result(1, defect=True), result(2, defect=True)])
    rows = [label(1, defect=True), label(1, defect=False), label(2, defect=True), label(2, defect=True)]
    found = json.loads(command("calibrate", write_rows(tmp_path / "l.jsonl", rows), "-r", results, "--json").stdout)
    assert found["disputed"] == 1
    assert found["evaluators"][0]["quality"]["defects"] == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"evaluator": EVALUATOR, "request_id": "trace-1", "defect": 1}, "`defect` must be true or false"),
        ({"request_id": "trace-1", "defect": True}, "needs `id`, or `request_id` and `evaluator`"),
        ({"id": 7, "defect": True}, "`id`, `request_id` and `evaluator` must be strings"),
    ],
)
def test_a_wrong_label_is_named_with_its_line_and_the_others_count(tmp_path: Path, row: Any, said: str) -> None:
    results = write_rows(tmp_path / "results.jsonl", [result(1, defect=True)])
    labels = write_rows(tmp_path / "labels.jsonl", [label(1, defect=True), row])
    ended = command("calibrate", labels, "-r", results)
    assert ended.exit_code == 1
    assert f"line 2: {said}" in ended.stderr
    assert "labelled defective" in ended.stdout


def test_room_for_a_label_that_nobody_has_filled_in_is_no_label(tmp_path: Path) -> None:
    results = write_rows(tmp_path / "results.jsonl", [result(1, defect=True), result(2, defect=True)])
    rows = [label(1, defect=True), {**label(2, defect=True), "defect": None}]
    ended = command("calibrate", write_rows(tmp_path / "labels.jsonl", rows), "-r", results, "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout)["labels"] == 1


def test_labels_of_nothing_are_an_error(tmp_path: Path) -> None:
    results = write_rows(tmp_path / "results.jsonl", [result(1, defect=True)])
    ended = command("calibrate", write_rows(tmp_path / "labels.jsonl", [label(2, defect=True)]), "-r", results)
    assert ended.exit_code == 1
    assert "1 label without a result" in ended.stdout


def test_without_results_the_files_of_the_configured_sink_are_read_older_ones_too(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(dump(result(1, defect=True)) + b"\n")
    path.with_name("out.jsonl.1").write_bytes(dump(result(2, defect=False)) + b"\n")
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"sinks": [{"type": "jsonl", "path": str(path)}]}))
    labels = write_rows(tmp_path / "labels.jsonl", [label(1, defect=True), label(2, defect=False)])
    one = calibrated(labels, "-c", config)
    assert (one["quality"]["defects"], one["quality"]["good"]) == (1, 1)


def test_without_any_file_of_results_the_option_is_named(tmp_path: Path) -> None:
    ended = command("calibrate", write_rows(tmp_path / "labels.jsonl", [label(1, defect=True)]))
    assert ended.exit_code == 2
    assert "results: name a file of results" in ended.stderr
