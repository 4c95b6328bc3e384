"""A try as plain values: what was sent, what came back, and what became of it."""

from __future__ import annotations

from functools import partial
from typing import Final, Literal

from pydantic import Field

from monitor.judge.recording import Exchange
from monitor.model.outcome import Evidence as Found
from monitor.model.outcome import Score
from monitor.web.texts import whole
from monitor.web.trials import Once, Trial, Tried
from monitor.web.view import View
from monitor.web.views import Evidence

TEXT: Final = 200_000
"""Characters of one text at most."""


class SentMessage(View):
    """One message of a prompt, as it was sent."""

    role: str
    content: str


class TryReply(View):
    """What the model answered, as it came. Token counts are null where the provider sent none."""

    text: str | None
    finish: str
    """Why it ended, in the provider's word."""
    refused: bool
    model: str
    input_tokens: int | None
    output_tokens: int | None


class TryCall(View):
    """One call of the judge."""

    messages: list[SentMessage]
    max_tokens: int
    temperature: float | None
    """Null where the provider's own was left."""
    response_format: str
    """The kind of answer that was asked for; empty where none was."""
    reply: TryReply | None
    """Null where there was none."""
    fault: str
    """Why there was none; else empty."""


class TryTime(View):
    """One time that the evaluator was asked."""

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
    dollars: float
    seconds: float
    calls: list[TryCall]


class TryResult(View):
    """An evaluator tried on a case, apart from all that is live."""

    at: float
    trace_id: str
    evaluator: str
    version: str
    """That of the evaluator, with its options and judge; empty before the first time is over."""
    model: str
    """The judge's; empty where the evaluator asks none."""
    together_with: list[str]
    """The evaluators that were asked in the same call, as the running monitor does."""
    began: float
    wanted: int = Field(ge=1)
    """How many times were asked for."""
    over: bool
    fault: str
    """Why there are fewer times; empty where there are not."""
    times: list[TryTime]
    verdicts: int
    """Of `times` those that came to a verdict."""
    defects: int
    """Of the verdicts those that are a defect."""
    flips: int
    """Of the verdicts those that are not the most frequent one, a defect or none."""
    dollars: float
    """What all of it cost; 0 where nobody knows the price."""
    cut: list[str]
    """Texts of which only the beginning is here, with their length."""


def view(trial: Trial, now: float) -> TryResult:
    """`trial` as far as it has come."""
    found, cut = trial.tried, list[str]()
    scored = list(found.scored) if found is not None else []
    return TryResult(
        at=now,
        trace_id=whole(trial.trace_id),
        evaluator=trial.evaluator,
        version=found.times[0].judged.version if found is not None and found.times else "",
        model=(found.settings.model or "") if found is not None and found.settings is not None else "",
        together_with=list(found.together) if found is not None else [],
        began=trial.began,
        wanted=trial.times,
        over=trial.over.is_set(),
        fault=trial.fault,
        times=[_time(found, one, number, cut) for number, one in enumerate(found.times, 1)] if found else [],
        verdicts=len(scored),
        defects=sum(one.defect for one in scored),
        flips=found.flips if found is not None else 0,
        dollars=found.paid if found is not None else 0.0,
        cut=cut,
    )


def _time(tried: Tried, one: Once, number: int, cut: list[str]) -> TryTime:
    judged, outcome = one.judged, one.judged.outcome
    score = outcome if isinstance(outcome, Score) else None
    return TryTime.model_validate(
        {
            "outcome": type(outcome).__name__.lower(),
            "reason": "" if isinstance(outcome, Score) else str(outcome.reason),
            "detail": whole(getattr(outcome, "detail", ""))[:TEXT],
            "score": score.value if score else None,
            "label": whole(score.label or "") if score else "",
            "level": judged.level if score else "",
            "defect": judged.defect if score else False,
            "explanation": whole(score.explanation)[:TEXT] if score else "",
            "evidence": [_evidence(one) for one in score.evidence] if score else [],
            "dollars": judged.spending.dollars,
            "seconds": judged.spending.seconds,
            "calls": [
                _call(tried, call, f"time {number}, call {place}", cut) for place, call in enumerate(one.exchanges, 1)
            ],
        }
    )


def _evidence(one: Found) -> Evidence:
    claim, note = whole(one.claim)[:TEXT], whole(one.note)[:TEXT]
    return Evidence(claim=claim, verdict=one.verdict, start=one.start, end=one.end, note=note)


def _call(tried: Tried, exchange: Exchange, where: str, cut: list[str]) -> TryCall:
    text, sent, reply = partial(_shortened, cut=cut), exchange.call, exchange.reply
    return TryCall(
        messages=[
            SentMessage(role=whole(one["role"]), content=text(f"{where}: message {number}", one["content"]))
            for number, one in enumerate(sent.messages, 1)
        ],
        max_tokens=sent.max_tokens,
        temperature=tried.temperature(exchange),
        response_format=str(sent.response_format.get("type", "asked for")) if sent.response_format else "",
        reply=TryReply(
            text=text(f"{where}: reply", reply.text) if reply.text is not None else None,
            finish=whole(reply.finish),
            refused=reply.refused,
            model=whole(reply.model),
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
        )
        if reply is not None
        else None,
        fault=whole(exchange.fault),
    )


def _shortened(name: str, given: str, *, cut: list[str]) -> str:
    text = whole(given)
    if len(text) > TEXT:
        cut.append(f"{name}: the first {TEXT:,} of {len(text):,} characters")
    return text[:TEXT]
