"""One closed trace made into one case: asks the dialects span by span, then composes what they say.

A dialect knows how a span is written; what a request is made of, and which of several spans is right, stands here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from monitor.content import calls, context, cut, prompt, slices, values
from monitor.content.calls import Call
from monitor.content.context import Context
from monitor.content.forest import Forest, Node, grow
from monitor.model.case import Case, Message, Reading, Request, Status
from monitor.model.trace import Trace
from monitor.stages import Convention

_WORKING: Final = ("request", "retrieval", "rerank", "generation", "tool")
_NANOSECONDS: Final = 1_000_000_000


class _Request(NamedTuple):
    """The spans that a case is read from: `around` are those that enclose the answer, the outermost first."""

    around: tuple[Node, ...]
    last: Call | None
    response: str | None


def read(trace: Trace, conventions: Sequence[Convention]) -> Reading:
    """What `trace` says, in the words of its dialects. Never raises on what a trace holds; always gives a status."""
    forest = grow(trace.spans, trace.records, conventions)
    telling = [node for node in forest.nodes if node.seen is not None]
    if not telling:
        return _without_words(trace, forest)
    found = calls.calls(forest)
    request = _request(forest, found)
    limit = cut.limit_of(trace)
    given = context.read(forest, found, request.last, request.around, limit)
    case = _case(trace, forest, request, _question(forest, request, limit), given)
    for verdict in (
        _missing(trace, forest),
        _failed(forest, found, request),
        _wordless(case, request, given),
        _cut(case, limit),
    ):
        if verdict is not None:
            return Reading(verdict[0], case, verdict[1])
    return Reading(Status.READY if given.finding == "found" else Status.NO_CONTEXT, case)


def _without_words(trace: Trace, forest: Forest) -> Reading:
    case = Case(request_id=trace.trace_id, app=trace.app, source=trace.source, probability=trace.probability)
    if not forest.roots and any(record.event_name.startswith("gen_ai.") for record in trace.records):
        return Reading(Status.INCOMPLETE, case, "log records of a model came, their spans did not")
    return Reading(Status.NOT_RAG, case)


def _request(forest: Forest, found: Sequence[Call]) -> _Request:
    """Which spans enclose the answer, and which call of a model gave it."""
    last = calls.final(found, None)
    around = _around(forest, last)
    response = next((n.seen.response for n in around if n.seen and n.seen.response), None)
    better = calls.final(found, response)
    if better is not last:
        last, around = better, _around(forest, better)
    if response is None and last is not None:
        response = last.response
    return _Request(around, last, response)


def _around(forest: Forest, last: Call | None) -> tuple[Node, ...]:
    if last is None:
        return tuple(forest.of_kind("request"))
    return tuple(node for node in last.outermost.ancestors() if node.seen is not None and node.seen.kind == "request")


def _question(forest: Forest, request: _Request, limit: int) -> Request:
    """The user's own words and the turns before: of the outermost span that states them, else of the last prompt."""
    sent, turns = calls.turns_before(request.last) if request.last else ("", ())
    history = tuple(Message(m.role, _unstuffed(m.content) if m.role == "user" else m.content) for m in turns)
    asked = next((n.seen for n in request.around if n.seen and n.seen.query), None)
    if asked is not None and asked.query:
        return Request(_unstuffed(asked.query), asked.history or history)
    parts = prompt.split(sent)
    stated = parts.question or "" if parts is not None else sent
    if stated and not (limit and len(sent) == limit):
        return Request(stated, history)
    if request.response is None:
        return Request()
    for kind in ("request", "retrieval"):
        queries = {node.seen.query for node in forest.of_kind(kind) if node.seen and node.seen.query}
        if len(queries) == 1:
            return Request(queries.pop(), history)
    return Request()


def _unstuffed(text: str) -> str:
    parts = prompt.split(text)
    return parts.question if parts is not None and parts.marked and parts.question else text


