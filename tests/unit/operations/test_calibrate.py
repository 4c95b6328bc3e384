"""Calibrating from Python: labels joined with results, nothing printed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.operations.calibrate import calibrate
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.rates import Sums, estimate
from monitor.storage.history.rows import as_json
from monitor.storage.history.tables import create, insert
from tests.support.command import write_rows
from tests.support.results import judged

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


def test_answers_without_a_session_count_by_their_user_in_files_and_in_a_history(tmp_path: Path) -> None:
    """Of five users the answers of one are bad."""
    stored = [judged(number, 1.0 if number < 4 else 4.0, weight=1.0) for number in range(20)]
    for number, one in enumerate(stored):
        object.__setattr__(one.case, "user_id", f"u-{number // 4}")
    with closing(create(tmp_path / "history.db")) as db:
        insert(db, stored, texts=False, users=UserKey(bytes(32)))
    file = write_rows(tmp_path / "results.jsonl", [as_json(one, texts=True) for one in stored])
    labels = write_rows(tmp_path / "labels.jsonl", [{"id": stored[0].id, "defect": True}])
    expected = estimate(Sums.counted(20, 4, per_session=4))
    for path in (file, tmp_path / "history.db"):
        (one,) = calibrate(labels, [path]).evaluators
        assert one.raw == expected, path


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
