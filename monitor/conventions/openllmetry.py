"""Read OpenLLMetry, the dialect of Traceloop's instrumentations and its SDK's decorators: version 0.62, and up to 0.40.

Keys: https://github.com/traceloop/openllmetry, packages `opentelemetry-semantic-conventions-ai` and `traceloop-sdk`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.conventions import gen_ai
from monitor.extraction import documents, evidence, messages, prompt, values
from monitor.model.case import Document
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_KINDS: Final[dict[str, _Kind]] = {"workflow": "request", "agent": "request", "task": "request", "tool": "tool"}

_PROPERTIES: Final = "traceloop.association.properties."
_INDEXED: Final = re.compile(r"gen_ai\.(?:prompt|completion)\.[0-9]+\.")
_CLASS: Final = re.compile(r"_*[A-Z]\w*")
_NAME: Final = re.compile(r"[\w.:/@-]*")
_SESSION_KEYS: Final = ("session_id", "sessionId", "conversation_id", "thread_id")
_USER_KEYS: Final = ("user_id", "userId")
_OUTPUT_KEYS: Final = ("traceloop.entity.output", "gen_ai.task.output")


class OpenLLMetry(Convention):
    """Reads spans created by Traceloop's libraries: entities of a workflow, and model calls.

    The SDK puts the properties of a workflow on every span of the process, so a span with nothing else is not its own.
    Its model calls use OpenTelemetry's keys; older versions use other keys, which are translated.
    """

    name: ClassVar[str] = "openllmetry"
    precedence: ClassVar[int] = 60

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Observe the span and its log records; None if no library of Traceloop created the span."""
        if not _recognised(span.attributes):
            return None
        said = gen_ai.GenAI().observe(replace(span, attributes=_translated(span.attributes)), records)
        seen = said or Observation(kind="other", convention=self.name, span=span, error=values.error_of(span))
        named = values.text(span.attributes.get("traceloop.span.kind")).lower()
        kind = seen.kind if seen.kind != "other" else _KINDS.get(named, "other")
        fields: dict[str, Any] = {"kind": kind, "convention": self.name, "span": span, **_identity(span.attributes)}
        read = _READERS.get(kind)
        fields |= read(span.attributes) if read else {}
        return replace(seen, **{field: value for field, value in fields.items() if value not in (None, "")})


def _recognised(attributes: Mapping[str, Value]) -> bool:
    if "traceloop.span.kind" in attributes or "llm.request.type" in attributes or _is_indexed(attributes):
        return True
    return "gen_ai.operation.name" in attributes and any(key.startswith("traceloop.") for key in attributes)


def _is_indexed(attributes: Mapping[str, Value]) -> bool:
    return any(_INDEXED.match(key) for key in attributes)


def _identity(attributes: Mapping[str, Value]) -> dict[str, str]:
    """Return session and user from the association properties, or else from the metadata of the run."""
    given = values.unfold(attributes.get("traceloop.entity.input"))
    metadata = given.get("metadata") if isinstance(given, Mapping) else None
    run_metadata = metadata if isinstance(metadata, Mapping) else {}

    def first(keys: Sequence[str]) -> str:
        stamped = values.first(attributes, [_PROPERTIES + key for key in keys])
        return values.text(stamped) or values.text(values.first(run_metadata, keys))

    return {"session_id": first(_SESSION_KEYS), "user_id": first(_USER_KEYS)}


def _translated(attributes: Mapping[str, Value]) -> Mapping[str, Value]:
    """Translate attributes to OpenTelemetry's keys: indexed keys of 0.40 become lists, and model output gets a role."""
    found = dict(attributes)
    sent = values.unflatten(attributes, "gen_ai.prompt")
    if sent and "gen_ai.input.messages" not in found:
        found["gen_ai.input.messages"] = [_spoken(one, "user") for one in sent]
    said = values.unflatten(attributes, "gen_ai.completion")
    if not said or "gen_ai.output.messages" in found:
        said = list(values.elements(values.unfold(attributes.get("gen_ai.output.messages"))) or ())
    if said:  # a stream has no role; its text is always the model's
        found["gen_ai.output.messages"] = [_spoken(one, "assistant") for one in said]
    found.setdefault("gen_ai.usage.total_tokens", attributes.get("llm.usage.total_tokens"))
    asked = values.text(attributes.get("llm.request.type"))
    if asked or _is_indexed(attributes):
        found.setdefault("gen_ai.operation.name", asked if asked and asked != "unknown" else "chat")
    return found


def _spoken(message: Value, role: str) -> Value:
    if not isinstance(message, Mapping) or messages.read_one(message) is not None:
        return message
    return {**message, "role": role}


