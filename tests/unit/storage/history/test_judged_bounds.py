"""Results that people review at the edges of their time, and the votes of users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, Score
from monitor.storage.history import judged as judged_module
from monitor.storage.history.judged import JudgedReader
from tests.support.histories import BEGAN, change, keep
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_what_can_be_reviewed_lies_within_two_seconds_that_count(path: Path) -> None:
    keep(path, *[judged(number) for number in (1, 2, 3, 4)], judged(5, app="docs"), judged(6, evaluator="other"))
    keep(path, judged(7), texts=False)
    reader = JudgedReader(path)

    def found(since: float, until: float) -> list[float]:
        rows = reader.reviewable("shop", "groundedness", "v1", BEGAN + since, 9, until=BEGAN + until)
        return [one.at - BEGAN for one in rows]

    assert found(2, 3) == [3, 2]
    assert [one.has_texts for one in reader.reviewable("shop", "groundedness", "v1", BEGAN + 4, 9)] == [False, True]


def test_a_result_without_weight_or_with_damaged_numbers_is_not_reviewed(path: Path) -> None:
    keep(path, judged(1, weight=0.0), judged(2), judged(3))
    change(path, f"UPDATE results SET score = 'x' WHERE trace_id = '{3:032x}'")
    assert [one.weight for one in JudgedReader(path).reviewable("shop", "groundedness", "v1", 0.0, 9)] == [10.0]


def test_a_vote_is_the_last_feedback_of_a_user(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(judged_module, "_AT_ONCE", 1)

    def vote(number: int, at: float, *, down: bool, evaluator: str = "user_feedback") -> EvaluationResult:
        said = {"evaluator": evaluator, "key": str(at), "score_source": ScoreSource.FEEDBACK, "defect": down}
        return replace(judged(number, outcome=Score(0.0, "")), evaluated_at=BEGAN + at, **said)

    keep(path, vote(1, 10, down=True), vote(1, 20, down=False), vote(2, 10, down=True), judged(3))
    keep(path, vote(4, 10, down=True, evaluator="stars"), vote(5, 1, down=True, evaluator="groundedness"))
    names = [f"{number:032x}" for number in range(1, 6)]
    found = JudgedReader(path).votes(names, ["groundedness", "user_feedback"])
    assert found == {names[0]: False, names[1]: True, names[3]: True}
    assert JudgedReader(path.with_name("none.db")).votes(names, []) == {}


def test_a_damaged_row_of_a_result_is_none(path: Path) -> None:
    keep(path, judged(1))
    change(path, "UPDATE results SET body = x'00'")
    assert JudgedReader(path).by_id(judged(1).id) is None
