"""Read Haystack's own tracer: pipelines, components (by the sockets that they declare) and agents.

Keys: https://github.com/deepset-ai/haystack/tree/main/haystack/tracing and the `set_content_tag` calls of its pipelines
and agents. Texts are sent only if content tracing is on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.extraction import documents, messages, prompt, slices, values
from monitor.model.case import Document, Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_PREFIX: Final = "haystack."
_CALL_OF_AGENT: Final = "haystack.agent.step.llm"
_OPERATIONS: Final[tuple[tuple[str, _Kind], ...]] = (
    (_CALL_OF_AGENT, "generation"),
    ("haystack.agent.step.tool", "tool"),
    ("haystack.agent.step", "other"),
    ("haystack.agent.hook", "other"),
    ("haystack.agent", "request"),
    ("haystack.pipeline", "request"),
)
_QUESTIONS: Final = ("question", "query", "text", "messages", "prompt")
_OF_DOCUMENTS: Final = re.compile(r"\bDocument\b")


class Haystack(Convention):
    """Reads spans with `haystack.*` attributes."""

    name: ClassVar[str] = "haystack"
    precedence: ClassVar[int] = 40

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe the span; None if it has no attribute of this dialect."""
        attributes = span.attributes
        if not any(key.startswith(_PREFIX) for key in _named(span)):
            return None
        kind, where = _role(span)
        given = values.first(attributes, (f"{where}.input", f"{where}.input_data"))
        put_out = values.first(attributes, (f"{where}.output", f"{where}.output_data"))
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=values.text(attributes.get("session.id")),
            user_id=values.text(attributes.get("user.id")),
            error=values.error_of(span),
            attributes=slices.of_attributes({"metadata": attributes.get("haystack.pipeline.metadata")}),
        )
        return replace(observation, **_content(kind, attributes, given, put_out))


def _content(kind: _Kind, attributes: Mapping[str, Value], given: Value, put_out: Value) -> dict[str, Any]:
    if kind == "request":
        return _request(given, put_out)
    if kind == "generation":
        return _generation(_mapping(given), _mapping(put_out))
    if kind in ("retrieval", "rerank"):
        return _retrieval(attributes, _mapping(given), _mapping(put_out))
    if kind != "tool" or attributes.get("haystack.tool.error") is True:
        return {}
    return {"documents": _results(values.unfold(put_out))}


def _role(span: Span) -> tuple[_Kind, str]:
    """Return the role of a span, and the prefix of the keys of its input and output."""
    attributes, keys = span.attributes, _named(span)
    named = values.text(attributes.get("haystack.component.type"))
    if named or any(key.startswith("haystack.component.") for key in keys):
        return _component(named, attributes), "haystack.component"
    if any(key.startswith("haystack.tool.") for key in keys):
        return "tool", "haystack.agent.step.tool"
    for prefix, kind in _OPERATIONS:
        if any(key == prefix or key.startswith(f"{prefix}.") for key in keys):
            return kind, prefix
    return "other", _PREFIX


def _named(span: Span) -> tuple[str, ...]:
    """Return the keys of a span; with content tracing off, an agent's model calls have only their name."""
    return (*span.attributes, _CALL_OF_AGENT) if span.name == _CALL_OF_AGENT else tuple(span.attributes)


def _component(named: str, attributes: Mapping[str, Value]) -> _Kind:
    """Return the role of a component from its inputs and outputs (classes may have any name), or else from its name."""
    if named.endswith("Embedder"):
        return "embedding"
    if named == "ToolInvoker":
        return "tool"
    put_out = _sockets(attributes, "output")
    if "last_message" in put_out or named == "Agent":
        return "request"
    if "replies" in put_out or named.endswith("Generator"):
        return "generation"
    if any(_holds_documents(socket, kind) for socket, kind in put_out.items()):
        given = _sockets(attributes, "input")
        return "rerank" if any(_holds_documents(socket, kind) for socket, kind in given.items()) else "retrieval"
    return "retrieval" if not put_out and named.endswith("Retriever") else "other"


def _sockets(attributes: Mapping[str, Value], side: Literal["input", "output"]) -> dict[str, str]:
    """Return the sockets of a component with their declared types, or the sockets in use if none are declared."""
    declared = values.unfold_cut(attributes.get(f"haystack.component.{side}_spec"))
    if isinstance(declared, Mapping) and declared:
        return {
            name: values.text(kind.get("type")) if isinstance(kind, Mapping) else "" for name, kind in declared.items()
        }
    return dict.fromkeys(_mapping(attributes.get(f"haystack.component.{side}")), "")


def _holds_documents(socket: str, kind: str) -> bool:
    return bool(_OF_DOCUMENTS.search(kind)) or socket == "documents"


def _request(given: Value, put_out: Value) -> dict[str, Any]:
    asked = _asked(_mapping(given)) or messages.read_request(given)
    output = _mapping(put_out)
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": _answer(output),
        "usage": _usage(output.get("token_usage")),
    }


def _asked(given: Mapping[str, Value]) -> messages.StatedQuestion | None:
    """Return the question in the inputs of a pipeline's components, if all components with a question agree."""
    for key in _QUESTIONS:
        stated: dict[str, messages.StatedQuestion] = {}
        for inner in (given, *given.values()):
            value = inner.get(key) if isinstance(inner, Mapping) else None
            if isinstance(value, Mapping):
                continue  # a component with that name
            asked = messages.read_request({"messages": _chat(value)} if key == "messages" else value)
            if asked is not None:
                stated.setdefault(asked.query, asked)
        if stated:
            return next(iter(stated.values())) if len(stated) == 1 else None
    return None


