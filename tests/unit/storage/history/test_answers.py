"""Answers and questions with their features: which, in which order, and from which second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monitor.storage.history import answers as answers_module
from monitor.storage.history.answers import AnswerReader, beginning
from tests.support.histories import BEGAN, FAILED, asked, change, keep
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_answers_come_oldest_first_and_are_the_newest_or_the_first(path: Path) -> None:
    keep(path, *[judged(number) for number in (2, 1, 3, 4)], judged(5, app="docs"), judged(6, outcome=FAILED))
    reader = AnswerReader(path)

    def found(since: float, until: float, limit: int, *, newest: bool = True) -> list[float]:
        rows = reader.judged_answers("shop", "groundedness", BEGAN + since, BEGAN + until, limit, newest=newest)
        return [one.at - BEGAN for one in rows]

    assert found(0, 9, 9) == [1, 2, 3, 4]
    assert found(2, 4, 9) == [2, 3]
    assert found(0, 9, 2) == [3, 4]
    assert found(0, 9, 2, newest=False) == [1, 2]


def test_an_answer_has_its_own_time_and_that_of_its_score(path: Path) -> None:
    results = [asked(judged(1, 1.0), answered_at=BEGAN - 50), asked(judged(2), answered_at=BEGAN + 50)]
    keep(path, *results)
    first, second = AnswerReader(path).judged_answers("shop", "groundedness", 0.0, 2e9, 9)
    assert (first.at - BEGAN, first.judged_at - BEGAN, first.defect, first.score) == (-50, 1, True, 1.0)
    assert (second.at - BEGAN, second.judged_at - BEGAN, second.defect, second.label) == (2, 2, False, "x")


def test_a_damaged_answer_hides_no_other(path: Path) -> None:
    keep(path, judged(1), judged(2))
    change(path, f"UPDATE features SET body = x'00' WHERE request_id = '{1:032x}'")
    reader = AnswerReader(path)
    assert [one.at - BEGAN for one in reader.judged_answers("shop", "groundedness", 0.0, 2e9, 9)] == [2]
    assert len(reader.question_features("shop", 0.0, 9)) == 1
    keep(path, judged(1, evaluator="retrieval_empty"), judged(2, evaluator="retrieval_empty"))
    assert [one.at - BEGAN for one in reader.asked_questions("shop", 0.0, 2e9, 9)] == [2]


def test_answers_to_given_requests_are_found_however_many(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(answers_module, "_AT_ONCE", 2)
    keep(path, *[judged(number) for number in (5, 4, 3, 2, 1)])
    names = [f"{number:032x}" for number in (3, 1, 5, 2, 9)]
    found = AnswerReader(path).answers_of("shop", "groundedness", names)
    assert [one.at - BEGAN for one in found] == [1, 2, 3, 5]
    assert AnswerReader(path).answers_of("docs", "groundedness", names) == []


def test_questions_are_those_that_local_evaluators_looked_at(path: Path) -> None:
    keep(
        path,
        judged(1, evaluator="retrieval_empty", weight=4.0),
        judged(2, evaluator="refusal_pattern", defect=True),
        judged(3, evaluator="refusal_pattern", defect=False),
        judged(3, evaluator="overlap_groundedness", weight=2.0),
        judged(4, evaluator="overlap_groundedness", outcome=FAILED),
        judged(5),
    )
    found = AnswerReader(path).asked_questions("shop", 0.0, 2e9, 9)
    assert [(one.at - BEGAN, one.weight, one.refused) for one in found] == [
        (1, 4.0, False),
        (2, 10.0, True),
        (3, 2.0, False),
    ]
    ats = [one.at - BEGAN for one in AnswerReader(path).asked_questions("shop", BEGAN + 2, BEGAN + 3, 9)]
    assert ats == [2]
    assert [one.at - BEGAN for one in AnswerReader(path).asked_questions("shop", 0.0, 2e9, 2)] == [2, 3]


def test_apps_come_by_their_number_of_results(path: Path) -> None:
    keep(path, judged(1), *[judged(number, app="docs") for number in (2, 3)], judged(4, app="wiki"))
    reader = AnswerReader(path)
    assert reader.apps(0.0, 9) == ["docs", "shop", "wiki"]
    assert reader.apps(0.0, 1) == ["docs"]
    assert reader.apps(BEGAN + 3, 9) == ["docs", "wiki"]


def test_features_of_the_newest_questions_of_an_app(path: Path) -> None:
    keep(path, *[asked(judged(number), response="x" * number) for number in (1, 2, 3)], judged(4, app="docs"))
    reader = AnswerReader(path)
    assert [one.answer_length for one in reader.question_features("shop", BEGAN + 2, 9)] == [3, 2]
    assert [one.answer_length for one in reader.question_features("shop", 0.0, 1)] == [3]


def test_questions_are_shown_by_their_beginning(path: Path, monkeypatch: Any) -> None:
    assert (beginning("x" * 300), beginning("x" * 301)) == ("x" * 300, "x" * 300 + "\u2026")
    monkeypatch.setattr(answers_module, "_AT_ONCE", 1)
    keep(path, judged(1), judged(2))
    keep(path, judged(3), texts=False)
    names = [f"{number:032x}" for number in (1, 2, 3)]
    assert AnswerReader(path).question_texts(names) == dict.fromkeys(names[:2], "How long is the warranty?")