def _request(attributes: Mapping[str, Value]) -> dict[str, Any]:
    given, put_out = _given(attributes), _put_out(attributes)
    rest = _rest(attributes) if isinstance(put_out, str) else None
    if rest is not None:
        return {"kind": "retrieval", "query": _query(given), **rest}
    found = _documents(put_out)
    if found is not None:
        before = [one for taken in _lists(given) for one in _documents(taken) or ()]
        filtered = bool(before) and evidence.within(found, before)
        return {"kind": "rerank" if filtered else "retrieval", "query": _query(given), **_found(found)}
    asked = messages.read_request(given)
    state = documents.of_state(put_out)
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": messages.read_answer(put_out),
        "documents": state if state is not None else documents.of_state(given),
    }


def _retrieval(attributes: Mapping[str, Value]) -> dict[str, Any]:
    put_out = _put_out(attributes)
    found = _found(documents.read(put_out)) if put_out is not None else {}
    return {"query": _query(_given(attributes)), **found}


def _tool(attributes: Mapping[str, Value]) -> dict[str, Any]:
    put_out = _put_out(attributes)
    result = put_out if put_out is not None else attributes.get("gen_ai.tool.call.result")
    return {"query": _query(_given(attributes)), "documents": prompt.of_tool(result)}


def _given(attributes: Mapping[str, Value]) -> Value:
    """Return the input of an entity. LangChain wraps its inputs; a stream sends them late, together with its output."""
    given = values.unfold(values.first(attributes, ("traceloop.entity.input", "gen_ai.task.input")))
    if not isinstance(given, Mapping) or "inputs" not in given:
        return _without_self(given)
    late = values.unfold(values.first(attributes, _OUTPUT_KEYS))
    around = late.get("kwargs") if isinstance(late, Mapping) else None
    inputs = around.get("inputs") if isinstance(around, Mapping) else None
    return inputs or given["inputs"]


def _without_self(given: Value) -> Value:
    """Return the arguments of a call without a method's `self`, which comes first as the name of its class."""
    placed = values.elements(given.get("args")) if isinstance(given, Mapping) else None
    if not placed or not isinstance(placed[0], str) or not _CLASS.fullmatch(placed[0]):
        return given
    is_own = len(placed) > 1 and isinstance(placed[1], str) and not _NAME.fullmatch(placed[1])
    return {**given, "args": placed[1:]} if is_own else given  # type: ignore[dict-item] # a mapping: it has arguments


def _put_out(attributes: Mapping[str, Value]) -> Value:
    output = values.unfold(values.first(attributes, _OUTPUT_KEYS))
    return values.unfold(output["outputs"]) if isinstance(output, Mapping) and "outputs" in output else output


def _query(given: Value) -> str | None:
    asked = messages.read_request(given)
    return asked.query if asked else None


def _found(found: tuple[Document, ...] | None) -> dict[str, Any]:
    return {"documents": found, "documents_without_text": documents.without_text(found or ())}


def _documents(value: Value) -> tuple[Document, ...] | None:
    """Return the documents of a list that has only documents: any step may return a list, bare texts mean little."""
    listed = values.elements(value)
    if not listed or messages.read(listed) is not None:
        return None
    found = documents.read(listed)
    if found is None or len(found) != len(listed):
        return None
    is_evident = all(d.content and (d.doc_id or d.doc_uri or d.score is not None) for d in found)
    return found if is_evident or all(_is_langchain(item) for item in listed) else None


def _rest(attributes: Mapping[str, Value]) -> dict[str, Any] | None:
    """Return the documents left in a list that a length limit has cut: the last is incomplete, more may be missing."""
    output = values.first(attributes, _OUTPUT_KEYS)
    if not isinstance(output, str) or not values.broken(output):
        return None
    repaired = values.unfold_cut(output)
    listed = values.elements(repaired.get("outputs") if isinstance(repaired, Mapping) else repaired)
    if not listed or messages.read(listed) is not None:
        return None
    whole = _documents(listed[:-1])
    if whole is None and not (len(listed) == 1 and isinstance(listed[0], Mapping) and documents.read(listed)):
        return None
    return {"documents": whole, "documents_without_text": 1}


def _is_langchain(item: Value) -> bool:
    inner = item.get("kwargs", item) if isinstance(item, Mapping) else None
    return isinstance(inner, Mapping) and "page_content" in inner


def _lists(given: Value) -> Iterator[Value]:
    """Yield the lists in the input of a step: the input itself, a value of its state, an argument of its function."""
    yield given
    if isinstance(given, Mapping):
        for inner in given.values():
            yield inner
            nested = inner.values() if isinstance(inner, Mapping) else values.elements(inner) or ()
            yield from (one for one in nested if isinstance(one, (list, tuple)))


_READERS: Final = {"request": _request, "retrieval": _retrieval, "tool": _tool}
