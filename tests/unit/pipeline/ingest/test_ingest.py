"""The door of a pipeline: what it refuses and why, and feedback, which outlives the process that took it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData, Overloaded
from monitor.extraction import rows
from monitor.model.ack import Ack
from monitor.model.external import ExternalScore, FeedbackBatch, ScoreSource
from monitor.model.row import RowBatch
from monitor.pipeline.ingest import Ingest
from monitor.storage.spool import SpoolRecord
from tests.support.ingest import Entrance, ingest, spans, trace_id
from tests.support.runtime import total

pytestmark = pytest.mark.anyio

SCORES = (
    ExternalScore(
        request_id="1" * 32,
        evaluator="user_feedback",
        score_source=ScoreSource.FEEDBACK,
        value=-1.0,
        label="bad",
        user="u",
    ),
    ExternalScore(
        request_id="2" * 32, evaluator="quality", score_source=ScoreSource.OPENINFERENCE, value=0.25, span_id="3" * 16
    ),
)


def feedback(*scores: ExternalScore) -> FeedbackBatch:
    return FeedbackBatch("http", scores)


def row(name: str, ack: Ack | None = None) -> RowBatch:
    found = rows.take(b'[{"request_id": "%s", "request": "Why?", "response": "So."}]' % name.encode())
    return RowBatch("cases", found.rows, ack=ack)


def door(at: Entrance, **more: Any) -> Ingest:
    """The same door, with other arguments."""
    own = at.intake
    given = {
        "processor": own._processor, "in_flight": at.in_flight, "spool": at.spool, "in_hand_limit": 2**27,
        "runtime": own._runtime, **more,
    }  # fmt: skip
    return Ingest(own._spans, own._rows, **given)


async def test_a_record_of_the_spool_that_holds_no_scores_is_counted_and_dropped(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        await at.spool.append(SpoolRecord("http", "feedback", at.clock.now(), b"no score", b""))
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0
        assert at.told == []
        assert total(at.metrics, "ragmonitor_spool_damaged_records_total") == 1
    async with ingest(tmp_path) as at:
        await at.intake.recover()
        assert total(at.metrics, "ragmonitor_spool_damaged_records_total") == 0


async def test_feedback_that_nobody_has_taken_comes_again_as_it_was(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        at.intake._processor.take = lambda _scores, ack: ack.share()  # type: ignore[method-assign,union-attr]
        await at.intake.accept(feedback(*SCORES))
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 1
        assert at.told == list(SCORES)
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0, "it was settled"


async def test_feedback_that_waited_for_too_long_is_given_up(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ingest(tmp_path, clock=clock) as at:
        at.intake._processor.take = lambda _scores, ack: ack.share()  # type: ignore[method-assign,union-attr]
        await at.intake.accept(feedback(*SCORES))
    clock.advance(7200)
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.recover()
        assert at.told == []
    async with ingest(tmp_path, clock=clock) as at:
        assert await at.intake.recover() == 0


async def test_a_delivery_without_scores_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        assert (await at.intake.accept(feedback())).rejected == 0
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0


async def test_feedback_is_refused_where_nothing_handles_it_and_where_too_much_waits(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        with pytest.raises(InvalidData, match="feedback is not accepted here"):
            await door(at, processor=None).accept(feedback(*SCORES))
        at.intake._processor.backlog = "too many external scores are waiting"  # type: ignore[union-attr,misc]
        with pytest.raises(Overloaded, match="too many external scores"):
            await at.intake.accept(feedback(*SCORES))
        assert at.told == []


async def test_each_reason_to_refuse_is_named_and_the_gravest_first(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        assert at.intake.refusing() == ""
        at.intake._processor.backlog = "scores wait"  # type: ignore[union-attr,misc]
        assert at.intake.refusing() == "scores wait", "spans carry feedback, too"
        assert door(at, processor=None).refusing() == ""
        at.in_flight.backlog = "requests wait"
        assert at.intake.refusing() == "requests wait"
        at.health.short_of_memory = "memory is short"
        assert at.intake.refusing() == "memory is short"
        with pytest.raises(Overloaded, match="memory is short"):
            await at.intake.accept(row("a"))


async def test_spans_and_rows_in_hand_count_together_against_the_limit(tmp_path: Path) -> None:
    async with ingest(tmp_path) as at:
        await at.intake.accept(row("a", Ack(lambda: None)))
        held = at.intake._rows.in_hand_bytes
        await at.intake.accept(spans(trace_id(1)))
        at.closed()
        both = held + at.assembly.in_hand_bytes
        assert held > 0 < at.assembly.in_hand_bytes
        assert door(at, in_hand_limit=both).refusing() == ""
        assert door(at, in_hand_limit=both - 1).refusing() == (
            f"evaluation is behind: {both} bytes of complete requests wait"
        )


@pytest.mark.parametrize(
    "make", [partial(row, "a"), lambda ack: replace(spans(trace_id(1)), source="kafka", ack=ack)], ids=["rows", "spans"]
)
async def test_what_came_with_an_ack_is_settled_when_the_sinks_have_it(
    tmp_path: Path, make: Callable[[Ack], Any]
) -> None:
    sent: list[Callable[[], None]] = []
    settled: list[str] = []
    async with ingest(tmp_path) as at:
        await door(at, when_sent=sent.append).accept(make(Ack(lambda: settled.append("a"))))
        for closed in at.closed():
            for ack in closed.acks:
                ack.settle()
        for one in at.rows:
            for ack in one.acks:
                ack.settle()
        assert (len(sent), settled) == (1, [])
        sent[0]()
        assert settled == ["a"]
