"""What came of an evaluation: `Score | Skipped | Unscored`, never a number that stands for "not judged"."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from monitor.model.case import Case
from monitor.model.external import ScoreSource
from monitor.model.service_version import ServiceVersion


class SkippedReason(StrEnum):
    """Why an evaluator does not apply to a case. The closed set."""

    NO_CONTEXT = "no_context"
    NO_HISTORY = "no_history"
    NO_PROMPT = "no_prompt"
    NO_REFERENCE = "no_reference"
    NO_REQUEST = "no_request"
    NO_RESPONSE = "no_response"


class UnscoredReason(StrEnum):
    """Why a judgement that was due did not come about. The closed set; the first fifteen are rule J1 of the judge."""

    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    PROVIDER_ERROR = "provider_error"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    OUT_OF_RANGE = "out_of_range"
    BUDGET = "budget"
    BREAKER_OPEN = "breaker_open"
    INJECTION_SUSPECTED = "injection_suspected"
    INCOMPLETE_TRACE = "incomplete_trace"
    TOO_LARGE = "too_large"
    AUTH = "auth"
    SHUTDOWN = "shutdown"
    OVERLOADED = "overloaded"  # the queue in front of the judge was full
    PAUSED = "paused"  # the judge refuses until somebody acts (key, payment, model): it is not asked meanwhile
    ERROR = "error"  # the evaluator itself failed: a fault of ours or of a plug-in


@dataclass(frozen=True, slots=True)
class Evidence:
    """One stretch of the response that a verdict rests on; `found` is what a search for something unwanted met.

    `start` and `end` are offsets into the response in characters, end exclusive; both -1 where the claim is not a
    literal stretch of it.
    """

    claim: str
    verdict: Literal["supported", "contradicted", "absent", "found"]
    start: int = -1
    end: int = -1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict: `value` on the evaluator's own scale; `label` where the scale has names.

    `measures` are numbers by name that a local evaluator took on its way there, for samplers; they are kept nowhere.
    `facts` are short words by name that it found out about the request: the rates of judged evaluators can be sliced by
    them, like by attributes of the request itself. `contradicts`: a judge's explanation says the opposite of the value.
    """

    kind: ClassVar[Literal["score"]] = "score"
    value: float
    explanation: str
    label: str = ""
    evidence: tuple[Evidence, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict, compare=False)
    facts: Mapping[str, str] = field(default_factory=dict, compare=False)
    contradicts: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The evaluator does not apply to this case."""

    kind: ClassVar[Literal["skipped"]] = "skipped"
    reason: SkippedReason


@dataclass(frozen=True, slots=True)
class Unscored:
    """The evaluator applies, but no verdict came about. Adds to no weight, no mean and no rate."""

    kind: ClassVar[Literal["unscored"]] = "unscored"
    reason: UnscoredReason
    detail: str = ""


Outcome: TypeAlias = Score | Skipped | Unscored


@dataclass(frozen=True, slots=True)
class Level:
    """A named part of a scale: values from `start` up to the next level's start."""

    name: str
    start: float


