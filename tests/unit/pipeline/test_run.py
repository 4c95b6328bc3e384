"""A pipeline tells what it has not finished, and what it does with a delivery."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from tests.support.ingest import spans, trace_id
from tests.support.pipeline import Handed, pipeline
from tests.support.runtime import total
from tests.support.telemetry import RecordingTracer
from tests.support.tools import until

pytestmark = pytest.mark.anyio

OLDEST = "ragmonitor_oldest_pending_timestamp_seconds"


async def test_what_is_pending_is_counted_and_the_oldest_of_it_is_known(tmp_path):
    async with pipeline(tmp_path) as at:
        assert (at.whole.pending, total(at.metrics, OLDEST)) == (0, 0)
        await at.spans(1, ack=at.ack("open"))
        first = total(at.metrics, OLDEST)
        assert first > 0
        await at.rows("a", ack=at.ack("row"))
        assert (at.whole.pending, total(at.metrics, OLDEST)) == (2, first), "the oldest counts, not the newest"
        at.gate.set()
        await until(lambda: at.settled == ["row"])
        assert (at.whole.pending, total(at.metrics, OLDEST)) == (1, first)
    assert at.balanced() == 2


async def test_the_open_trace_of_an_id_is_found_and_no_other_text_is_taken_for_an_id(tmp_path):
    async with pipeline(tmp_path) as at:
        name = trace_id(1).hex()
        assert at.whole.open_trace(name) is None
        await at.spans(1, ack=at.ack("open"), children=2)
        found = at.whole.open_trace(name)
        assert (found.app, found.source, found.spans, found.records) == ("shop", "kafka", 3, 0)
        assert found.until > found.received_at
        assert at.whole.open_trace(name[:-1]) is None
        assert at.whole.open_trace("x" * 32) is None


async def test_a_source_listens_and_work_begins_when_all_do(tmp_path):
    async with pipeline(tmp_path) as at:
        at.gate.set()
        await at.rows("a", ack=at.ack("a"))
        with anyio.fail_after(600):
            await until(lambda: at.results == ["a"])
        assert not at.whole.is_unread("a")


async def test_our_own_telemetry_tells_what_was_kept_of_a_delivery(tmp_path):
    tracer = RecordingTracer()
    async with pipeline(tmp_path, tracer=tracer) as at:
        await at.spans(1, 2, ack=at.ack("both"), children=0)
        batch = spans(b"\0" * 16, trace_id(3), children=0)
        await Handed.intake.accept(replace(batch, ack=at.ack("one")))
    both, one = (work for work in tracer.works if work.name == "receive")
    assert both.facts == {
        "rag_monitor.source": "kafka",
        "rag_monitor.signal": "traces",
        "rag_monitor.kept_traces": 2,
    }
    assert one.facts["rag_monitor.traces.invalid"] == 1
    assert one.facts["rag_monitor.kept_traces"] == 1
    assert at.outcome("invalid") == 1
    assert total(at.metrics, "ragmonitor_traces_total", app="shop", outcome="invalid") == 1
