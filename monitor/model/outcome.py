"""The outcome of an evaluation: `Score | Skipped | Unscored`, never a number that stands for "no score"."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Final, Literal, NamedTuple, Self, TypeAlias

from monitor.model.case import Case, ContextStatus
from monitor.model.external import ScoreSource
from monitor.model.service_version import ServiceVersion
from monitor.model.severe import SecondJudgement


class SkippedReason(StrEnum):
    """Why an evaluator does not apply to a case. A closed set."""

    CONTEXT_NOT_RECORDED = "context_not_recorded"
    HANDED_OVER = "handed_over"  # its partition moved to another replica, which evaluates it
    LANGUAGE_MISMATCH = "language_mismatch"
    NO_CLAIMS = "no_claims"
    NO_DOCUMENTS = "no_documents"
    NO_HISTORY = "no_history"
    NO_PROMPT = "no_prompt"
    NO_REFERENCE = "no_reference"
    NO_REQUEST = "no_request"
    NO_RESPONSE = "no_response"
    NO_RETRIEVAL = "no_retrieval"
    REFUSAL = "refusal"


def skipped_in_words(reason: str) -> str:
    """Return a `SkippedReason` as a clause: `the answer only refuses`. An unknown reason is returned as it is."""
    return _SKIPPED.get(reason, reason)


_SKIPPED: Mapping[str, str] = {
    SkippedReason.CONTEXT_NOT_RECORDED: "the texts of the documents were not sent",
    SkippedReason.HANDED_OVER: "another replica evaluates it",
    SkippedReason.LANGUAGE_MISMATCH: "the documents are in another language",
    SkippedReason.NO_CLAIMS: "the answer claims nothing",
    SkippedReason.NO_DOCUMENTS: "the retrieval found nothing",
    SkippedReason.NO_HISTORY: "there are no earlier turns",
    SkippedReason.NO_PROMPT: "the prompt is not known",
    SkippedReason.NO_REFERENCE: "no expected answer or documents are known",
    SkippedReason.NO_REQUEST: "there is no question",
    SkippedReason.NO_RESPONSE: "there is no answer",
    SkippedReason.NO_RETRIEVAL: "there was no retrieval",
    SkippedReason.REFUSAL: "the answer only refuses",
}


def without_context(case: Case) -> SkippedReason | None:
    """Return why evaluators that need the context do not apply to a case; None if they do, as for an empty context."""
    if case.context_status is ContextStatus.NO_RETRIEVAL:
        return SkippedReason.NO_RETRIEVAL
    return SkippedReason.CONTEXT_NOT_RECORDED if case.context_status is ContextStatus.NOT_RECORDED else None


class UnscoredReason(StrEnum):
    """Why an evaluation has no score. A closed set."""

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
    TOO_LARGE = "too_large"
    AUTH = "auth"
    SHUTDOWN = "shutdown"
    OVERLOADED = "overloaded"  # the queue in front of the judge is full
    PAUSED = "paused"  # no call can succeed until someone acts (set-up, key, payment, model), so none is made
    ERROR = "error"  # the evaluator raised an exception


@dataclass(frozen=True, slots=True)
class Evidence:
    """One passage of the response that a score rests on. The verdict `found` marks something unwanted.

    `start` and `end` are offsets into the response in characters, end exclusive; both are None if the claim is not a
    literal passage of it.
    """

    claim: str
    verdict: Literal["supported", "contradicted", "absent", "found"]
    start: int | None = None
    end: int | None = None
    note: str = ""

    @property
    def place(self) -> tuple[int, int] | None:
        """Return both offsets, or None if the claim is not a literal passage of the response."""
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclass(frozen=True, slots=True)
class Score:
    """A score: `value` on the evaluator's own scale, with an explanation, and a `label` if the evaluator gives one.

    `measures` are numbers by name that a local evaluator computed on the way, for samplers; they are not stored.
    `facts` are short words by name about the request, such as the kind of an attack: rates of judged evaluators can be
    sliced by them. `contradicts`: the judge's explanation says the opposite of the value. `claims_not_found`: how many
    of the claims that the judge quotes are not in the response; they are ignored. `used_sources` has a digit for each
    source of the case, 1 if the response uses it and 0 if it does not; empty if the evaluator does not check this.
    """

    kind: ClassVar[Literal["score"]] = "score"
    value: float
    explanation: str
    label: str = ""
    evidence: tuple[Evidence, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict, compare=False)
    facts: Mapping[str, str] = field(default_factory=dict, compare=False)
    contradicts: bool = False
    claims_not_found: int = 0
    used_sources: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The evaluator does not apply to this case."""

    kind: ClassVar[Literal["skipped"]] = "skipped"
    reason: SkippedReason


