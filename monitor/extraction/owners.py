"""Assigns each span of a trace with several requests to one of them, and divides the tokens that they share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from monitor.extraction import evidence
from monitor.extraction.forest import Forest, Node, number
from monitor.model.case import Usage
from monitor.stages import Observation

_NEAR: Final = 8
"""Number of steps that may be the owner of a retrieval."""

_WORK: Final = 50_000_000
"""Maximum characters that are searched for documents; beyond that, a retrieval belongs to the next answer."""

_AROUND: Final = 40
"""Maximum number of enclosing spans that a request takes facts from."""

_HEAD: Final = 200
"""Characters of a document that are searched for in a prompt."""


class ServingStep(NamedTuple):
    """A span that states question and answer, or one call of a model, and the number of its request, from 0.

    `question`, and `sent` (the instructions sent to the models within), are reduced to their words; `sent` has a space
    at both ends.
    """

    node: Node
    question: str
    sent: str
    request: int


class OwnSpans(NamedTuple):
    """The spans of one request, and its share of tokens that only a span around several requests counts."""

    forest: Forest
    usage: Usage | None


def divide(forest: Forest, steps: Sequence[ServingStep]) -> list[OwnSpans]:
    """Return the spans of each request, in order of its number. `steps` are the steps of all requests, by start."""
    owners = _owners(forest, steps)
    nodes: dict[int, list[Node]] = {}
    for node, owner in zip(forest.nodes, owners, strict=True):
        if owner is not None:
            nodes.setdefault(owner, []).append(node)
    shares = _shares(forest, owners)
    return [OwnSpans(_part(nodes[one]), shares.get(one)) for one in sorted(nodes)]


def _owners(forest: Forest, steps: Sequence[ServingStep]) -> list[int | None]:
    """Return the request that each span belongs to; None for spans that enclose several requests."""
    owner: list[int | None] = [None] * len(forest.nodes)
    several = [False] * len(forest.nodes)
    for step in steps:
        owner[step.node.first] = step.request
    for node in reversed(forest.nodes):
        parent = node.parent
        if parent is None or (owner[node.first] is None and not several[node.first]):
            continue
        above = owner[parent.first]
        if several[node.first] or (above is not None and above != owner[node.first]):
            owner[parent.first], several[parent.first] = None, True
        elif not several[parent.first]:
            owner[parent.first] = owner[node.first]
    search = _Search(steps)
    for node in forest.nodes:
        if owner[node.first] is None and not several[node.first]:
            above = owner[node.parent.first] if node.parent is not None else None
            owner[node.first] = above if above is not None else search.owner(node)
    return owner


def _shares(forest: Forest, owners: Sequence[int | None]) -> dict[int, Usage]:
    """Divide tokens that only a span around several requests counts: in equal parts, the first getting the remainder.

    If an inner span also counts tokens, each request has the tokens of its own spans.
    """
    counted = [node.seen is not None and node.seen.usage is not None for node in forest.nodes]
    below = list(counted)
    shares: dict[int, Usage] = {}
    for node in reversed(forest.nodes):
        within = any(below[child.first] for child in node.children)
        below[node.first] = counted[node.first] or within
        if not counted[node.first] or within or owners[node.first] is not None or node.seen is None:
            continue
        requests = sorted({one for one in owners[node.first : node.last + 1] if one is not None})
        for at, request in enumerate(requests):
            shares[request] = _share(node.seen.usage or Usage(), at, len(requests))
    return shares


def _share(whole: Usage, at: int, number: int) -> Usage:
    def part(count: int | None) -> int | None:
        return None if count is None else count // number + (at < count % number)

    of_input, of_output = part(whole.input_tokens), part(whole.output_tokens)
    if of_input is not None and of_output is not None:
        return Usage(of_input, of_output, of_input + of_output)
    return Usage(of_input, of_output, part(whole.total_tokens))


class _Search:
    """Finds the request that a span serves if it is beside several."""

    def __init__(self, steps: Sequence[ServingStep]) -> None:
        self._steps = steps
        self._starts = [step.node.span.start_ns for step in steps]
        self._by_place = sorted(steps, key=lambda step: step.node.first)
        self._places = [step.node.first for step in self._by_place]
        self._left = _WORK

    def owner(self, node: Node) -> int | None:
        """Return the next request that was asked the span's query or sent its documents, else simply the next."""
        inside = node.parent
        at = bisect_left(self._starts, node.span.start_ns)
        near = self._steps[at : at + _NEAR]
        if inside is not None:
            near = [step for step in near if inside.above(step.node)]
        if not near:
            near = self._beside(node)
        seen = node.seen
        query = evidence.folded(seen.query) if seen is not None and seen.query else ""
        for step in near:
            if query and query == step.question:
                return step.request
        texts = [one.content for one in islice(seen.documents or (), _NEAR) if one.content] if seen is not None else []
        heads = [head for text in texts if (head := evidence.folded(text[:_HEAD]))]
        for step in near if heads else ():
            self._left -= len(heads) * len(step.sent)
            if self._left > 0 and any(head in step.sent for head in heads):
                return step.request
        return near[0].request if near else None

    def _beside(self, node: Node) -> list[ServingStep]:
        """Return a step below the same parent, for a span that no step follows in time; at the top, the last step."""
        parent = node.parent
        if parent is None:
            return [self._steps[-1]]
        after = bisect_right(self._places, node.last)
        last = bisect_right(self._places, parent.last)
        return [self._by_place[after]] if after < last else [self._by_place[after - 1]] if after else []


def _part(nodes: Sequence[Node]) -> Forest:
    """Return the trees of one request, with the spans that enclose it and other requests."""
    copies: dict[int, Node] = {}
    tops = []
    for node in nodes:  # parents come before their children
        copy = copies[node.first] = Node(node.span, node.seen, node.records)
        parent = copies.get(node.parent.first) if node.parent is not None else None
        if parent is None:
            tops.append(copy)
        else:
            copy.parent = parent
            parent.children.append(copy)
    around = [node for node in nodes[0].ancestors() if node.first not in copies]
    enclosing = tuple(Node(node.span, _without_texts(node.seen), ()) for node in around[:_AROUND])
    return Forest(tuple(number(tops)), tuple(tops), (), enclosing=enclosing, one_of_several=True)


def _without_texts(seen: Observation | None) -> Observation | None:
    """Return the facts of an enclosing span that apply to all its requests: no texts, tokens or errors."""
    if seen is None:
        return None
    return Observation(
        kind="other",
        convention=seen.convention,
        span=seen.span,
        model=seen.model,
        session_id=seen.session_id,
        user_id=seen.user_id,
        attributes=seen.attributes,
        stated=seen.stated & {"model", "session_id", "user_id"},
    )
