"""The documents of a request: candidates, then what a reranker or filter left of them, once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from monitor.content import evidence
from monitor.content.forest import Forest, Node
from monitor.model.case import Document

_LOOK_BACK: Final = 100
"""Stages before a reranking that it may have drawn on."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`took_place`: whether there was a retrieval; `known`: whether all that took place say what they found.

    `lost` is whether some of the documents were dropped from a span before it was sent.
    """

    documents: tuple[Document, ...] = ()
    took_place: bool = False
    known: bool = True
    lost: bool = False


@dataclass(slots=True)
class _Stage:
    """One retrieval, or the reranking (`reranked`) of some; `fresh` while what it reranked is not yet found."""

    documents: tuple[Document, ...] | None
    lost: bool = False
    reranked: bool = False
    fresh: bool = False


def retrieved(forest: Forest) -> Retrieved:
    """Merge all retrievals of a trace in order of their start. Nested ones are one: the outermost that tells."""
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


def stated(forest: Forest) -> Retrieved:
    """What the configuration says are the documents: it knows better than any dialect."""
    found = [node.seen.documents for node in forest.nodes if node.seen and "documents" in node.seen.stated]
    return Retrieved(evidence.merge([documents or () for documents in found]), bool(found))


def of_tools(forest: Forest) -> Retrieved:
    """What the tools of an agent returned, for requests whose retrieval is only a tool."""
    found = [node.seen.documents for node in forest.of_kind("tool") if node.seen and node.seen.documents is not None]
    return Retrieved(evidence.merge(found), bool(found))


def of_state(nodes: Sequence[Node]) -> Retrieved:
    """Documents in the state of the request itself, where no span is a retrieval: the innermost has the last."""
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
        return [_Stage(() if seen.error else None)]  # one that failed has handed nothing on
    inner = [document for stage in below for document in stage.documents or ()]
    lost = seen.documents_without_text > sum(not document.content for document in own)
    own = evidence.fill(own, inner)
    if seen.kind == "rerank":
        return [_Stage(own, lost, reranked=True, fresh=not below)]
    kept = [document for stage in below if stage.reranked for document in stage.documents or ()]
    if any(stage.reranked for stage in below) and not (own and evidence.within(own, kept)):
        return below  # the span shows its candidates; what the reranker inside left of them was handed on
    return [_Stage(own, lost)]


def _joined(lists: Sequence[list[_Stage]]) -> list[_Stage]:
    """The stages of siblings in one list. Only the first of a list can be fresh: others have found what they rerank."""
    told = [stages for stages in lists if stages]
    if len(told) == 1:
        return told[0]
    joined: list[_Stage] = []
    for stages in told:
        if stages[0].fresh and joined:
            joined = [*_rerank(joined, stages[0]), *stages[1:]]
        else:
            joined.extend(stages)
    return joined


def _rerank(before: list[_Stage], stage: _Stage) -> list[_Stage]:
    """Replace what `stage` has reranked: the open retrievals before it, and earlier results that it drew on."""
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
