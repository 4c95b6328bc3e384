"""Calibrating from Python: labels joined with results, nothing printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.operations.calibrate import calibrate
from tests.support.command import write_rows

RESULT = {"evaluator": "groundedness", "version": "2", "outcome": "score", "weight": 1.0}


def results(folder: Path) -> Path:
    rows = [{**RESULT, "id": f"r{n}", "request_id": f"t{n}", "defect": n < 2} for n in range(4)]
    return write_rows(folder / "results.jsonl", rows)


def test_labels_are_joined_by_id_and_by_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [
        {"id": "r0", "defect": True},
        {"request_id": "t1", "evaluator": "groundedness", "defect": False},
        {"request_id": "t2", "evaluator": "groundedness", "defect": True},
        {"id": "r9", "defect": True},
        {"id": "r3", "defect": None},
        {"id": "r3", "defect": "yes"},
    ]
    path = write_rows(tmp_path / "labels.jsonl", labels)
    found = calibrate(path, [results(tmp_path)])
    (one,) = found.evaluators
    assert (one.evaluator, one.version) == ("groundedness", "2")
    assert {(cell.verdict, cell.truth): cell.labels for cell in one.cells} == {
        (True, True): 1,
        (True, False): 1,
        (False, True): 1,
        (False, False): 0,
    }
    assert (found.labels, found.results, found.unmatched) == (4, 4, 1)
    assert found.problems == (f"{path}: line 6: `defect` must be true or false, not 'yes'",)
    assert capsys.readouterr() == ("", "")


def test_scores_that_only_order_say_nothing_of_defects_and_are_not_compared(tmp_path: Path) -> None:
    ranked = {**RESULT, "evaluator": "learned_groundedness", "id": "o1", "request_id": "t0", "defect": False}
    orders = write_rows(tmp_path / "orders.jsonl", [{**ranked, "scope": "ranking"}])
    labels = [{"id": "r0", "defect": True}, {"request_id": "t0", "evaluator": "learned_groundedness", "defect": True}]
    found = calibrate(write_rows(tmp_path / "labels.jsonl", labels), [results(tmp_path), orders])
    assert [one.evaluator for one in found.evaluators] == ["groundedness"]
    assert (found.results, found.unmatched) == (4, 1)


def test_a_file_that_cannot_be_read_names_the_parameter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="results: cannot read"):
        calibrate(write_rows(tmp_path / "labels.jsonl", []), [tmp_path / "missing.jsonl"])
