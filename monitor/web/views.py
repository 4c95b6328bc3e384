"""What the overview, the lists and the cases show, as plain values: the JSON API returns them, the pages render them.

A change here is a change of the JSON API. Explanations (`why.py`) and trials (`trials.py`) have their own.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """A value of the JSON API. Times are seconds since 1970, durations seconds, rates shares from 0 to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ErrorView(ApiModel):
    """Why a request failed: a wrong parameter, something that does not exist."""

    error: str


# Answers and cases


class EvidenceView(ApiModel):
    """A claim of the response, or something found in it. Offsets are characters of `response`, null without a place."""

    claim: str
    verdict: Literal["supported", "contradicted", "absent", "found"]
    start: int | None
    end: int | None
    note: str

    @property
    def place(self) -> tuple[int, int] | None:
        """Return both offsets; None without a place."""
        return None if self.start is None or self.end is None else (self.start, self.end)


class ResultView(ApiModel):
    """The result of one evaluation of an answer."""

    evaluator: str
    version: str
    evaluated_at: float
    outcome: Literal["score", "skipped", "unscored"]
    reason: str
    """Why there is no score; else empty."""
    detail: str
    score: float | None
    label: str
    level: str
    defect: bool
    explanation: str
    contradicts: bool
    """Whether the judge's explanation appears to contradict its score."""
    evidence: list[EvidenceView]
    weight: float
    """How many requests this one stands for."""
    probability: float | None
    """The probability with which it was sampled for this evaluator; null where it was not sampled."""
    lag: float | None
    """Time from the answer to the result; null where the time of the answer is unknown."""
    model: str
    """The judge's; empty for a local evaluator."""
    dollars: float
    seconds: float
    input_tokens: int
    output_tokens: int
    cached: bool
    versions: dict[str, str]
    """Further versions behind the result: of the model of the `judge`, and of the service's own `prompt`, `index` and
    `service`, as far as traces state them."""
    scope: Literal["live", "late", "non_production", "backfill", "user_disliked"]
    """Only `live` counts in rates. `late`: evaluated too long after the answer; `non_production`: not production
    traffic; `backfill`: evaluated by a backfill; `user_disliked`: evaluated because of a thumbs-down."""


class MessageView(ApiModel):
    """One message of a conversation or of a prompt."""

    role: str
    content: str


class DocumentView(ApiModel):
    """One retrieved document, in the order of the prompt."""

    content: str
    doc_uri: str
    doc_id: str
    kind: str
    score: float | None


class CaseView(ApiModel):
    """One answer with everything that is known about it. Texts are null where they are not stored (`storage.texts`)."""

    at: float
    request_id: str
    """The trace or the row; followed by `/` and a span or a turn where this holds several requests."""
    trace_id: str
    span_id: str
    app: str
    source: str
    convention: str
    session_id: str
    model: str
    traffic: str
    answered_at: float | None
    trace_url: str
    """The trace in your tracing UI; empty where `ui.trace_url` is not set."""
    slices: dict[str, str]
    """The value of each configured slice, by name; empty where the trace does not state it."""
    attributes: dict[str, str]
    """Other attributes that are stored with results."""
    question: str | None
    history: list[MessageView]
    documents: list[DocumentView]
    context_status: str
    """How the context came about; empty where texts are not stored."""
    response: str | None
    cut: list[str]
    """Texts that are cut off here, with their full length."""
    results: list[ResultView]


class AnswerView(ApiModel):
    """One answer of a list, with its matching results. Texts are excerpts, null where they are not stored."""

    request_id: str
    trace_id: str
    app: str
    at: float
    """The time of the first of these results."""
    question: str | None
    response: str | None
    response_cut: bool
    duplicates: int
    """How many more matching answers have the same question and response; they are left out."""
    results: list[ResultView]


class AnswersView(ApiModel):
    """Answers that match a search, worst first."""

    at: float
    app: str
    evaluator: str
    since: float
    until: float | None
    outcome: str
    level: str
    defect_rule: str
    """The defect rule of an alert by which the answers were chosen; empty where none was asked for."""
    answers: list[AnswerView]
    more: bool
    """Whether more than `limit` results match."""
    texts_kept: bool
    empty_reason: str
    """Why nothing matches; empty where something does."""


# Rates and alerts

RateState: TypeAlias = Literal["critical", "warning", "ok", "not_enough_data", "no_scores", "no_alert"]
"""The state of a rate, most severe first: an alert of this severity fires; none does; too few scored answers to tell;
no scored answer at all; scored, but no alert is configured for it."""


class TrendStepView(ApiModel):
    """One step of a trend. The rate and its 95 % interval are null where no answer was scored."""

    at: float
    """When the step begins."""
    evaluated: int
    rate: float | None
    lower: float | None
    upper: float | None


class WeekBeforeView(ApiModel):
    """The latest window compared with the week before it, for the same version of the evaluator."""

    window_seconds: float
    rate: float
    base_rate: float
    """The rate of the days that it is compared with, plus one pseudo-defect."""
    ratio: float


class ChangeView(ApiModel):
    """The latest change of a version behind the scores: evaluator, judge, prompt, index or service."""

    at: float
    text: str


class SliceRateView(ApiModel):
    """The rate of one value of a slice."""

    value: str
    """Empty for answers that do not state one."""
    others: bool
    """Whether this is every value after the first twenty, together."""
    evaluated: int
    defects: int
    rate: float | None
    lower: float | None
    upper: float | None
    enough: bool
    """False where too few answers were scored for the rate to mean anything."""


class SliceView(ApiModel):
    """Rates by one configured slice: values with enough scored answers first, and of those the worst."""

    name: str
    since: float
    """Answers since then, whichever window is requested: at most a day, and not before the process started."""
    values: list[SliceRateView]


