"""Read chat messages, questions and answers in the many shapes in which spans record them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.extraction import values
from monitor.model.case import Document, Message
from monitor.model.span import Value

_ROLES: Final = {
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "system": "system",
    "developer": "system",
    "systemmessage": "system",
    "tool": "tool",
    "function": "tool",
    "toolmessage": "tool",
    "functionmessage": "tool",
}
_WRAPPERS: Final = ("message", "data", "kwargs")
_TEXT_PARTS: Final = ("", "text", "output_text", "input_text", "reasoning_text")
_FILE_PART: Final = re.compile(
    r"(?:input_|output_)?(?:image|audio|video|file|document|pdf|blob|uri|media|binary|text-plain|inline_?data)"
    r"(?:[_-]?(?:url|uri|data|id|file|content))?",
    re.IGNORECASE,
)
"""The types of parts that hold a picture, sound or a file."""

_FILE_PLACES: Final = (
    "source",
    "file",
    "inline_data",
    "inlineData",
    "file_data",
    "fileData",
    "image",
    "audio",
    "video",
    "document",
)
"""Keys under which a part holds its file. If the part has no type, the key gives the kind of file."""

_MEDIA: Final = ("image", "audio", "video")
_MEDIA_TYPES: Final = ("modality", "mime_type", "mimeType", "media_type", "mediaType")
_FILE_NAMES: Final = ("filename", "file_name", "name", "title")
_FILE_TEXTS: Final = ("text", "data", "file_data", "content", "bytes", "base64")
_TEXT_TYPES: Final = re.compile(r"text/|application/(?:json|xml|yaml|x-yaml|csv)\b")
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*,", re.ASCII)
_LONGEST_URL_HEAD: Final = 200
_LONGEST_NAME: Final = 80
_MARKS: Final = re.compile(r"\[(?:image|audio|video|file(?:: [^\[\]\n]*)?)\]\s*")
_TOOL_RESULTS: Final = ("tool_call_response", "tool_result", "tool-result", "tool_return", "function_call_output")
_REPR_ROLE: Final = re.compile(r"role=(?:<\w+\.\w+: ?)?'(\w+)'|^(Human|AI|System|Tool|Function)Message(?:Chunk)?\(")
_DEPTH: Final = 8
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
_WITHIN: Final = 2


@dataclass(frozen=True, slots=True)
class MessageWithSources(Message):
    """A message that contains sources: the text files that a user attached, and the results of tools.

    In a user's message the texts of the sources are part of `content`, as the model was sent them.
    """

    sources: tuple[Document, ...] = ()


class StatedQuestion(NamedTuple):
    """The question of a request, and the turns before it (None if the request does not mention any)."""

    query: str
    history: tuple[Message, ...] | None = None


def read(value: Value) -> tuple[Message, ...] | None:
    """Return the chat messages in a value, in order; None if it has none.

    A message without text, such as a tool call, has an empty `content`. Pictures, sound and files leave a mark in it:
    `[image]`, `[audio]`, `[video]`, `[file: report.pdf]`, and `[attachment: notes.txt]` before the text of a text file.
    """
    return _read(value, _DEPTH)


def read_one(value: Value) -> Message | None:
    """Read a single message from a value; None if it is not a message."""
    return _one(value, _DEPTH)


def turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the turns of user and assistant, without system prompts, tool traffic and messages without text."""
    spoken = ((m.role, own_words(m)) for m in messages if m.role in ("user", "assistant"))
    return tuple(Message(role, text) for role, text in spoken if text.strip())


def own_words(message: Message) -> str:
    """Return a person's or a model's own words in a message, without the texts of files and the results of tools."""
    text = message.content
    if isinstance(message, MessageWithSources) and message.role == "user":
        for one in message.sources:
            mark = _mark("attachment", one.doc_uri) if one.kind == "attachment" else ""
            text = text.replace(f"{mark}\n{one.content}" if mark else one.content, mark, 1)
        return text.strip()
    return text


def last_user(messages: Sequence[Message]) -> int:
    """Return the index of the last user message with text; -1 if there is none."""
    return max((at for at, m in enumerate(messages) if m.role == "user" and m.content.strip()), default=-1)


