"""The readers of texts by name, and the texts that all of them read as plain text."""

from __future__ import annotations

from collections.abc import Callable

from monitor.extraction import documents, evidence, messages, prompt, values
from monitor.extraction.template import PromptTemplate

TEMPLATE = PromptTemplate.parse("Given these:\n{context}\nand the talk {talk}\nanswer {question} now")
READERS: dict[str, Callable[[str], object]] = {
    "split": prompt.split,
    "blocks": prompt.blocks,
    "read": documents.read,
    "read_result": documents.read_result,
    "of_tool": prompt.of_tool,
    "messages": messages.read,
    "text_of": messages.text_of,
    "request": messages.read_request,
    "answer": messages.read_answer,
    "unfold_cut": values.unfold_cut,
    "repr_field": lambda text: values.repr_field(text, "text|content"),
    "folded": evidence.folded,
    "template": TEMPLATE.invert,
}


def is_plain(text: str) -> bool:
    """Return whether every reader reads a text as plain text: no structure, repr, redaction or truncation."""
    return (
        bool(text.strip())
        and isinstance(values.unfold(text), str)
        and values.unfold(text) == text
        and values.usable(text)
        and not values.is_repr(text)
        and not values.broken(text)
    )