@dataclass(frozen=True, slots=True)
class Scale:
    """An evaluator's scale: both ends included, which end is good, and its named levels in ascending order.

    `whole` says that only whole numbers occur. The names of the levels are the closed set of the metric label `level`.
    """

    lowest: float
    highest: float
    better: Literal["higher", "lower"]
    levels: tuple[Level, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        """Refuse a scale that could not sort its own values."""
        starts = [level.start for level in self.levels]
        if not starts or starts != sorted(set(starts)) or starts[0] != self.lowest or not self.lowest < self.highest:
            raise ValueError(
                f"a scale needs lowest < highest and levels in ascending order, the first at {self.lowest}: {starts}"
            )

    @property
    def unit(self) -> str:
        """What its values are: a `share` of the whole, `points` in whole steps, or a `score` between two ends."""
        if self.whole:
            return "points"
        return "share" if (self.lowest, self.highest) == (0.0, 1.0) else "score"

    def holds(self, value: float) -> bool:
        """Whether `value` lies on the scale; NaN and infinities never do."""
        return self.lowest <= value <= self.highest and (not self.whole or value == math.floor(value))

    def level(self, value: float) -> str:
        """The name of the level that `value`, which must lie on the scale, belongs to."""
        if not self.holds(value):
            raise ValueError(f"{value} is not on the scale from {self.lowest} to {self.highest}")
        return next(level.name for level in reversed(self.levels) if value >= level.start)

    def start_of(self, name: str) -> float:
        """Where the level `name` begins. Raises `KeyError` for an unknown name."""
        for level in self.levels:
            if level.name == name:
                return level.start
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class DefectRule:
    """When a score is a defect. One of three forms, so that a direction can never be inverted by accident.

    `below`: the value is less than x. `at_least`: the value is x or more. `label`: the label is exactly z.
    """

    kind: Literal["below", "at_least", "label"]
    threshold: float = 0.0
    label: str = ""

    def matches(self, score: Score) -> bool:
        """Whether `score` is a defect."""
        if self.kind == "below":
            return score.value < self.threshold
        if self.kind == "at_least":
            return score.value >= self.threshold
        return score.label == self.label

    def __str__(self) -> str:
        """The rule in words: `below 3`."""
        shown = repr(self.label) if self.kind == "label" else f"{self.threshold:g}"
        return f"{self.kind.replace('_', ' ')} {shown}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to a judge: how long it took in seconds, `ok` or the reason for which it failed, and more on that.

    `detail` is in our own words: no text of the provider, none of the traffic.
    """

    seconds: float
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one evaluation cost: US dollars, tokens, seconds of wall clock, calls made; 0 for a local evaluator.

    `tries` are all calls in their order, those of questions that came to nothing among them.
    """

    model: str = ""
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 0
    cached: bool = False
    tries: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """How the evaluator came to judge the case: what its sampler must know to learn from the verdict, now or later.

    `probability` and `target` are as in `stages.SamplingDecision`. `inputs` is what the sampler saw of the case, empty
    where it looks at nothing. `shift` is what it added to the log odds of a defect for other knowledge.
    """

    probability: float
    target: float
    inputs: tuple[float, ...] = ()
    shift: float = 0.0


class RateScope(StrEnum):
    """Whether a result counts in the rates that alerts look at."""

    LIVE = "live"
    LATE = "late"  # the answer was given too long ago: it would look like news, and is none
    NON_PRODUCTION = "non_production"  # not production traffic
    BACKFILL = "backfill"  # judged afterwards, because somebody asked for it
    USER_DISLIKED = "user_disliked"  # judged because its user disliked the answer: chosen for being bad


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """One result: a case, an evaluator in a version, and the outcome.

    `weight` is 1 / (product of all probabilities with which the case and this evaluation were chosen); it counts only
    where the outcome is a `Score`. `level` and `defect` are set exactly then. Of the case's attributes only those are
    left that may leave the monitor. `selection` is None where no sampler chose. `score_source` is where it came from;
    of others `key` tells several verdicts on one case apart. `origin` says where a case that was judged afterwards came
    from: `kafka`, `spool`, `file` or `missed`.
    """

    case: Case
    evaluator: str
    version: str
    outcome: Outcome
    weight: float
    level: str = ""
    defect: bool = False
    cost: Cost = field(default_factory=Cost)
    evaluated_at: float = 0.0
    scope: RateScope = RateScope.LIVE
    service_version: ServiceVersion = field(default_factory=ServiceVersion)
    selection: Selection | None = None
    score_source: ScoreSource = ScoreSource.OWN
    key: str = ""
    origin: str = ""

    @property
    def lag(self) -> float | None:
        """Seconds from the answer to the verdict, never below 0; None where no clock says when the answer was given."""
        answered_at = self.case.answered_at
        return max(0.0, self.evaluated_at - answered_at) if answered_at > 0 else None

    @property
    def id(self) -> str:
        """Deterministic: a repeat of the same evaluation has the same id. 32 hex digits."""
        return result_id(self.case.request_id, self.evaluator, self.version, self.key)


def result_id(request_id: str, evaluator: str, version: str, key: str = "") -> str:
    """The id of a result, a hash of what was judged by whom in which version. 32 hex digits.

    A request has one case. Where only a part of its trace comes again, the answer may seem to be another span's.
    """
    text = "\x1f".join((request_id, evaluator, version, *((key,) if key else ())))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