def read_request(value: Value) -> StatedQuestion | None:
    """Read the question of a request from plain text, JSON of any usual shape, a list of messages or call arguments.

    Also read JSON that a length limit has cut, but without its history, which may be incomplete. Return None if no
    question is stated.
    """
    unfolded = values.unfold(value)
    if (
        isinstance(unfolded, str)
        and _STRUCTURED.match(unfolded)
        and not isinstance(repaired := values.unfold_cut(unfolded), str)
    ):
        if not isinstance(repaired, Mapping) or "messages" in repaired:
            return None  # the last message, which is the question, was cut off
        asked = _request(repaired, _DEPTH)
        return StatedQuestion(asked.query) if asked else None
    return _request(unfolded, _DEPTH)


def read_answer(value: Value) -> str | None:
    """Read the answer from the output of a request or a model; None if no text is clearly the answer.

    A text is returned unchanged, unless it is the repr of an object: an unconsumed generator, a framework's event.
    """
    return _answer(value, _DEPTH)


def text_of(content: Value) -> str:
    """Return the text of a message's content: a text, or the text parts of a list, joined by line breaks."""
    return _text_of(content, _DEPTH)


def from_repr(text: str) -> Message | None:
    """Read a message from a Python repr: `ChatMessage(role=..., text='...')`, `HumanMessage(content='...')`."""
    role = _REPR_ROLE.search(text[:400])
    if role is None or not values.is_repr(text):
        return None
    name = _ROLES.get((role[1] or role[2]).lower(), "")
    content = values.repr_field(text, "text|content")
    return Message(name, content or "") if name else None


def _read(value: Value, depth: int) -> tuple[Message, ...] | None:
    value = values.unfold(value)
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        inner = values.unfold(value.get("messages"))
        if isinstance(inner, (list, tuple, Mapping)):
            return _read(inner, depth - 1)
        one = _one(value, depth)
        return (one,) if one else None
    listed = values.elements(value)
    if listed is None:
        one = from_repr(value) if isinstance(value, str) else None
        return (one,) if one else None
    found: list[Message] = []
    for item in listed:
        if isinstance(item, (list, tuple)):
            found += _read(item, depth - 1) or ()
            continue
        one = _one(item, depth)
        if one is not None:
            found.append(one)
    return tuple(found) or None


def _one(item: Value, depth: int) -> Message | None:
    item = values.unfold(item)
    if isinstance(item, str):
        return from_repr(item)
    if not isinstance(item, Mapping) or depth <= 0:
        return None
    role = _role(item)
    if not role or "data" in item or "kwargs" in item or ("message" in item and "content" not in item):
        for key in _WRAPPERS:
            wrapped = values.unfold(item.get(key))
            inner = _one({"type": role, **wrapped}, depth - 1) if isinstance(wrapped, Mapping) else None
            if inner is not None:
                return inner
    if not role:
        return None
    parts = values.first(item, ("parts", "content", "contents", "blocks", "text", "output"))
    listed = values.elements(values.unfold(parts)) or () if role in ("user", "assistant") else ()
    own = [part for part in listed if not _is_tool_result(part)]
    if listed and not own:
        role = "tool"
    sources: list[Document] = []
    if role == "tool":
        return Message(role, text_of(parts))
    if role != "assistant":
        text = _text_of(parts, _DEPTH, sources)
    else:
        # Without the results of tools: some agents record a run as one message.
        text = text_of(own if len(own) < len(listed) else parts)
        text = text if _MARKS.sub("", text).strip() else ""  # a picture alone is not an answer that can be judged
        _text_of([part for part in listed if _is_tool_result(part)], _DEPTH, sources)
    return MessageWithSources(role, text, tuple(sources)) if sources else Message(role, text)


def _role(item: Mapping[str, Value]) -> str:
    for key in ("role", "type", "_type", "kind", "event.name"):
        named = item.get(key)
        if isinstance(named, str) and named.lower() in _ROLES:
            return _ROLES[named.lower()]
    path = values.elements(item.get("id"))  # LangChain's serialised objects: the last element is the class
    if path and isinstance(path[-1], str):
        return _ROLES.get(path[-1].lower(), "")
    return ""


