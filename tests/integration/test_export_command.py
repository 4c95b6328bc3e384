"""`rag-monitor export` beside a monitor that runs, and the way of its rows back into `rag-monitor calibrate`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from monitor.model.label import is_test
from monitor.storage.history.reader import HistoryReader
from monitor.storage.labels import LabelReader
from tests.support.command import command, read_rows, write_rows
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
MAIL = "jane.doe@gmail.com"


def judged(monitor: MonitorProcess, number: int) -> None:
    """Until so many verdicts are in the history."""
    history = HistoryReader(monitor.folder / "state" / "history.db")
    wait_until(lambda: len(history.results(limit=-1)) == number, 60, f"{number} verdicts")


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """Forty answers, ten of them bad, two of these with the same words."""
    rows = [
        {"id": f"case-{number}", "app": "shop", "question": f"Question {max(number, 1)} of {MAIL}?",
         "contexts": [CONTEXT], "response": BAD if number < 10 else GOOD}
        for number in range(40)
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("export")
    config = {
        "evaluators": [{"type": EVALUATOR}],
        "storage": {"path": str(folder / "state"), "texts": "all"},
    }
    with MonitorProcess(folder, config) as running:
        body = "\n".join(map(json.dumps, rows)).encode()
        assert running.post(body, "/v1/cases", "application/x-ndjson") == 200
        judged(running, 40)
        yield running


def export(monitor: MonitorProcess, *arguments: object) -> Result:
    return command("export", "-c", monitor.folder / "config.yaml", *arguments)


def exported(monitor: MonitorProcess, *arguments: object) -> list[dict[str, Any]]:
    ended = export(monitor, *arguments)
    assert ended.exit_code == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_defects_are_written_once_masked_and_with_room_for_the_label(monitor: MonitorProcess) -> None:
    rows = exported(monitor, "--defects", "--since", "7d")
    assert len(rows) == 9
    assert sorted(one["seen"] for one in rows) == [1] * 8 + [2]
    assert {(one["evaluator"], one["verdict"], one["defect"]) for one in rows} == {(EVALUATOR, "defect", None)}
    assert {one["response"] for one in rows} == {BAD}
    assert MAIL not in json.dumps(rows)
    assert "[REDACTED_E_MAIL_ADDRESS]" in rows[0]["request"]["query"]
    assert MAIL in json.dumps(exported(monitor, "--no-redaction"))


def test_defects_are_the_default_and_all_is_every_verdict(monitor: MonitorProcess) -> None:
    assert exported(monitor) == exported(monitor, "--defects")
    rows = exported(monitor, "--all")
    assert len(rows) == 39
    assert sum(one["verdict"] == "good" for one in rows) == 30
    assert len(exported(monitor, "--sample", "12")) == 12


def test_filled_in_labels_go_back_into_calibrate_and_the_others_are_passed_over(
    monitor: MonitorProcess, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    assert export(monitor, "--all", "--shape", "ragas", "-o", path).exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    rows = read_rows(path)
    for number, row in enumerate(rows):
        row["defect"] = None if number % 3 == 0 else row["verdict"] == "defect"
    write_rows(path, rows)
    ended = command("calibrate", path, "-r", monitor.folder / "state" / "history.db", "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert (found["labels"], found["results"], found["unmatched"]) == (26, 40, 0)
    (judge,) = found["evaluators"]
    assert judge["quality"]["sensitivity"]["value"] == judge["quality"]["specificity"]["value"] == 1.0
    assert judge["raw"]["defects"] == 10


def test_rows_that_are_exported_are_rows_that_are_read(monitor: MonitorProcess, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    for shape in ("case", "ragas", "deepeval"):
        export(monitor, "--shape", shape, "-o", path)
        ended = command("cases", path)
        assert ended.exit_code == 0
        read = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [one["status"] for one in read] == ["ready"] * 9
        assert {one["retrieved_context"][0]["content"] for one in read} == {CONTEXT}


def test_nothing_to_write_is_exit_status_1(monitor: MonitorProcess) -> None:
    ended = export(monitor, "--app", "bank")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "0 cases from 0 results" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "soon"), "--since"),
        (("--all", "--defects"), "--all"),
        (("-o", "/nowhere/at/all.jsonl"), "--output"),
    ],
)
def test_a_wrong_option_is_named_with_exit_status_2(
    monitor: MonitorProcess, arguments: tuple[str, ...], said: str
) -> None:
    ended = export(monitor, *arguments)
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_where_texts_are_not_kept_the_option_is_named(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, {"evaluators": [{"type": EVALUATOR}]}) as monitor:
        row = {"id": "1", "question": "Refund?", "contexts": [CONTEXT], "response": BAD}
        assert monitor.post(json.dumps(row).encode(), "/v1/cases", "application/json") == 200
        judged(monitor, 1)
        ended = export(monitor)
    assert ended.exit_code == 2
    assert "storage.texts" in ended.stderr


def test_without_a_history_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"storage": {"path": str(tmp_path / "state")}}))
    ended = command("export", "-c", tmp_path / "config.yaml")
    assert ended.exit_code == 2
    assert "storage.path" in ended.stderr


def labels(monitor: MonitorProcess, *arguments: object) -> Result:
    return command("labels", "-c", monitor.folder / "config.yaml", *arguments)


def test_labels_come_in_from_a_file_once_and_go_out_as_the_test_set_with_their_cases(
    monitor: MonitorProcess, tmp_path: Path
) -> None:
    path, backup = tmp_path / "labels.jsonl", tmp_path / "labels.csv"
    rows = exported(monitor, "--all")
    for row in rows:
        row["defect"] = row["verdict"] == "defect"
    rows[0]["comment"] = "=cmd|' /C calc'!A0\x1b[2J"
    write_rows(path, [*rows, {"id": "0" * 32, "defect": True}])
    ended = labels(monitor, "--import", path)
    assert ended.exit_code == 1
    assert "line 20: has no reviewer: set --reviewer\n... and 20 more" in ended.output
    ended = labels(monitor, "--import", path, "--reviewer", "ana")
    assert ended.exit_code == 1
    assert "labels: 40; new: 39; changed: 0; already known: 0" in ended.output
    assert f"line 40: no result in the history for '{'0' * 32}'" in ended.output
    assert "already known: 39" in labels(monitor, "--import", path, "--reviewer", "ana").output

    assert "labels: 39, written" in labels(monitor, "--export", backup, "--format", "csv").output
    assert backup.stat().st_mode & 0o777 == 0o600
    assert MAIL not in backup.read_text()
    assert "new: 0; changed: 0; already known: 39" in labels(monitor, "--import", backup).output

    disagrees = {"id": rows[1]["id"], "human_label": "good" if rows[1]["defect"] else "defect", "reviewer": "bo"}
    write_rows(path, [disagrees])
    assert labels(monitor, "--import", path).exit_code == 0
    agreed = exported(monitor, "--labelled")
    assert len(agreed) == 38
    assert all(one["defect"] == (one["verdict"] == "defect") for one in agreed)
    halves = [exported(monitor, "--labelled", "--half", half) for half in ("test", "examples")]
    assert sorted(one["id"] for half in halves for one in half) == sorted(one["id"] for one in agreed)
    assert all(halves)
    assert halves[0] == exported(monitor, "--labelled", "--half", "test")

    shown = labels(monitor).output.split()
    assert shown[-3:] == ["30", "10", "0"] or shown[-3:] == ["31", "9", "0"]


def test_answers_drawn_for_a_tool_measure_the_judge_when_their_labels_come_back(
    monitor: MonitorProcess, tmp_path: Path
) -> None:
    path, place = tmp_path / "tasks.json", ("--app", "shop", "-e", EVALUATOR)
    (monitor.folder / "state" / "labels.db").unlink(missing_ok=True)
    drawing = ("--draw", "6", "--export", path, "--format", "label-studio", *place)
    assert "answers to label: 6, written" in labels(monitor, *drawing).output
    tasks = json.loads(path.read_text())
    assert MAIL not in path.read_text()
    labels(monitor, *drawing)  # what is drawn and not labelled comes again
    assert json.loads(path.read_text()) == tasks
    for number, task in enumerate(tasks):
        choice = {"from_name": "verdict", "type": "choices", "value": {"choices": ["defect" if number % 2 else "good"]}}
        task["annotations"] = [{"completed_by": {"email": "ana"}, "result": [choice]}]
    tasks[0]["data"] |= {"probability": 1e-9}  # what a tool sends decides nothing
    path.write_text(json.dumps(tasks))
    assert "new: 6" in labels(monitor, "--import", path).output
    found = LabelReader(monitor.folder / "state" / "labels.db").find()
    assert all(one.draw.measures and is_test(one.request_id) for one in found)
    assert min(one.probability or 0 for one in found) > 1e-6
    assert "needs --export" in labels(monitor, "--draw", "6").output
    ended = labels(monitor, "--judge", *place)
    assert ended.exit_code == 0, ended.output
    assert "measured by 6 labels" in ended.output
    assert re.search(r"sensitivity\) +[0-9.]+ % \(", ended.output)
    (told,) = json.loads(labels(monitor, "--judge", "--json").output)
    assert (told["app"], told["evaluator"], told["labels"], told["of_people"]) == ("shop", EVALUATOR, 6, None)
    wrong = sum(one.judged_defect != (one.verdict == "defect") for one in found)
    assert told["errors"]["missed"] + told["errors"]["alarmed"] == wrong
    assert "No labels that measure a judge yet." in labels(monitor, "--judge", "--app", "\x1b[31mother").output
    assert labels(monitor, "--judge", "--import", path).exit_code == 2


def test_a_draw_passes_over_no_answer_because_it_has_a_label_already(monitor: MonitorProcess, tmp_path: Path) -> None:
    """Else what people picked by hand would be missing from the sample; its labels measure once it is drawn."""
    path, place = tmp_path / "labels.jsonl", ("--app", "shop", "-e", EVALUATOR)
    (monitor.folder / "state" / "labels.db").unlink(missing_ok=True)
    write_rows(
        path, [{"id": row["id"], "human_label": "good", "reviewer": "ana"} for row in exported(monitor, "--all")]
    )
    assert labels(monitor, "--import", path).exit_code == 0
    store = LabelReader(monitor.folder / "state" / "labels.db")
    assert not any(one.draw.measures for one in store.find())
    labels(monitor, "--draw", "6", "--export", tmp_path / "tasks.jsonl", *place)
    assert any(one.draw.measures for one in store.find())


def test_a_file_cannot_make_a_label_measure_that_is_of_the_half_shown_to_the_judge(
    monitor: MonitorProcess, tmp_path: Path
) -> None:
    path, state = tmp_path / "labels.jsonl", monitor.folder / "state"
    (state / "labels.db").unlink(missing_ok=True)
    said = {"app": "shop", "version": "1", "evaluator": EVALUATOR, "weight": 1, "judged_defect": False}
    rows = [
        {"id": f"far-{number}", "request_id": f"far-{number}", "draw": "uniform", "probability": 0.5, **said}
        for number in range(20)
    ]
    write_rows(path, [{**row, "human_label": "good", "reviewer": "ana"} for row in rows])
    assert labels(monitor, "--import", path).exit_code == 0
    found = LabelReader(state / "labels.db").find()
    assert {one.draw.measures for one in found} == {True, False}
    assert all(one.draw.measures == is_test(one.request_id) for one in found)


def test_a_label_of_a_request_that_was_erased_is_not_kept(monitor: MonitorProcess, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    row = exported(monitor, "--all")[-1]
    state = monitor.folder / "state"
    assert command("forget", "--trace", row["request_id"], "-c", monitor.folder / "config.yaml").exit_code == 0
    fields = {"app": row["app"], "version": row["version"], "evaluator": EVALUATOR, "weight": 1, "judged_defect": False}
    write_rows(path, [{"id": row["id"], "request_id": row["request_id"], "human_label": "good", **fields}])
    ended = labels(monitor, "--import", path, "--reviewer", "ana")
    assert "new: 0; changed: 0; already known: 0; of erased requests: 1" in ended.output
    assert row["request_id"] not in {one.request_id for one in LabelReader(state / "labels.db").find()}
