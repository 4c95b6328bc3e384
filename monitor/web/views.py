"""The views of lists and cases, as plain values: the JSON API returns them, the pages render them.

A change here changes the JSON API. The views of rates, alerts and the overview are in `rate_views.py`, those of
explanations in `why.py`, and those of trials in `trials.py`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """A value of the JSON API. Times are seconds since 1970, durations seconds, rates shares from 0 to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ErrorView(ApiModel):
    """Why a request failed: a wrong parameter, something that does not exist."""

    error: str


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


class SecondView(ApiModel):
    """The second judgement of a severe answer."""

    outcome: Literal["confirmed", "refuted", "unscored"]
    score: float | None
    """Null if it produced no score."""
    model: str


class ResultView(ApiModel):
    """The result of one evaluation of an answer."""

    id: str
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
    second: SecondView | None
    """The second judgement of a severe answer; null if there was none."""
    evidence: list[EvidenceView]
    weight: float
    """How many requests this one stands for."""
    probability: float | None
    """The probability with which it was sampled for this evaluator; null if it was not sampled."""
    lag: float | None
    """Time from the answer to the result; null if the time of the answer is unknown."""
    model: str
    """The judge's model; empty for a local evaluator."""
    dollars: float
    seconds: float
    input_tokens: int
    output_tokens: int
    cached: bool
    versions: dict[str, str]
    """Other versions behind the result: that of the `judge`'s model, and the service's own `prompt`, `index` and
    `service` versions if traces carry them."""
    scope: Literal["live", "late", "non_production", "backfill", "user_disliked", "ranking"]
    """Only `live` counts in rates. `late`: evaluated too long after the answer; `non_production`: not production
    traffic; `backfill`: evaluated by a backfill; `user_disliked`: evaluated because of a thumbs-down; `ranking`:
    the score only puts answers in order."""


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
    """One answer with everything that is known about it. Texts are null if they are not stored (`storage.texts`)."""

    at: float
    request_id: str
    """The id of the trace or row; followed by `/` and a span or turn if it contains several requests."""
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
    """The trace in your tracing UI; empty if `ui.trace_url` is not set."""
    slices: dict[str, str]
    """The value of each configured slice, by name; empty if the trace does not carry it."""
    attributes: dict[str, str]
    """Other attributes that are stored with results."""
    question: str | None
    history: list[MessageView]
    documents: list[DocumentView]
    context_status: str
    """Whether documents were retrieved; empty if texts are not stored."""
    response: str | None
    cut: list[str]
    """Texts that are cut off here, with their full length."""
    results: list[ResultView]


class AnswerView(ApiModel):
    """One answer of a list, with its matching results. Texts are excerpts, null if they are not stored."""

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
    """The defect rule of an alert by which the answers were selected; empty if none was requested."""
    answers: list[AnswerView]
    more: bool
    """Whether more than `limit` results match."""
    texts_kept: bool
    empty_reason: str
    """Why nothing matches; else empty."""
