"""Records what happens to each request, at the place where it happens, so that it can be explained afterwards.

The current request's note is available to all code that works on the request, in any task. Taking notes never waits and
never raises; if the request log is off, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Final

from monitor.clock import Clock
from monitor.model.case import Case, ContextStatus, Reading, ReadingStatus, changed
from monitor.model.outcome import EvaluationResult, RateScope, Score, Skipped, SkippedReason
from monitor.model.request_log import EvaluatorDecision, RequestRecord, RequestStep
from monitor.pipeline.ledger import RequestOutcome, TraceOutcome
from monitor.stages import Runtime, SamplingDecision
from monitor.storage.request_log import Recorder

_OWN_WORDS: Final = (ReadingStatus.INCOMPLETE, ReadingStatus.CONTENT_MISSING)
"""Statuses whose detail is our own wording. For a failed request, the detail is a text of the service."""

_SCORED: Final = {RateScope.LIVE.value: "score", RateScope.RANKING.value: "score", RateScope.LATE.value: "late"}


class RequestNote:
    """The facts known so far about one request. Cheap to write, since every kept request has one."""

    __slots__ = ("_clock", "_decisions", "_facts", "_opened", "draw")

    def __init__(self, opened: RequestRecord, clock: Clock) -> None:
        self._clock = clock
        self._opened = opened
        self._facts: dict[str, Any] = {}
        self._decisions: dict[str, dict[str, Any]] = {}
        self.draw: float | None = None
        """The value, 0 to 1, that evaluators' probabilities are compared with; None until the first one has drawn."""

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return self._opened.request_id

    def of_request(self, case: Case) -> RequestNote:
        """Begin the note of one request of the trace that this note is about."""
        opened = changed(self._opened, request_id=case.request_id, app=case.app, part_of=self.request_id)
        return RequestNote(opened, self._clock)

    def answered_by(self, app: str) -> None:
        """Record the service that answered the request, in place of the one whose part of the trace arrived first."""
        if app != self._opened.app:
            self._opened = changed(self._opened, app=app)

    def read(self, reading: Reading) -> None:
        """Record the facts of the request, but none of its texts."""
        unrecorded = reading.case.context_status is ContextStatus.NOT_RECORDED
        known = reading.status in _OWN_WORDS or (reading.status is ReadingStatus.READY and unrecorded)
        detail = reading.error if known else ""
        self._facts |= {"detail": detail, "joined": reading.joined, "traffic": reading.case.traffic.value}
        self._facts["context"] = reading.case.context_status.value if reading.status is ReadingStatus.READY else ""

    def left_out(self, detail: str) -> None:
        """Record that the request was filtered by the option `detail`."""
        self._facts["detail"] = detail

    def drew(self, evaluator: str, decision: SamplingDecision | None, *, chosen: bool, room: float = 1.0) -> None:
        """Record an evaluator's sampling decision (None if it does not take part) and the `room` in the app's quota."""
        facts: dict[str, Any] = {"chosen": chosen, "room": room}
        if decision is not None:
            facts |= {"probability": decision.probability, "target": decision.target, "thinned": decision.thinned}
        self._decisions[evaluator] = facts

    def add(self, evaluator: str, **fields: Any) -> None:
        """Add fields to a decision, by their names in `EvaluatorDecision`."""
        self._decisions.setdefault(evaluator, {}).update(fields)

    def admitted(self, evaluators: Iterable[str], waited: float) -> None:
        """Record that the case left the queue in front of the judge of `evaluators`, after `waited` seconds."""
        for name in evaluators:
            self.add(name, waited=waited)

    def handed_over(self, evaluator: str) -> None:
        """Record that an evaluation was left to another replica."""
        self.add(evaluator, outcome=Skipped.kind, reason=SkippedReason.HANDED_OVER.value)

    def finished(self, result: EvaluationResult) -> None:
        """Record the end of an evaluation."""
        outcome, spent, second = result.outcome, result.cost, result.second
        self.add(
            result.evaluator,
            outcome=outcome.kind,
            reason="" if isinstance(outcome, Score) else outcome.reason.value,
            detail="" if isinstance(outcome, Score | Skipped) else outcome.detail,
            scope=result.scope.value,
            second=second.outcome.value if second is not None else "",
            second_score=second.score if second is not None else None,
            seconds=spent.seconds,
            cached=spent.cached,
            tries=spent.tries,
        )

    def unfinished(self) -> Iterator[str]:
        """Yield the evaluators that chose the case and have no outcome yet."""
        return (name for name, one in self._decisions.items() if one.get("chosen") and not one.get("outcome"))

    def record(self, outcome: str = "") -> RequestRecord:
        """Return the current record; with an `outcome`, it has ended."""
        decisions = tuple(EvaluatorDecision(evaluator=name, **facts) for name, facts in self._decisions.items())
        ended_at = self._clock.now() if outcome else 0.0
        return changed(
            self._opened, **self._facts, outcome=outcome, ended_at=ended_at, draw=self.draw or 0.0, decisions=decisions
        )


