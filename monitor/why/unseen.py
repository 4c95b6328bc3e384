"""A trace of which no trail is kept: open still, sampled out at the door, known from its results, or never seen."""

from __future__ import annotations

from monitor.quantities import human_duration
from monitor.why import chosen, conclusion
from monitor.why.values import (
    Answer,
    Cause,
    Open,
    Situation,
    Step,
    TraceFacts,
    above,
    at_least,
    clock_time,
    several,
    share,
)


def of_unrecorded(subject: str, facts: TraceFacts, situation: Situation, evaluator: str) -> Answer:
    """What can be said without a trail."""
    if facts.open is not None:
        return _open(subject, facts.open, situation)
    if facts.unread:
        text = "it is complete, and waits to be read"
        return Answer(subject, Cause.WAITING, f"Not judged yet: {text}.", steps=[Step("waits", text)])
    if facts.results:
        return _from_results(subject, facts, situation, evaluator)
    head = _head(facts, situation)
    if head.cause is Cause.SAMPLED_OUT:
        text = f"Not judged: {head.text}. It never got further than the door"
        return Answer(subject, Cause.SAMPLED_OUT, f"{text}.", head.setting, steps=[head])
    steps = [head, Step("received", _not_here(facts, situation))]
    if situation.request_log <= 0:
        text = "it is not kept what becomes of requests, and there is no verdict on this one"
        return Answer(subject, Cause.NOT_RECORDED, f"Nothing is known: {text}.", "storage.request_log: 1d", steps=steps)
    text = "nothing is known of this trace: it never came, or not lately, or to another place"
    return Answer(subject, Cause.NEVER_SEEN, f"Not judged: {text}.", steps=[*steps, *_where_to_look(situation)])


def _open(subject: str, found: Open, situation: Situation) -> Answer:
    parts = several(found.spans, "span") + (f", {several(found.records, 'log record')}" if found.records else "")
    awaited = "for spans that come late" if found.root_ended else "for its root span to end"
    text = f"still open: it waits {awaited}, until {clock_time(found.until)} if nothing more comes"
    option, now = (
        ("grace_period", situation.grace_period) if found.root_ended else ("idle_timeout", situation.idle_timeout)
    )
    steps = [
        Step("received", f"{clock_time(found.received_at)}, from {found.app or 'unknown'}, by {found.source}"),
        Step("joined", f"{parts} so far"),
    ]
    setting = f"assembly.{option}: shorter than {human_duration(now)}, to wait less"
    return Answer(subject, Cause.OPEN, f"Not judged yet: {text}.", setting, steps=steps)


def _from_results(subject: str, facts: TraceFacts, situation: Situation, evaluator: str) -> Answer:
    """Its verdicts are kept for longer than its trail."""
    gone = (
        "its trail is not kept any more" if situation.request_log > 0 else "no trails are kept (storage.request_log: 0)"
    )
    steps = [Step("received", f"{gone}: this is from its results")]
    rows = [row for row in facts.results if evaluator in ("", row.get("evaluator"))]
    ends = [chosen.of_row(row, situation.evaluator(str(row.get("evaluator"))), situation) for row in rows]
    told = {one.evaluator for one in ends}
    for one in situation.evaluators:
        if one.name in told or evaluator not in ("", one.name):
            continue
        asked = one.rate is not None and one.rate >= 1
        if one.works and one.rate is not None and facts.draw >= one.rate:
            text = f"it was not chosen: the trace's value, {share(facts.draw)}, is not below {share(one.rate)}"
            ends.append(Step("chosen", text, f"{one.place}.sample: {above(facts.draw)}", one.name, Cause.NOT_CHOSEN))
        else:
            text = "it has no result of this" + (", though it takes every kept case" if asked else "")
            cause = Cause.OFF if not one.works else Cause.NOT_RECORDED
            ends.append(Step("no result", text, "" if one.works else f"{one.judge_place}.model", one.name, cause))
    return conclusion.conclude(subject, [*steps, *ends], ends)


def _head(facts: TraceFacts, situation: Situation) -> Step:
    """What head sampling says of an id alone."""
    rate = situation.head_rate
    if facts.least_rate is None:
        return Step("kept", "its id is none of a trace or row: 32 hex digits, or the request_id of a row")
    if facts.least_rate <= rate:
        value = "" if rate >= 1 else f", and its value {share(facts.least_rate)} is within"
        return Step("kept", f"head sampling would keep it: sampling.traces is {share(rate)}{value}")
    text = f"head sampling leaves it out: sampling.traces is {share(rate)}, and this trace's value is"
    setting = f"sampling.traces: {at_least(facts.least_rate)}"
    return Step("kept", f"{text} {share(facts.least_rate)}", setting, cause=Cause.SAMPLED_OUT)


def _not_here(facts: TraceFacts, situation: Situation) -> str:
    if facts.reaches_back is None:
        return "nothing is recorded here yet of any request"
    return (
        f"nothing is recorded of it; what is kept begins {clock_time(facts.reaches_back)}, at most"
        f" {human_duration(situation.request_log)} back (storage.request_log)"
    )


def _where_to_look(situation: Situation) -> list[Step]:
    steps = []
    if not situation.live:
        told = (
            "it may be open or under way, which only the running monitor knows: ask it with --url; a trace whose root"
            f" has not ended waits {human_duration(situation.idle_timeout)} for it"
        )
        steps.append(Step("under way", told))
    sent = "whether the service sends it here: its exporter's address, its own sampler, the sampling of a Collector"
    steps.append(Step("sent", f"look {sent}; a trace of another replica is known there"))
    if situation.shared:
        steps.append(Step("replicas", "this monitor shares a Kafka source: ask each replica, by --url or its folder"))
    return steps
