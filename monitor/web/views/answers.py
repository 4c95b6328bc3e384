"""Answers and what was said of them: what the lists of answers and one case show."""

from __future__ import annotations

from typing import Literal

from monitor.web.view import View


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
    contradicts: bool
    """Whether a judge's explanation says the opposite of the score, as far as it can be read."""
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
    versions: dict[str, str]
    """What stood behind it besides: the judge's model, and the service's own `prompt`, `index` and `service`, as far as
    they were stated."""
    standing: Literal["live", "late", "non_production", "backfill", "user_disliked"]
    """Only `live` is in the rates; `late`: judged too long after the answer; `non_production`: not production
    traffic.
    """


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
    """One answer with all that is known of it. Texts are null where they are not kept (`storage.texts`)."""

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
    slices: dict[str, str]
    """The configured slices that it is counted in, by name; empty where it states none."""
    attributes: dict[str, str]
    """Further facts that are kept with results."""
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
