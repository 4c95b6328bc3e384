"""What the model was given to answer from: documents that reached the prompt, from spans or out of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from monitor.content import calls, documents, evidence, prompt
from monitor.content.calls import Call
from monitor.content.forest import Forest
from monitor.content.request import Answered
from monitor.content.retrieved import Retrieved, of_state, of_tools, retrieved, stated
from monitor.content.template import Template
from monitor.model.case import ContextSource, Document, Message


class Context(NamedTuple):
    """The documents and where they came from.

    `finding`: `found`; `empty`, where a retrieval found nothing; `unsent`, where one took place and its texts did not
    come; `none`, where nothing suggests that there was one.
    """

    documents: tuple[Document, ...]
    source: ContextSource
    finding: Literal["found", "empty", "unsent", "none"]


def read(
    forest: Forest, found: Sequence[Call], answered: Answered, limit: int, templates: Sequence[Template] = ()
) -> Context:
    """The context of the answer, out of the calls in `found`, the spans around the answer, and all retrievals.

    `limit` is the number of characters at which the trace's texts were cut, 0 where they were not: what is missing from
    a prompt that was cut may have stood in it. `templates` are the service's own prompts.
    """
    last = answered.last
    mapped = stated(forest)
    if mapped.took_place and all(document.content for document in mapped.documents):
        return Context(mapped.documents, "spans", "found") if mapped.documents else Context((), "none", "empty")
    evident = mapped if mapped.took_place else retrieved(forest)
    if not evident.took_place:
        evident = of_tools(forest)
    if not evident.took_place:
        evident = of_state(answered.around)
    if evident.took_place and evident.known and not evident.documents:
        return Context((), "none", "empty")
    with_text = tuple(document for document in evident.documents if document.content)
    feeding = calls.feeding(found, last) if last else []
    whole = not any(limit and len(m.content) == limit for call in feeding for m in call.messages)
    if with_text and whole and evident.known and not evident.lost:
        in_prompt = evidence.reached(with_text, [call.prompt for call in feeding])
        if in_prompt:
            return Context(in_prompt, "spans", "found")
    told = _in_prompt(last, evident, templates) if last and (whole or not with_text) else None
    if told is not None:
        return told
    if with_text and evident.known and not evident.lost:
        return Context(with_text, "spans", "found")
    return Context((), "none", "unsent" if evident.took_place else "none")


def _in_prompt(last: Call, evident: Retrieved, templates: Sequence[Template]) -> Context | None:
    """The context that stands in the prompt itself; None where the prompt has no mark of one."""
    split = (prompt.split(m.content, templates, asks=m.role == "user") for m in _instructing(last))
    parts = [part for part in split if part is not None]
    if parts:
        blocks = [block for part in parts for block in part.blocks]
    else:
        results = [m.content for m in last.messages if m.role == "tool"]
        if not results:
            return None
        blocks = [text for text in results if not documents.says_none(text)]
    if not blocks:
        return Context((), "none", "empty")
    by_text = {evidence.folded(document.content): document for document in evident.documents if document.content}
    found = [by_text.get(evidence.folded(block), Document(block)) for block in blocks]
    if not by_text and len(evident.documents) == len(found):  # ids came without texts: they stand in the same order
        pairs = zip(found, evident.documents, strict=True)
        found = [Document(text.content, told.doc_uri, told.doc_id, told.score) for text, told in pairs]
    return Context(evidence.merge([found]), "prompt", "found")


def _instructing(call: Call) -> list[Message]:
    users = [m for m in call.messages if m.role == "user" and m.content.strip()]
    return [*(m for m in call.messages if m.role == "system"), *users[-1:]]
