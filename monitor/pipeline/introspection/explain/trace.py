"""Explains one trace, step by step (received, sampled, assembled, extracted, evaluated), and where it ended.

A trace without a record in the request log is explained from other facts: it is still open, was left out by head
sampling, has results in the history, or never arrived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from monitor.extraction import coverage
from monitor.model.case import ContextStatus
from monitor.model.request_log import RequestRecord
from monitor.pipeline.introspection.explain import (
    Cause,
    Explanation,
    ExplanationStep,
    MonitorSetup,
    OpenTrace,
    TraceFacts,
    above,
    at_least,
    clock_time,
    decision,
    reasons,
    share,
)
from monitor.quantities import human_duration, number_of

_SHOWN: Final = 12
"""Maximum spans that are named."""

_ROWS: Final = "case"
"""A row format: all of them have the same advice."""

_CLOSED: Final[Mapping[str, str]] = {
    "root_ended": "because its root had ended and nothing more arrived for {grace_period}",
    "idle": "because its root had not ended and nothing more arrived for {idle_timeout}",
    "too_old": "because it had been open for as long as allowed (assembly.max_age)",
    "evicted": "because open traces took all the memory they may use (assembly.max_open_bytes)",
    "too_large": "because it was larger than allowed (assembly.max_trace_bytes, assembly.max_trace_spans)",
    "shutdown": "because the monitor was stopped",
    "handed_over": "because its partition moved to another replica",
}


def explain_trace(facts: TraceFacts, setup: MonitorSetup, evaluator: str = "") -> Explanation:
    """Explain the results of a trace, or why there are none; with `evaluator`, only for that evaluator."""
    whole, _, part = facts.request_id.rpartition("/")
    subject = f"request {part} of trace {whole}" if facts.of_several else f"trace {facts.request_id}"
    if evaluator and setup.evaluator(evaluator) is None and not _known(evaluator, facts):
        if evaluator in setup.external:
            source = reasons.external(reasons.expected_source(evaluator))
            text = f"{evaluator} is not an evaluator of this monitor but {source}; this request has none"
            return Explanation(subject, Cause.NOT_ASKED, f"Not evaluated: {text}.")
        found = reasons.not_configured(evaluator, setup)
        return Explanation(subject, Cause.NOT_ASKED, f"Not evaluated: {found.text}.", found.setting)
    request = facts.in_progress or (facts.recorded[-1] if facts.recorded else None)
    if request is None:
        return _unrecorded(subject, facts, setup, evaluator)
    steps = [*_arrival(request, facts, setup)]
    if request.outcome and request.outcome in reasons.CAUSE_OF_OUTCOME:
        found = reasons.of_outcome(request.outcome, request.detail, setup, draw=facts.class_draw)
        cause = reasons.CAUSE_OF_OUTCOME[request.outcome]
        steps.append(ExplanationStep("extracted", found.text, found.setting, cause=cause))
        if not facts.results:  # else an earlier part of it was evaluated
            return Explanation(subject, cause, f"Not evaluated: {found.text}.", found.setting, steps=steps)
    elif request.outcome or request.decisions:
        steps.append(_extracted(request))
    steps += _earlier(facts.recorded[:-1] if not facts.in_progress else facts.recorded)
    names = [one.name for one in setup.evaluators]
    names += [one.evaluator for one in request.decisions if one.evaluator not in names]
    ends: list[ExplanationStep] = []
    for name in names if not evaluator else [evaluator]:
        decided = list(decision.explain_decision(name, request, facts, setup))
        steps += decided
        ends.append(decided[-1])
    return _conclude(subject, steps, ends)


def explain_requests(request_id: str, found: Sequence[Explanation]) -> Explanation:
    """Explain a trace or row with several requests by the explanations of each."""
    counts = Counter(one.reason or one.cause.value for one in found)
    listed = ", ".join(f"{number} {cause.replace('_', ' ')}" for cause, number in counts.most_common())
    whole = next((one for one in found if one.cause is not Cause.EVALUATED), found[0])
    text = f"It holds {number_of(len(found), 'request')}: {listed}."
    return Explanation(f"trace {request_id}", whole.cause, text, whole.setting, whole.reason, requests=found)


def _known(evaluator: str, facts: TraceFacts) -> bool:
    names = (one.evaluator for request in facts.recorded for one in request.decisions)
    return evaluator in names or any(row.get("evaluator") == evaluator for row in facts.results)


def _arrival(request: RequestRecord, facts: TraceFacts, setup: MonitorSetup) -> Iterator[ExplanationStep]:
    received = f"{clock_time(request.received_at)}, from {request.app or 'unknown'}, by {request.source}"
    yield ExplanationStep("received", received)
    yield ExplanationStep("sampled", _sampled(request, facts, setup))
    if not request.closed:
        yield ExplanationStep("assembled", "arrived complete, as a row")
        return
    waited = human_duration(max(request.closed_at - request.received_at, 0.0))
    why = _CLOSED.get(request.closed, f"({request.closed})")
    why = why.format(grace_period=human_duration(setup.grace_period), idle_timeout=human_duration(setup.idle_timeout))
    records = f" and {number_of(request.records, 'log record')}" if request.records else ""
    parts = f"{number_of(request.spans, 'span')}{records}{_spans(request)}"
    yield ExplanationStep("assembled", f"closed after {waited} {why}: {parts}")


def _sampled(request: RequestRecord, facts: TraceFacts, setup: MonitorSetup) -> str:
    if request.probability >= 1:
        return "head sampling keeps every trace (sampling.traces: 1)"
    value = f"; any rate of at least {share(facts.least_rate)} keeps this one" if facts.least_rate is not None else ""
    upstream = ""
    if request.probability < setup.head_rate * 0.999999:
        upstream = ", including the sampling by its sender"
    return f"kept by head sampling, with probability {share(request.probability)}{upstream}{value}"


def _spans(request: RequestRecord) -> str:
    if not request.joined:
        return ""
    shown = [
        f"{one.name or one.span_id} ({', '.join(filter(None, one[2:4])) or 'no dialect'})" for one in request.joined
    ]
    left = request.spans - _SHOWN
    return f": {'; '.join(shown[:_SHOWN])}{f'; and {left} more' if left > 0 else ''}"


_CONTEXT: Final[Mapping[str, str]] = {
    ContextStatus.RETRIEVED_NOTHING: "; retrieval found nothing",
    ContextStatus.NO_RETRIEVAL: "; there was no retrieval",
    ContextStatus.NOT_RECORDED: "; the texts of the retrieved documents were not sent",
}


def _extracted(request: RequestRecord) -> ExplanationStep:
    text = f"a question and an answer{_CONTEXT.get(request.context, '')}"
    setting = ""
    if request.context == ContextStatus.NOT_RECORDED:
        text = f"a question and an answer; {request.detail}" if request.detail else text
        setting = _to_record(request)
    if request.traffic not in ("", "production"):
        text += f"; its traffic class is {request.traffic}, so it is not in the live rates"
    return ExplanationStep("extracted", text, setting)


def _to_record(request: RequestRecord) -> str:
    """Say how the service can send the texts of its documents, with the advice for its dialect."""
    retrieving = sorted(request.joined, key=lambda one: one.role != "retrieval")
    dialect = next((one.dialect for one in retrieving if one.dialect), "")
    first, _, _ = coverage.advice(dialect if request.closed else _ROWS, "context").partition("\n\n")
    advice = "" if first.startswith("```") else f": {' '.join(first.split()).removesuffix(':')}"
    return f"in the service{f' ({dialect})' if dialect else ''}, record them{advice}"


def _earlier(requests: Sequence[RequestRecord]) -> Iterator[ExplanationStep]:
    """Explain earlier ends of the same id: parts of a trace may arrive after it was closed and forgotten."""
    for one in requests:
        scored = [decision.evaluator for decision in one.decisions if decision.outcome == "score"]
        by = f", scored by {', '.join(scored)}" if scored else ""
        yield ExplanationStep("earlier", f"an earlier part of it ended {clock_time(one.ended_at)} as {one.outcome}{by}")


def _conclude(subject: str, steps: Sequence[ExplanationStep], ends: Sequence[ExplanationStep]) -> Explanation:
    """Draw the conclusion from how each evaluator ended."""
    scored = [one.evaluator for one in ends if one.cause in (Cause.EVALUATED, Cause.LATE, Cause.NON_PRODUCTION)]
    others = [one for one in ends if one.evaluator not in scored]
    if not ends:
        text = "Not evaluated: no evaluator is configured."
        return Explanation(subject, Cause.NOT_ASKED, text, "evaluators", steps=steps)
    if not others:
        last = next((one for one in ends if one.cause is not Cause.EVALUATED), ends[0])
        but = f", but not in the live rates: {last.text}" if last.cause is not Cause.EVALUATED else ""
        text = f"Scored by {', '.join(scored)}{but}."
        return Explanation(subject, last.cause or Cause.EVALUATED, text, last.setting, steps=steps)
    first = next((one for one in others if one.setting), others[0])
    more = f"; nor by {', '.join(one.evaluator for one in others if one is not first)}" if len(others) > 1 else ""
    so_far = f"Scored by {', '.join(scored)}. " if scored else ""
    text = f"{so_far}Not by {first.evaluator}: {first.text}{more}."
    return Explanation(subject, first.cause or Cause.UNSCORED, text, first.setting, first.reason, steps)


def _unrecorded(subject: str, facts: TraceFacts, setup: MonitorSetup, evaluator: str) -> Explanation:
    """Explain a trace that is not in the request log."""
    if facts.open is not None:
        return _open(subject, facts.open, setup)
    if facts.unread:
        text = "it is complete and waiting to be extracted"
        return Explanation(
            subject, Cause.WAITING, f"Not evaluated yet: {text}.", steps=[ExplanationStep("waiting", text)]
        )
    if facts.results:
        return _from_results(subject, facts, setup, evaluator)
    head = _head_sampling(facts, setup)
    if head.cause is Cause.SAMPLED_OUT:
        return Explanation(subject, Cause.SAMPLED_OUT, f"Not evaluated: {head.text}.", head.setting, steps=[head])
    steps = [head, ExplanationStep("received", _not_here(facts, setup))]
    if setup.request_log <= 0:
        text = "Nothing is known: request logging is off, and there is no result for it."
        return Explanation(subject, Cause.NOT_RECORDED, text, "storage.request_log: 1d", steps=steps)
    text = "Not evaluated: the monitor has not seen this trace: not recently, or not in this replica."
    return Explanation(subject, Cause.NEVER_SEEN, text, steps=[*steps, *_where_to_look(setup)])


def _open(subject: str, found: OpenTrace, setup: MonitorSetup) -> Explanation:
    parts = number_of(found.spans, "span") + (f", {number_of(found.records, 'log record')}" if found.records else "")
    what = "late spans" if found.root_ended else "its root span to end"
    text = f"still open: it waits for {what}, until {clock_time(found.until)} if nothing more arrives"
    option, now = ("grace_period", setup.grace_period) if found.root_ended else ("idle_timeout", setup.idle_timeout)
    steps = [
        ExplanationStep(
            "received", f"{clock_time(found.received_at)}, from {found.app or 'unknown'}, by {found.source}"
        ),
        ExplanationStep("assembled", f"{parts} so far"),
    ]
    setting = f"assembly.{option}: shorter than {human_duration(now)}, to wait less"
    return Explanation(subject, Cause.OPEN, f"Not evaluated yet: {text}.", setting, steps=steps)


def _from_results(subject: str, facts: TraceFacts, setup: MonitorSetup, evaluator: str) -> Explanation:
    """Explain from the history, which is kept for longer than the request log."""
    logged = setup.request_log > 0
    gone = "the request log does not have it" if logged else "request logging is off (storage.request_log: 0)"
    steps = [ExplanationStep("received", f"{gone}: what follows is from its results")]
    rows = [row for row in facts.results if evaluator in ("", row.get("evaluator"))]
    ends = [decision.from_row(row, setup.evaluator(str(row.get("evaluator"))), setup) for row in rows]
    with_result = {one.evaluator for one in ends}
    for one in setup.evaluators:
        if one.name in with_result or evaluator not in ("", one.name):
            continue
        if not one.works:
            found = reasons.off(one)
            ends.append(ExplanationStep("off", found.text, found.setting, one.name, Cause.OFF))
        elif one.rate is not None and facts.draw >= one.rate:
            text = f"it was not selected: the trace's value, {share(facts.draw)}, is not below {share(one.rate)}"
            ends.append(
                ExplanationStep(
                    "selected", text, f"{one.place}.sample: {above(facts.draw)}", one.name, Cause.NOT_CHOSEN
                )
            )
        else:
            every = one.rate is not None and one.rate >= 1
            text = "it has no result for this" + (", although it takes every sampled case" if every else "")
            ends.append(ExplanationStep("no result", text, "", one.name, Cause.NOT_RECORDED))
    return _conclude(subject, [*steps, *ends], ends)


def _head_sampling(facts: TraceFacts, setup: MonitorSetup) -> ExplanationStep:
    """Explain what head sampling decides from the id alone."""
    rate = setup.head_rate
    if facts.least_rate is None:
        return ExplanationStep(
            "sampled", "its id is not a trace id (32 hex digits) and not a known request_id of a row"
        )
    if facts.least_rate <= rate:
        value = "" if rate >= 1 else f", and its value, {share(facts.least_rate)}, is not above that"
        return ExplanationStep("sampled", f"head sampling would keep it: sampling.traces is {share(rate)}{value}")
    text = f"head sampling leaves it out: sampling.traces is {share(rate)}, and the trace's value is"
    setting = f"sampling.traces: {at_least(facts.least_rate)}"
    return ExplanationStep("sampled", f"{text} {share(facts.least_rate)}", setting, cause=Cause.SAMPLED_OUT)


def _not_here(facts: TraceFacts, setup: MonitorSetup) -> str:
    if facts.reaches_back is None:
        return "no request has been logged here yet"
    kept = human_duration(setup.request_log)
    return f"it is not in the request log, which begins {clock_time(facts.reaches_back)} (storage.request_log: {kept})"


def _where_to_look(setup: MonitorSetup) -> list[ExplanationStep]:
    steps = []
    if not setup.live:
        text = (
            "it may be open or in progress, which only the running monitor knows: ask it with --url. A trace with a"
            f" root that has not ended waits {human_duration(setup.idle_timeout)} for it"
        )
        steps.append(ExplanationStep("in progress", text))
    sent = "check whether the service sends it here: its exporter's endpoint, its own sampler, sampling in a Collector"
    steps.append(ExplanationStep("sent", f"{sent}. A trace sent to another replica is known only there"))
    if setup.shared:
        steps.append(
            ExplanationStep("replicas", "this monitor shares a Kafka source: ask each replica, by --url or its folder")
        )
    return steps
