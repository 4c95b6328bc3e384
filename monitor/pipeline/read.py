"""Reads complete requests and has them evaluated: traffic rules, local scores, then the chosen judged evaluators."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from prometheus_client import Counter, Histogram

from monitor.errors import TooLarge
from monitor.extraction import compose, coverage
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Reading, ReadingStatus
from monitor.model.outcome import EvaluationResult
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.in_flight import Complete, InFlight, WholeRow
from monitor.pipeline.introspection.request_notes import current
from monitor.pipeline.ledger import TraceOutcome
from monitor.pipeline.live_evaluation import LiveEvaluation
from monitor.pipeline.privacy import PrivacyFilter
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Convention, Runtime, SamplingDecision
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.tracing import Work


class _Coverage(NamedTuple):
    requests: Counter
    fields: dict[str, Counter]


class _ServiceSeries(NamedTuple):
    seconds: Histogram
    input_tokens: Counter
    output_tokens: Counter


class ExtractionMetrics:
    """Counts readings. All series of an app and a dialect are created, at 0, with the first of them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._coverage: dict[tuple[str, str], _Coverage] = {}
        self._services: dict[str, _ServiceSeries] = {}

    def count(self, reading: Reading) -> None:
        """Count a reading, if it is a request that its service has answered."""
        came = coverage.came(reading)
        if came is None:
            return
        case = reading.case
        app = self._metrics.app(case.app)
        covered = self._covered(app, case.convention)
        covered.requests.inc()
        for name in came:
            covered.fields[name].inc()
        service = self._service(app)
        if case.seconds is not None:
            service.seconds.observe(case.seconds)
        service.input_tokens.inc((case.usage.input_tokens or 0) / case.probability)
        service.output_tokens.inc((case.usage.output_tokens or 0) / case.probability)

    def _covered(self, app: str, convention: str) -> _Coverage:
        found = self._coverage.get((app, convention))
        if found is None:
            found = self._coverage[app, convention] = _Coverage(
                self._metrics.extracted_requests.labels(app, convention),
                {name: self._metrics.extracted_fields.labels(app, convention, name) for name in coverage.FIELDS},
            )
        return found

    def _service(self, app: str) -> _ServiceSeries:
        found = self._services.get(app)
        if found is None:
            found = self._services[app] = _ServiceSeries(
                self._metrics.service_seconds.labels(app),
                self._metrics.service_tokens.labels(app, "input"),
                self._metrics.service_tokens.labels(app, "output"),
            )
        return found


_log = logging.getLogger(__name__)

_DELIVERING = 256  # cases whose local results may be on their way to the sinks, before reading waits for these
_LARGE = 256 * 1024  # bytes of a request that is decoded in a worker thread, so that the receivers stay quick

_OUTCOMES = {
    ReadingStatus.READY: TraceOutcome.EVALUATED,
    ReadingStatus.CONTENT_MISSING: TraceOutcome.CONTENT_MISSING,
    ReadingStatus.FAILED_REQUEST: TraceOutcome.FAILED_REQUEST,
    ReadingStatus.NO_REQUEST: TraceOutcome.NO_REQUEST,
    ReadingStatus.INCOMPLETE: TraceOutcome.INCOMPLETE,
}


