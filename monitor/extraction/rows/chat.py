"""A conversation as one list of messages: its last question, what was said before, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.extraction import messages, values
from monitor.extraction.rows import fields
from monitor.extraction.rows.fields import Said
from monitor.model.case import Request
from monitor.model.span import Value


def read(given: Value) -> Said:
    """The last user turn is the question, the turns before it the history, the last assistant turn after it the answer.

    The context is that which this assistant turn carries.
    """
    unfolded = values.unfold(given)
    if isinstance(unfolded, Mapping):
        unfolded = values.unfold(unfolded.get("messages"))
    listed = unfolded[-values.MAX_ITEMS :] if isinstance(unfolded, (list, tuple)) else ()
    turns = [(said, item) for item in listed if (said := messages.read_one(item)) is not None]
    chat = [said for said, _ in turns]
    at = messages.last_user(chat)
    if at < 0:
        return Said()
    request = Request(chat[at].content, messages.turns(chat[:at]))
    for said, item in reversed(turns[at + 1 :]):
        if said.role == "assistant" and said.content.strip():
            carried = item.get("context") if isinstance(item, Mapping) else None
            return Said(request=request, response=said.content, documents=fields.context(carried))
    return Said(request=request)
