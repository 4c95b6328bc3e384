"""What was asked and what was answered, out of the inputs and outputs that spans record in many shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from monitor.content import cut, messages, values
from monitor.model.case import Message
from monitor.model.span import Value

_QUERY_KEYS: Final = (
    "question",
    "query",
    "input",
    "user_input",
    "user_query",
    "user_message",
    "user_msg",
    "message",
    "query_str",
    "query_bundle",
    "inputs",
    "prompt",
    "text",
    "q",
    "content",
    "kwargs",
    "args",
    "start_event",
)
_HISTORY_KEYS: Final = ("chat_history", "history", "message_history", "previous_messages", "conversation_history")
_ANSWER_KEYS: Final = (
    "answer",
    "response",
    "final_answer",
    "result",
    "output_text",
    "output",
    "outputs",
    "final_result",
    "reply",
    "replies",
    "completion",
    "generation",
    "generations",
    "choices",
    "message",
    "content",
    "text",
    "response_txt",
    "return_values",
)
_STRUCTURED: Final = re.compile(r"""\{\s*["'}]|\[\s*["'\[{\]]""")
_DEPTH: Final = 8
_WITHIN: Final = 2


class Asked(NamedTuple):
    """What a request says: the question, and the turns before it (None where it says nothing of them)."""

    query: str
    history: tuple[Message, ...] | None = None


def read_request(value: Value) -> Asked | None:
    """The question of a request, out of plain text, JSON of any usual shape, a list of messages or call arguments.

    Also out of JSON that a length limit has cut; the history is then not trusted to be whole. None where no question
    is stated.
    """
    unfolded = values.unfold(value)
    if (
        isinstance(unfolded, str)
        and _STRUCTURED.match(unfolded)
        and not isinstance(repaired := values.unfold_cut(unfolded), str)
    ):
        if not isinstance(repaired, Mapping) or "messages" in repaired:
            return None  # the last message, which is the question, is what was cut off
        asked = _request(repaired, _DEPTH)
        return Asked(asked.query) if asked else None
    return _request(unfolded, _DEPTH)


def read_answer(value: Value) -> str | None:
    """The answer text in the output of a request or a model; None where there is none that can be told from the rest.

    A text is taken as it is, unless it is the repr of an object: a generator not consumed, a framework's event.
    """
    return _answer(value, _DEPTH)


def _request(value: Value, depth: int) -> Asked | None:
    value = values.unfold(value)
    if isinstance(value, str):
        if values.is_repr(value):
            return _of_chat([said]) if (said := messages.from_repr(value)) else None
        return Asked(value) if value.strip() and values.usable(value) and not cut.broken(value) else None
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        return _request_of_mapping(value, depth)
    return _request_of_list(value, depth) if isinstance(value, (list, tuple)) and value else None


def _request_of_list(listed: Sequence[Value], depth: int) -> Asked | None:
    # The arguments of a call, question first, turns after it, would else be taken for the turns alone.
    first = values.unfold(listed[0])
    chat = messages.read(listed) if not (isinstance(first, str) and first.strip()) else None
    if chat:
        return _of_chat(chat)
    asked = _request(listed[0], depth - 1)
    if asked is not None and asked.history is None and len(listed) > 1:
        return Asked(asked.query, _history(listed[1]))
    return asked


def _request_of_mapping(value: Mapping[str, Value], depth: int) -> Asked | None:
    said = messages.read_one(value)
    if said is not None:
        return Asked(said.content) if said.role == "user" and said.content.strip() else None
    chat = messages.read(value.get("messages")) or messages.read(value.get("prompt"))
    history = next((found for key in _HISTORY_KEYS if (found := _history(value.get(key))) is not None), None)
    for key in _QUERY_KEYS:
        inner = value.get(key)
        asked = _request(inner, depth - 1) if inner else None
        if asked is not None:
            return asked if history is None else Asked(asked.query, history)
    if chat:
        return _of_chat(chat)
    texts = [text for text in value.values() if isinstance(text, str) and text.strip()]
    if len(texts) == 1 and len(value) == 1:
        return _request(texts[0], depth - 1)
    stated = set(_stated_within(value, _WITHIN))
    return Asked(stated.pop()) if len(stated) == 1 else None


def _stated_within(value: Mapping[str, Value], depth: int) -> Iterator[str]:
    """Questions in the inputs of a pipeline's components: `{"data": {"prompt_builder": {"question": ...}}}`."""
    for inner in value.values():
        if isinstance(inner, Mapping) and depth > 0:
            yield from (
                text for key in ("question", "query") if isinstance(text := inner.get(key), str) and text.strip()
            )
            yield from _stated_within(inner, depth - 1)


def _of_chat(chat: Sequence[Message]) -> Asked | None:
    at = messages.last_user(chat)
    return Asked(chat[at].content, messages.turns(chat[:at])) if at >= 0 else None


def _history(value: Value) -> tuple[Message, ...] | None:
    listed = values.elements(values.unfold(value))
    if listed is None:
        return None
    return messages.turns(messages.read(listed) or ()) if listed else ()


def _answer(value: Value, depth: int) -> str | None:
    value = values.unfold(value)
    if isinstance(value, str):
        if values.is_repr(value):
            said = messages.from_repr(value)
            return _last_said([said]) if said else values.repr_field(value, "answer")
        return value if value.strip() and values.usable(value) and not cut.broken(value) else None
    if depth <= 0 or not isinstance(value, (Mapping, list, tuple)):
        return None
    chat = messages.read(value)
    if chat:
        return _last_said(chat)
    if isinstance(value, Mapping):
        found = (_answer(value[key], depth - 1) for key in _ANSWER_KEYS if value.get(key))
        return next((text for text in found if text is not None), None)
    return _answer(value[0], depth - 1) if value and isinstance(value[0], (Mapping, list, tuple)) else None


def _last_said(chat: Sequence[Message]) -> str | None:
    return next((m.content for m in reversed(chat) if m.role == "assistant" and m.content.strip()), None)
