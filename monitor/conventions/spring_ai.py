"""Spring AI: spans of its Micrometer observations, and the log records into which it writes prompts and documents.

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
"""The keys of the client's prompt, in the order in which Java's HashMap has them."""


class SpringAI(Convention):
    """Reads chat clients, models, vector stores and tools; texts out of span attributes, else out of log records."""

    name: ClassVar[str] = "spring_ai"
    record_marks: ClassVar[tuple[bytes, ...]] = tuple(logger.encode() for logger in (_MODEL, _CLIENT, _STORE))

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """What the span and its log records say; None where it is not of Spring AI."""
        kind = _kind(span)
        if kind is None:
            return None
        told = {r.origin.scope_name: _told(r) for r in records if r.origin.scope_name.startswith(_LOGGERS)}
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=values.text(span.attributes.get("spring.ai.chat.client.conversation.id")),
            error=values.error_of(span),
        )
        return replace(observation, **_content(kind, span, told))


def _kind(span: Span) -> _Kind | None:
    """The role of a span of Spring AI. Those of models lack its mark; they come from the tracer of Spring Boot."""
    attributes = span.attributes
    named = values.text(attributes.get("spring.ai.kind"))
    if named == "vector_store":
        return "retrieval" if attributes.get("db.operation.name") == "query" else "other"
    if named:
        return _KINDS.get(named, "other")
    if span.origin.scope_name == _SCOPE and "gen_ai.operation.name" in attributes:
        return _OPERATIONS.get(values.text(attributes["gen_ai.operation.name"]), "other")
    return None


def _told(record: LogRecord) -> str:
    """What follows the heading of a record."""
    return values.text(record.body).partition("\n")[2]


def _content(kind: _Kind, span: Span, told: Mapping[str, str]) -> dict[str, Any]:
    attributes = span.attributes
    if kind == "generation":
        return _generation(span, told)
    if kind == "request":
        return _request(attributes, told)
    if kind == "retrieval":
        listed = attributes.get("gen_ai.retrieval.documents")
        found = documents.read(listed) if listed is not None else _documents(told.get(f"{_STORE}ObservationHandler"))
        return {
            "query": values.text(attributes.get("db.vector.query.content")) or None,
            "documents": found,
            "documents_without_text": documents.without_text(found or ()),
        }
    if kind == "tool":
        result = attributes.get("spring.ai.tool.call.result")
        return {"documents": documents.read_result(result) if result is not None else None}
    return {}


def _request(attributes: Mapping[str, Value], told: Mapping[str, str]) -> dict[str, Any]:
    """The user's own words: what a client is asked, before its advisors have put anything to it."""
    sent = messages.read(attributes.get("gen_ai.input.messages"))
    at = messages.last_user(sent) if sent else -1
    if sent and at >= 0:
        query: str | None = sent[at].content
    else:
        entries = quoted.entries(told.get(_CLIENT + _PROMPT, ""), _ROLES)
        query = entries.get("user") or None
        sent = tuple(Message(role, text) for role, text in entries.items()) or None
    said = _said(attributes)
    if said is None:
        said = _only(told.get(_CLIENT + _COMPLETION, ""))
    return {"query": query, "messages": sent, "response": said}


def _generation(span: Span, told: Mapping[str, str]) -> dict[str, Any]:
    attributes = span.attributes
    is_first = span.origin.scope_version.startswith("3.")  # Spring AI 1 runs on Spring Boot 3
    reasons = values.elements(values.unfold(attributes.get("gen_ai.response.finish_reasons"))) or ()
    said = _said(attributes)
    if said is None:
        completion = told.get(_MODEL + _COMPLETION, "")
        said = quoted.only(completion) if len(reasons) == 1 else _only(completion)
    sent = messages.read(attributes.get("gen_ai.input.messages"))
    if sent is not None:
        sent = tuple(m for m in sent if m.role != "tool" or m.content)  # results of tools stand beside the text
    else:
        sent = _messages(told.get(_MODEL + _PROMPT), system_first=not is_first)
    # Spring AI 1 counts in the call after a tool what the call of the tool has used.
    usage = None if is_first and "TOOL_CALLS" in reasons else _usage(attributes)
    return {"messages": sent, "response": said, "model": _model(attributes), "usage": usage}


def _said(attributes: Mapping[str, Value]) -> str | None:
    said = messages.read(attributes.get("gen_ai.output.messages")) or ()
    return next((m.content for m in reversed(said) if m.content.strip()), None)


def _only(listed: str) -> str | None:
    """The answer, where there is one and no other: each has its reason to finish, which not every provider tells."""
    answers = quoted.texts(listed) or ()
    return answers[0] if len(answers) == 1 else None


def _documents(listed: str | None) -> tuple[Document, ...] | None:
    found = quoted.texts(listed) if listed is not None else None
    return None if found is None else tuple(Document(text) for text in found if text.strip() not in ("", "null"))


def _messages(listed: str | None, *, system_first: bool) -> tuple[Message, ...] | None:
    """The messages of a prompt, of which only the texts are told: people have the last word, others may lack a role.

    Where the system's stands first its place tells it, if people and assistant take turns after it.
    """
    spoken = _spoken(quoted.texts(listed) or ()) if listed is not None else []
    if not spoken:
        return None
    roles = [""] * (len(spoken) - 1) + ["user"]
    if len(spoken) == _PAIR or (system_first and len(spoken) % 2 == 0):
        roles = ["system", *(["user", "assistant"] * len(spoken))]
    return tuple(Message(role, text) for role, text in zip(roles, spoken, strict=False))


def _spoken(texts: Sequence[str]) -> list[str]:
    """Without tool traffic: a call (an empty text, `null` or words), and its result, which is always an empty text."""
    spoken: list[str] = []
    for is_text, run in itertools.groupby(texts, bool):
        if is_text:
            spoken += run
        elif len(list(run)) % 2:  # not pairs of both: the text before was the call
            spoken = spoken[:-1]
    return spoken


def _model(attributes: Mapping[str, Value]) -> str:
    keys = ("gen_ai.response.model", "gen_ai.request.model")
    return next((text for key in keys if (text := values.text(attributes.get(key))) not in ("", "none")), "")


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    """Tokens; None where a stream did not count them and so says 0."""
    keys = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.total_tokens")
    given, put_out, total = (values.count(attributes.get(key)) for key in keys)
    return Usage(given, put_out, total) if any((given, put_out, total)) else None
