"""Reads complete requests and has them evaluated: traffic rules, local scores, then the chosen judged evaluators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final, NamedTuple

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from prometheus_client import Counter, Histogram

from monitor.extraction import coverage
from monitor.model.case import Case, ContextStatus, Reading, ReadingStatus, Traffic, changed
from monitor.model.outcome import EvaluationResult, Unscored, UnscoredReason
from monitor.pipeline.complete import Complete
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.in_flight import InFlight, OpenRequest
from monitor.pipeline.introspection import request_notes
from monitor.pipeline.ledger import RequestOutcome, TraceOutcome
from monitor.pipeline.live_evaluation import LiveEvaluation
from monitor.pipeline.local_evaluation import LocalCase, LocalOutcome, Loss, Noted, RequestsRead, WorkerLost, Workers
from monitor.pipeline.privacy import PrivacyFilter
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Runtime, SamplingDecision
from monitor.storage.spool import MOST_LIVES, PoisonGuard
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
    contexts: dict[ContextStatus, Counter]


class ExtractionMetrics:
    """Counts readings. All series of an app and a dialect are created, at 0, at their first reading."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._coverage: dict[tuple[str, str], _Coverage] = {}
        self._services: dict[str, _ServiceSeries] = {}

    def count(self, reading: Reading) -> None:
        """Count a reading if it is a request that its service has answered."""
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
        if case.seconds is not None and 0 <= case.seconds <= _LONGEST_ANSWER:
            service.seconds.observe(case.seconds)
        service.input_tokens.inc((case.usage.input_tokens or 0) / case.probability)
        service.output_tokens.inc((case.usage.output_tokens or 0) / case.probability)
        if reading.status is ReadingStatus.READY and case.traffic is Traffic.PRODUCTION:
            service.contexts[case.context_status].inc(1 / case.probability)

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
                {status: self._metrics.context_weight.labels(app, status.value) for status in ContextStatus},
            )
        return found


_LONGEST_ANSWER: Final = 86_400.0
"""Seconds. A longer time, as of a span that ends in the year 2554, is a clock error: a single one would dominate the
sum for ever."""

_DELIVERING = 256  # cases whose local results may be on their way to the history before reading waits for them

_SIDE_BY_SIDE: Final = nullcontext[None]()

_NO_REQUESTS = {
    ReadingStatus.NO_REQUEST: TraceOutcome.NO_REQUEST,
    ReadingStatus.INCOMPLETE: TraceOutcome.INCOMPLETE,
}
_OUTCOMES = {
    ReadingStatus.READY: RequestOutcome.EVALUATED,
    ReadingStatus.CONTENT_MISSING: RequestOutcome.CONTENT_MISSING,
    ReadingStatus.FAILED_REQUEST: RequestOutcome.FAILED_REQUEST,
}

_LOST: Final[Mapping[Loss, str]] = {
    "hung": "its worker process took too long",
    "died": "its worker process died",
}


