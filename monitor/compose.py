"""One closed trace made into one case: asks the dialects span by span, then composes what they say.

A dialect knows how a span is written; what a request is made of, and which of several spans is right, stands here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.content import calls, context, cut, request, slices, status
from monitor.content.context import Context
from monitor.content.forest import Forest, Node, grow
from monitor.content.request import Answered, Asked
from monitor.content.settings import ReadingSettings
from monitor.content.sources import first_said, mapped
from monitor.content.status import Made
from monitor.foreign import telemetry
from monitor.model.case import Case, Joined, Reading, Status
from monitor.model.trace import Trace
from monitor.stages import Convention

_NANOSECONDS: Final = 1_000_000_000
_PLAIN: Final = ReadingSettings()
_MOST_JOINED: Final = 40
_NAME: Final = 80  # characters of a span's name


class Composed(NamedTuple):
    """A reading and what it rests on; the last three are None where no dialect knows a span of the trace."""

    reading: Reading
    forest: Forest
    answered: Answered | None = None
    asked: Asked | None = None
    given: Context | None = None


def read(trace: Trace, conventions: Sequence[Convention], settings: ReadingSettings = _PLAIN) -> Reading:
    """What `trace` says, in the words of its dialects. Never raises on what a trace holds; always gives a status."""
    return compose(trace, conventions, settings).reading


def compose(trace: Trace, conventions: Sequence[Convention], settings: ReadingSettings = _PLAIN) -> Composed:
    """As `read`, with what the reading rests on."""
    forest = grow(trace.spans, trace.records, conventions, settings)
    telling = [node for node in forest.nodes if node.seen is not None]
    if not telling:
        nothing = Case(request_id=trace.trace_id, app=trace.app, source=trace.source, probability=trace.probability)
        verdict, why = status.without_words(forest)
        return Composed(_reading(trace, forest, verdict, nothing, why), forest)
    found = calls.calls(forest)
    answered = request.answered(forest, found)
    limit = cut.limit_of(trace)
    templates = settings.templates
    given = context.read(forest, found, answered, limit, templates)
    asked = request.asked(forest, found, answered, limit, templates)
    case = _case(trace, forest, answered, asked, given)
    verdict, why = status.of_case(trace, forest, Made(found, answered, given, case, limit))
    return Composed(_reading(trace, forest, verdict, case, why), forest, answered, asked, given)


def _reading(trace: Trace, forest: Forest, verdict: Status, case: Case, why: str) -> Reading:
    said = telemetry.of_trace(trace, answers=verdict is not Status.NOT_RAG)
    return Reading(verdict, case, why, _joined(forest), said)


def _case(trace: Trace, forest: Forest, answered: Answered, asked: Asked, given: Context) -> Case:
    roots = forest.roots or forest.nodes[:1]
    last = answered.last
    telling = [node for node in answered.around if node.seen and node.seen.query] or answered.around
    from_span = next(iter(telling), None) or (
        last.node if last else next(n for n in forest.nodes if n.seen is not None)
    )
    model = mapped(forest, "model")
    ends = [node.span.end_ns for node in (*roots[:1], *((last.node,) if last else ()))]
    facts: dict[str, str] = slices.of_resource(from_span.span.origin.resource)
    for node in (*roots[:1], *answered.around[:1], *((last.node,) if last else ())):
        facts |= slices.of_attributes(node.span.attributes)
        facts |= node.seen.attributes if node.seen else {}
    return Case(
        request_id=trace.trace_id,
        request=asked.request,
        retrieved_context=given.documents,
        context_source=given.source,
        prompt=last.messages if last else (),
        response=answered.response or "",
        model=model.text if model else (last.model if last else ""),
        usage=calls.usage(forest),
        session_id=first_said(forest, "session_id", ("session.id",)),
        user_id=first_said(forest, "user_id", ("user.id", "enduser.id")),
        app=from_span.span.origin.service_name or trace.app,
        source=trace.source,
        span_id=(last.node if last else from_span).span.span_id,
        convention=from_span.seen.convention if from_span.seen else "",
        attributes=dict(list(facts.items())[: slices.MAX_SLICES]),
        probability=trace.probability,
        seconds=_seconds(roots[0]),
        answered_at=max(ends) / _NANOSECONDS if max(ends) > 0 else trace.received_at,
    )


def _joined(forest: Forest) -> tuple[Joined, ...]:
    """The spans, for whoever asks what a case was read from."""
    return tuple(
        Joined(
            node.span.name[:_NAME],
            node.span.span_id,
            node.seen.kind if node.seen else "",
            node.seen.convention if node.seen else "",
        )
        for node in forest.nodes[:_MOST_JOINED]
    )


def _seconds(root: Node) -> float | None:
    """How long a request took; None where its times make no sense."""
    span = root.span
    return (span.end_ns - span.start_ns) / _NANOSECONDS if span.end_ns >= span.start_ns > 0 else None
