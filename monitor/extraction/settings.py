"""What a user says of a service that reads differently from all others: its prompts, its attributes, its spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from monitor.extraction import documents, messages, values
from monitor.extraction.template import PromptTemplate
from monitor.model.case import Message, Usage
from monitor.model.span import Span, Value
from monitor.stages import Observation

NAME: Final = "configuration"
"""The dialect's name, as it stands in `convention` of a case."""


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


Keys: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_several)]


class AttributeMap(BaseModel):
    """Which span attribute holds what. Each field takes one key or a list of keys, of which the first present counts.

    What is mapped outweighs what any dialect says of the same field. Values may be texts or JSON, in any of the shapes
    that the readers of the dialects understand; lists also as `KEY.0`, `KEY.1.text`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    question: Keys = ()
    """The user's question, as the user put it."""

    history: Keys = ()
    """The turns of the conversation before it: a list of messages with `role` and `content`."""

    documents: Keys = ()
    """The documents that reached the prompt: a list of texts, or of objects with text, id, uri and score."""

    answer: Keys = ()
    """The answer that the user was given."""

    prompt: Keys = ()
    """The prompt as sent to the model, a text or a list of messages: context and question can be taken from it."""

    model: Keys = ()
    """The name of the model that answered."""

    input_tokens: Keys = ()
    """Tokens of the prompt."""

    output_tokens: Keys = ()
    """Tokens of the answer."""

    session: Keys = ()
    """The id of the conversation."""

    user: Keys = ()
    """The id of the user."""

    error: Keys = ()
    """Why the request failed: any text but an empty one, or `true`."""

    _FIELDS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("question", "query"),
        ("history", "history"),
        ("documents", "documents"),
        ("answer", "response"),
        ("prompt", "messages"),
        ("model", "model"),
        ("session", "session_id"),
        ("user", "user_id"),
        ("error", "error"),
    )

    @cached_property
    def is_empty(self) -> bool:
        """Whether nothing is mapped."""
        return not any(getattr(self, name) for name in type(self).model_fields)

    def apply(self, span: Span, seen: Observation | None) -> Observation | None:
        """What the span says, with what is mapped in place of what the dialect said (`seen`); `seen` where nothing is.

        A span that no dialect knows gets its role from what it holds: documents alone make a retrieval, a prompt a
        call of a model, anything else a request.
        """
        told = {} if self.is_empty else self._told(span.attributes)
        if not told:
            return seen
        if seen is None:
            seen = Observation(kind=_role(told), convention=NAME, span=span, error=values.error_of(span))
        if "documents" in told:
            told["documents_without_text"] = documents.without_text(told["documents"])
        return replace(seen, **told, stated=frozenset(told))

    def _told(self, attributes: Mapping[str, Value]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for name, field in self._FIELDS:
            for key in getattr(self, name):
                found = _READERS[field](_value(attributes, key))
                if found is not None:
                    told[field] = found
                    break
        asked = messages.read_request(_first(attributes, self.question))
        if asked is not None and asked.history is not None:
            told.setdefault("history", asked.history)
        usage = Usage(
            values.count(_first(attributes, self.input_tokens)), values.count(_first(attributes, self.output_tokens))
        )
        return told if usage == Usage() else {**told, "usage": usage}


def _role(told: Mapping[str, Any]) -> Literal["request", "retrieval", "generation"]:
    if "messages" in told:
        return "generation"
    return "retrieval" if "documents" in told and told.keys() <= {"documents", "query"} else "request"


def _first(attributes: Mapping[str, Value], keys: Keys) -> Value:
    return next((found for key in keys if (found := _value(attributes, key)) is not None), None)


def _value(attributes: Mapping[str, Value], key: str) -> Value:
    value = attributes.get(key)
    return value if value is not None else values.unflatten(attributes, key)


def _question(value: Value) -> str | None:
    asked = messages.read_request(value)
    return asked.query if asked else None


def _history(value: Value) -> object:
    return None if value is None else messages.turns(messages.read(value) or ())


def _documents(value: Value) -> object:
    return None if value is None else documents.read_result(value)


def _prompt(value: Value) -> object:
    found = messages.read(value)
    text = values.text(value)
    return found or ((Message("user", text),) if text else None)


def _text(value: Value) -> str | None:
    return values.text(value) or None


def _error(value: Value) -> str | None:
    return "failed" if value is True else _text(value) if value is not False else None


_READERS: Final = {
    "query": _question,
    "history": _history,
    "documents": _documents,
    "response": messages.read_answer,
    "messages": _prompt,
    "model": _text,
    "session_id": _text,
    "user_id": _text,
    "error": _error,
}


def _invertible(template: str) -> str:
    PromptTemplate.parse(template)
    return template


class ReadingSettings(BaseModel):
    """How traces are read, beyond what the dialects know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    prompt_templates: tuple[Annotated[str, AfterValidator(_invertible)], ...] = ()
    """The service's own prompt templates, with `{context}` and, where the same message states it, `{question}`; other
    placeholders are allowed and ignored. A prompt that was made with one of them is taken apart exactly; other prompts
    are split at the usual marks."""

    attributes: AttributeMap = AttributeMap()
    """Span attributes of a home-grown instrumentation, and what they hold. `rag-monitor cases --explain` shows whether
    it works."""

    orphans_are_roots: bool = False
    """Take a span whose parent never came for the top of its request. For services whose enclosing spans (of an HTTP
    server, say) go to another backend only; elsewhere it makes whole requests of lost parts. A lone span that states
    question and answer needs no such permission."""

    @cached_property
    def templates(self) -> tuple[PromptTemplate, ...]:
        """The prompt templates, parsed."""
        return tuple(PromptTemplate.parse(one) for one in self.prompt_templates)