class Readers:
    """Reads requests and has them evaluated, with several readers in parallel.

    `workers` read and evaluate locally. `feedback` acts before and after sampling; None: no feedback is handled.
    `guard` counts processes that end while reading a request; None: nothing is counted.
    """

    def __init__(
        self,
        in_flight: InFlight,
        *,
        workers: Workers,
        traffic: TrafficRules,
        evaluation: LiveEvaluation,
        private: PrivacyFilter,
        feedback: FeedbackProcessor | None,
        guard: PoisonGuard | None,
        runtime: Runtime,
    ) -> None:
        self._in_flight = in_flight
        self._guard = guard
        self._alone = anyio.Lock()
        self._workers = workers
        self._traffic = traffic
        self._evaluation = evaluation
        self._private = private
        self._feedback = feedback
        self._runtime = runtime
        self._tracer = runtime.tracer
        self._readings = ExtractionMetrics(runtime.metrics)
        self._delivering = anyio.Semaphore(_DELIVERING, fast_acquire=True)

    async def run(self) -> None:
        """Read traces and rows one after the other until cancelled; their evaluations run in parallel."""
        async with anyio.create_task_group() as judging:
            while True:
                await self._evaluation.ready()  # else judged results could not be published
                complete = await self._in_flight.begin_next()
                work = self._tracer.begin("case")
                with work:
                    await self._read_one(complete, work, judging)

    async def _read_one(self, complete: Complete, work: Work, judging: TaskGroup) -> None:
        """Read a trace or a row, and score its requests locally. Requests passed on to `judging` end there."""
        guard = self._guard
        if guard is not None and guard.lives(complete.request_id) >= MOST_LIVES:
            await self._set_aside(complete, f"{MOST_LIVES} processes have ended on it")
            self._in_flight.end(complete, TraceOutcome.POISON, work)
            return
        try:
            await self._read_all(complete, work, judging)
        finally:
            if guard is not None:
                guard.finished(complete.request_id)

    async def _read_all(self, complete: Complete, work: Work, judging: TaskGroup) -> None:
        """Read a trace or a row that has not ended too many processes."""
        async with self._careful():
            with self._tracer.part("read", {"rag_monitor.bytes": complete.size}):
                read = await self._read(complete)
        if isinstance(read, TraceOutcome):
            self._in_flight.end(complete, read, work)
            return
        readings = read.found.readings
        case = readings[0].case
        work.about(case.trace_id, case.span_id)
        if any(self._private.forgets(one.case, complete.received_at) for one in readings):
            self._in_flight.end(complete, TraceOutcome.FORGOTTEN, work)
            return
        outcome = _NO_REQUESTS.get(readings[0].status)
        if outcome is not None:
            outcome = await self._without_request(readings[0], outcome)
            self._in_flight.end(complete, outcome, work)
            return
        for one, local in zip(self._in_flight.read(complete, read.found, work), read.local, strict=True):
            request_notes.enter(one.note)
            ended = await self._evaluate(one, local, judging)
            if ended is not None:
                self._in_flight.end_request(one, ended)
            if not one.alone:
                await anyio.lowlevel.checkpoint()  # a trace may contain hundreds of requests

    async def _without_request(self, reading: Reading, outcome: TraceOutcome) -> TraceOutcome:
        """Handle a trace in which no question was answered, or which is missing a part."""
        kept = self._sorted(reading)
        if not isinstance(kept, Reading):
            return TraceOutcome.FILTERED
        if self._feedback is not None:
            await self._feedback.before_sampling(kept)
        return outcome

    async def _evaluate(self, one: OpenRequest, local: LocalCase, judging: TaskGroup) -> RequestOutcome | None:
        """Score a request that was evaluated locally. Return its outcome; None if `judging` continues with it."""
        reading = self._sorted(one.reading)
        if not isinstance(reading, Reading):
            return reading
        self._readings.count(reading)
        if reading.status is not ReadingStatus.READY:
            if self._feedback is not None:
                await self._feedback.before_sampling(reading)
            return _OUTCOMES[reading.status]

        async def outcome(evaluator: str) -> LocalOutcome:
            return local.outcomes.get(evaluator) or await self._evaluated(one, evaluator)

        if self._feedback is not None:
            await self._feedback.before_sampling(reading)
        await self._delivering.acquire()
        async with self._careful():
            with self._tracer.part("local evaluators"):
                found = await self._private.score_local(self._evaluation, reading.case, local, outcome)
        # From here to the delivery nothing waits: counted results are written, even if this task is cancelled now.
        boost = self._feedback.boost(reading.case) if self._feedback is not None else 0.0
        chosen = self._evaluation.choose(found.case, found.scores, boost)
        if self._feedback is not None:
            self._feedback.after_sampling(found.case, chosen)
        if not found.results:
            self._delivering.release()
            if not chosen:
                return RequestOutcome.EVALUATED
        judging.start_soon(self._judge, one, found.case, found.results, chosen)
        return None

    def _careful(self) -> AbstractAsyncContextManager[None]:
        """Return a lock while there are suspects: if requests are read one at a time, only one can end a process."""
        return self._alone if self._guard is not None and self._guard.suspects else _SIDE_BY_SIDE

    def _noted(self, complete: Complete) -> Noted:
        """Count it against the request if the process ends while reading it: reading parses untrusted texts."""
        return nullcontext if self._guard is None else partial(self._guard.reading, complete.request_id)

    async def _set_aside(self, complete: Complete, why: str, at: str = "") -> None:
        """Set aside a request that is not read again, for a bug report."""
        guard, kept = self._guard, ""
        if guard is not None:
            kept = await anyio.to_thread.run_sync(guard.set_aside, complete.request_id, complete.encoded())
            guard.finished(complete.request_id)
        self._runtime.events.error(
            Event.REQUEST_SET_ASIDE,
            f"a request is set aside: {why}",
            trace_id=complete.request_id,
            kept=kept,
            **({"at": at} if at else {}),
        )

    def _sorted(self, reading: Reading) -> Reading | RequestOutcome:
        """Apply the traffic rules: return the reading, or the outcome if the request ends here."""
        kept = self._traffic.sort(reading)
        if (note := request_notes.current()) is not None:
            note.read(kept if isinstance(kept, Reading) else reading)
            if not isinstance(kept, Reading):
                note.left_out(self._traffic.left_out_by(reading.case))
        return kept

    async def _judge(
        self,
        one: OpenRequest,
        case: Case,
        results: Sequence[EvaluationResult],
        chosen: Sequence[tuple[ConfiguredEvaluator, SamplingDecision]],
    ) -> None:
        """Deliver `results` of the local evaluators, and score the case with the chosen judged ones."""
        if not chosen:
            await self._deliver(results)
        else:
            async with anyio.create_task_group() as side_by_side:
                if results:
                    side_by_side.start_soon(self._deliver, results)
                await self._evaluation.score_judged(case, chosen, partial(self._in_flight.give_up, one))
        self._in_flight.end_request(one, RequestOutcome.EVALUATED)

    async def _deliver(self, results: Sequence[EvaluationResult]) -> None:
        try:
            await self._evaluation.deliver(results)
        finally:
            self._delivering.release()

    async def _read(self, complete: Complete) -> RequestsRead | TraceOutcome:
        """Read a closed trace or a row. Return its outcome instead if it is too large or reading failed."""
        try:
            result = await self._workers.read(complete, self._noted(complete))
        except WorkerLost as lost:
            await self._set_aside(complete, _LOST[lost.reason], lost.at)
            return TraceOutcome.POISON
        if isinstance(result, RequestsRead):
            return _until(self._runtime.clock.now(), result)
        if result.too_large:
            return TraceOutcome.TOO_LARGE
        self._runtime.events.error(
            Event.EXTRACTION_FAILED, "a trace could not be read", trace_id=complete.request_id, error=result.fault
        )
        return TraceOutcome.INVALID

    async def _evaluated(self, one: OpenRequest, evaluator: str) -> LocalOutcome:
        """Run a local evaluator whose sampler uses more than the case. If the worker is lost, so is the evaluation."""
        try:
            return await self._workers.evaluate(one.reading.case, evaluator, self._noted(one.complete))
        except WorkerLost as lost:
            why = _LOST[lost.reason]
            return LocalOutcome(Unscored(UnscoredReason.ERROR, why), fault=f"{why} {lost.at}".strip())


def _until(now: float, read: RequestsRead) -> RequestsRead:
    """Return the requests, none answered after `now`: the clock of a service may be ahead, or in another time zone."""
    if all(one.case.answered_at <= now for one in read.found.readings):
        return read

    def by_now(case: Case) -> Case:
        return changed(case, answered_at=min(case.answered_at, now))

    readings = tuple(changed(one, case=by_now(one.case)) for one in read.found.readings)
    local = tuple(
        changed(one, seen=by_now(one.seen), masked=by_now(one.masked))
        if one.seen is not None and one.masked is not None
        else one
        for one in read.local
    )
    return RequestsRead(changed(read.found, readings=readings), local)