_CURRENT: ContextVar[RequestNote | None] = ContextVar("note", default=None)


def enter(note: RequestNote | None) -> None:
    """Make `note` the current note of this task and of the tasks that it starts from now on."""
    _CURRENT.set(note)


def current() -> RequestNote | None:
    """Return the note of the request that this task is working on; None if there is none."""
    return _CURRENT.get()


class RequestNotes:
    """The notes of all requests in progress. `recorder` writes the request log; None if it is off."""

    def __init__(self, recorder: Recorder | None, runtime: Runtime) -> None:
        self._recorder = recorder
        self._runtime = runtime
        self._open: dict[RequestNote, None] = {}

    def begin(self, opened: RequestRecord) -> RequestNote | None:
        """Begin the note of a request that this task, and the tasks that it starts, work on."""
        note = None
        if self._recorder is not None:
            note = RequestNote(opened, self._runtime.clock)
            self._open[note] = None
        _CURRENT.set(note)
        return note

    def divide(self, note: RequestNote | None, cases: Sequence[Case]) -> list[RequestNote | None]:
        """Replace the note from `begin` with one note for each request of the trace; `enter` makes one current."""
        if note is None:
            return [None] * len(cases)
        if [one.request_id for one in cases] == [note.request_id]:
            note.answered_by(cases[0].app)
            return [note]
        del self._open[note]
        notes = [note.of_request(one) for one in cases]
        self._open |= dict.fromkeys(notes)
        return list(notes)

    def end(self, note: RequestNote | None, outcome: TraceOutcome | RequestOutcome) -> None:
        """Write a note from `begin` or `divide`: the request has ended."""
        if note is not None:
            del self._open[note]
            self._write(note.record(outcome.value), outcome)

    def drop(self, opened: RequestRecord, outcome: TraceOutcome) -> None:
        """Write the record of a request that was never worked on."""
        if self._recorder is not None:
            self._write(RequestNote(opened, self._runtime.clock).record(outcome.value), outcome)

    def _write(self, record: RequestRecord, outcome: TraceOutcome | RequestOutcome) -> None:
        if self._recorder is None:
            return
        app = self._runtime.metrics.app(record.app)
        for decision in record.decisions:
            self._recorder.count(
                RequestStep(app, "", decision.evaluator, step_of(decision)), 1, decision.probability or 0.0
            )
        if outcome is not TraceOutcome.FORGOTTEN:  # nothing new is written about a request to be forgotten
            self._recorder.keep(record)

    def of(self, request_id: str) -> list[RequestRecord]:
        """Return the current records of a request in progress; for a trace, the records of all its requests."""
        within = f"{request_id}/"
        return [
            note.record() for note in self._open if note.request_id == request_id or note.request_id.startswith(within)
        ]

    def waiting(self) -> dict[str, int]:
        """Return, by evaluator, the number of cases that it chose and that have no outcome yet."""
        found: dict[str, int] = {}
        for note in self._open:
            for name in note.unfinished():
                found[name] = found.get(name, 0) + 1
        return found


def step_of(decision: EvaluatorDecision) -> str:
    """Return the step under which a decision is counted."""
    if decision.repeated:
        return "repeated"
    if decision.outcome == "score":
        return _SCORED.get(decision.scope, "non_production")
    if decision.missing:
        return f"missing:{decision.missing}"
    if not decision.chosen:
        return "not_chosen"
    return f"{decision.outcome}:{decision.reason}" if decision.outcome else "unfinished"
