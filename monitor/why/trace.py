"""The way of one trace, step by step: received, joined, kept, read, chosen, judged; and where it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from monitor.model.trail import Trail
from monitor.quantities import human_duration
from monitor.why import chosen, conclusion, reasons, unseen
from monitor.why.foreign import not_on_this
from monitor.why.values import Answer, Cause, Situation, Step, TraceFacts, clock_time, several, share

_SHOWN: Final = 12
"""Spans that are named."""

_CLOSED: Final[Mapping[str, str]] = {
    "root_ended": "its root had ended and nothing more came for {grace_period}",
    "idle": "no root that had ended was seen, and nothing more came for {idle_timeout}",
    "too_old": "it had been open for as long as a trace may be (assembly.max_age)",
    "evicted": "open traces took all the memory that they may (assembly.max_open_bytes)",
    "too_large": "it was larger than a trace may be (assembly.max_trace_bytes, assembly.max_trace_spans)",
    "shutdown": "the monitor was stopped",
    "handed_over": "its partition moved to another replica",
}


def of_trace(facts: TraceFacts, situation: Situation, evaluator: str = "") -> Answer:
    """Why a trace has the verdicts it has, or none; with `evaluator`, why that one's."""
    subject = f"trace {facts.request_id}"
    if evaluator and situation.evaluator(evaluator) is None and not _known(evaluator, facts):
        if evaluator in situation.foreign:
            return not_on_this(subject, evaluator)
        told = reasons.not_configured(evaluator, situation)
        return Answer(subject, Cause.NOT_ASKED, f"Not judged: {told.text}.", told.setting)
    trail = facts.under_way or (facts.trails[-1] if facts.trails else None)
    if trail is None:
        return unseen.of_unrecorded(subject, facts, situation, evaluator)
    steps = [*_arrival(trail, facts, situation)]
    if trail.outcome and trail.outcome in reasons.CAUSE_OF_OUTCOME:
        told = reasons.of_outcome(trail.outcome, trail.detail, situation, draw=facts.class_draw)
        cause = reasons.CAUSE_OF_OUTCOME[trail.outcome]
        steps.append(Step("read", told.text, told.setting, cause=cause))
        if not facts.results:  # else an earlier part of it was judged
            return Answer(subject, cause, f"Not judged: {told.text}.", told.setting, steps=steps)
    elif trail.outcome or trail.choices:
        steps.append(_read(trail))
    steps += _earlier(facts.trails[:-1] if not facts.under_way else facts.trails)
    names = [one.name for one in situation.evaluators]
    names += [one.evaluator for one in trail.choices if one.evaluator not in names]
    ends: list[Step] = []
    for name in names if not evaluator else [evaluator]:
        told_steps = list(chosen.of_choice(name, trail, facts, situation))
        steps += told_steps
        ends.append(told_steps[-1])
    return conclusion.conclude(subject, steps, ends)


def _known(evaluator: str, facts: TraceFacts) -> bool:
    told = (one.evaluator for trail in facts.trails for one in trail.choices)
    return evaluator in told or any(row.get("evaluator") == evaluator for row in facts.results)


def _arrival(trail: Trail, facts: TraceFacts, situation: Situation) -> Iterator[Step]:
    yield Step("received", f"{clock_time(trail.received_at)}, from {trail.app or 'unknown'}, by {trail.source}")
    yield Step("kept", _kept(trail, facts, situation))
    if not trail.closed:
        yield Step("joined", "came whole, as a row")
        return
    waited = human_duration(max(trail.closed_at - trail.received_at, 0.0))
    why = _CLOSED.get(trail.closed, trail.closed)
    why = why.format(
        grace_period=human_duration(situation.grace_period), idle_timeout=human_duration(situation.idle_timeout)
    )
    records = f" and {several(trail.records, 'log record')}" if trail.records else ""
    yield Step("joined", f"closed after {waited}, since {why}: {several(trail.spans, 'span')}{records}{_spans(trail)}")


def _kept(trail: Trail, facts: TraceFacts, situation: Situation) -> str:
    rate = share(trail.probability)
    if trail.probability >= 1:
        return "head sampling keeps every trace (sampling.traces: 1)"
    value = f"; any rate of at least {share(facts.least_rate)} keeps this one" if facts.least_rate is not None else ""
    upstream = ""
    if trail.probability < situation.head_rate * 0.999999:
        upstream = ", what its sender had sampled before included"
    return f"by head sampling, with probability {rate}{upstream}{value}"


def _spans(trail: Trail) -> str:
    if not trail.joined:
        return ""
    shown = [f"{one.name or one.span_id} ({', '.join(filter(None, one[2:4])) or 'no dialect'})" for one in trail.joined]
    left = trail.spans - _SHOWN
    return f": {'; '.join(shown[:_SHOWN])}{f'; and {left} more' if left > 0 else ''}"


def _read(trail: Trail) -> Step:
    text = "a question and an answer"
    text += "; a retrieval took place and found nothing" if trail.outcome == "no_context" else ""
    aside = (
        f"; its traffic class is {trail.traffic}: in no live rate" if trail.traffic not in ("", "production") else ""
    )
    return Step("read", f"{text}{aside}")


def _earlier(trails: Sequence[Trail]) -> Iterator[Step]:
    """The same id may have ended before: where parts of a trace came after it was closed and forgotten."""
    for one in trails:
        told: list[Any] = [choice.evaluator for choice in one.choices if choice.outcome == "score"]
        verdicts = f", judged by {', '.join(told)}" if told else ""
        yield Step("before", f"an earlier part of it ended {clock_time(one.ended_at)} as {one.outcome}{verdicts}")
