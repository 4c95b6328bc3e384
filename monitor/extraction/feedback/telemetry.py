"""Read external scores from spans and log records, under the names that the dialects use.

| where | what |
|---|---|
| log record or span event `gen_ai.evaluation.result` | OpenTelemetry semantic conventions for generative AI |
| log record or span event `gen_ai.evaluation.user_feedback` | the same, an earlier version; Azure AI |
| span attributes `annotations.N.annotation.*`, `evaluations.N.evaluation.*`, both also after `trace.` | OpenInference |
| span attributes `logfire.feedback.name`, `logfire.feedback.comment`, and the attribute named by the first | Logfire |

Our own scores have our scope or attributes `rag_monitor.*`, and are never read.

A score for a span that has ended arrives on another span, a carrier, with one link to the span that was scored
(OpenInference, "Post-Hoc Feedback"). Spans have links for other reasons too, so not every link is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from monitor.extraction import values
from monitor.model.case import app_name
from monitor.model.external import LONGEST_NAME, LONGEST_TEXT, USER_FEEDBACK, ExternalScore, ScoreSource
from monitor.model.span import LogRecord, Span, SpanLink, Value
from monitor.model.trace import Trace

RESULT: Final = "gen_ai.evaluation.result"
REACTION: Final = "gen_ai.evaluation.user_feedback"
OURS: Final = "rag-monitor"
"""The scope and service name of the monitor's own telemetry."""

_OUR_PREFIX: Final = "rag_monitor."
_AT_MOST: Final = 200  # maximum number of scores in one trace
_SETS: Final = tuple(
    (f"{scope}{kind}s", kind, f"{scope}{kind}s.0.{kind}.name", not scope)
    for scope in ("", "trace.")
    for kind in ("annotation", "evaluation")
)
_LOGFIRE: Final = "logfire.feedback.name"
_KEYS: Final = frozenset((_LOGFIRE, *(first for _, _, first, _ in _SETS)))
"""A span without events has a score only if it has one of these attributes."""

MARKS: Final = (b"annotation.", b"evaluation.", _LOGFIRE.encode())
"""Byte strings; an encoded span with an external score contains at least one of them."""

_KIND: Final = "openinference.span.kind"
_EVALUATOR: Final = "EVALUATOR"
_AMBIGUOUS: Final = SpanLink("", "")
"""Placeholder for the link of a carrier that links to several spans."""


def of_record(record: LogRecord) -> ExternalScore | None:
    """Read an external score from a log record; None if it has no score, or our own."""
    attributes = record.attributes
    name = record.event_name or values.text(attributes.get("event.name"))
    if OURS in (record.origin.scope_name, record.origin.service_name):
        return None
    found = _of_event(name, attributes, record.body)
    if found is None:
        return None
    return _at(found, SpanLink(record.trace_id, record.span_id), record.time_ns, record.origin.service_name)


def of_trace(trace: Trace, *, answers: bool = True) -> tuple[ExternalScore, ...]:
    """Return the external scores in the spans of a trace, at most 200. `answers`: the trace is a request."""
    telling = [span for span in trace.spans if span.events or not _KEYS.isdisjoint(span.attributes.keys())]
    found = islice((one for span in telling for one in _of_span(span, answers=answers)), _AT_MOST)
    return tuple(replace(one, linked=True) if one.request_id != trace.trace_id else one for one in found)


def of_late(span: Span) -> tuple[ExternalScore, ...]:
    """Return the external scores in a span that arrived after its trace was closed."""
    return tuple(islice(_of_span(span, answers=True), _AT_MOST))


def _of_span(span: Span, *, answers: bool) -> Iterator[ExternalScore]:
    if OURS in (span.origin.scope_name, span.origin.service_name):
        return
    app, own = span.origin.service_name, SpanLink(span.trace_id, span.span_id)
    target = _linked(span) if _carries(span, answers=answers) else own
    for event in span.events:
        found = _of_event(event.name, event.attributes, None)
        if found is not None:
            yield _at(found, target, event.time_ns, app)
    if span.links and not span.attributes.get(_KIND):
        target = _linked(span)  # every working span of this dialect has a kind, so this is a carrier
    for prefix, kind, first, of_this_span in _SETS:
        if first in span.attributes:
            for entry in values.unflatten(span.attributes, prefix) or ():
                inner = entry.get(kind) if isinstance(entry, Mapping) else None
                if isinstance(inner, Mapping):
                    on = target if of_this_span or target is _AMBIGUOUS else target._replace(span_id="")
                    yield _at(_of_annotation(inner), on, span.end_ns, app)
    if _LOGFIRE in span.attributes:
        yield _at(_of_logfire(span.attributes), own._replace(span_id=span.parent_id), span.start_ns, app)


