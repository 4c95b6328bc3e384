"""Single results out of the history, as people review them."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.outcome import RateScope, Score
from monitor.sinks.history import HistorySink
from monitor.storage.history.judged import JudgedReader
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


async def test_scores_that_count_come_newest_first_with_weight_and_doubt(tmp_path: Path):
    doubtful = Score(4.0, "none of it is so", contradicts=True)
    results = [judged(1, value=2.0), judged(2, outcome=doubtful), judged(3, scope=RateScope.LATE)]
    async with HistorySink(path=tmp_path / "history.db").open(runtime()) as deliver:
        await deliver(results)
    reader = JudgedReader(tmp_path / "history.db")
    found = reader.reviewable("shop", "groundedness", "v1", 0.0, 10)
    assert [(one.result_id, one.defect, one.weight, one.doubtful) for one in found] == [
        (results[1].id, False, 10.0, True),
        (results[0].id, True, 10.0, False),
    ]
    assert reader.reviewable("shop", "groundedness", "v2", 0.0, 10) == []
    assert len(reader.reviewable("shop", "groundedness", "v1", 0.0, 1)) == 1


async def test_one_result_is_found_by_its_id(tmp_path: Path):
    async with HistorySink(path=tmp_path / "history.db").open(runtime()) as deliver:
        await deliver([judged(1)])
    reader = JudgedReader(tmp_path / "history.db")
    row = reader.by_id(judged(1).id)
    assert row is not None
    assert row["request_id"] == judged(1).case.request_id
    assert reader.by_id("none") is None


def test_without_a_file_there_is_nothing(tmp_path: Path):
    reader = JudgedReader(tmp_path / "history.db")
    assert reader.by_id("none") is None
    assert reader.reviewable("shop", "groundedness", "v1", 0.0, 10) == []