@dataclass(frozen=True, slots=True)
class Unscored:
    """The evaluator applies, but there is no score. It does not count in any weight, mean or rate."""

    kind: ClassVar[Literal["unscored"]] = "unscored"
    reason: UnscoredReason
    detail: str = ""
    claims_not_found: int = 0


Outcome: TypeAlias = Score | Skipped | Unscored


@dataclass(frozen=True, slots=True)
class Level:
    """A named part of a scale: values from `start` up to the start of the next level."""

    name: str
    start: float


@dataclass(frozen=True, slots=True)
class Scale:
    """An evaluator's scale: both ends (included), which end is good, and its named levels in ascending order.

    With `whole` only whole numbers occur. The names of the levels are the values of the metric label `level`. Raises
    `ValueError` if the first level does not start at `lowest`, or levels are out of order.
    """

    lowest: float
    highest: float
    better: Literal["higher", "lower"]
    levels: tuple[Level, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        """Reject a scale that is not covered by its levels."""
        starts = [level.start for level in self.levels]
        if not starts or starts != sorted(set(starts)) or starts[0] != self.lowest or not self.lowest < self.highest:
            raise ValueError(
                f"a scale needs lowest < highest and levels in ascending order, the first at {self.lowest}: {starts}"
            )

    @classmethod
    def share(cls, **levels: float) -> Self:
        """Make a scale from 0 to 1 on which higher is better, with the start of each level, in ascending order."""
        return cls(0.0, 1.0, "higher", tuple(Level(name, start) for name, start in levels.items()))

    @classmethod
    def points(cls, *levels: str, better: Literal["higher", "lower"]) -> Self:
        """Make a scale of whole numbers from 0, one for each level."""
        named = tuple(Level(name, float(number)) for number, name in enumerate(levels))
        return cls(0.0, float(len(levels) - 1), better, named, whole=True)

    @property
    def unit(self) -> str:
        """The unit of its values: a `share` of the whole, `points` in whole steps, or a `score` between two ends."""
        if self.whole:
            return "points"
        return "share" if (self.lowest, self.highest) == (0.0, 1.0) else "score"

    def holds(self, value: float) -> bool:
        """Return whether `value` is on the scale. NaN and infinities never are."""
        return self.lowest <= value <= self.highest and (not self.whole or value == math.floor(value))

    def level(self, value: float) -> str:
        """Return the name of the level that `value` belongs to. Raises `ValueError` if it is not on the scale."""
        if not self.holds(value):
            raise ValueError(f"{value} is not on the scale from {self.lowest} to {self.highest}")
        return next(level.name for level in reversed(self.levels) if value >= level.start)

    def this_or_worse(self, name: str) -> DefectRule:
        """Return the rule for the level `name` and all worse ones. Raises `KeyError` for an unknown name.

        Raises `ValueError` for the best level, which all scores would match.
        """
        names = [level.name for level in self.levels]
        if name not in names:
            raise KeyError(name)
        at = names.index(name) + (self.better == "higher")
        if not 0 < at < len(names):
            raise ValueError(name)
        kind: Literal["below", "at_least"] = "below" if self.better == "higher" else "at_least"
        return DefectRule(kind, self.levels[at].start).on(self)

    @property
    def worst_level(self) -> str:
        """The name of the level at the bad end."""
        return self.levels[0 if self.better == "higher" else -1].name

    def start_of(self, name: str) -> float:
        """Return where the level `name` begins. Raises `KeyError` for an unknown name."""
        for level in self.levels:
            if level.name == name:
                return level.start
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class DefectRule:
    """Decides when a score is a defect. The direction is part of `kind`, so it cannot be inverted by accident.

    `below`: the value is below the threshold. `at_least`: it is the threshold or more. `label`: the label is `label`.
    `never`: no score is a defect. An evaluator with this rule only ranks answers; its scores count in no rate or alert.
    """

    kind: Literal["below", "at_least", "label", "never"]
    threshold: float = 0.0
    label: str = ""
    levels: tuple[str, ...] = field(default=(), compare=False)
    """The defective levels, the mildest first; empty if the rule uses a label or its threshold lies inside a level."""

    def on(self, scale: Scale) -> DefectRule:
        """Return the same rule with the names of its levels on `scale`."""
        found = scale.levels
        if self.kind in ("label", "never") or self.threshold not in {level.start for level in found}:
            return self
        if self.kind == "at_least":
            return replace(self, levels=tuple(level.name for level in found if level.start >= self.threshold))
        return replace(self, levels=tuple(level.name for level in reversed(found) if level.start < self.threshold))

    @property
    def name(self) -> str:
        """A short name, from its levels if it has any: `low or higher`, `high`, `below 2.5`, `label attack`."""
        if self.kind == "label":
            return f"label {self.label}"
        if self.kind == "never":
            return "never"
        if not self.levels:
            return f"below {self.threshold:g}" if self.kind == "below" else f"{self.threshold:g} or more"
        beyond = "" if len(self.levels) == 1 else " or lower" if self.kind == "below" else " or higher"
        return f"{self.levels[0]}{beyond}"

    @property
    def words(self) -> str:
        """The rule in words for people: `level low or higher (2 or more)`, `a score below 2.5`."""
        if self.kind == "label":
            return f"the label {self.label!r}"
        if self.kind == "never":
            return "no score, since it only ranks answers"
        score = f"below {self.threshold:g}" if self.kind == "below" else f"{self.threshold:g} or more"
        if self.levels:
            return f"level {self.name} ({score})"
        return f"a score {score}" if self.kind == "below" else f"a score of {score}"

    @property
    def predicate(self) -> str:
        """The rule as a predicate of defective answers: they `are of level low or higher (2 or more)`."""
        return f"are of {self.words}" if self.levels else f"have {self.words}"

    def matches(self, score: Score) -> bool:
        """Return whether `score` is a defect."""
        if self.kind == "below":
            return score.value < self.threshold
        if self.kind == "at_least":
            return score.value >= self.threshold
        return self.kind == "label" and score.label == self.label

    def __str__(self) -> str:
        """Return the rule in words: `below 3`."""
        if self.kind == "never":
            return "none, it only ranks"
        shown = repr(self.label) if self.kind == "label" else f"{self.threshold:g}"
        return f"{self.kind.replace('_', ' ')} {shown}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call to a judge: its duration in seconds, and `ok` or the reason why it failed.

    `detail` may quote the provider, without keys; it contains no text of the traffic.
    """

    seconds: float
    result: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one evaluation: US dollars, tokens, wall-clock seconds, calls. A local evaluator only takes time.

    Dollars, tokens and calls of a result include those of a second judgement and of a repeat (`recheck`).

    `attempts` counts the calls, including those without a verdict. The cost of a call for several evaluators is divided
    among them, and its attempt is counted for the first. `asked`: a judge gave a verdict that was not cached; `cached`:
    all verdicts came from the cache. `tries` are all calls in order, including those of questions that failed.
    """

    model: str = ""
    dollars: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    attempts: int = 0
    cached: bool = False
    tries: tuple[Attempt, ...] = ()
    asked: bool = False

    def with_another(self, other: Cost) -> Cost:
        """Return this cost plus the dollars, tokens and calls of another judgement. All other fields stay as here."""
        return replace(
            self,
            dollars=self.dollars + other.dollars,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            attempts=self.attempts + other.attempts,
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """How the case was sampled for the evaluator: what its sampler needs in order to learn from the result.

    `probability` and `target` are as in `stages.SamplingDecision`. `inputs` are the numbers about the case that the
    sampler used, empty if it uses none; `inputs_version` is the version of their definitions, 0 without inputs. `shift`
    is what the sampler added to the log odds of a defect for other reasons.
    """

    probability: float
    target: float
    inputs: tuple[float, ...] = ()
    shift: float = 0.0
    inputs_version: int = 0


class RateScope(StrEnum):
    """Whether a result counts in the rates that alerts look at."""

    LIVE = "live"
    LATE = "late"  # the answer is too old: it would look like a recent one
    NON_PRODUCTION = "non_production"  # not production traffic
    BACKFILL = "backfill"  # evaluated later, on request
    USER_DISLIKED = "user_disliked"  # evaluated because its user disliked the answer, so not a random sample
    RANKING = "ranking"  # the score only puts answers in order: no score of this evaluator is a defect


class RecheckOutcome(StrEnum):
    """How a judge's second answer to the same question compares with its first. A closed set."""

    SAME = "same"
    OTHER = "other"  # one says defect, the other good
    UNSCORED = "unscored"


class SessionProducts(NamedTuple):
    """What a scored answer adds to the sums of the products of weights within its session.

    `defects` sums over pairs of defects, `every` over pairs of any answers, `both` over pairs of a defect with any
    answer. An answer also forms a pair with itself.
    """

    defects: float
    every: float
    both: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """One result: a case, an evaluator in a version, and the outcome.

    `weight` is 1 / (product of the probabilities with which the case and this evaluation were sampled). It counts only
    if the outcome is a `Score`; only then are `level` and `defect` set. The case keeps only attributes that may leave
    the monitor. `selection` is None without sampling. `score_source` says whether the monitor or someone else scored;
    `key` distinguishes several external scores of one case. `alert_defects` says whether the score is a defect by the
    own rules of alerts, keyed by the rule's name. `origin` is the origin of a case that was evaluated later:
    `kafka`, `spool`, `file` or `missed`. `session_products`, keyed by the rule's name (empty for the evaluator's own
    rule), are set when a live score is counted. `second` is the second judgement of a severe answer, or None; `recheck`
    is the result of asking the judge again, or None if it was not asked again. `known_id` is the id of a result that
    was read from the history, which does not store `key`.
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
    alert_defects: Mapping[str, bool] = field(default_factory=dict)
    session_products: Mapping[str, SessionProducts] = field(default_factory=dict)
    second: SecondJudgement | None = None
    recheck: RecheckOutcome | None = None
    known_id: str = ""

    @property
    def lag(self) -> float | None:
        """Seconds from the answer to the result, never below 0; None if the time of the answer is unknown."""
        answered_at = self.case.answered_at
        return max(0.0, self.evaluated_at - answered_at) if answered_at > 0 else None

    @property
    def id(self) -> str:
        """The id of the result, 32 hex digits. A repeat of the same evaluation has the same id."""
        return self.known_id or result_id(self.case.request_id, self.evaluator, self.version, self.key)


_RULE: Final = re.compile(r"~(?:below|at_least|label) ")


def version_with_rule(version: str, rule: DefectRule) -> str:
    """Return an evaluator's version with a defect rule other than its default at the end: `1+0f3a9c21~below 2`."""
    limit = rule.label if rule.kind == "label" else f"{float(rule.threshold):.12g}"
    return f"{version}~{rule.kind} {limit}"


@lru_cache(maxsize=2048)
def result_id(request_id: str, evaluator: str, version: str, key: str = "") -> str:
    """Return the id of a result, a hash of the request, the evaluator and its version. 32 hex digits.

    The defect rule in the version is not part of the hash: by any rule it is the same score. Nor is the span: if only a
    part of a trace arrives again, the answer may seem to be in another span. The latest ids are cached, since each is
    needed when a case is drawn and when its result is published and written.
    """
    instrument = _RULE.split(version, maxsplit=1)[0]
    text = "\x1f".join((request_id, evaluator, instrument, *((key,) if key else ())))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