def _answer(put_out: Mapping[str, Value]) -> str | None:
    """Return the answer of the components at the end of a pipeline; None if several gave different answers."""
    ends = [inner for inner in (put_out, *put_out.values()) if isinstance(inner, Mapping)]
    for said in (
        {_best(end.get("answers")) for end in ends},
        {_reply(end.get("replies")) for end in ends},
        {_reply([end.get("last_message")]) for end in ends},
    ):
        answers = {text for text in said if text}
        if answers:
            return answers.pop() if len(answers) == 1 else None
    return None


def _best(answers: Value) -> str | None:
    """Return the first non-empty answer of an answer builder or a reader."""
    listed = [_mapping(one) for one in values.elements(answers) or ()]
    texts = [values.text(_mapping(one.get("init_parameters", one)).get("data")) for one in listed]
    return next((text for text in texts if text.strip()), None)


def _generation(given: Mapping[str, Value], put_out: Mapping[str, Value]) -> dict[str, Any]:
    replies = values.elements(put_out.get("replies")) or ()
    said = _without_underscores(replies[0]) if replies else {}
    described = values.elements(put_out.get("meta"))  # for generators that reply with bare texts
    metadata = _mapping(said.get("meta")) or _mapping(described[0] if described else None)
    return {
        "messages": _sent(given),
        "response": _reply(replies) if replies else None,
        "model": values.text(metadata.get("model")),
        "usage": _usage(metadata.get("usage")),
    }


def _sent(given: Mapping[str, Value]) -> tuple[Message, ...] | None:
    chat = values.first(given, ("messages", "prompt"))
    sent = (Message("user", chat),) if isinstance(chat, str) and chat.strip() else messages.read(_chat(chat))
    system = values.text(given.get("system_prompt"))
    return (Message("system", system), *sent) if sent and system else sent


def _reply(replies: Value) -> str | None:
    """Return the first non-empty reply; empty if the model ended without text, None if it called a tool."""
    listed = values.elements(replies) or ()
    texts = [one if isinstance(one, str) else messages.read_answer(_chat([one])) for one in listed]
    text = next((text for text in texts if text and text.strip()), None)
    ended = [_mapping(_without_underscores(one).get("meta")).get("finish_reason") == "stop" for one in listed]
    return text if text or not ended or not all(ended) else ""


def _usage(counted: Value) -> Usage | None:
    counted = _mapping(counted)
    given = values.count(values.first(counted, ("prompt_tokens", "input_tokens")))
    put_out = values.count(values.first(counted, ("completion_tokens", "output_tokens")))
    total = values.count(counted.get("total_tokens"))
    return Usage(given, put_out, total) if (given, put_out, total) != (None, None, None) else None


def _retrieval(
    attributes: Mapping[str, Value], given: Mapping[str, Value], put_out: Mapping[str, Value]
) -> dict[str, Any]:
    declared = _sockets(attributes, "output")
    found: list[Document] | None = None
    for socket, held in put_out.items():
        if _holds_documents(socket, declared.get(socket, "")) and isinstance(held, (list, tuple)):
            found = [*(found or ()), *(documents.read(held) or ())]
    return {
        "query": values.text(given.get("query")) or None,
        "documents": None if found is None else tuple(found),
        "documents_without_text": documents.without_text(found or ()),
    }


def _results(put_out: Value) -> tuple[Document, ...] | None:
    """Return the results of tools: of a single call, or from the messages of a step with several calls."""
    if not isinstance(put_out, Mapping) or "tool_messages" not in put_out:
        return prompt.of_tool(put_out)
    worked = [one for one in values.elements(put_out["tool_messages"]) or () if not _tells_of_failure(one)]
    carried = [prompt.of_tool(one.content) for one in messages.read(_chat(worked)) or ()]
    results = [found for found in carried if found is not None]
    return tuple(document for found in results for document in found) if results else None


def _tells_of_failure(message: Value) -> bool:
    """Return whether a tool's message reports an error to the model instead of a result."""
    parts = values.elements(_without_underscores(message).get("content")) or ()
    return any(_mapping(_mapping(part).get("tool_call_result")).get("error") is True for part in parts)


def _chat(value: Value) -> list[Value]:
    """Rewrite chat messages with the usual keys: some versions write `_role`, and tool results wrap their text."""
    chat: list[Value] = []
    for item in values.elements(values.unfold(value)) or ():
        message = _without_underscores(item)
        parts = values.elements(message.get("content"))
        chat.append({**message, "content": [_part(part) for part in parts]} if parts is not None else message or item)
    return chat


def _part(part: Value) -> Value:
    result = part.get("tool_call_result") if isinstance(part, Mapping) else None
    return {"type": "tool_result", "result": result.get("result")} if isinstance(result, Mapping) else part


def _without_underscores(item: Value) -> dict[str, Value]:
    return {key.removeprefix("_"): held for key, held in _mapping(item).items()}


def _mapping(value: Value) -> Mapping[str, Value]:
    unfolded = values.unfold(value)
    return unfolded if isinstance(unfolded, Mapping) else {}
