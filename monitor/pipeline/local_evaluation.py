"""Reads a complete request and runs the local evaluators on it: all handling of untrusted texts is in one place.

`LocalReader` never waits, counts or logs, so it can run both in a worker process (`workers/`) and in this one. It
returns failures as part of its result. `Workers` run it.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

import anyio
import anyio.to_thread

from monitor.clock import Clock, SystemClock
from monitor.errors import TooLarge
from monitor.extraction import compose
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case, ReadingStatus, TraceReading, changed
from monitor.model.outcome import (
    Evidence,
    Outcome,
    Score,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
    without_context,
)
from monitor.pipeline.complete import Complete
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.privacy.redaction import Redacted, Redactor
from monitor.stages import Convention, Evaluator, FixedSampler, probability_of
from monitor.statistics import consistent_sampling


class LocalOutcome(NamedTuple):
    """The outcome of a local evaluator on a case, the seconds it took, and where and how it failed, if it did."""

    outcome: Outcome
    seconds: float = 0.0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class LocalCase:
    """A case with the `outcomes` of local evaluators, by their names.

    With redaction, `seen` is the case as the local evaluators saw it, `masked` as everything else may see it, and
    `redacted` counts the distinct values of each kind. Without redaction, both are None: use the case itself.
    """

    outcomes: Mapping[str, LocalOutcome] = field(default_factory=dict)
    seen: Case | None = None
    masked: Case | None = None
    redacted: Mapping[str, int] = field(default_factory=dict)


class RequestsRead(NamedTuple):
    """The requests of a trace or a row, each with its local evaluation."""

    found: TraceReading
    local: tuple[LocalCase, ...]


class ReadFault(NamedTuple):
    """Why a request could not be read: `too_large`, or else where and how reading failed."""

    too_large: bool = False
    fault: str = ""


ReadResult: TypeAlias = RequestsRead | ReadFault

R = TypeVar("R", SkippedReason, UnscoredReason)
V = TypeVar("V")

_NOTHING: Final = LocalCase()
_VERDICTS: Final[dict[str, Any]] = {one: one for one in get_args(get_type_hints(Evidence)["verdict"])}
_LARGEST_WHOLE: Final = 2**53  # beyond it a number in JSON is no longer exact
_LARGE: Final = 256 * 1024  # bytes of a request that is decoded in a thread, so that the receivers stay quick


class LocalReader:
    """Reads requests and evaluates them locally, as configured. Stateless; can be sent to another process.

    `evaluators` are all configured evaluators. Local evaluators with a `FixedSampler` run on the cases that it chooses
    under `salt`. All other local evaluators, and those that rescore, run only through `evaluate`.
    """

    def __init__(
        self,
        conventions: Sequence[Convention],
        settings: ExtractionSettings,
        evaluators: Sequence[ConfiguredEvaluator] = (),
        *,
        salt: str = "",
        redactor: Redactor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._read_trace = partial(compose.read, conventions=tuple(conventions), settings=settings)
        self._settings = settings
        self._evaluators = {one.evaluator.name: one for one in evaluators if one.evaluator.cost == "local"}
        self._salt = salt
        self._redactor = redactor if redactor is not None and redactor.enabled else None
        self._clock = clock if clock is not None else SystemClock()

    @property
    def evaluates(self) -> bool:
        """Whether there is more to do than reading."""
        return bool(self._evaluators) or self._redactor is not None

    def read(self, complete: Complete) -> ReadResult:
        """Read a trace or a row, and evaluate its requests."""
        try:
            found = complete.read(self._read_trace, self._settings)
            if (redactor := self._redactor) is not None:
                named = tuple(changed(one, joined=redactor.names(one.joined)) for one in found.readings)
                found = changed(found, readings=named)
            return RequestsRead(found, tuple(self._local(one.case, one.status) for one in found.readings))
        except TooLarge:
            return ReadFault(too_large=True)
        except Exception as error:  # noqa: BLE001 - one request that cannot be read must not stop the others
            return ReadFault(fault=described(error))

    def evaluate(self, case: Case, evaluator: str) -> LocalOutcome:
        """Run one local evaluator, by its name, on a case as it was read."""
        return self._evaluated(case, (self._evaluators[evaluator],)).outcomes[evaluator]

    def warm_up(self) -> None:
        """Do everything once, so that everything loaded at first use is loaded."""
        case = Case.from_texts("Is it so?", "Yes, it is so.", ["It is so."])
        self._evaluated(case, tuple(self._evaluators.values()))

    def _local(self, case: Case, status: ReadingStatus) -> LocalCase:
        return self._evaluated(case, None) if status is ReadingStatus.READY and self.evaluates else _NOTHING

    def _evaluated(self, case: Case, evaluators: Sequence[ConfiguredEvaluator] | None) -> LocalCase:
        """Evaluate by `evaluators`; by default, by all that are certain to choose the case."""
        redacted = self._redactor.redact(case) if self._redactor is not None else None
        seen = redacted.seen if redacted is not None else case
        if evaluators is None:
            evaluators = [one for one in self._evaluators.values() if self._chooses(one, seen)]
        outcomes = {one.evaluator.name: evaluate_local(one.evaluator, seen, self._clock) for one in evaluators}
        if redacted is None:
            return LocalCase(outcomes)
        return LocalCase(_masked(outcomes, redacted), seen, redacted.case, redacted.found)

    def _chooses(self, one: ConfiguredEvaluator, case: Case) -> bool:
        if not isinstance(one.sampler, FixedSampler) or one.evaluator.rescores:
            return False
        probability, fault = probability_of(one.sampler, case)
        return not fault and consistent_sampling.chosen(case.request_id, self._salt, probability)


def _masked(outcomes: Mapping[str, LocalOutcome], redacted: Redacted) -> dict[str, LocalOutcome]:
    return {name: one._replace(outcome=redacted.masked(one.outcome)) for name, one in outcomes.items()}


def evaluate_local(evaluator: Evaluator, case: Case, clock: Clock) -> LocalOutcome:
    """Run a local evaluator if it applies to the case. A fault in it is an outcome too."""
    began = clock.monotonic()
    lacks = skip_reason(evaluator, case)
    if lacks is not None:
        return LocalOutcome(Skipped(lacks), clock.monotonic() - began)
    try:
        outcome, fault = valid_outcome(evaluator, run_local(evaluator, case)), ""
    except BaseException as error:  # noqa: BLE001 - includes `sys.exit`: no evaluator may end the process and the work of all others
        outcome, fault = failed(error), described(error)
    return LocalOutcome(outcome, clock.monotonic() - began, fault)


def failed(error: BaseException) -> Unscored:
    """Return the outcome of an evaluation that raised `error`."""
    return Unscored(UnscoredReason.ERROR, str(error) if isinstance(error, InvalidOutcome) else type(error).__name__)


def skip_reason(evaluator: Evaluator, case: Case) -> SkippedReason | None:
    """Return why the evaluator does not apply to the case; None if it does."""
    needs = evaluator.needs
    if "context" in needs and (lacking := without_context(case)) is not None:
        return lacking
    if "history" in needs and not case.request.history:
        return SkippedReason.NO_HISTORY
    if "reference" in needs and case.expected_response is None and case.expected_retrieved_context is None:
        return SkippedReason.NO_REFERENCE
    return None


class InvalidOutcome(TypeError):  # noqa: N818 - named after the returned value
    """An evaluator returned something other than an outcome, or an outcome with a field that cannot be used.

    The message names fields and classes, never their values: these may quote the traffic.
    """


def valid_outcome(evaluator: Evaluator, outcome: Outcome) -> Outcome:
    """Return an outcome that everything else can count, send to another process, store and show.

    All its fields have the plain types that they are declared with. Equivalent values are converted: the text of a
    reason, a list of evidence, any kind of number. A score off its scale is unscored: it would distort every rate.

    Raises `InvalidOutcome` for anything else, such as the None of an evaluator that forgets to return.
    """
    if isinstance(outcome, Score):
        score = _valid_score(outcome)
        if score.contradicts and evaluator.cost != "judge":
            raise InvalidOutcome("Score.contradicts is for evaluators that ask a judge")
        if not evaluator.scale.holds(score.value):
            low, high = evaluator.scale.lowest, evaluator.scale.highest
            return Unscored(UnscoredReason.OUT_OF_RANGE, f"{score.value} is not on the scale from {low:g} to {high:g}")
        return score
    if isinstance(outcome, Skipped):
        return Skipped(_reason("Skipped.reason", outcome.reason, SkippedReason))
    if isinstance(outcome, Unscored):
        reason = _reason("Unscored.reason", outcome.reason, UnscoredReason)
        claims = _whole("Unscored.claims_not_found", outcome.claims_not_found)
        return Unscored(reason, _text("Unscored.detail", outcome.detail), claims)
    raise InvalidOutcome(f"{evaluator.name} returned {type(outcome).__name__}, which is not an outcome")


def _valid_score(score: Score) -> Score:
    if score.contradicts not in (True, False):
        raise InvalidOutcome(f"Score.contradicts is of type {type(score.contradicts).__name__}, not bool")
    used = _text("Score.used_sources", score.used_sources)
    if used.strip("01"):
        raise InvalidOutcome("Score.used_sources has characters other than 0 and 1")
    return Score(
        value=_number("Score.value", score.value),
        explanation=_text("Score.explanation", score.explanation),
        label=_text("Score.label", score.label),
        evidence=tuple(_valid_evidence(one) for one in _several("Score.evidence", score.evidence, list | tuple)),
        measures={
            _text("Score.measures", name): _finite("Score.measures", value)
            for name, value in _several("Score.measures", score.measures, Mapping).items()
        },
        facts={
            _text("Score.facts", name): _text("Score.facts", value)
            for name, value in _several("Score.facts", score.facts, Mapping).items()
        },
        contradicts=bool(score.contradicts),
        claims_not_found=_whole("Score.claims_not_found", score.claims_not_found),
        used_sources=used,
    )


def _valid_evidence(one: Evidence) -> Evidence:
    if type(one) is Evidence and _is_plain(one):  # nearly always, and there may be dozens
        return one
    if not isinstance(one, Evidence):
        raise InvalidOutcome(f"Score.evidence contains an object of type {type(one).__name__}, not Evidence")
    verdict = _text("Evidence.verdict", one.verdict)
    if verdict not in _VERDICTS:
        raise InvalidOutcome(f"Evidence.verdict is not one of {', '.join(_VERDICTS)}")
    start = None if one.start is None else _whole("Evidence.start", one.start)
    end = None if one.end is None else _whole("Evidence.end", one.end)
    if (start is None) != (end is None) or (start is not None and end is not None and start > end):
        raise InvalidOutcome("Evidence needs both offsets, start not after end, or neither")
    return Evidence(
        _text("Evidence.claim", one.claim), _VERDICTS[verdict], start, end, _text("Evidence.note", one.note)
    )


def _is_plain(one: Evidence) -> bool:
    start, end = one.start, one.end
    if start is None or end is None:
        placed = start is end
    else:
        placed = type(start) is type(end) is int and 0 <= start <= end <= _LARGEST_WHOLE
    return placed and type(one.claim) is type(one.note) is type(one.verdict) is str and one.verdict in _VERDICTS


def _reason(field_name: str, given: object, reasons: type[R]) -> R:
    try:
        return reasons(_text(field_name, given))
    except ValueError:
        raise InvalidOutcome(f"{field_name} is not one of {', '.join(reasons)}") from None


def _text(field_name: str, given: object) -> str:
    """Return a text as a plain `str`: other processes do not know a subclass that an evaluator may have used."""
    if not isinstance(given, str):
        raise InvalidOutcome(f"{field_name} is of type {type(given).__name__}, not str")
    return given if type(given) is str else str.__str__(given)


def _several(field_name: str, given: V, wanted: Any) -> V:
    if not isinstance(given, wanted):
        raise InvalidOutcome(f"{field_name} is of type {type(given).__name__}")
    return given


def _number(field_name: str, given: object) -> float:
    if type(given) is float:
        return given
    try:
        if isinstance(given, SupportsFloat):  # excludes texts
            return float(given)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidOutcome(f"{field_name} is of type {type(given).__name__}, not a number")


def _finite(field_name: str, given: object) -> float:
    number = _number(field_name, given)
    if not math.isfinite(number):
        raise InvalidOutcome(f"{field_name} contains {number}")
    return number


def _whole(field_name: str, given: object) -> int:
    if not isinstance(given, SupportsIndex):
        raise InvalidOutcome(f"{field_name} is of type {type(given).__name__}, not int")
    number = operator.index(given)
    if not 0 <= number <= _LARGEST_WHOLE:
        raise InvalidOutcome(f"{field_name} is below 0 or too large")
    return number


def run_local(evaluator: Evaluator, case: Case) -> Outcome:
    """Run a local evaluator. It must not wait, so its coroutine ends at the first step, in any thread.

    Raises `RuntimeError` if it waits.
    """
    steps = evaluator.evaluate(case, None)
    try:
        steps.send(None)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    steps.close()
    raise RuntimeError(f"the local evaluator {evaluator.name} must not wait; declare cost = 'judge'")


def described(error: BaseException) -> str:
    """Return the type of an error and the line that raised it, but not its message, which may quote the traffic.

    Only the message of `InvalidOutcome` is safe, and is included.
    """
    if isinstance(error, InvalidOutcome):
        return f"{type(error).__name__}: {error}"
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" at {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
    return f"{type(error).__name__}{place}"


Loss: TypeAlias = Literal["hung", "died"]

Noted: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Returns the context in which a request is recorded as being read: from its turn until it is done."""