class Readers:
    """Reads requests and has them evaluated, with several readers side by side.

    `settings` say how traces are read, beyond what the conventions know. `feedback` acts before and after sampling;
    None: nothing does.
    """

    def __init__(
        self,
        in_flight: InFlight,
        *,
        conventions: Sequence[Convention],
        settings: ExtractionSettings,
        traffic: TrafficRules,
        evaluation: LiveEvaluation,
        private: PrivacyFilter,
        feedback: FeedbackProcessor | None,
        runtime: Runtime,
    ) -> None:
        self._in_flight = in_flight
        self._read_trace = partial(compose.read, conventions=conventions, settings=settings)
        self._settings = settings
        self._traffic = traffic
        self._evaluation = evaluation
        self._private = private
        self._feedback = feedback
        self._runtime = runtime
        self._tracer = runtime.tracer
        self._readings = ExtractionMetrics(runtime.metrics)
        self._delivering = anyio.Semaphore(_DELIVERING)

    async def run(self) -> None:
        """Read requests one after the other until cancelled; their evaluations run in parallel."""
        async with anyio.create_task_group() as judging:
            while True:
                complete = await self._in_flight.begin_next()
                work = self._tracer.begin("case")
                with work:
                    outcome = await self._read_one(complete, work, judging)
                if outcome is not None:
                    self._in_flight.end(complete, outcome, work)

    async def _read_one(self, complete: Complete, work: Work, judging: TaskGroup) -> TraceOutcome | None:
        """Read a request and score it locally. Return its outcome; None while `judging` continues with it."""
        with self._tracer.part("read", {"rag_monitor.bytes": complete.size}):
            reading = await self._reading(complete)
            if isinstance(reading, Reading):
                reading = self._sorted(reading)
            if isinstance(reading, TraceOutcome):
                return reading
            if self._private.forgets(reading.case, complete.received_at):
                return TraceOutcome.FORGOTTEN
            work.about(reading.case.request_id, reading.case.span_id)
        self._readings.count(reading)
        if reading.status is not ReadingStatus.READY:
            if self._feedback is not None:
                await self._feedback.before_sampling(reading)
            return _OUTCOMES[reading.status]
        with self._tracer.part("local evaluators"):
            found = await self._private.score_local(self._evaluation, reading.case)
        boost = await self._feedback.before_sampling(reading) if self._feedback is not None else 0.0
        chosen = self._evaluation.choose(found.case, found.scores, boost)
        if self._feedback is not None:
            self._feedback.after_sampling(found.case, chosen)
        if found.results:
            await self._delivering.acquire()
        elif not chosen:
            return _OUTCOMES[reading.status]
        known = replace(reading, case=found.case)
        judging.start_soon(self._judge, complete, known, found.results, chosen, work)
        return None

    def _sorted(self, reading: Reading) -> Reading | TraceOutcome:
        """Apply the traffic rules: return the reading, or the outcome if the request ends here."""
        kept = self._traffic.sort(reading)
        if (note := current()) is not None:
            note.read(kept if isinstance(kept, Reading) else reading)
            if isinstance(kept, TraceOutcome):
                note.left_out(self._traffic.left_out_by(reading.case))
        return kept

    async def _judge(
        self,
        complete: Complete,
        reading: Reading,
        results: Sequence[EvaluationResult],
        chosen: Sequence[tuple[ConfiguredEvaluator, SamplingDecision]],
        work: Work,
    ) -> None:
        """Deliver `results` of the local evaluators, and score the case with the chosen judged ones."""
        async with anyio.create_task_group() as side_by_side:
            if results:
                side_by_side.start_soon(self._deliver, results)
            await self._evaluation.score_judged(reading.case, chosen)
        self._in_flight.end(complete, _OUTCOMES[reading.status], work)

    async def _deliver(self, results: Sequence[EvaluationResult]) -> None:
        try:
            await self._evaluation.deliver(results)
        finally:
            self._delivering.release()

    def _read_whole(self, complete: Complete) -> Reading:
        reading = complete.read(self._read_trace)
        return self._settings.with_prompt(reading) if isinstance(complete, WholeRow) else reading

    async def _reading(self, complete: Complete) -> Reading | TraceOutcome:
        """Read a closed trace or a row. Return the outcome instead if it is too large or reading failed."""
        try:
            if complete.size > _LARGE:
                return await anyio.to_thread.run_sync(self._read_whole, complete)
            return self._read_whole(complete)
        except TooLarge:
            return TraceOutcome.TOO_LARGE
        except Exception as error:  # noqa: BLE001 - one request that cannot be read must not stop the others
            _log.debug("trace or row %s could not be read", complete.request_id, exc_info=error)
            self._runtime.events.error(
                Event.EXTRACTION_FAILED,
                "a trace could not be read",
                trace_id=complete.request_id,
                error=type(error).__name__,
            )
            return TraceOutcome.INVALID
