"""What a result that was judged afterwards is to the history and to rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from monitor.model.outcome import EvaluationResult, RateScope, Selection, Unscored, UnscoredReason
from monitor.sinks.history import HistorySink
from monitor.storage.history.rows import as_json, dump, load, past_result
from tests.support.paths import DOCS
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

MISSED = judged(1, outcome=Unscored(UnscoredReason.PAUSED, "the key"), level="", defect=False)
SINCE = judged(1, 1.0, scope=RateScope.BACKFILL, origin="missed", selection=Selection(0.5, 0.5, (1.0,)))


async def deliver(history: HistorySink, *results: EvaluationResult) -> None:
    async with history.open(runtime()) as deliver_one:
        for one in results:
            await deliver_one([one])


@pytest.fixture
def history(tmp_path: Path) -> HistorySink:
    return HistorySink(path=tmp_path / "history.db")


async def test_it_takes_the_place_of_what_came_to_nothing(history: HistorySink) -> None:
    await deliver(history, MISSED, SINCE)
    (row,) = await history.results()
    assert (row["outcome"], row["scope"], row["origin"]) == ("score", "backfill", "missed")


async def test_it_takes_the_place_of_no_verdict(history: HistorySink) -> None:
    await deliver(history, judged(1, 5.0), SINCE, SINCE)
    (row,) = await history.results()
    assert (row["score"], row["scope"]) == (5.0, "live")


async def test_no_window_is_restored_from_it_and_no_sampler_learns_from_it(history: HistorySink) -> None:
    await deliver(history, SINCE)
    assert await history.sums_since(0) == []
    assert await history.generations() == []
    heard = []
    await history.replay_results(heard.append, runtime())
    assert heard == []
    told = past_result(as_json(SINCE))
    assert told is not None
    assert told.defect is None
    live = past_result(as_json(replace(SINCE, scope=RateScope.LIVE)))
    assert live is not None
    assert live.defect is True


async def test_which_results_have_a_verdict_can_be_asked_by_id(history: HistorySink, tmp_path: Path) -> None:
    assert await HistorySink(path=tmp_path / "none.db").scored_ids({"x"}) == set()
    await deliver(history, judged(1), replace(MISSED, case=judged(2).case))
    wanted = {judged(1).id, judged(2).id, *(f"x{number}" for number in range(1200))}
    assert await history.scored_ids(wanted) == {judged(1).id}


def test_its_row_is_what_the_json_schema_says_and_that_of_others_has_no_origin() -> None:
    document = DOCS / "results.schema.json"
    Draft202012Validator(json.loads(document.read_text())).validate(load(dump(as_json(SINCE))))
    assert "origin" not in as_json(judged(1))