def _case(trace: Trace, forest: Forest, request: _Request, asked: Request, given: Context) -> Case:
    roots = forest.roots or forest.nodes[:1]
    last = request.last
    from_span = next((n for n in request.around if n.seen and n.seen.query), None)
    from_span = from_span or (last.node if last else next(n for n in forest.nodes if n.seen is not None))
    ends = [node.span.end_ns for node in (*roots[:1], *((last.node,) if last else ()))]
    facts: dict[str, str] = slices.of_resource(from_span.span.origin.resource)
    for node in (*roots[:1], *request.around[:1], *((last.node,) if last else ())):
        facts |= slices.of_attributes(node.span.attributes)
        facts |= node.seen.attributes if node.seen else {}
    return Case(
        request_id=trace.trace_id,
        request=asked,
        retrieved_context=given.documents,
        context_source=given.source,
        response=request.response or "",
        model=last.model if last else "",
        usage=calls.usage(forest),
        session_id=_first_said(forest, "session_id", ("session.id",)),
        user_id=_first_said(forest, "user_id", ("user.id", "enduser.id")),
        app=from_span.span.origin.service_name or trace.app,
        source=trace.source,
        span_id=(last.node if last else from_span).span.span_id,
        convention=from_span.seen.convention if from_span.seen else "",
        attributes=dict(list(facts.items())[: slices.MAX_SLICES]),
        probability=trace.probability,
        answered_at=max(ends) / _NANOSECONDS if max(ends) > 0 else trace.received_at,
    )


def _first_said(forest: Forest, field: str, keys: Sequence[str]) -> str:
    """What the outermost span that says it says: sessions stand on the root, on every span, or only below the root."""
    for node in sorted(forest.nodes, key=lambda n: (n.depth, n.first)):
        said = getattr(node.seen, field) if node.seen else values.text(values.first(node.span.attributes, keys))
        if said:
            return str(said)
    return ""


_Verdict: TypeAlias = tuple[Status, str] | None


def _missing(trace: Trace, forest: Forest) -> _Verdict:
    """Whether a part of the trace that matters never came."""
    if not forest.roots:
        return Status.INCOMPLETE, f"the root span never came (closed: {trace.closed})"
    for orphan in forest.orphans:
        if any(node.seen is not None and node.seen.kind in _WORKING for node in forest.below(orphan)):
            span = orphan.span
            return Status.INCOMPLETE, f"the parent {span.parent_id} of span {span.span_id} never came"
    here = {span.span_id for span in trace.spans}
    for record in trace.records:
        if record.event_name.startswith("gen_ai.") and record.span_id and record.span_id not in here:
            return Status.INCOMPLETE, f"the span {record.span_id} of a log record never came"
    return None


def _failed(forest: Forest, found: Sequence[Call], request: _Request) -> _Verdict:
    """Whether the service failed to answer: an error at the top without an answer there, or of the last call."""
    if any(node.seen and node.seen.response for node in request.around):
        return None
    for node in (*forest.roots, *request.around):
        if node.span.status == "error":
            return Status.FAILED_REQUEST, (node.seen.error if node.seen else "") or node.span.status_message or "error"
    telling = [call for call in found if call.messages or call.response or call.error]
    if telling and telling[-1].error and not telling[-1].response:
        return Status.FAILED_REQUEST, telling[-1].error
    return None


def _wordless(case: Case, request: _Request, given: Context) -> _Verdict:
    """Whether there was no question here at all, or its texts were not sent."""
    unanswered = request.response is None
    if request.last is None and unanswered and given.finding != "unsent":
        return Status.NOT_RAG, ""
    if unanswered or not case.request.query:
        return Status.CONTENT_MISSING, "the texts of question and answer were not sent"
    if given.finding == "unsent":
        return Status.CONTENT_MISSING, "the texts of the retrieved documents were not sent"
    return (Status.NOT_RAG, "") if given.finding == "none" else None


def _cut(case: Case, limit: int) -> _Verdict:
    """Whether a length limit of the sender has cut what would be judged: the rest would count as unsupported."""
    if limit and any(len(text) == limit for text in (case.response, *(d.content for d in case.retrieved_context))):
        return Status.CONTENT_MISSING, f"the sender cuts attribute values at {limit} characters"
    return None
