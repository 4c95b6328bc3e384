"""What is shown, as plain values: the HTML is written from them, and the JSON API answers with them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

State: TypeAlias = Literal["critical", "warning", "ok", "not_enough_data", "no_verdicts", "not_watched"]
"""How a rate stands, the gravest first: an alert fires; none does; too little was judged to say; nothing was judged
yet; judged, and no alert is configured for it."""


class View(BaseModel):
    """A value that is shown. Times are seconds since 1970, durations seconds, rates shares from 0 to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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


class Evaluator(View):
    """An evaluator that is at work, or configured and off."""

    name: str
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


class Alerts(View):
    """All alerts: those that fire first, the gravest first."""

    at: float
    alerts: list[Alert]


class Evidence(View):
    """A claim of the response, or something found in it. Offsets are characters of `response`, -1 where it is none."""

    claim: str
    verdict: Literal["supported", "contradicted", "absent", "found"]
    start: int
    end: int
    note: str


class Verdict(View):
    """What one evaluator said of an answer."""

    evaluator: str
    version: str
    judged_at: float
    outcome: Literal["score", "skipped", "unscored"]
    reason: str
    """Why there is no score; else empty."""
    detail: str
    score: float | None
    label: str
    level: str
    defect: bool
    explanation: str
    evidence: list[Evidence]
    weight: float
    """The requests that this one stands for."""
    probability: float | None
    """With which its evaluator chose it; null where nothing chose."""
    lag: float | None
    """From the answer to the verdict; null where it is not known when the answer was given."""
    model: str
    """The judge's; empty for a local evaluator."""
    dollars: float
    seconds: float
    input_tokens: int
    output_tokens: int
    cached: bool
    standing: Literal["live", "late", "aside"]
    """Only `live` is in the rates; `late`: judged too long after the answer; `aside`: not production traffic."""


class Turn(View):
    """One turn of the conversation before the question."""

    role: str
    content: str


class Document(View):
    """One retrieved piece of context, in the order of the prompt."""

    content: str
    doc_uri: str
    doc_id: str
    score: float | None


class Case(View):
    """One answer with all that is known of it. Texts are null where they are not kept (`storage.keep_texts`)."""

    at: float
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
    """The trace in the tracing UI; empty where none is configured."""
    attributes: dict[str, str]
    question: str | None
    history: list[Turn]
    documents: list[Document]
    response: str | None
    cut: list[str]
    """Texts of which only the beginning is here, with their length."""
    verdicts: list[Verdict]


class Found(View):
    """One answer of a list, with its verdicts that were looked for. Texts are excerpts, null where none are kept."""

    trace_id: str
    app: str
    at: float
    """When the first of these verdicts was reached."""
    question: str | None
    response: str | None
    response_cut: bool
    alike: int
    """How many more of what was found have the same question and answer, word for word; they are left out."""
    verdicts: list[Verdict]


class Answers(View):
    """Answers that were looked for, the worst first."""

    at: float
    app: str
    evaluator: str
    since: float
    until: float | None
    outcome: str
    level: str
    answers: list[Found]
    more: bool
    """Whether there are more than `limit`."""
    texts_kept: bool
    why_none: str
    """Why there are none; empty where there are."""


class Fault(View):
    """Why there is no answer: a wrong parameter, something that is not there."""

    error: str