def _carries(span: Span, *, answers: bool) -> bool:
    """Return whether the link of `span` names the scored span: on a working span, a link only names its cause."""
    return bool(span.links) and (not answers or span.attributes.get(_KIND) == _EVALUATOR)


def _linked(span: Span) -> SpanLink:
    return span.links[0] if len(span.links) == 1 else _AMBIGUOUS


def _of_event(name: str, attributes: Mapping[str, Value], body: Value) -> ExternalScore | None:
    if name not in (RESULT, REACTION) or any(key.startswith(_OUR_PREFIX) for key in attributes):
        return None
    if name == REACTION:
        said = body if isinstance(body, Mapping) else {}
        return _checked(
            evaluator=USER_FEEDBACK,
            score_source=ScoreSource.FEEDBACK,
            value=values.first(attributes, ("gen_ai.evaluation.score", "gen_ai.evaluation.score.value")),
            label=attributes.get("gen_ai.evaluation.score.label"),
            explanation=values.first({**said, **attributes}, ("gen_ai.evaluation.explanation", "comment")),
            response=attributes.get("gen_ai.response.id"),
        )
    return _checked(
        evaluator=attributes.get("gen_ai.evaluation.name"),
        score_source=ScoreSource.GEN_AI_EVENTS,
        value=attributes.get("gen_ai.evaluation.score.value"),
        label=attributes.get("gen_ai.evaluation.score.label"),
        explanation=attributes.get("gen_ai.evaluation.explanation"),
        error=attributes.get("error.type"),
        response=attributes.get("gen_ai.response.id"),
    )


def _of_annotation(said: Mapping[str, Value]) -> ExternalScore:
    return _checked(
        evaluator=said.get("name"),
        score_source=ScoreSource.OPENINFERENCE,
        value=said.get("score"),
        label=said.get("label"),
        explanation=said.get("explanation"),
        annotator=said.get("annotator_kind"),
        key=said.get("identifier"),
    )


def _of_logfire(attributes: Mapping[str, Value]) -> ExternalScore:
    name = values.text(attributes.get(_LOGFIRE))
    value = attributes.get(name)
    label = ("fail", "pass")[value] if isinstance(value, bool) else value if isinstance(value, str) else None
    return _checked(
        evaluator=name,
        score_source=ScoreSource.FEEDBACK,
        value=value if label is None else None,
        label=label,
        explanation=attributes.get("logfire.feedback.comment"),
    )


def _checked(
    *,
    evaluator: Value,
    score_source: ScoreSource,
    value: Value,
    label: Value = None,
    explanation: Value = None,
    annotator: Value = None,
    key: Value = None,
    error: Value = None,
    response: Value = None,
) -> ExternalScore:
    """Return a score from the parts that have the right type, with a fault if they are not enough."""
    name, number, word = text_of(evaluator, LONGEST_NAME), values.number(value), text_of(label, LONGEST_NAME)
    trouble = text_of(error, LONGEST_NAME)
    fault = "" if number is not None or word or trouble else "no_value"
    answer = text_of(response, LONGEST_NAME)
    return ExternalScore(
        request_id=f"response:{answer}" if answer else "",
        evaluator=name,
        score_source=score_source,
        value=number,
        label=word,
        explanation=text_of(explanation, LONGEST_TEXT),
        annotator=text_of(annotator, LONGEST_NAME),
        key=text_of(key, LONGEST_NAME),
        error=trouble if number is None and not word else "",
        fault=fault if name else "no_name",
    )


def text_of(value: object, longest: int) -> str:
    """Return a text in a form that every sink can write, cut to `longest`; empty for anything else."""
    if not isinstance(value, str):
        return ""
    return value.strip()[:longest].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _at(found: ExternalScore, on: SpanLink, time_ns: int, service: str) -> ExternalScore:
    app = app_name(service)
    if on is _AMBIGUOUS:
        return replace(found, request_id="", app=app, fault="several_links")
    request = on.trace_id or found.request_id
    fault = found.fault or ("" if request else "no_request")
    return replace(found, request_id=request, span_id=on.span_id, app=app, at=max(time_ns, 0) / 1e9, fault=fault)
