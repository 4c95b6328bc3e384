"""A running pipeline's intake for a test, with its counters and acknowledgements."""

from __future__ import annotations

import json
import math
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.lowlevel

from monitor import registry
from monitor.clock import SystemClock
from monitor.extraction import rows
from monitor.extraction.settings import ExtractionSettings
from monitor.model.ack import Ack
from monitor.model.row import RowBatch
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.fair_queue import FairQueue
from monitor.pipeline.local_evaluation import LocalReader, ThisProcess
from monitor.pipeline.run import Pipeline
from monitor.pipeline.traffic import TrafficRules, TrafficSettings
from monitor.stages import Source
from monitor.storage.spool import open_spool
from tests.support.evaluators import FakeJudge, JudgedEvaluator, Memory, configured, live
from tests.support.ingest import spans, trace_id
from tests.support.runtime import runtime, total


class Handed(Source):
    """Lends its intake to the test."""

    async def run(self, intake, runtime, listening):
        listening("here")
        Handed.intake = intake
        await anyio.sleep_forever()


class At:
    """A running pipeline, with one judge that waits for its gate."""

    def __init__(self, lent):
        self.metrics = lent.metrics
        self.gate = anyio.Event()
        self.results = []
        self.settled = []

    def ack(self, name):
        return Ack(lambda: self.settled.append(name))

    async def rows(self, *ids, ack):
        said = {"request": "Why?", "response": "So.", "retrieved_context": [{"content": "facts"}]}
        await self.whole_rows(*({"request_id": one, **said} for one in ids), ack=ack)

    async def whole_rows(self, *said, ack):
        found = rows.take(json.dumps(said).encode())
        await Handed.intake.accept(RowBatch("cases", found.rows, ack=ack))

    async def spans(self, *numbers, ack, children=1, end=0):
        batch = replace(spans(*map(trace_id, numbers), children=children, end=end), source="kafka", ack=ack)
        await Handed.intake.accept(batch)

    async def deliver(self, judged):
        self.results.extend(one.case.request_id for one in judged)

    def outcome(self, name):
        return total(self.metrics, "ragmonitor_traces_total", outcome=name)

    def balanced(self):
        received = total(self.metrics, "ragmonitor_traces_received_total")
        ended = total(self.metrics, "ragmonitor_traces_total")
        assert received == ended + total(self.metrics, "ragmonitor_traces_pending")
        found = total(self.metrics, "ragmonitor_requests_found_total")
        assert found == total(self.metrics, "ragmonitor_requests_total") + total(
            self.metrics, "ragmonitor_requests_pending"
        )
        return received

    def request_outcome(self, name):
        return total(self.metrics, "ragmonitor_requests_total", outcome=name)


@asynccontextmanager
async def pipeline(
    tmp_path,
    evaluators=None,
    *,
    made=At,
    sink="test",
    closed_limit=5_000,
    parts=(),
    tracer=None,
    turns=math.inf,
    **settings,
):
    """Run a pipeline with its own spool, by default with one judged evaluator that scores every request.

    At most `turns` cases are at the judge at once. `parts` are pairs of further arguments of `Pipeline`, `settings`
    those of assembly.
    """
    lent = runtime(SystemClock())
    lent = lent if tracer is None else replace(lent, tracer=tracer)
    at = made(lent)
    at.assembly = Assembly(AssemblySettings(**settings))
    async with open_spool(
        tmp_path / "spool.db", at_most=2**20, keep=3600.0, clock=lent.clock, metrics=lent.metrics, events=lent.events
    ) as spool:
        evaluators = evaluators or [configured(JudgedEvaluator())]
        evaluation = live(
            evaluators,
            judges={"": FakeJudge(gate=at.gate)},
            sinks={sink: at.deliver},
            lent=lent,
            queue=FairQueue({"": turns}, limit=1_000_000, shares={}, clock=lent.clock),
            memory=Memory(),
        )
        given = {
            "workers": ThisProcess(LocalReader(registry.conventions(), ExtractionSettings(), evaluators, salt="s")),
            "traffic": TrafficRules(TrafficSettings(), "s", lent),
            **dict(parts),
        }
        whole = Pipeline(
            sources=[Handed()], conventions=registry.conventions(), assembly=at.assembly, evaluation=evaluation,
            spool=spool, runtime=lent, rate=1.0, closed_limit=closed_limit, in_hand_limit=2**27,
            arrivals_at_most=2**23, **given,
        )  # fmt: skip
        at.whole = whole
        stop, listening = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whole.run, stop, lambda *_: listening.set())
            await listening.wait()
            yield at
            at.gate.set()
            stop.set()


async def settled():
    """Let everything proceed that can: nothing here takes more than a few turns of the loop."""
    for _ in range(8):
        await anyio.lowlevel.checkpoint()
