"""Read OpenLIT: functions with its decorator, and model calls in OpenTelemetry's conventions.

Keys: https://github.com/openlit/openlit, `sdk/python/src/openlit` (the decorator) and its `semcov` (the names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from monitor.conventions import _function as functions
from monitor.conventions import gen_ai
from monitor.extraction import documents, messages, values
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_SCOPE: Final = "openlit"
_RESULT: Final = "gen_ai.output.messages"
_SESSION_KEYS: Final = ("session.id", "gen_ai.conversation.id", "session_id")
_USER_KEYS: Final = ("user.id", "enduser.id", "user_id")
_OBJECT: Final = re.compile(r"<[\w.<>]{1,200} object at 0x[0-9a-fA-F]{1,32}>")


class OpenLIT(Convention):
    """Reads spans of OpenLIT's library.

    The decorator sets no span type, and on a failed span only the exception, so these spans are recognised by scope.
    """

    name: ClassVar[str] = "openlit"
    precedence: ClassVar[int] = 55

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Observe the span and its log records; None if OpenLIT did not create the span."""
        scope = span.origin.scope_name
        if scope.startswith(f"{_SCOPE}."):
            counted = {"gen_ai.usage.total_tokens": span.attributes.get("gen_ai.client.token.usage")}
            seen = gen_ai.GenAI().observe(replace(span, attributes={**counted, **span.attributes}), records)
            return _counted(replace(seen, convention=self.name, span=span)) if seen else None
        if scope != _SCOPE and "function.args" not in span.attributes:
            return None
        plain = Observation(
            kind="request",
            convention=self.name,
            span=span,
            session_id=values.text(values.first(span.attributes, _SESSION_KEYS)),
            user_id=values.text(values.first(span.attributes, _USER_KEYS)),
            error=values.error_of(span),
        )
        return replace(plain, **_function(span))


def _counted(seen: Observation) -> Observation:
    """Read LangChain's documents: only the first three are sent, with the total; for an empty list, only the total."""
    number = values.count(seen.span.attributes.get("gen_ai.retrieval.document_count"))
    if seen.kind != "retrieval" or number is None:
        return seen
    sent = seen.documents if seen.documents is not None or number else ()
    with_text = sum(bool(one.content) for one in sent or ())
    return replace(seen, documents=sent, documents_without_text=max(number - with_text, 0))


def _function(span: Span) -> dict[str, Any]:
    given, put_out = _given(span.attributes), values.unfold(span.attributes.get(_RESULT))
    asked = functions.asked(given)
    if put_out == "" and asked is not None and span.parent_id:
        # An empty list, an empty text and None all look the same here: the prompt shows which it was.
        return {"kind": "retrieval", "query": asked.query}
    step = functions.documents_step(given, put_out)
    if step is not None:
        return {**step, "documents_without_text": documents.without_text(step["documents"])}
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": messages.read_answer(put_out),
        "documents": documents.of_state(put_out),
    }


def _given(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the arguments of a call, which are sent as Python reprs, with a method's `self` first."""
    written = values.text(attributes.get("function.args")).strip()
    placed = values.unfold(f"[{written[1:-1]}]") if written.startswith("(") else None
    if isinstance(placed, str) and len(placed) <= values.MAX_REPR:
        placed = values.unfold(_OBJECT.sub("None", placed))
    named = values.unfold(attributes.get("function.kwargs"))
    return {
        "args": [one for one in values.elements(placed) or () if one is not None],
        "kwargs": named if isinstance(named, Mapping) else {},
    }
