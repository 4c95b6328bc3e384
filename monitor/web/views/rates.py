"""Rates, alerts and evaluators as they stand: what the overview and the alerts show."""

from __future__ import annotations

from typing import Literal, TypeAlias

from monitor.web.view import Corrected, Slice, View

State: TypeAlias = Literal["critical", "warning", "ok", "not_enough_data", "no_verdicts", "not_watched"]
"""How a rate stands, the gravest first: an alert fires; none does; too little was judged to say; nothing was judged
yet; judged, and no alert is configured for it."""


class Step(View):
    """One step of a trend; the rate and its 95 % interval are null where nothing was judged."""

    at: float
    """When the step begins."""
    judged: int
    rate: float | None
    lower: float | None
    upper: float | None


class WeekBefore(View):
    """The newest window beside the week before, both of the same version of the evaluator."""

    window_seconds: float
    rate: float
    base_rate: float
    """The rate of the days that it is compared with, with one pseudo defect."""
    ratio: float


class Changed(View):
    """The last change of what stands behind the verdicts: of evaluator, judge, prompt, index or service."""

    at: float
    text: str


class Alert(View):
    """An alert as it stands."""

    name: str
    status: Literal["firing", "ok", "not_enough_data"]
    severity: Literal["critical", "warning"]
    app: str
    """Empty where it is not about one."""
    evaluator: str
    """Empty where it is not about one."""
    version: str
    """That of the evaluator, where the alert is about its verdicts; else empty."""
    since: float
    """When `status` began."""
    summary: str
    description: str
    """Why it stands as it does, with the figures."""
    threshold: float | None
    """The share above which it fires; null where it is not about a share."""
    window_seconds: float | None
    rate: float | None
    judged: int
    runbook_url: str


class Rate(View):
    """How one evaluator sees one app, over the window that was asked for."""

    app: str
    evaluator: str
    source: str
    """`own`, or how its verdicts come where it is not ours: `feedback`, `openinference`, `gen_ai_events`."""
    state: State
    why: str
    """The reason of the state, in words."""
    firing: list[Alert]
    """The alerts about this rate that fire, the gravest first."""
    rate: float | None
    """The share of defective answers of all traffic, whatever was sampled; null where nothing was judged."""
    lower: float | None
    """Lower end of the 95 % interval."""
    upper: float | None
    """Upper end of the 95 % interval."""
    corrected: Corrected | None
    """The rate without the judge's errors; null where people have labelled too few results of this version."""
    judged: int
    defects: int
    """Defective ones among those judged, unweighted."""
    thresholds: dict[str, float]
    """Defect rates above which it alerts, by severity."""
    trend: list[Step]
    """Consecutive steps of the window, the oldest first, longer where few were judged; the newest is not over."""
    week_before: WeekBefore | None
    changed: Changed | None
    """Only where it is of the last seven days."""
    slices: list[Slice]
    """The same rate by each slice that is configured."""
    unscored: dict[str, int]
    """Evaluations that came to no verdict since the process started, by reason."""


class App(View):
    """One app: its rates, the gravest first, and where its traces ended since the process started."""

    app: str
    state: State
    rates: list[Rate]
    received: int
    """Traces received: the sum of `ended` and `pending`."""
    pending: int
    ended: dict[str, int]
    """Traces by the one place each ended in."""


EvaluatorState: TypeAlias = Literal["paused", "error", "overloaded", "degraded", "never_run", "ok"]
"""How an evaluator stands, the gravest first; docs/states.md says what each means."""


class Evaluator(View):
    """An evaluator that is at work, or configured and off."""

    name: str
    state: EvaluatorState
    why: str
    """The reason of the state, in words."""
    remedy: str
    """What to do about it, in words; empty where there is nothing to do."""
    works: bool
    """False where it asks a judge and none is configured."""
    cost: Literal["local", "judge"]
    judge: str
    """The model that it asks; empty for a local one."""
    version: str
    lowest: float
    highest: float
    better: Literal["higher", "lower"]
    levels: list[str]
    defect: str
    """What counts as a defect, such as `below 3`."""
    definition: str


class Missed(View):
    """Judgements that an evaluator missed while its judge refused; `rag-monitor backfill --missed` asks for them."""

    evaluator: str
    number: int
    since: float
    """When the first of these answers was given."""
    until: float
    """When the last was."""


class Overview(View):
    """Everything at one moment."""

    at: float
    started_at: float
    monitor_version: str
    state: State
    """The gravest of all."""
    window: str
    """The window of the rates, such as `24h`."""
    windows: list[str]
    """The windows that can be asked for."""
    ready: bool
    waiting_for: list[str]
    """Why it is not ready."""
    listening: dict[str, str]
    """Where each receiver listens, by its name."""
    apps: list[App]
    left_out: int
    """How many rates are not shown because there are too many; ask for one app."""
    alerts: list[Alert]
    """Those that fire and are not about one app."""
    evaluators: list[Evaluator]
    missed: list[Missed]
    """What was missed and is not asked for yet."""


class Alerts(View):
    """All alerts: those that fire first, the gravest first."""

    at: float
    alerts: list[Alert]
