"""A running pipeline's intake in the hands of a test, and what it has counted and acknowledged."""

from __future__ import annotations

import json
from dataclasses import replace

import anyio

from monitor import rows
from monitor.model.receipt import Receipt
from monitor.model.row import RowBatch
from monitor.stages import Source
from tests.support.ingest import spans, trace_id
from tests.support.runtime import total


class Handed(Source):
    """Lends its intake to the test."""

    async def run(self, intake, runtime, listening):
        listening("here")
        Handed.intake = intake
        await anyio.sleep_forever()


class At:
    """A pipeline at work, with one judge that waits for its gate."""

    def __init__(self, lent):
        self.metrics = lent.metrics
        self.gate = anyio.Event()
        self.results = []
        self.settled = []

    def receipt(self, name):
        return Receipt(lambda: self.settled.append(name))

    async def rows(self, *ids, receipt):
        said = {"request": "Why?", "response": "So.", "retrieved_context": [{"content": "facts"}]}
        found = rows.take(json.dumps([{"request_id": one, **said} for one in ids]).encode())
        await Handed.intake.accept(RowBatch("cases", found.rows, receipt=receipt))

    async def spans(self, *numbers, receipt, children=1):
        batch = replace(spans(*map(trace_id, numbers), children=children), source="kafka", receipt=receipt)
        await Handed.intake.accept(batch)

    async def deliver(self, judged):
        self.results.append(judged.case.request_id)

    def outcome(self, name):
        return total(self.metrics, "ragmonitor_traces_total", outcome=name)

    def balanced(self):
        received = total(self.metrics, "ragmonitor_traces_received_total")
        ended = total(self.metrics, "ragmonitor_traces_total")
        assert received == ended + total(self.metrics, "ragmonitor_traces_pending")
        return received


class Nothing:
    def remembered(self, result):
        return False

    def remember(self, results):
        pass


async def until(holds):
    with anyio.fail_after(5):
        while not holds():  # noqa: ASYNC110 - what is waited for is a number that others count
            await anyio.sleep(0.005)
