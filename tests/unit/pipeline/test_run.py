"""A pipeline tells what it has not finished, and what it does with a delivery."""

from __future__ import annotations

import json
from dataclasses import replace

import anyio
import pytest

from monitor.model.request_log import RequestRecord, RequestStep
from monitor.model.span import SpanBatch
from monitor.transport.otlp import json_mapping, wire
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


class Kept:
    """A recorder that remembers."""

    def __init__(self):
        self.records: list[RequestRecord] = []
        self.steps: dict[RequestStep, int] = {}

    def keep(self, record):
        self.records.append(record)

    def count(self, step, number=1, expected=0.0):
        self.steps[step] = self.steps.get(step, 0) + number


def groups_of(service, *listed):
    """What one service sends: spans of the trace with the number 1, each its id, its parent's id and attributes."""
    made = [
        {
            "traceId": trace_id(1).hex(),
            "spanId": f"{one:016x}",
            "parentSpanId": f"{parent:016x}" if parent else "",
            "name": service,
            "startTimeUnixNano": str(one),
            "endTimeUnixNano": str(one + 10),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for one, parent, attributes in listed
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "own"}, "spans": made}]}]}
    return wire.split(json_mapping.to_protobuf("traces", json.dumps(body).encode()))


def answer(number):
    """The spans of one answered question."""
    asked, said = f"Why is it {number}?", f"Since it is {number}."
    chain = {"openinference.span.kind": "CHAIN", "input.value": asked, "output.value": said}
    call = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": asked,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": said,
    }
    return (10 * number, 1, chain), (10 * number + 1, 10 * number, call)


@pytest.mark.parametrize("requests", [1, 2])
async def test_a_request_is_counted_and_logged_under_the_service_that_answered_and_its_trace_under_the_first(
    tmp_path, requests
):
    keeper = Kept()
    async with pipeline(tmp_path, parts=[("recorder", keeper)], grace_period=0.01) as at:
        at.gate.set()
        behind = [span for number in range(1, requests + 1) for span in answer(number)]
        groups = [*groups_of("gateway", (1, 0, {})), *groups_of("answers", *behind)]
        await Handed.intake.accept(SpanBatch("kafka", "traces", groups))
        await until(lambda: at.outcome("read") == 1)
        at.balanced()
        for app, traces, found in (("gateway", 1, 0), ("answers", 0, requests)):
            assert total(at.metrics, "ragmonitor_traces_received_total", app=app) == traces
            assert total(at.metrics, "ragmonitor_traces_total", app=app, outcome="read") == traces
            assert total(at.metrics, "ragmonitor_requests_found_total", app=app) == found
            assert total(at.metrics, "ragmonitor_requests_total", app=app, outcome="evaluated") == found
            assert total(at.metrics, "ragmonitor_requests_pending", app=app) == 0
    assert keeper.steps[RequestStep("answers", "kafka", "", "evaluated")] == requests
    assert {step.app for step in keeper.steps} == {"answers"}
    assert [one.app for one in keeper.records] == ["answers"] * requests
