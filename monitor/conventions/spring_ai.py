"""Read Spring AI: spans of its Micrometer observations, and the log records with prompts and documents.

Keys: https://docs.spring.io/spring-ai/reference/observability/index.html
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.extraction import documents, messages, quoted, values
from monitor.model.case import Document, Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "generation", "tool", "embedding", "other"]

_LOGGERS: Final = "org.springframework.ai."
_MODEL: Final = f"{_LOGGERS}chat.observation.ChatModel"
_CLIENT: Final = f"{_LOGGERS}chat.client.observation.ChatClient"
_STORE: Final = f"{_LOGGERS}vectorstore.observation.VectorStoreQueryResponse"
_PROMPT, _COMPLETION = "PromptContentObservationHandler", "CompletionObservationHandler"

_KINDS: Final[dict[str, _Kind]] = {"chat_client": "request", "tool_call": "tool"}
_OPERATIONS: Final[dict[str, _Kind]] = {"chat": "generation", "embedding": "embedding"}
_SCOPE: Final = "org.springframework.boot"

_PAIR: Final = 2
_ROLES: Final = ("system", "assistant", "user", "tool")
"""The keys of the client's prompt, in the order of Java's HashMap."""


class SpringAI(Convention):
    """Reads chat clients, models, vector stores and tools; texts from span attributes, else from log records."""

    name: ClassVar[str] = "spring_ai"
    record_marks: ClassVar[tuple[bytes, ...]] = tuple(logger.encode() for logger in (_MODEL, _CLIENT, _STORE))

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Observe the span and its log records; None if the span is not Spring AI's."""
        kind = _kind(span)
        if kind is None:
            return None
        logged = {r.origin.scope_name: _text_of(r) for r in records if r.origin.scope_name.startswith(_LOGGERS)}
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=values.text(span.attributes.get("spring.ai.chat.client.conversation.id")),
            error=values.error_of(span),
        )
        return replace(observation, **_content(kind, span, logged))


def _kind(span: Span) -> _Kind | None:
    """Return the role of a Spring AI span. Model spans do not have its mark; they come from Spring Boot's tracer."""
    attributes = span.attributes
    named = values.text(attributes.get("spring.ai.kind"))
    if named == "vector_store":
        return "retrieval" if attributes.get("db.operation.name") == "query" else "other"
    if named:
        return _KINDS.get(named, "other")
    if span.origin.scope_name == _SCOPE and "gen_ai.operation.name" in attributes:
        return _OPERATIONS.get(values.text(attributes["gen_ai.operation.name"]), "other")
    return None


def _text_of(record: LogRecord) -> str:
    """Return the text of a record after its heading."""
    return values.text(record.body).partition("\n")[2]


def _content(kind: _Kind, span: Span, logged: Mapping[str, str]) -> dict[str, Any]:
    attributes = span.attributes
    if kind == "generation":
        return _generation(span, logged)
    if kind == "request":
        return _request(attributes, logged)
    if kind == "retrieval":
        listed = attributes.get("gen_ai.retrieval.documents")
        found = documents.read(listed) if listed is not None else _documents(logged.get(f"{_STORE}ObservationHandler"))
        return {
            "query": values.text(attributes.get("db.vector.query.content")) or None,
            "documents": found,
            "documents_without_text": documents.without_text(found or ()),
        }
    if kind == "tool":
        result = attributes.get("spring.ai.tool.call.result")
        return {"documents": documents.read_result(result) if result is not None else None}
    return {}


def _request(attributes: Mapping[str, Value], logged: Mapping[str, str]) -> dict[str, Any]:
    """Read the user's own words: the client's input before its advisors have added anything."""
    sent = messages.read(attributes.get("gen_ai.input.messages"))
    at = messages.last_user(sent) if sent else -1
    if sent and at >= 0:
        query: str | None = sent[at].content
    else:
        entries = quoted.entries(logged.get(_CLIENT + _PROMPT, ""), _ROLES)
        query = entries.get("user") or None
        sent = tuple(Message(role, text) for role, text in entries.items()) or None
    said = _said(attributes)
    if said is None:
        said = _only(logged.get(_CLIENT + _COMPLETION, ""))
    return {"query": query, "messages": sent, "response": said}


def _generation(span: Span, logged: Mapping[str, str]) -> dict[str, Any]:
    attributes = span.attributes
    is_first = span.origin.scope_version.startswith("3.")  # Spring AI 1 runs on Spring Boot 3
    reasons = values.elements(values.unfold(attributes.get("gen_ai.response.finish_reasons"))) or ()
    said = _said(attributes)
    if said is None:
        completion = logged.get(_MODEL + _COMPLETION, "")
        said = quoted.only(completion) if len(reasons) == 1 else _only(completion)
    sent = messages.read(attributes.get("gen_ai.input.messages"))
    if sent is not None:
        sent = tuple(m for m in sent if m.role != "tool" or m.content)  # tool results are not sent as text
    else:
        sent = _messages(logged.get(_MODEL + _PROMPT), system_first=not is_first)
    # Spring AI 1 counts the tokens of the tool call again in the call after the tool.
    usage = None if is_first and "TOOL_CALLS" in reasons else _usage(attributes)
    return {"messages": sent, "response": said, "model": _model(attributes), "usage": usage}


def _said(attributes: Mapping[str, Value]) -> str | None:
    said = messages.read(attributes.get("gen_ai.output.messages")) or ()
    return next((m.content for m in reversed(said) if m.content.strip()), None)


def _only(listed: str) -> str | None:
    """Return the answer if there is exactly one. Finish reasons count answers, but not every provider sends them."""
    answers = quoted.texts(listed) or ()
    return answers[0] if len(answers) == 1 else None


def _documents(listed: str | None) -> tuple[Document, ...] | None:
    found = quoted.texts(listed) if listed is not None else None
    return None if found is None else tuple(Document(text) for text in found if text.strip() not in ("", "null"))


def _messages(listed: str | None, *, system_first: bool) -> tuple[Message, ...] | None:
    """Return the messages of a prompt sent as texts only: the last is the user's, the others may have no role.

    If the system prompt comes first, roles follow from the position, provided that user and assistant alternate after
    it.
    """
    spoken = _spoken(quoted.texts(listed) or ()) if listed is not None else []
    if not spoken:
        return None
    roles = [""] * (len(spoken) - 1) + ["user"]
    if len(spoken) == _PAIR or (system_first and len(spoken) % 2 == 0):
        roles = ["system", *(["user", "assistant"] * len(spoken))]
    return tuple(Message(role, text) for role, text in zip(roles, spoken, strict=False))


def _spoken(texts: Sequence[str]) -> list[str]:
    """Drop tool traffic: a call (an empty text, `null` or words) and its result, which is always an empty text."""
    spoken: list[str] = []
    for is_text, run in itertools.groupby(texts, bool):
        if is_text:
            spoken += run
        elif len(list(run)) % 2:  # an odd number: the text before was the call
            spoken = spoken[:-1]
    return spoken


def _model(attributes: Mapping[str, Value]) -> str:
    keys = ("gen_ai.response.model", "gen_ai.request.model")
    return next((text for key in keys if (text := values.text(attributes.get(key))) not in ("", "none")), "")


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    """Return the token counts; None if a stream did not count them and reports 0."""
    keys = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.total_tokens")
    given, put_out, total = (values.count(attributes.get(key)) for key in keys)
    return Usage(given, put_out, total) if any((given, put_out, total)) else None
