"""What tools return: documents, or one text into which the tool has written them."""

from __future__ import annotations

from monitor.content import documents, prompt
from monitor.model.case import Document
from monitor.model.span import Value


def of_tool(result: Value) -> tuple[Document, ...] | None:
    """What a tool found: as `documents.read_result`, but one bare text is taken apart at its marks.

    None where the result was not sent or is no text that could be evidence.
    """
    found = documents.read_result(result) if result is not None else None
    if found is None or len(found) != 1 or found[0] != Document(found[0].content):
        return found
    return tuple(Document(piece) for piece in prompt.blocks(found[0].content)) or found
