"""Looking results up in the history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.case import Document, Message, Request
from monitor.model.outcome import Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks.history import HistorySink
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
AT = 1_700_000_000.0
SCALES = {"groundedness": (1.0, 5.0), "violence": (7.0, 0.0)}


@pytest.fixture
async def history(tmp_path):
    history = HistorySink(path=tmp_path / "history.db", texts="all")
    async with history.open(runtime()) as deliver:
        await deliver([judged(1, 4.0)])
        await deliver([judged(2, 1.0, level="low")])
        await deliver([judged(3, 2.0, app="docs")])
        await deliver([judged(4, 6.0, evaluator="violence", defect=True)])
        await deliver([judged(5, 0.0, evaluator="violence", defect=False)])
        await deliver([judged(6, outcome=Unscored(UnscoredReason.TIMEOUT), defect=False)])
        await deliver([judged(7, outcome=Skipped(SkippedReason.NO_RETRIEVAL), defect=False)])
        yield history


async def found(history, **wanted):
    return [int(row["trace_id"], 16) for row in await history.search(scales=SCALES, **wanted)]


async def test_the_worst_come_first_on_scales_of_either_direction(history):
    assert await found(history) == [2, 4, 3, 1, 5]


@pytest.mark.parametrize(
    ("outcome", "numbers"),
    [("defect", [2, 4, 3]), ("passed", [1, 5]), ("unscored", [6]), ("skipped", [7]), ("any", [7, 6, 5, 4, 3, 2, 1])],
)
async def test_an_outcome_is_looked_for(history, outcome, numbers):
    assert await found(history, outcome=outcome, order="newest" if outcome == "any" else "worst") == numbers


async def test_apps_evaluator_and_times_narrow_it_down(history):
    assert await found(history, apps=("docs",)) == [3]
    assert await found(history, apps=("docs", "shop"), evaluator="violence") == [4, 5]
    assert await found(history, since=AT + 2, until=AT + 4) == [2, 3]


async def test_bands_are_scores_of_each_evaluator_named_the_upper_end_left_out(history):
    assert await found(history, bands={"groundedness": (1.0, 4.0), "violence": (6.0, float("inf"))}) == [2, 4, 3]
    assert await found(history, bands={}) == []


async def test_no_more_come_than_asked_for(history):
    assert await found(history, limit=2) == [2, 4]


async def test_of_long_texts_a_search_brings_only_question_and_answer(history):
    long = judged(9)
    case = replace(
        long.case, retrieved_context=(Document("x" * 30_000),), request=Request("q", (Message("user", "\ud800"),))
    )
    async with history.open(runtime()) as deliver:
        await deliver([replace(long, case=case)])
    (row,) = await history.search(outcome="any", order="newest", limit=1)
    assert "retrieved_context" not in row
    assert row["request"] == {"query": "q"}
    assert row["response"] == "It is two years."
    assert (await history.by_trace(f"{9:032x}"))[0]["retrieved_context"]
