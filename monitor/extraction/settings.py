"""Define the section `extraction`: how to read a service with its own prompts, attributes and spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from monitor.extraction import documents, messages, values
from monitor.extraction.template import PromptTemplate, RowPrompt
from monitor.model.case import Message, Reading, ReadingStatus, TraceReading, Usage
from monitor.model.span import Span, Value
from monitor.stages import Observation

Turns: TypeAlias = Literal["all", "last"]
"""Which answers of a conversation in one row are evaluated."""

NAME: Final = "configuration"
"""The dialect's name, as in `convention` of a case."""


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


Keys: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_several)]


class AttributeMap(BaseModel):
    """Maps span attributes to fields. Each field takes one key or a list of keys; the first key that is present counts.

    A mapped field takes precedence over what any dialect reads. Values may be text or JSON, in any shape that the
    dialects understand; lists may also be written as `KEY.0`, `KEY.1.text`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Keys = ()
    """The user's question, unchanged."""

    history: Keys = ()
    """Earlier turns of the conversation: a list of messages with `role` and `content`."""

    documents: Keys = ()
    """Documents in the prompt: a list of texts, or of objects with text, id, uri and score."""

    answer: Keys = ()
    """The answer that the user received."""

    prompt: Keys = ()
    """The prompt sent to the model, as a text or a list of messages. Context and question are extracted from it."""

    model: Keys = ()
    """Name of the model that answered."""

    input_tokens: Keys = ()
    """Number of tokens in the prompt."""

    output_tokens: Keys = ()
    """Number of tokens in the answer."""

    session: Keys = ()
    """Id of the conversation."""

    user: Keys = ()
    """Id of the user."""

    error: Keys = ()
    """Reason why the request failed: any non-empty text, or `true`."""

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
        """True if no field is mapped."""
        return not any(getattr(self, name) for name in type(self).model_fields)

    def apply(self, span: Span, seen: Observation | None) -> Observation | None:
        """Return `seen` with all mapped fields replaced; `seen` itself if the span has none of the attributes.

        A span that no dialect recognises gets its kind from its fields: documents alone make a retrieval, a prompt
        makes a generation, anything else makes a request.
        """
        mapped = {} if self.is_empty else self._mapped(span.attributes)
        if not mapped:
            return seen
        if seen is None:
            seen = Observation(kind=_role(mapped), convention=NAME, span=span, error=values.error_of(span))
        if "documents" in mapped:
            mapped["documents_without_text"] = documents.without_text(mapped["documents"])
        return replace(seen, **mapped, stated=frozenset(mapped))

    def _mapped(self, attributes: Mapping[str, Value]) -> dict[str, Any]:
        mapped: dict[str, Any] = {}
        for name, field in self._FIELDS:
            for key in getattr(self, name):
                found = _READERS[field](_value(attributes, key))
                if found is not None:
                    mapped[field] = found
                    break
        asked = messages.read_request(_first(attributes, self.question))
        if asked is not None and asked.history is not None:
            mapped.setdefault("history", asked.history)
        usage = Usage(
            values.count(_first(attributes, self.input_tokens)), values.count(_first(attributes, self.output_tokens))
        )
        return mapped if usage == Usage() else {**mapped, "usage": usage}


def _role(mapped: Mapping[str, Any]) -> Literal["request", "retrieval", "generation"]:
    if "messages" in mapped:
        return "generation"
    return "retrieval" if "documents" in mapped and mapped.keys() <= {"documents", "query"} else "request"


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


def _fillable(template: str) -> str:
    RowPrompt.parse(template)
    return template


class ExtractionSettings(BaseModel):
    """How to read traces, in addition to the dialects' own rules."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_templates: tuple[Annotated[str, AfterValidator(_invertible)], ...] = ()
    """The service's own prompt templates, with `{context}` and, if it is in the same message, `{question}`. Other
    placeholders are ignored. Prompts made from one of them are split exactly, all others at the usual markers."""

    row_prompt: Annotated[str, AfterValidator(_fillable)] | None = None
    """The prompt that your service builds from a row, with `{question}`, `{context}` and `{history}`, for rows without
    a field `prompt`. `trustworthiness` needs a prompt: `Answer strictly by the context. {context} {question}`.
    Documents are separated by blank lines."""

    attributes: AttributeMap = AttributeMap()
    """Span attributes of your own instrumentation, by field. Check with `rag-monitor cases --explain`."""

    turns: Turns = "all"
    """Which answers of a conversation in one row are evaluated: `all`, each with the turns before it as its history, or
    only the `last`. Traces are not affected: each of their requests is evaluated."""

    orphans_are_roots: bool = False
    """Whether to treat spans as root spans if their parent never arrives. Only for services whose outer spans (such as
    the HTTP server's) go to another backend; elsewhere, parts of incomplete traces would count as requests. Not needed
    for a single span with both question and answer."""

    def with_prompt(self, found: TraceReading) -> TraceReading:
        """Return the readings of a row with the prompt of `row_prompt`, unless they have a prompt or are not ready."""
        return replace(found, readings=tuple(map(self._prompted, found.readings)))

    def _prompted(self, reading: Reading) -> Reading:
        if self.row_prompt is None or reading.case.prompt or reading.status is not ReadingStatus.READY:
            return reading
        return replace(reading, case=replace(reading.case, prompt=self._row_prompt.fill(reading.case)))

    @cached_property
    def _row_prompt(self) -> RowPrompt:
        return RowPrompt.parse(self.row_prompt or "{question}")

    @cached_property
    def templates(self) -> tuple[PromptTemplate, ...]:
        """The parsed prompt templates."""
        return tuple(PromptTemplate.parse(one) for one in self.prompt_templates)
