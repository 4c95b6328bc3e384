"""The views of the overview and of the list of alerts: rates, alerts, evaluators. See `views.py`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from monitor.web.views import ApiModel

RateState: TypeAlias = Literal["critical", "warning", "ok", "not_enough_data", "no_scores", "no_alert"]
"""The state of a rate, most severe first: an alert of this severity fires; no alert fires; too few scored answers to
tell; no scored answers at all; scored, but no alert is configured for it."""


class ReloadView(ApiModel):
    """How a reload of the configuration ended."""

    at: float
    by: str
    """What triggered it: `SIGHUP`, `POST /-/reload` or `a change of the file`."""
    ok: bool
    text: str
    """What changed, or why nothing did."""
    changed: list[str]
    """The places in the file that have changed, such as `alerts[0].warning`."""


class TrendStepView(ApiModel):
    """One step of a trend. The rate and its 95 % interval are null if no answer was scored."""

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
    """The rate of the days compared with, plus one pseudo-defect."""
    ratio: float


class ChangeView(ApiModel):
    """The latest change of a version behind the scores: evaluator, judge, prompt, index or service."""

    at: float
    text: str


class SliceRateView(ApiModel):
    """The rate of one value of a slice."""

    value: str
    """Empty for answers without a value."""
    others: bool
    """Whether this row is the total of all values after the first twenty."""
    evaluated: int
    defects: int
    rate: float | None
    lower: float | None
    upper: float | None
    enough: bool
    """False if too few answers were scored for the rate to mean anything."""


class SliceView(ApiModel):
    """Rates by one configured slice: values with enough scored answers first, worst first."""

    name: str
    since: float
    """When the sums begin, whatever window is requested: at most a day ago, and not before the process started."""
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
    """Empty if the alert is not about one app."""
    evaluator: str
    """Empty if the alert is not about one evaluator."""
    defect_rule: str
    """The name of the defect rule defined in the alert, such as `low or higher`; else empty."""
    version: str
    """The evaluator's version, if the alert is about its scores; else empty."""
    since: float
    """When `status` began."""
    summary: str
    description: str
    """The reason for the status, with figures."""
    threshold: float | None
    """The share above which it fires; null if it is not about a share."""
    window_seconds: float | None
    rate: float | None
    evaluated: int
    runbook_url: str
    diagnosis: str
    """When the rate rose and what its bad answers have in common, in one line; empty if not known."""
    incident: str
    """The id of the incident that it belongs to, or empty."""


class RuleRateView(ApiModel):
    """The rate by a defect rule defined in an alert, over the same window."""

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
    """`own`; or how external scores arrive: `feedback`, `openinference`, `gen_ai_events`."""
    state: RateState
    why: str
    """The reason for the state."""
    firing: list[AlertView]
    """The alerts on this rate that are firing, most severe first."""
    rate: float | None
    """The estimated share of defective answers in all traffic, not only the sample; null if none was scored."""
    lower: float | None
    """Lower bound of the 95 % interval."""
    upper: float | None
    """Upper bound of the 95 % interval."""
    corrected: CorrectedRateView | None
    """Null if too few results of this version have human labels."""
    evaluated: int
    """Scored answers."""
    defects: int
    """Defective answers among the scored ones, unweighted."""
    defect: str
    """What counts as a defect, such as `level medium or higher (4 or more)`; empty for external scores."""
    thresholds: dict[str, float]
    """Defect rates above which an alert fires, by severity."""
    by_rule: list[RuleRateView]
    """The rates by defect rules defined in alerts."""
    trend: list[TrendStepView]
    """Consecutive steps of the window, oldest first; longer if few answers were scored. The last is still open."""
    week_before: WeekBeforeView | None
    changed: ChangeView | None
    """Null if nothing changed in the last seven days."""
    slices: list[SliceView]
    """The same rate by each configured slice."""
    unscored: dict[str, int]
    """Evaluations that failed to produce a score since the process started, by reason."""
    skipped: dict[str, int]
    """Evaluations since the process started that did not apply to their case, by reason."""


class AppView(ApiModel):
    """One app: its rates, most severe first, and how its traces ended since the process started."""

    app: str
    state: RateState
    rates: list[RateView]
    received: int
    """Traces received under this name. A trace has the name of the service whose spans arrived first."""
    pending: int
    """Traces that have not ended."""
    ended: dict[str, int]
    """Requests of traces, and traces without any request, by outcome. A trace may contain several requests."""
    contexts: dict[str, float]
    """The share of all answers since the process started, by context status (`retrieved`, `retrieved_nothing`,
    `no_retrieval`, `not_recorded`); empty if there are no answers."""


EvaluatorState: TypeAlias = Literal["paused", "error", "overloaded", "degraded", "never_run", "ok"]
"""The status of an evaluator, most severe first; docs/states.md explains each."""


class EvaluatorView(ApiModel):
    """A configured evaluator."""

    name: str
    state: EvaluatorState
    why: str
    """The reason for the state."""
    remedy: str
    """What to do about it; empty if there is nothing to do."""
    works: bool
    """False if it needs a judge and none is configured."""
    cost: Literal["local", "judge"]
    judge: str
    """The judge's model; empty for a local evaluator."""
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
    """The most severe state of all rates and alerts."""
    window: str
    """The window of the rates, such as `24h`."""
    windows: list[str]
    """The windows that can be requested."""
    ready: bool
    waiting_for: list[str]
    """Why it is not ready."""
    listening: dict[str, str]
    """The address of each receiver, by name."""
    reload: ReloadView | None
    """The last reload of the configuration that changed something or failed; `null`: there was none."""
    repaired: list[str]
    """What was done about databases found damaged since the start, one sentence each."""
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
