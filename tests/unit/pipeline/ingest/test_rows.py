"""Rows on their way in: durable before the sender hears so, sampled as traces are, each counted in one place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import Overloaded
from monitor.extraction import rows
from monitor.model.row import RowBatch
from monitor.pipeline.ledger import TraceOutcome
from monitor.storage.spool import SpoolRecord
from tests.support.ingest import ingest, spans
from tests.support.runtime import total

pytestmark = pytest.mark.anyio

LOW, HIGH = "ab" * 9 + "00" * 7, "cd" * 9 + "ff" * 7  # by their last seven bytes


def batch(*ids: str, invalid: int = 0, app: str = "shop", **more: Any) -> RowBatch:
    values = [{"request_id": one, "query": "Why?", "response": "So.", **more} for one in ids]
    found = rows.take(json.dumps(values).encode(), app=app)
    return RowBatch("cases", found.rows, invalid, app)


def end(at, *complete):
    for one in complete or at.rows:
        at.ledger.ended(one.app, one.source, TraceOutcome.READ)
        for ack in one.acks:
            ack.settle()


def outcomes(at):
    names = ("kept", "sampled_out", "duplicate", "invalid")
    return {name: number for name in names if (number := total(at.metrics, "ragmonitor_rows_total", outcome=name))}


async def test_a_row_is_in_the_spool_until_it_has_ended(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(batch("a", "b"))
        assert [one.request_id for one in at.rows] == ["a", "b"]
        assert at.ledger.pending == at.balanced() == 2
        end(at, at.rows[0])
        assert total(at.metrics, "ragmonitor_spool_records") == 1
    async with ingest(tmp_path) as again:
        assert await again.intake.recover() == 1
        end(again)
        assert again.balanced() == 2
    async with ingest(tmp_path) as emptied:
        assert await emptied.intake.recover() == 0


async def test_a_row_of_no_app_is_of_the_unknown_one_also_after_a_crash(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(batch("a", app=""))
        assert [(one.app, one.row.app) for one in at.rows] == [("unknown", "unknown")]
    async with ingest(tmp_path) as again:
        assert await again.intake.recover() == 1
        await again.intake.accept(batch("a", app=""))
        assert [(one.app, one.row.app) for one in again.rows] == [("unknown", "unknown")]
        end(again)


async def test_what_a_crash_left_keeps_its_probability_its_app_and_its_time(tmp_path):
    clock = ManualClock()
    async with ingest(tmp_path, rate=0.5, clock=clock) as at:
        await at.intake.accept(batch(HIGH, app="bakery"))
        came = at.rows[0].received_at
    clock.advance(60)
    async with ingest(tmp_path, rate=0.01, clock=clock) as at:
        assert await at.intake.recover() == 1
        (one,) = at.rows
        assert (one.request_id, one.app, one.probability, one.received_at) == (HIGH, "bakery", 0.5, came)


async def test_what_waited_for_too_long_is_shed(tmp_path):
    clock = ManualClock()
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.accept(batch("a", "b"))
    clock.advance(7200)
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.recover()
        assert at.outcome("expired") == at.balanced() == 2
        assert at.rows == []


async def test_rows_and_spans_are_taken_up_together(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(spans(bytes.fromhex(HIGH)))
        await at.intake.accept(batch("a"))
        await at.spool.append(SpoolRecord("cases", "cases", at.clock.now(), b"{}", b"no meta"))
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 2
        assert len(at.rows) == len(at.closed()) == 1
        assert total(at.metrics, "ragmonitor_spool_damaged_records_total") == 1


async def test_a_row_and_its_trace_agree_whether_they_are_kept(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        for one in (LOW, HIGH):
            await at.intake.accept(batch(one))
            await at.intake.accept(spans(bytes.fromhex(one)))
        assert [one.request_id for one in at.rows] == [HIGH]
        assert [closed.trace_id.hex() for closed in at.closed()] == [HIGH]
        assert at.rows[0].probability == 0.5


async def test_other_ids_are_sampled_by_their_hash(tmp_path):
    async with ingest(tmp_path, rate=0.3) as at:
        await at.intake.accept(batch(*(f"request-{number}" for number in range(2000))))
        assert 500 < len(at.rows) < 700
        assert at.outcome("sampled_out") == 2000 - len(at.rows)
        assert at.balanced() == 2000


async def test_a_row_that_comes_again_is_counted_once(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        for _ in range(3):
            await at.intake.accept(batch(HIGH, LOW, HIGH))
        assert len(at.rows) == 1
        assert at.balanced() == 2
        assert outcomes(at) == {"kept": 1, "sampled_out": 3, "duplicate": 5}
        end(at)
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0


async def test_the_same_row_from_two_senders_at_once_is_one(tmp_path):
    async with ingest(tmp_path) as at:
        await asyncio.gather(*(at.intake.accept(batch("a", "b")) for _ in range(5)))
        assert [one.request_id for one in at.rows] == ["a", "b"]
        assert outcomes(at) == {"kept": 2, "duplicate": 8}
        end(at)
        assert at.balanced() == 2
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0


async def until_refused(at, large):
    for number in range(20):
        try:
            await at.intake.accept(batch(f"large-{number}", context=large))
        except Overloaded:
            return number
    raise AssertionError("a spool of a megabyte took four")


async def test_what_was_refused_is_new_when_it_is_sent_again(tmp_path):
    async with ingest(tmp_path) as at:
        at.in_flight.backlog = "evaluation is behind"
        with pytest.raises(Overloaded, match="behind"):
            await at.intake.accept(batch("a", invalid=3))
        at.in_flight.backlog = ""
        large = random.Random(1).randbytes(200_000).hex()
        taken = await until_refused(at, large)
        assert at.balanced() == len(at.rows) == taken > 0
        end(at)
        async with asyncio.timeout(10):
            while len(at.rows) == taken:
                with contextlib.suppress(Overloaded):
                    await at.intake.accept(batch(f"large-{taken}", context=large))
                await asyncio.sleep(0.05)
        assert at.rows[-1].request_id == f"large-{taken}"


async def test_rows_that_cannot_be_read_are_counted_under_the_app_of_their_sender(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(batch("a", invalid=2))
        await at.intake.accept(batch(invalid=1))
        assert outcomes(at) == {"kept": 1, "invalid": 3}
        assert total(at.metrics, "ragmonitor_traces_total", app="shop", source="cases", outcome="invalid") == 3
        assert at.balanced() == 4


async def test_too_many_bytes_of_rows_in_hand_are_refused_until_some_have_ended(tmp_path):
    async with ingest(tmp_path, in_hand_limit=50_000) as at:
        await at.intake.accept(batch("a", context="x" * 60_000))
        with pytest.raises(Overloaded, match="evaluation is behind: 6"):
            await at.intake.accept(batch("b"))
        end(at)
        await at.intake.accept(batch("b"))


async def test_taking_up_waits_while_too_many_bytes_are_in_hand(tmp_path):
    async with ingest(tmp_path) as at:
        for name in "abc":
            await at.intake.accept(batch(name, context=name * 30_000))
    async with ingest(tmp_path, in_hand_limit=50_000) as at:
        taking_up = asyncio.create_task(at.intake.recover())
        async with asyncio.timeout(10):
            while len(at.rows) < 2:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert len(at.rows) == 2
            end(at)
            assert await taking_up == 3
        assert [one.request_id for one in at.rows] == ["a", "b", "c"]
