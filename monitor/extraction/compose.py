"""Turn a closed trace into cases, one per request: read each span, combine the observations, decide the status.

A convention knows how to read a span. This module decides which spans make up a request, and which span wins when
several disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from monitor.extraction import context, partition, request, slices, values
from monitor.extraction.context import Context
from monitor.extraction.feedback import telemetry
from monitor.extraction.forest import Forest, Node, first_said, grow, mapped
from monitor.extraction.partition import RequestPart
from monitor.extraction.request import Answered, Call, StatedRequest
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import (
    Case,
    ContextStatus,
    Joined,
    Message,
    Reading,
    ReadingStatus,
    TraceReading,
    Usage,
    app_name,
    changed,
)
from monitor.model.external import ExternalScore
from monitor.model.trace import Closed, Trace
from monitor.quantities import number_of
from monitor.stages import Convention

_NANOSECONDS: Final = 1_000_000_000
_PLAIN: Final = ExtractionSettings()
_MOST_JOINED: Final = 40
_NAME: Final = 80  # characters of a span's name
_WORKING: Final = ("request", "retrieval", "rerank", "generation", "tool")
_TOO_EARLY: Final = (Closed.EVICTED, Closed.SHUTDOWN, Closed.HANDED_OVER, Closed.TOO_LARGE)
"""Reasons for closing a trace that may still have spans to come."""

_Status: TypeAlias = tuple[ReadingStatus, str]
"""A status and the reason for it in plain words; the reason is empty if the status needs none."""


class Composed(NamedTuple):
    """A reading and its evidence; the last three fields are None if no convention recognises a span of the trace."""

    reading: Reading
    forest: Forest
    answered: Answered | None = None
    asked: StatedRequest | None = None
    given: Context | None = None


class ComposedTrace(NamedTuple):
    """The requests of a trace, oldest first, at least one. `left_out` counts those beyond the limit on requests."""

    requests: tuple[Composed, ...]
    left_out: int = 0


class _Made(NamedTuple):
    """The parts read from a trace; `limit` is the length at which its texts were cut, 0 if they were not."""

    found: Sequence[Call]
    answered: Answered
    given: Context
    case: Case
    limit: int


def read(trace: Trace, conventions: Sequence[Convention], settings: ExtractionSettings = _PLAIN) -> TraceReading:
    """Read the requests of `trace` with the conventions that recognise its spans. Never raises on its content."""
    found = compose(trace, conventions, settings)
    return TraceReading(tuple(one.reading for one in found.requests), found.left_out)


def compose(trace: Trace, conventions: Sequence[Convention], settings: ExtractionSettings = _PLAIN) -> ComposedTrace:
    """Read `trace` as `read` does, and return the evidence with the readings."""
    forest = grow(trace.spans, trace.records, conventions, settings)
    if all(node.seen is None for node in forest.nodes):
        nothing = Case(request_id=trace.trace_id, app=trace.app, source=trace.source, probability=trace.probability)
        status, why = _refused(trace) or _unrecognised(forest)
        feedback = telemetry.of_trace(trace, answers=status is not ReadingStatus.NO_REQUEST)
        return ComposedTrace((Composed(Reading(status, nothing, why, _joined(forest), feedback), forest),))
    limit = values.length_limit(trace)
    found = request.calls(forest)
    lost, aside = _refused(trace) or _missing_spans(trace, forest), frozenset[str]()
    if lost is None:
        divided = partition.divide(forest, found, settings.templates)
        several = [one for part in divided.parts if (one := _of_part(trace, part, limit, settings)) is not None]
        if len(several) > 1:
            return ComposedTrace(_with_feedback(several, telemetry.of_trace(trace)), divided.left_out)
        aside = divided.aside
    composed = _of_forest(trace, forest, found, limit, settings, aside)
    status, why = lost or (composed.reading.status, composed.reading.error)
    feedback = telemetry.of_trace(trace, answers=status is not ReadingStatus.NO_REQUEST)
    reading = changed(composed.reading, status=status, error=why, external_scores=feedback)
    return ComposedTrace((composed._replace(reading=reading),))


def _of_part(trace: Trace, part: RequestPart, limit: int, settings: ExtractionSettings) -> Composed | None:
    """Read one request of several; None if no question was answered."""
    composed = _of_forest(trace, part.forest, request.calls(part.forest), limit, settings, part.aside)
    reading = composed.reading
    if reading.status is ReadingStatus.NO_REQUEST:
        return None
    usage = reading.case.usage if reading.case.usage != Usage() else part.usage or Usage()
    case = replace(reading.case, request_id=f"{trace.trace_id}/{part.span_id}", usage=usage)
    return composed._replace(reading=replace(reading, case=case))


def _of_forest(  # noqa: PLR0917 - what a request is read from
    trace: Trace,
    forest: Forest,
    found: Sequence[Call],
    limit: int,
    settings: ExtractionSettings,
    aside: frozenset[str],
) -> Composed:
    """Read the single request of `forest`; the spans `aside` did not answer it."""
    apart = [node for node in forest.nodes if node.span.span_id in aside]
    answering = [call for call in found if not any(node is call.node or node.above(call.node) for node in apart)]
    answered = request.answered(forest, answering or found)
    templates = settings.templates
    given = context.read(forest, found, answered, limit, templates)
    asked = request.asked(forest, found, answered, limit, templates)
    case = _case(trace, forest, answered, asked, given)
    status, why = _status(forest, _Made(found, answered, given, case, limit))
    return Composed(Reading(status, case, why, _joined(forest)), forest, answered, asked, given)


def _with_feedback(several: Sequence[Composed], said: Sequence[ExternalScore]) -> tuple[Composed, ...]:
    """Give each external score in a trace to the request of the span that it is about, or else to the last request.

    The last request is what the user saw when they gave feedback on the whole.
    """
    of_span = {node.span.span_id: at for at, one in enumerate(several) for node in one.forest.nodes}
    theirs: list[list[ExternalScore]] = [[] for _ in several]
    for score in said:
        theirs[-1 if score.linked else of_span.get(score.span_id, -1)].append(score)
    return tuple(
        one._replace(reading=replace(one.reading, external_scores=tuple(scores)))
        for one, scores in zip(several, theirs, strict=True)
    )


def _case(trace: Trace, forest: Forest, answered: Answered, asked: StatedRequest, given: Context) -> Case:
    roots = forest.roots or forest.nodes[:1]
    last = answered.last
    telling = [node for node in answered.around if node.seen and node.seen.query] or answered.around
    from_span = next(iter(telling), None) or (
        last.node if last else next(n for n in forest.nodes if n.seen is not None)
    )
    model = mapped(forest, "model")
    tops = roots if forest.one_of_several else roots[:1]
    ends = [node.span.end_ns for node in (*tops, *((last.node,) if last else ()))]
    facts: dict[str, str] = slices.of_resource(from_span.span.origin.resource)
    for node in (*forest.enclosing, *roots[:1], *answered.around[:1], *((last.node,) if last else ())):
        facts |= slices.of_attributes(node.span.attributes)
        facts |= node.seen.attributes if node.seen else {}
    return Case(
        request_id=trace.trace_id,
        request=asked.request,
        retrieved_context=given.documents,
        context_source=given.source,
        context_status=given.status,
        prompt=tuple(Message(one.role, one.content) for one in last.messages) if last else (),
        response=answered.response or "",
        model=model.text if model else (last.model if last else ""),
        usage=request.usage(forest),
        session_id=first_said(forest, "session_id", ("session.id",)),
        user_id=first_said(forest, "user_id", ("user.id", "enduser.id")),
        app=app_name(from_span.span.origin.service_name) or trace.app,
        source=trace.source,
        span_id=(last.node if last else from_span).span.span_id,
        convention=from_span.seen.convention if from_span.seen else "",
        attributes=dict(list(facts.items())[: slices.MAX_SLICES]),
        probability=trace.probability,
        seconds=_seconds(tops),
        answered_at=max(ends) / _NANOSECONDS if max(ends) > 0 else trace.received_at,
    )


def _joined(forest: Forest) -> tuple[Joined, ...]:
    """Return a summary of the spans that the case was read from, at most 40."""
    return tuple(
        Joined(
            node.span.name[:_NAME],
            node.span.span_id,
            node.seen.kind if node.seen else "",
            node.seen.convention if node.seen else "",
        )
        for node in forest.nodes[:_MOST_JOINED]
    )


def _seconds(tops: Sequence[Node]) -> float | None:
    """Return the duration of a request in seconds; None if its times make no sense."""
    start, end = min(node.span.start_ns for node in tops), max(node.span.end_ns for node in tops)
    return (end - start) / _NANOSECONDS if end >= start > 0 else None


def _status(forest: Forest, made: _Made) -> _Status:
    """Decide the status of a request: the first fault found, else ready."""
    fault = _failed(forest, made.found, made.answered) or _missing_texts(made, forest) or _cut(made)
    return fault or (ReadingStatus.READY, _unrecorded(made, forest))


def _unrecognised(forest: Forest) -> _Status:
    """Return the status of a trace in which no convention recognises a span."""
    if not forest.roots and forest.strays:
        return ReadingStatus.INCOMPLETE, "log records of a model arrived without their spans"
    return ReadingStatus.NO_REQUEST, ""


def _refused(trace: Trace) -> _Status | None:
    """Return `incomplete` if the monitor has refused a part of the trace; None otherwise.

    The content of that part is unknown: without a retrieval span, an answer from its documents would look made up.
    """
    if not trace.refused:
        return None
    parts = (
        f"{number_of(one.number, 'span' if one.signal == 'traces' else 'log record')} {one.why}"
        for one in trace.refused
    )
    return ReadingStatus.INCOMPLETE, f"the monitor refused {', '.join(parts)}"


def _missing_spans(trace: Trace, forest: Forest) -> _Status | None:
    """Return `incomplete` if a span that matters never arrived; None otherwise."""
    lost = [orphan for orphan in forest.orphans if any(_works(node) for node in forest.below(orphan))]
    if (lost or not forest.roots) and not _is_whole(trace, forest, lost):
        if not forest.roots:
            return ReadingStatus.INCOMPLETE, f"the root span never arrived (closed: {trace.closed})"
        span = lost[0].span
        return ReadingStatus.INCOMPLETE, f"the parent {span.parent_id} of span {span.span_id} never arrived"
    for record in forest.strays:
        if record.span_id:
            return ReadingStatus.INCOMPLETE, f"the span {record.span_id} of a log record never arrived"
    return None


def _works(node: Node) -> bool:
    return node.seen is not None and node.seen.kind in _WORKING


def _is_whole(trace: Trace, forest: Forest, lost: Sequence[Node]) -> bool:
    """Return whether all working spans are below one span that itself carries the question and the answer.

    If so, only spans around the request are missing, for example an HTTP server's, which went to another backend.
    """
    here = {span.span_id for span in trace.spans}
    if len(lost) != 1 or lost[0].span.parent_id in here or trace.closed in _TOO_EARLY:
        return False
    top = next(node for node in forest.below(lost[0]) if node.seen is not None)
    rest = (node for node in forest.nodes if _works(node) and node is not top and not top.above(node))
    seen = top.seen
    return (
        seen is not None
        and seen.kind == "request"
        and bool(seen.query and (seen.response or seen.error))
        and next(rest, None) is None
    )


def _failed(forest: Forest, found: Sequence[Call], request: Answered) -> _Status | None:
    """Return `failed_request` if the service did not answer: an error at the top or in the last call, and no answer."""
    # The outermost span decides: the output of a step in a failed request may be a rewritten question, not an answer.
    ends = (node for node in request.around if node.span.status == "error" or (node.seen and node.seen.response))
    end = next(ends, None)
    if end is not None and end.seen is not None and end.seen.response:
        return None
    failure = mapped(forest, "error")
    if failure is not None and not request.response:
        return ReadingStatus.FAILED_REQUEST, failure.text
    for node in (*forest.roots, *request.around):
        if node.span.status == "error":
            return ReadingStatus.FAILED_REQUEST, (
                node.seen.error if node.seen else ""
            ) or node.span.status_message or "error"
    telling = [call for call in found if call.messages or call.response or call.error]
    if telling and telling[-1].error and not telling[-1].response:
        return ReadingStatus.FAILED_REQUEST, telling[-1].error
    return None


def _missing_texts(made: _Made, forest: Forest) -> _Status | None:
    """Return the status of a trace without a request, or with a request without texts; None otherwise."""
    case, request, given = made.case, made.answered, made.given
    unanswered = request.response is None
    if request.last is None and unanswered and given.status is not ContextStatus.NOT_RECORDED:
        return ReadingStatus.NO_REQUEST, ""
    if unanswered or not case.request.query:
        asked, said = "" if case.request.query else "question", "" if case.response else "answer"
        missing = " and ".join(filter(None, (asked, said)))
        return ReadingStatus.CONTENT_MISSING, f"the texts of {missing} were not sent{_left_out(forest, made.limit)}"
    stated = request.source is not None and request.source.node.seen and "response" in request.source.node.seen.stated
    if given.status is ContextStatus.NO_RETRIEVAL and request.last is None and not stated:
        return ReadingStatus.NO_REQUEST, ""  # any function has an input and an output
    unread = made.limit and request.last is not None and not request.last.messages
    if given.status is ContextStatus.NO_RETRIEVAL and unread:  # the prompt may have contained documents
        return ReadingStatus.CONTENT_MISSING, f"the texts of the prompt were not sent{_left_out(forest, made.limit)}"
    return None


def _unrecorded(made: _Made, forest: Forest) -> str:
    """Return why evaluators that need the context cannot judge a case that others can; empty if they can."""
    if made.given.status is not ContextStatus.NOT_RECORDED:
        return ""
    return f"the texts of the retrieved documents were not sent{_left_out(forest, made.limit)}"


def _left_out(forest: Forest, limit: int) -> str:
    """Name the sender's limit behind missing texts: on the number of a span's attributes (128) or on their length."""
    dropped = sum(node.span.dropped_attributes for node in forest.nodes if node.seen is not None)
    if dropped:
        return f"; the sender dropped {dropped} attributes (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)"
    return f"; {_cuts(limit)}" if limit else ""


def _cuts(limit: int) -> str:
    return f"the sender cuts attribute values at {limit} characters (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT)"


def _cut(made: _Made) -> _Status | None:
    """Return `content_missing` if a length limit of the sender has cut the question or the answer."""
    cut = made.limit and made.limit in (len(made.case.request.query), len(made.case.response))
    return (ReadingStatus.CONTENT_MISSING, _cuts(made.limit)) if cut else None
