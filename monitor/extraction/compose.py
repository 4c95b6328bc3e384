"""Make one closed trace into one case: ask the dialects span by span, compose what they say, and judge its status.

A dialect knows how a span is written; what a request is made of, and which of several spans is right, stands here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from monitor.extraction import context, request, slices, values
from monitor.extraction.context import Context
from monitor.extraction.feedback import telemetry
from monitor.extraction.forest import Forest, Node, first_said, grow, mapped
from monitor.extraction.request import Answered, Call, StatedRequest
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case, Joined, Reading, ReadingStatus
from monitor.model.trace import Closed, Trace
from monitor.stages import Convention

_NANOSECONDS: Final = 1_000_000_000
_PLAIN: Final = ExtractionSettings()
_MOST_JOINED: Final = 40
_NAME: Final = 80  # characters of a span's name
_WORKING: Final = ("request", "retrieval", "rerank", "generation", "tool")
_TOO_EARLY: Final = (Closed.EVICTED, Closed.SHUTDOWN, Closed.HANDED_OVER, Closed.TOO_LARGE)
"""Why a trace was closed although more of it may come."""

_Verdict: TypeAlias = tuple[ReadingStatus, str]
"""A status, and in words why."""


class Composed(NamedTuple):
    """A reading and what it rests on; the last three are None where no dialect knows a span of the trace."""

    reading: Reading
    forest: Forest
    answered: Answered | None = None
    asked: StatedRequest | None = None
    given: Context | None = None


class _Made(NamedTuple):
    """What a trace was made into; `limit` is the length at which its texts were cut, 0 where they were not."""

    found: Sequence[Call]
    answered: Answered
    given: Context
    case: Case
    limit: int


def read(trace: Trace, conventions: Sequence[Convention], settings: ExtractionSettings = _PLAIN) -> Reading:
    """What `trace` says, in the words of its dialects. Never raises on what a trace holds; always gives a status."""
    return compose(trace, conventions, settings).reading


def compose(trace: Trace, conventions: Sequence[Convention], settings: ExtractionSettings = _PLAIN) -> Composed:
    """As `read`, with what the reading rests on."""
    forest = grow(trace.spans, trace.records, conventions, settings)
    telling = [node for node in forest.nodes if node.seen is not None]
    if not telling:
        nothing = Case(request_id=trace.trace_id, app=trace.app, source=trace.source, probability=trace.probability)
        verdict, why = _without_words(forest)
        return Composed(_reading(trace, forest, verdict, nothing, why), forest)
    found = request.calls(forest)
    answered = request.answered(forest, found)
    limit = values.length_limit(trace)
    templates = settings.templates
    given = context.read(forest, found, answered, limit, templates)
    asked = request.asked(forest, found, answered, limit, templates)
    case = _case(trace, forest, answered, asked, given)
    verdict, why = _verdict(trace, forest, _Made(found, answered, given, case, limit))
    return Composed(_reading(trace, forest, verdict, case, why), forest, answered, asked, given)


def _reading(trace: Trace, forest: Forest, verdict: ReadingStatus, case: Case, why: str) -> Reading:
    said = telemetry.of_trace(trace, answers=verdict is not ReadingStatus.NOT_RAG)
    return Reading(verdict, case, why, _joined(forest), said)


def _case(trace: Trace, forest: Forest, answered: Answered, asked: StatedRequest, given: Context) -> Case:
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
        usage=request.usage(forest),
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


def _verdict(trace: Trace, forest: Forest, made: _Made) -> _Verdict:
    """What can be done with what was read."""
    verdict = (
        _missing(trace, forest) or _failed(forest, made.found, made.answered) or _wordless(made, forest) or _cut(made)
    )
    return verdict or (ReadingStatus.READY if made.given.finding == "found" else ReadingStatus.NO_CONTEXT, "")


def _without_words(forest: Forest) -> _Verdict:
    """What a trace is of which no dialect knows a span."""
    if not forest.roots and forest.strays:
        return ReadingStatus.INCOMPLETE, "log records of a model came, their spans did not"
    return ReadingStatus.NOT_RAG, ""


def _missing(trace: Trace, forest: Forest) -> _Verdict | None:
    """Whether a part of the trace that matters never came."""
    lost = [orphan for orphan in forest.orphans if any(_works(node) for node in forest.below(orphan))]
    if (lost or not forest.roots) and not _is_whole(trace, forest, lost):
        if not forest.roots:
            return ReadingStatus.INCOMPLETE, f"the root span never came (closed: {trace.closed})"
        span = lost[0].span
        return ReadingStatus.INCOMPLETE, f"the parent {span.parent_id} of span {span.span_id} never came"
    for record in forest.strays:
        if record.span_id:
            return ReadingStatus.INCOMPLETE, f"the span {record.span_id} of a log record never came"
    return None


def _works(node: Node) -> bool:
    return node.seen is not None and node.seen.kind in _WORKING


def _is_whole(trace: Trace, forest: Forest, lost: Sequence[Node]) -> bool:
    """Whether all that works stands below one span that says itself what was asked and answered.

    Then only what encloses the request went elsewhere: the spans of an HTTP server, say, to another backend.
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


def _failed(forest: Forest, found: Sequence[Call], request: Answered) -> _Verdict | None:
    """Whether the service failed to answer: an error at the top without an answer there, or of the last call."""
    # The outermost span decides: what steps of a failed request put out is a rewritten question as often as an answer.
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


def _wordless(made: _Made, forest: Forest) -> _Verdict | None:
    """Whether there was no question here at all, or its texts were not sent."""
    case, request, given = made.case, made.answered, made.given
    unanswered = request.response is None
    if request.last is None and unanswered and given.finding != "unsent":
        return ReadingStatus.NOT_RAG, ""
    if unanswered or not case.request.query:
        asked, said = "" if case.request.query else "question", "" if case.response else "answer"
        missing = " and ".join(filter(None, (asked, said)))
        return ReadingStatus.CONTENT_MISSING, f"the texts of {missing} were not sent{_left_out(forest, made.limit)}"
    if given.finding == "unsent":
        return (
            ReadingStatus.CONTENT_MISSING,
            f"the texts of the retrieved documents were not sent{_left_out(forest, made.limit)}",
        )
    if given.finding == "none" and made.limit and request.last is not None and not request.last.messages:
        return ReadingStatus.CONTENT_MISSING, f"the texts of the prompt were not sent{_left_out(forest, made.limit)}"
    return (ReadingStatus.NOT_RAG, "") if given.finding == "none" else None


def _left_out(forest: Forest, limit: int) -> str:
    """What the sender is known to leave out: a span holds 128 attributes, and no more of each than a limit allows."""
    dropped = sum(node.span.dropped_attributes for node in forest.nodes if node.seen is not None)
    if dropped:
        return f"; the sender dropped {dropped} attributes (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)"
    return f"; {_cuts(limit)}" if limit else ""


def _cuts(limit: int) -> str:
    return f"the sender cuts attribute values at {limit} characters (OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT)"


def _cut(made: _Made) -> _Verdict | None:
    """Whether a length limit of the sender has cut what would be judged: the rest would count as unsupported."""
    case, last = made.case, made.answered.last
    texts = [case.request.query, case.response]
    texts += [document.content for document in case.retrieved_context]
    if case.context_source == "prompt" and last is not None:
        texts += [message.content for message in last.messages]
    cut = made.limit and any(len(text) == made.limit for text in texts)
    return (ReadingStatus.CONTENT_MISSING, _cuts(made.limit)) if cut else None
