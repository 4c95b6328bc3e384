"""Find the context of an answer: the documents that reached the prompt, taken from spans or from the prompt itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from monitor.extraction import documents, evidence, prompt
from monitor.extraction.forest import Forest, Node
from monitor.extraction.messages import MessageWithSources
from monitor.extraction.request import Answered, Call, feeding
from monitor.extraction.template import PromptTemplate
from monitor.model.case import ContextSource, ContextStatus, Document, DocumentKind, Message

_MOST_BESIDE: Final = 200
"""Maximum number of tool results and attachments besides the retrieved documents."""

_LOOK_BACK: Final = 100
"""Maximum number of earlier stages that a reranking may have drawn on."""


class Context(NamedTuple):
    """The documents, where they were read, and how they came about. With `not_recorded` some or all have no text."""

    documents: tuple[Document, ...]
    source: ContextSource
    status: ContextStatus


_NOTHING: Final = Context((), "none", ContextStatus.RETRIEVED_NOTHING)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The documents of all retrievals of a trace.

    `took_place` is true if there was a retrieval, `known` if every retrieval reports its results, `lost` if documents
    were dropped from a span before it was sent.
    """

    documents: tuple[Document, ...] = ()
    took_place: bool = False
    known: bool = True
    lost: bool = False


@dataclass(slots=True)
class _Stage:
    """One retrieval, or a reranking (`reranked`); `fresh` until the retrievals that it reranked are found."""

    documents: tuple[Document, ...] | None
    lost: bool = False
    reranked: bool = False
    fresh: bool = False


def read(
    forest: Forest, found: Sequence[Call], answered: Answered, limit: int, templates: Sequence[PromptTemplate] = ()
) -> Context:
    """Find the context of the answer from the calls in `found`, the spans around the answer, and all retrievals.

    `limit` is the number of characters at which the trace's texts were cut, 0 if they were not: a document missing from
    a cut prompt may have been in it, and claims from the lost part of a cut document would look unsupported.
    `templates` are the service's own prompts.
    """
    used = feeding(found, answered.last) if answered.last else []
    given = _read(forest, used, answered, limit, templates)
    beside = _beside(forest, used)
    more = evidence.beyond(beside, (*given.documents, *_written_in_tools(found))) if beside else ()
    if more:
        unknown = given.status is ContextStatus.NOT_RECORDED
        status = ContextStatus.NOT_RECORDED if unknown else ContextStatus.RETRIEVED
        given = Context((*given.documents, *more), given.source if given.documents else "spans", status)
    texts = [document.content for document in given.documents]
    if given.source == "prompt" and answered.last is not None:
        texts += [message.content for message in answered.last.messages]
    cut = limit and any(len(text) == limit for text in texts)
    return given._replace(status=ContextStatus.NOT_RECORDED) if cut else given


def _read(
    forest: Forest, used: Sequence[Call], answered: Answered, limit: int, templates: Sequence[PromptTemplate]
) -> Context:
    mapped = _stated(forest)
    if mapped.documents and all(document.content for document in mapped.documents):
        return _found(mapped.documents)
    evident = mapped if mapped.took_place else _evident(forest, answered)
    if evident.took_place and evident.known and not evident.documents:
        return _NOTHING
    last = answered.last
    with_text = tuple(document for document in evident.documents if document.content)
    whole = not any(limit and len(m.content) == limit for call in used for m in call.messages)
    trusted = with_text if evident.known and not evident.lost else ()
    in_prompt = evidence.reached(trusted, [call.prompt for call in used]) if whole else ()
    if not in_prompt or len(with_text) < len(evident.documents):  # the prompt may have texts that no span has
        marked = _in_prompt(last, evident, templates) if last and (whole or not with_text) else None
        if marked is not None and (not in_prompt or len(marked.documents) > len(in_prompt)):
            return marked
    return _found(in_prompt or trusted) if trusted else _unread(evident)


def _evident(forest: Forest, answered: Answered) -> Retrieved:
    """Return the documents from retrieval spans, else from tool spans, else from the state of a request."""
    evident = _retrieved(forest)
    if not evident.took_place:
        evident = _of_tools(forest)
    if not evident.took_place:
        evident = _of_state(answered.around)
    return evident


def _unread(evident: Retrieved) -> Context:
    """Return the context if none of its texts arrived."""
    if not evident.took_place:
        return Context((), "none", ContextStatus.NO_RETRIEVAL)
    return Context(evident.documents, "spans" if evident.documents else "none", ContextStatus.NOT_RECORDED)


def _found(found: tuple[Document, ...]) -> Context:
    return Context(found, "spans", ContextStatus.RETRIEVED)


def _beside(forest: Forest, used: Sequence[Call]) -> list[Document]:
    """Return the sources that the model was given besides retrieved documents: results of tools and attached texts.

    A tool's result counts if it is in a prompt, or if no prompt is known.
    """
    found: list[Document] = []
    for message in (one for call in used for one in call.messages):
        if message.role == "tool":
            found += _results(message.content)
        elif isinstance(message, MessageWithSources):
            for source in message.sources:
                found += _results(source.content) if source.kind == "tool_result" else (source,)
    of_spans = _of_tools(forest).documents
    known = any(call.messages for call in used)
    found += evidence.reached(of_spans, [call.prompt for call in used]) if known else of_spans
    return found[:_MOST_BESIDE]


def _written_in_tools(found: Sequence[Call]) -> Iterator[Document]:
    """Yield texts that models wrote within tools: an answer passed on by a tool is not a source of another answer."""
    for call in found[-_LOOK_BACK:]:
        if call.response and any(node.seen and node.seen.kind == "tool" for node in call.outermost.ancestors()):
            yield Document(call.response)