class CorrectedRateView(ApiModel):
    """The rate corrected for the judge's errors, estimated from human labels of results of this version."""

    rate: float
    lower: float
    upper: float
    labelled_defects: int
    labelled_good: int


class AlertView(ApiModel):
    """The current state of an alert."""

    name: str
    status: Literal["firing", "ok", "not_enough_data"]
    severity: Literal["critical", "warning"]
    app: str
    """Empty where the alert is not about one app."""
    evaluator: str
    """Empty where the alert is not about one evaluator."""
    defect_rule: str
    """The name of the defect rule that the alert brings itself, such as `low or higher`; else empty."""
    version: str
    """The evaluator's version, where the alert is about its scores; else empty."""
    since: float
    """When `status` began."""
    summary: str
    description: str
    """The reason for the status, with figures."""
    threshold: float | None
    """The share above which it fires; null where it is not about a share."""
    window_seconds: float | None
    rate: float | None
    evaluated: int
    runbook_url: str


class RuleRateView(ApiModel):
    """The rate by a defect rule that an alert brings itself, over the same window."""

    defect_rule: str
    """The name of the rule, such as `low or higher`."""
    defect: str
    """The rule in words, such as `level low or higher (2 or more)`."""
    state: RateState
    rate: float | None
    lower: float | None
    upper: float | None
    evaluated: int
    """Scored answers."""
    defects: int
    thresholds: dict[str, float]


class RateView(ApiModel):
    """The defect rate of one app according to one evaluator, over the requested window."""

    app: str
    evaluator: str
    source: str
    """`own`, or for external scores how they arrive: `feedback`, `openinference`, `gen_ai_events`."""
    state: RateState
    why: str
    """The reason for the state."""
    firing: list[AlertView]
    """The alerts on this rate that are firing, most severe first."""
    rate: float | None
    """The estimated share of defective answers in all traffic, not only the sample; null where none was scored."""
    lower: float | None
    """Lower bound of the 95 % interval."""
    upper: float | None
    """Upper bound of the 95 % interval."""
    corrected: CorrectedRateView | None
    """Null where too few results of this version have human labels."""
    evaluated: int
    """Scored answers."""
    defects: int
    """Defective ones among the scored answers, unweighted."""
    defect: str
    """What counts as a defect, such as `level medium or higher (4 or more)`; empty for external scores."""
    thresholds: dict[str, float]
    """Defect rates above which an alert fires, by severity."""
    by_rule: list[RuleRateView]
    """The rates by the defect rules of alerts that bring their own."""
    trend: list[TrendStepView]
    """Consecutive steps of the window, oldest first, longer where few answers were scored. The last is still open."""
    week_before: WeekBeforeView | None
    changed: ChangeView | None
    """Null where nothing changed in the last seven days."""
    slices: list[SliceView]
    """The same rate by each configured slice."""
    unscored: dict[str, int]
    """Evaluations that failed to produce a score since the process started, by reason."""
    skipped: dict[str, int]
    """Evaluations that do not apply to their case since the process started, by reason."""


class AppView(ApiModel):
    """One app: its rates, most severe first, and how its traces ended since the process started."""

    app: str
    state: RateState
    rates: list[RateView]
    received: int
    """Traces received."""
    pending: int
    """Traces that have not ended."""
    ended: dict[str, int]
    """Requests of traces, and traces without any, by outcome. A trace may hold several requests."""
    contexts: dict[str, float]
    """The share of all answers since the process started by how their context came about (`retrieved`,
    `retrieved_nothing`, `no_retrieval`, `not_recorded`); empty where there is no answer."""


EvaluatorState: TypeAlias = Literal["paused", "error", "overloaded", "degraded", "never_run", "ok"]
"""The status of an evaluator, most severe first; docs/states.md explains each."""


class EvaluatorView(ApiModel):
    """A configured evaluator."""

    name: str
    state: EvaluatorState
    why: str
    """The reason for the state."""
    remedy: str
    """What to do about it; empty where there is nothing to do."""
    works: bool
    """False where it needs a judge and none is configured."""
    cost: Literal["local", "judge"]
    judge: str
    """The model that it asks; empty for a local evaluator."""
    version: str
    lowest: float
    highest: float
    better: Literal["higher", "lower"]
    levels: list[str]
    defect: str
    """The defect rule, such as `level high (6 or more)`."""
    definition: str


class MissedView(ApiModel):
    """Evaluations that were skipped while a judge was paused; `rag-monitor backfill --missed` evaluates them."""

    evaluator: str
    count: int
    since: float
    """The time of the first of these answers."""
    until: float
    """The time of the last of these answers."""


class Overview(ApiModel):
    """The state of everything at one moment."""

    at: float
    started_at: float
    monitor_version: str
    state: RateState
    """The most severe of all."""
    window: str
    """The window of the rates, such as `24h`."""
    windows: list[str]
    """The windows that can be requested."""
    ready: bool
    waiting_for: list[str]
    """Why it is not ready."""
    listening: dict[str, str]
    """The address of each receiver, by name."""
    repaired: list[str]
    """What happened to databases that were damaged since the start, one sentence each."""
    apps: list[AppView]
    left_out: int
    """How many rates are not shown because there are too many; request one app to see its rates."""
    alerts: list[AlertView]
    """Firing alerts that are not about one app."""
    evaluators: list[EvaluatorView]
    missed: list[MissedView]
    """Missed evaluations that no backfill has requested yet."""


class AlertsView(ApiModel):
    """All alerts: firing ones first, most severe first."""

    at: float
    alerts: list[AlertView]