def _is_tool_result(part: Value) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TOOL_RESULTS


def _text_of(content: Value, depth: int, sources: list[Document] | None = None) -> str:
    """Return the text of a content; `sources` receives the text files and results of tools in it."""
    if isinstance(content, str):
        if content[:2] not in ("[{", '["') or not isinstance(unfolded := values.unfold(content), list):
            return content
        return _text_of(unfolded, depth - 1, sources) or content
    if depth <= 0:
        return ""
    if isinstance(content, Mapping):
        return _part(content, depth, sources)
    listed = values.elements(content)
    return "\n".join(filter(None, (_text_of(part, depth - 1, sources) for part in listed))) if listed else ""


def _part(part: Mapping[str, Value], depth: int, sources: list[Document] | None) -> str:
    wrapped = part.get("message_content")
    if isinstance(wrapped, Mapping):
        part = wrapped
    kind = values.text(part.get("type"))
    if not kind and _FILE_PART.fullmatch(values.text(part.get("kind"))):
        kind = values.text(part.get("kind"))
    if kind in _TOOL_RESULTS:
        text = _tool_result(part, depth)
        if sources is not None and text.strip():
            sources.append(Document(text, kind="tool_result"))
        return text
    if kind.lower() in _TEXT_PARTS:
        text = _text_of(values.first(part, ("text", "content", "value")), depth - 1)
        untyped = not kind and not text and any(isinstance(part.get(place), Mapping) for place in _FILE_PLACES)
        return _file(part, "", depth, sources) if untyped else text
    return _file(part, kind.lower(), depth, sources) if _FILE_PART.fullmatch(kind) else ""


def _tool_result(part: Mapping[str, Value], depth: int) -> str:
    found = values.first(part, ("response", "result", "output", "content"))
    found = found.get("value", found) if isinstance(found, Mapping) else found
    return found if isinstance(found, str) else _text_of(found, depth - 1) or values.dump(found)


def _file(part: Mapping[str, Value], kind: str, depth: int, sources: list[Document] | None) -> str:
    """Return the mark of a picture, sound or file; after it the text of a text file, which is a source."""
    inner = {key: place for key in _FILE_PLACES if isinstance(place := values.unfold(part.get(key)), Mapping)}
    places = (part, *inner.values())
    media_type = next(filter(None, (values.text(values.first(one, _MEDIA_TYPES)) for one in places)), "").lower()
    described = f"{kind or next(iter(inner), '')} {media_type}"
    medium = next((one for one in _MEDIA if one in described), "")
    if medium:
        return _mark(medium)
    name = next(filter(None, (values.text(values.first(one, _FILE_NAMES)) for one in places)), "")
    name = " ".join(re.sub(r"[\[\]\x00-\x1f\x7f]", " ", name).split())[:_LONGEST_NAME]
    textual = kind == "text-plain" or bool(_TEXT_TYPES.match(media_type))
    text = next(filter(None, (_file_text(one, depth, textual=textual) for one in places)), "")
    if not text.strip():
        return _mark("file", name)
    if sources is not None:
        sources.append(Document(text, name, kind="attachment"))
    return f"{_mark('attachment', name)}\n{text}"


def _file_text(place: Mapping[str, Value], depth: int, *, textual: bool) -> str:
    """Return the text of a file from one place in a part; empty if there is none or it is not text."""
    textual = textual or place.get("source_type") == "text" or place.get("type") in ("text", "content")
    for key in _FILE_TEXTS:
        given = place.get(key)
        if not isinstance(given, str):
            text = _text_of(given, depth - 1) if textual and isinstance(given, (list, tuple)) else ""
        elif head := _DATA_URL.match(given, 0, _LONGEST_URL_HEAD):
            is_text = _TEXT_TYPES.match(head[1] or "text/plain") is not None
            text = _decoded(given[head.end() :]) if is_text and ";base64," in head[0] else ""
        else:
            text = (_decoded(given) or given) if textual else ""
        if text.strip():
            return text
    return ""