def _results(text: str) -> tuple[Document, ...]:
    found = prompt.of_tool(text)
    return _by_tool((Document(text),) if found is None and text.strip() else found or ())


def _by_tool(found: Sequence[Document]) -> tuple[Document, ...]:
    return tuple(replace(one, kind="tool_result") for one in found)


def _in_prompt(last: Call, evident: Retrieved, templates: Sequence[PromptTemplate]) -> Context | None:
    """Return the context found in the prompt itself; None if the prompt does not mark one."""
    kind: DocumentKind = "document"
    split = (prompt.split(m.content, templates, asks=m.role == "user") for m in _instructing(last))
    parts = [part for part in split if part is not None]
    if parts:
        blocks = [block for part in parts for block in part.blocks]
    else:
        results = [m.content for m in last.messages if m.role == "tool"]
        if not results:
            return None
        blocks = [text for text in results if not documents.says_none(text)]
        kind = "tool_result"
    if not blocks:
        return _NOTHING
    by_text = {evidence.folded(document.content): document for document in evident.documents if document.content}
    found = [by_text.get(evidence.folded(block), Document(block, kind=kind)) for block in blocks]
    if len(evident.documents) == len(found):  # ids were sent without texts, in the same order
        pairs = list(zip(found, evident.documents, strict=True))
        if all(text is stated or not stated.content for text, stated in pairs):
            found = [replace(stated, content=text.content) for text, stated in pairs]
    return Context(evidence.merge([found]), "prompt", ContextStatus.RETRIEVED)


def _instructing(call: Call) -> list[Message]:
    users = [m for m in call.messages if m.role == "user" and m.content.strip()]
    return [*(m for m in call.messages if m.role == "system"), *users[-1:]]


def _retrieved(forest: Forest) -> Retrieved:
    """Merge all retrievals of a trace in order of their start. Of nested ones, the outermost with documents counts."""
    stages: dict[int, list[_Stage]] = {}
    for node in reversed(forest.nodes):
        stages[node.first] = _at(node, _joined([stages.pop(child.first) for child in node.children]))
    found = _joined([stages[top.first] for top in (*forest.roots, *forest.orphans)])
    return Retrieved(
        documents=evidence.merge([stage.documents or () for stage in found]),
        took_place=bool(found),
        known=all(stage.documents is not None for stage in found),
        lost=any(stage.lost for stage in found),
    )


def _stated(forest: Forest) -> Retrieved:
    """Return the documents mapped by the configuration, which takes precedence over every convention."""
    found = [node.seen.documents for node in forest.nodes if node.seen and "documents" in node.seen.stated]
    return Retrieved(evidence.merge([documents or () for documents in found]), bool(found))


def _of_tools(forest: Forest) -> Retrieved:
    """Return the results of an agent's tools, for requests that retrieve only through tools."""
    found = [node.seen.documents for node in forest.of_kind("tool") if node.seen and node.seen.documents is not None]
    return Retrieved(_by_tool(evidence.merge(found)), bool(found))


def _of_state(nodes: Sequence[Node]) -> Retrieved:
    """Return the documents in the state of the innermost request span, for traces without a retrieval span."""
    for node in reversed(nodes):
        if node.seen is not None and node.seen.kind == "request" and node.seen.documents is not None:
            return Retrieved(evidence.merge([node.seen.documents]), took_place=True)
    return Retrieved()


def _at(node: Node, below: list[_Stage]) -> list[_Stage]:
    seen = node.seen
    if seen is None or seen.kind not in ("retrieval", "rerank"):
        return below
    own = seen.documents
    if own is None:
        if below or seen.kind != "retrieval":
            return below
        return [_Stage(() if seen.error else None)]  # a failed retrieval passed nothing on
    inner = [document for stage in below for document in stage.documents or ()]
    lost = seen.documents_without_text > sum(not document.content for document in own)
    own = evidence.fill(own, inner)
    if seen.kind == "rerank":
        return [_Stage(own, lost, reranked=True, fresh=not below)]
    kept = [document for stage in below if stage.reranked for document in stage.documents or ()]
    if any(stage.reranked for stage in below) and not (own and evidence.within(own, kept)):
        return below  # the span shows its candidates; only those that the inner reranker kept were passed on
    return [_Stage(own, lost)]


def _joined(lists: Sequence[list[_Stage]]) -> list[_Stage]:
    """Join the stages of siblings. Only the first of a list can be fresh: later ones have found what they rerank."""
    filled = [stages for stages in lists if stages]
    if len(filled) == 1:
        return filled[0]
    joined: list[_Stage] = []
    for stages in filled:
        if stages[0].fresh and joined:
            joined = [*_rerank(joined, stages[0]), *stages[1:]]
        else:
            joined.extend(stages)
    return joined


def _rerank(before: list[_Stage], stage: _Stage) -> list[_Stage]:
    """Replace the stages that `stage` reranked: retrievals before it not yet reranked, and earlier results it used."""
    older, before = before[:-_LOOK_BACK], before[-_LOOK_BACK:]
    open_ones = [one for one in before if not one.reranked]
    documents = stage.documents or ()
    candidates = [document for one in before for document in one.documents or ()]
    given = [document for one in open_ones for document in one.documents or ()]
    is_given = evidence.sharing(given)
    drawn_on = [d for d in documents if not is_given([d])] if open_ones else documents
    consumed = {id(one) for one in open_ones}
    if drawn_on:
        is_drawn_on = evidence.sharing(drawn_on)
        consumed |= {id(one) for one in before if is_drawn_on(one.documents or ())}
    elif not open_ones and not documents:
        consumed.add(id(before[-1]))
    kept = [one for one in before if id(one) not in consumed]
    return [*older, *kept, _Stage(evidence.fill(documents, candidates), stage.lost, reranked=True)]
