"""The fields in which DSPy writes prompts and answers: `[[ ## question ## ]]` on a line, then what it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from monitor.extraction import messages
from monitor.model.case import Message

START: Final = "[[ ## "
"""A text without this has no field."""

_MARK: Final = re.compile(r"^\[\[ ## (\w{1,80}) ## \]\][ \t]*\n?", re.MULTILINE)
_REQUEST: Final = "\nRespond with the corresponding output fields, starting with "
_AROUND: Final = ("reasoning", "rationale", "completed")


def split(text: str) -> dict[str, str]:
    """The fields of a text, in its order; empty where it has none. What stands before the first is left out."""
    marks = list(_MARK.finditer(text)) if START in text else []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)}


def answer(text: str) -> str:
    """The answer among the fields of a model's reply: the one of that name, else the only one; else all as it is."""
    found = {name: said for name, said in split(text).items() if name not in _AROUND}
    return found.get("answer") or (next(iter(found.values())) if len(found) == 1 else text)


def plain(chat: Sequence[Message]) -> tuple[Message, ...]:
    """The chat with bare words in place of fields. The last question keeps its own where it has several: a context."""
    asking = messages.last_user(chat)
    return tuple(_plain(message, last=at == asking) for at, message in enumerate(chat))


def _plain(message: Message, *, last: bool) -> Message:
    if message.role not in ("user", "assistant") or not split(message.content):
        return message
    if message.role == "assistant":
        return replace(message, content=answer(message.content))
    before, request, after = message.content.rpartition(_REQUEST)
    content = before.rstrip() if request and "\n" not in after.strip() else message.content
    found = split(content)
    if len(found) == 1:
        return replace(message, content=next(iter(found.values())))
    return replace(message, content=content if last else found.get("question", content))