def _decoded(data: str) -> str:
    """Decode a text from base64; return an empty text if it is not one."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError:
        return ""


def _mark(what: str, name: str = "") -> str:
    return f"[{what}: {name}]" if name else f"[{what}]"


def _request(value: Value, depth: int) -> StatedQuestion | None:
    value = values.unfold(value)
    if isinstance(value, str):
        if values.is_repr(value):
            return _of_chat([said]) if (said := from_repr(value)) else None
        return StatedQuestion(value) if value.strip() and values.usable(value) and not values.broken(value) else None
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        return _request_of_mapping(value, depth)
    return _request_of_list(value, depth) if isinstance(value, (list, tuple)) and value else None


def _request_of_list(listed: Sequence[Value], depth: int) -> StatedQuestion | None:
    # A text first means the arguments of a call: the question, then the turns. `read` would see only the turns.
    first = values.unfold(listed[0])
    chat = read(listed) if not (isinstance(first, str) and first.strip()) else None
    if chat:
        return _of_chat(chat)
    asked = _request(listed[0], depth - 1)
    if asked is not None and asked.history is None and len(listed) > 1:
        return StatedQuestion(asked.query, _history(listed[1]))
    return asked


def _request_of_mapping(value: Mapping[str, Value], depth: int) -> StatedQuestion | None:
    said = read_one(value)
    if said is not None:
        return StatedQuestion(said.content) if said.role == "user" and said.content.strip() else None
    chat = read(value.get("messages")) or read(value.get("prompt"))
    history = next((found for key in _HISTORY_KEYS if (found := _history(value.get(key))) is not None), None)
    for key in _QUERY_KEYS:
        inner = value.get(key)
        asked = _request(inner, depth - 1) if inner else None
        if asked is not None:
            return asked if history is None else StatedQuestion(asked.query, history)
    if chat:
        return _of_chat(chat)
    texts = [text for text in value.values() if isinstance(text, str) and text.strip()]
    if len(texts) == 1 and len(value) == 1:
        return _request(texts[0], depth - 1)
    stated = set(_stated_within(value, _WITHIN))
    return StatedQuestion(stated.pop()) if len(stated) == 1 else None


def _stated_within(value: Mapping[str, Value], depth: int) -> Iterator[str]:
    """Find questions in the inputs of a pipeline's components: `{"data": {"prompt_builder": {"question": ...}}}`."""
    for inner in value.values():
        if isinstance(inner, Mapping) and depth > 0:
            yield from (
                text for key in ("question", "query") if isinstance(text := inner.get(key), str) and text.strip()
            )
            yield from _stated_within(inner, depth - 1)


def _of_chat(chat: Sequence[Message]) -> StatedQuestion | None:
    at = last_user(chat)
    return StatedQuestion(own_words(chat[at]), turns(chat[:at])) if at >= 0 else None


def _history(value: Value) -> tuple[Message, ...] | None:
    listed = values.elements(values.unfold(value))
    if listed is None:
        return None
    return turns(read(listed) or ()) if listed else ()


def _answer(value: Value, depth: int) -> str | None:
    value = values.unfold(value)
    if isinstance(value, str):
        if values.is_repr(value):
            said = from_repr(value)
            return _last_said([said]) if said else values.repr_field(value, "answer")
        return value if value.strip() and values.usable(value) and not values.broken(value) else None
    if depth <= 0 or not isinstance(value, (Mapping, list, tuple)):
        return None
    chat = read(value)
    if chat:
        return _last_said(chat)
    if isinstance(value, Mapping):
        found = (_answer(value[key], depth - 1) for key in _ANSWER_KEYS if value.get(key))
        return next((text for text in found if text is not None), None)
    return _answer(value[0], depth - 1) if value and isinstance(value[0], (Mapping, list, tuple)) else None


def _last_said(chat: Sequence[Message]) -> str | None:
    return next((m.content for m in reversed(chat) if m.role == "assistant" and m.content.strip()), None)
