"""Verdicts of others in the history: rows like ours, with no texts of their own, and no past results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.config.sections import StorageSettings
from monitor.model.external import ScoreSource
from monitor.model.outcome import RateScope, Score
from monitor.operations.export import ExportFilter, collect
from monitor.storage.history.reader import HistoryReader
from monitor.storage.history.rows import as_json, past_result
from monitor.storage.history.tables import create, insert
from tests.support.results import judged


def theirs(one, **changes):
    said = Score(-1.0, "out of date", label="thumbs_down")
    return replace(
        one,
        evaluator="user_feedback",
        version="feedback",
        outcome=said,
        level="low",
        defect=True,
        score_source=ScoreSource.FEEDBACK,
        key="k",
        **changes,
    )


def keep(path, *results):
    db = create(path)
    with db:
        insert(db, results, texts=True)
    db.close()


def test_two_verdicts_of_others_on_one_request_are_two_results_and_a_repeat_is_none(tmp_path):
    first = theirs(judged(1))
    keep(tmp_path / "history.db", first, replace(first, key="l"), first)
    assert len(HistoryReader(tmp_path / "history.db").results()) == 2


def test_a_row_of_others_says_how_it_came_and_has_no_texts_of_the_case():
    row = as_json(theirs(judged(1)))
    assert (row["score_source"], row["explanation"], "response" in row) == ("feedback", "out of date", False)
    assert as_json(judged(1))["score_source"] == "own"


def test_an_id_of_ours_is_what_it_was_before_others_had_any():
    """History and spool know results by it."""
    assert replace(judged(1), key="").id == judged(1).id != theirs(judged(1)).id


def test_an_export_of_what_users_disliked_has_the_texts_of_the_answers(tmp_path):
    ours = judged(1)
    keep(tmp_path / "history.db", ours, theirs(ours))
    found = collect(StorageSettings(path=tmp_path), ExportFilter(evaluator="user_feedback"), redact=False)
    assert [row["response"] for row in found.rows] == [ours.case.response]


@pytest.mark.parametrize(
    ("scope", "teaches"), [(RateScope.LIVE, True), (RateScope.USER_DISLIKED, False), (RateScope.BACKFILL, False)]
)
def test_what_was_chosen_for_being_disliked_teaches_no_sampler(scope, teaches):
    assert (past_result(as_json(replace(judged(1), scope=scope))).defect is not None) == teaches