class WorkerLost(Exception):  # noqa: N818 - the worker is lost; it is not an error of ours
    """The worker that had the request has `hung` or `died`, `at` a line of code if that is known."""

    def __init__(self, reason: Loss, at: str = "") -> None:
        super().__init__(f"the worker has {reason}")
        self.reason = reason
        self.at = at


class Workers(ABC):
    """Reads requests and evaluates them locally, several at the same time."""

    number: int = 0
    """The number of processes; 0: this process does the work."""

    @abstractmethod
    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """Read a trace or a row, with its local evaluation. Raises `WorkerLost`, and nothing else."""

    @abstractmethod
    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """Run one local evaluator, by its name, on a case as it was read. Raises `WorkerLost`, and nothing else."""

    @abstractmethod
    async def run(self, listening: anyio.Event) -> None:
        """Keep the processes running until cancelled. They start when the sources are `listening`."""


class ThisProcess(Workers):
    """Reads in this process: small traces directly, everything else in a thread."""

    def __init__(self, reader: LocalReader) -> None:
        self._reader = reader

    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """See `Workers`."""
        with noted():
            if complete.size > _LARGE or self._reader.evaluates:
                return await anyio.to_thread.run_sync(self._reader.read, complete)
            return self._reader.read(complete)

    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """See `Workers`."""
        with noted():
            return await anyio.to_thread.run_sync(self._reader.evaluate, case, evaluator)

    async def run(self, listening: anyio.Event) -> None:
        """See `Workers`. There are no processes to run."""
