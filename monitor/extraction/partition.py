"""Divides a trace into its requests: which spans belong to which question and answer.

A trace is one request, unless it holds answers to different questions. Two spans that each state a question and its
answer are two requests, and so are two calls of a model in a flat trace. They are one request if one of them serves the
other: it rewrites the question, plans, grades, summarises, tries again, or works as a tool. They are also one request
if a span around them itself states question and answer.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal, NamedTuple

from monitor.extraction import evidence, owners, request, values
from monitor.extraction.forest import Forest, Node
from monitor.extraction.request import Call
from monitor.extraction.template import PromptTemplate
from monitor.model.case import Usage
from monitor.stages import Observation

MAX_REQUESTS: Final = 200
"""Maximum number of requests read from one trace; further requests are only counted."""

_SUPPLY: Final = ("retrieval", "rerank", "tool", "embedding")
"""Anything inside these spans serves the request around them, even if it is a whole request in itself."""

_WINDOW: Final = 20
"""Earlier steps that a step is compared with."""

_TELLING: Final = 12
"""Minimum characters of a question that is in a prompt by more than coincidence."""

_FED: Final = 20
"""The same for an answer."""

_WRAPPERS: Final = 20
"""Maximum number of spans checked for texts of a transport, such as `200 OK`; texts of further spans are trusted."""

_AROUND: Final = 40
"""Maximum number of spans above a span that are searched for a request."""

_HEAD: Final = 200
"""Characters of a document that are searched for in a prompt."""

_VERDICTS: Final = re.compile(
    r"yes|no|true|false|pass|passed|fail|failed|ok|okay|correct|incorrect|supported|unsupported|grounded|ungrounded"
    r"|relevant|irrelevant|safe|unsafe|accept|accepted|reject|rejected|valid|invalid|good|bad|not|fully|partially"
    r"|ja|nein|oui|non|si|sí|是|否|\d+"
)
"""Words that a check's reply consists of. The answer to a yes-or-no question consists of the same words."""

_REASONS: Final = frozenset(
    ("explanation", "reason", "reasoning", "rationale", "justification", "feedback", "comment", "evidence")
)
"""Keys of a check's reply that hold its reasons."""

_LONGEST_VERDICT: Final = 3
"""Maximum number of words in a verdict."""

_YES_OR_NO: Final = re.compile(
    r"(is|are|was|were|am|do|does|did|can|could|will|would|shall|should|has|have|had|may|might|must)\b"
)
"""The beginning of a yes-or-no question."""


class RequestPart(NamedTuple):
    """One request of several: its spans, and the id of the span that it is named after.

    `aside` are the ids of spans that answered something else about the request after its answer, such as its title.
    `usage` is its share of tokens that only a span around several requests counts.
    """

    forest: Forest
    span_id: str
    aside: frozenset[str] = frozenset()
    usage: Usage | None = None


class DividedTrace(NamedTuple):
    """The requests of a trace, oldest first. If it has only one, `parts` is empty and `aside` names its spans aside.

    `left_out` counts requests beyond the limit.
    """

    parts: tuple[RequestPart, ...] = ()
    left_out: int = 0
    aside: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class _Step:
    """A request span that states question and answer (`stated`), or one call of a model. Texts are reduced to words.

    `sent` has the instructions sent to the models within, without earlier turns and with a space at both ends; `before`
    maps each answer in the history to the user's turn before it. `within` is the unfinished request that it is a part
    of. `verdict`: the answer reads like the reply of a check, such as `yes` or a score.
    """

    node: Node
    stated: bool
    question: str
    answer: str
    failed: bool
    verdict: bool = False
    sent: str = ""
    before: dict[str, str] = field(default_factory=dict)
    within: Node | None = None
    group: _Group | None = None

    @property
    def ends(self) -> bool:
        """Whether a question was answered here, or failed because of an error."""
        return bool(self.question) and (self.failed or bool(self.answer))


class _StepPlace(NamedTuple):
    """The place of a step: a request span that states question and answer or, if `stating` is None, a model's call.

    `within` is the unfinished request that it is a part of.
    """

    node: Node
    stating: Observation | None
    within: Node | None


@dataclass(slots=True, eq=False)
class _Group:
    """Steps that make up one request, in order of their start."""

    steps: list[_Step]

    @property
    def named_after(self) -> Node:
        """The last span that states the request, else the last call."""
        aside = self.aside
        steps = [step for step in self.steps if step.node.span.span_id not in aside]
        stated = [step for step in steps if step.stated] or [step for step in self.steps if step.stated]
        return (stated or [step for step in steps if step.ends] or self.steps)[-1].node

    @property
    def aside(self) -> frozenset[str]:
        """The spans of steps after the answer that only ask about the question, or check the answer."""
        ends = [step for step in self.steps if step.ends][-_WINDOW:]
        found = []
        while len(ends) > 1 and any(_is_about(ends[-1], other) or _is_check(ends[-1], other) for other in ends[:-1]):
            found.append(ends.pop().node.span.span_id)
        return frozenset(found)


def _is_about(step: _Step, other: _Step) -> bool:
    """Return whether a step only asks something about another step's question, such as a title for it."""
    asks = len(other.question) >= _TELLING and step.question != other.question
    return asks and f" {other.question} " in f" {step.question} " and f" {other.answer} " not in step.sent


def _is_check(step: _Step, other: _Step) -> bool:
    """Return whether a step was sent the question and the answer of another, and replied with a verdict on them."""
    if not step.verdict or other.verdict or _YES_OR_NO.match(other.question):
        return False
    whole = bool(other.answer) and len(other.question) >= _TELLING
    return whole and f" {other.question} " in step.sent and f" {other.answer} " in step.sent


def _is_verdict(reply: str) -> bool:
    """Return whether a reply is a verdict: a few words such as `yes`, a number, or JSON of these with reasons."""
    unfolded = values.unfold(reply)
    if isinstance(unfolded, Mapping):
        said = [value for key, value in unfolded.items() if str(key).casefold() not in _REASONS]
        return bool(said) and all(isinstance(one, bool | int | float) or _is_short_verdict(one) for one in said)
    return _is_short_verdict(reply)


def _is_short_verdict(text: object) -> bool:
    words = evidence.folded(text[:_HEAD]).split() if isinstance(text, str) else []
    return 0 < len(words) <= _LONGEST_VERDICT and all(map(_VERDICTS.fullmatch, words))


def divide(forest: Forest, found: Sequence[Call], templates: Sequence[PromptTemplate] = ()) -> DividedTrace:
    """Divide a complete trace with the calls `found` into its requests."""
    texts = _Texts(found, templates)
    places = list(_places(forest, texts))
    if len(places) < 2:  # noqa: PLR2004 - a single step has nothing to be compared with, so its texts are not read
        return DividedTrace()
    steps = sorted(
        (_at(place, texts) for place in places), key=lambda step: (step.node.span.start_ns, step.node.span.span_id)
    )
    _dissolve(steps)
    groups = _grouped(steps)
    if len(groups) < 2:  # noqa: PLR2004 - one request, or none
        return DividedTrace(aside=groups[0].aside if groups else frozenset())
    numbers = {id(group): number for number, group in enumerate(groups)}
    served = [owners.ServingStep(one.node, one.question, one.sent, numbers[id(one.group)]) for one in steps]
    divided = owners.divide(forest, served)[:MAX_REQUESTS]
    parts = [
        RequestPart(part.forest, group.named_after.span.span_id, group.aside, part.usage)
        for part, group in zip(divided, groups, strict=False)
    ]
    return DividedTrace(tuple(parts), len(groups) - len(parts))


# -- steps


def _places(forest: Forest, texts: _Texts) -> Iterator[_StepPlace]:
    """Yield the outermost spans that answer something, in each tree from the root downwards."""
    within: list[Node] = []  # the unfinished requests around the current node
    doubted, at = 0, 0
    while at < len(forest.nodes):
        node = forest.nodes[at]
        while within and not within[-1].above(node):
            within.pop()
        seen = node.seen
        at += 1
        if seen is None:
            continue
        if seen.kind in _SUPPLY:
            at = node.last + 1
        elif seen.kind == "generation":
            yield _StepPlace(node, None, within[0] if within else None)
            at = node.last + 1
        elif seen.kind == "request" and (seen.query or seen.response):
            doubted += 1
            states = _states(forest, node, seen, texts, doubt=doubted <= _WRAPPERS)
            if states == "part":
                within.append(node)
            elif states == "whole":
                at = node.last + 1
                if not _is_helper(node, texts):
                    yield _StepPlace(node, seen, within[0] if within else None)


def _at(place: _StepPlace, texts: _Texts) -> _Step:
    if place.stating is None:
        return _of_calls(place.node, texts, place.within)
    return _of_request(place.node, place.stating, texts, place.within)


def _states(
    forest: Forest, node: Node, seen: Observation, texts: _Texts, *, doubt: bool
) -> Literal["whole", "part", "nothing"]:
    """Return whether a request span states a question and its answer, only one of them, or words of a transport.

    Without `doubt`, the texts of the span are trusted.
    """
    if doubt and not texts.are_of(node, seen):
        return "nothing"
    if not (seen.query and (seen.response or seen.error)):
        return "part"
    return "nothing" if doubt and _holds_several(forest, node, texts) else "whole"


class _Texts:
    """The texts that models were sent and returned, by the place of the call in the forest."""

    def __init__(self, found: Sequence[Call], templates: Sequence[PromptTemplate]) -> None:
        self._calls = sorted(found, key=lambda call: call.node.first)
        self._places = [call.node.first for call in self._calls]
        self._templates = templates
        self._said: dict[int, str] = {}

    def within(self, node: Node) -> Sequence[Call]:
        """Return the calls in a subtree, in the order of its nodes."""
        return self._calls[bisect_left(self._places, node.first) : bisect_right(self._places, node.last)]

    def said(self, call: Call) -> str:
        """Return the answer of a call, reduced to its words."""
        known = self._said.get(call.node.first)
        if known is None:
            known = self._said[call.node.first] = evidence.folded(call.response) if call.response else ""
        return known

    def question(self, call: Call) -> str:
        """Return the question of a call, reduced to its words."""
        return evidence.folded(request.question(call, self._templates))

    def unstuffed(self, query: str) -> str:
        """Return the user's own words in a question that a span states."""
        return request.unstuffed(query, self._templates)

    def are_of(self, node: Node, seen: Observation) -> bool:
        """Return whether a model within `node` was sent or returned its texts; True if no model's texts were sent."""
        calls = self.within(node)[-_WINDOW:]
        said = [words for call in calls if (words := self.said(call))]
        if seen.response and said and evidence.agree(seen.response, said):
            return True
        sent = "\n".join(call.prompt for call in calls)
        if seen.query and sent and evidence.holding(sent)(seen.query):
            return True
        return not said and not sent


def _is_helper(node: Node, texts: _Texts) -> bool:
    """Return whether a step of a request states texts without any model call in it: a parser, a formatter."""
    if texts.within(node):
        return False
    parent = node.parent
    for _ in range(_AROUND):
        if parent is None:
            return False
        if parent.seen is not None and parent.seen.kind == "request":
            return True
        parent = parent.parent
    return False


def _holds_several(forest: Forest, node: Node, texts: _Texts) -> bool:
    """Return whether a span encloses a batch: it states the question of one inner request and the answer of another.

    Or it records lists of objects whose first elements were taken for its question and answer.
    """
    if len(texts.within(node)) < 2 or node.seen is None:  # noqa: PLR2004 - two answers need two calls
        return False
    if _records_lists(node, node.seen):
        return True
    outer = _of_request(node, node.seen, texts, None)
    inner = list(islice(_stated(forest, node, texts), _WINDOW))
    first = next((one for one in inner if one.question == outer.question), None)
    last = next((one for one in reversed(inner) if one.answer == outer.answer), None)
    if first is None or last is None or any(_same(one, outer) for one in inner):
        return False
    return not _are_related(first, last)


def _records_lists(node: Node, seen: Observation) -> bool:
    """Return whether a span records two lists of equal length with its question and answer only in the first items."""
    lengths = dict[str, int]()
    for value in node.span.attributes.values():
        if not isinstance(value, str) or not value.lstrip().startswith("["):
            continue
        listed = values.elements(values.unfold(value))
        if listed is None or len(listed) < 2 or not all(isinstance(one, Mapping) for one in listed):  # noqa: PLR2004
            continue
        first, others = (f" {evidence.folded(repr(part))} " for part in (listed[0], listed[1:]))
        for name, text in (("question", seen.query), ("answer", seen.response)):
            words = f" {evidence.folded(repr(text))} " if text else ""
            if words and words in first and words not in others:
                lengths.setdefault(name, len(listed))
    return len(lengths) == 2 and len(set(lengths.values())) == 1  # noqa: PLR2004 - of both, as many


def _same(one: _Step, other: _Step) -> bool:
    return one.question == other.question and one.answer == other.answer


def _stated(forest: Forest, node: Node, texts: _Texts) -> Iterator[_Step]:
    """Yield the outermost spans below `node` that state question and answer, with a call of a model."""
    at = node.first + 1
    while at <= node.last:
        below = forest.nodes[at]
        seen = below.seen
        at += 1
        if seen is not None and seen.kind in _SUPPLY:
            at = below.last + 1
        elif seen is not None and seen.kind == "request" and seen.query and seen.response and texts.within(below):
            yield _of_request(below, seen, texts, None)
            at = below.last + 1


def _of_request(node: Node, seen: Observation, texts: _Texts, within: Node | None) -> _Step:
    step = _Step(
        node,
        stated=True,
        question=evidence.folded(texts.unstuffed(seen.query or "")),
        answer=evidence.folded(seen.response or ""),
        failed=not seen.response,
        verdict=_is_verdict(seen.response or ""),
        within=within,
    )
    earlier = [(turn.role, turn.content) for turn in seen.history or ()]
    _take(step, texts.within(node)[-_WINDOW:], earlier)
    return step


def _of_calls(node: Node, texts: _Texts, within: Node | None) -> _Step:
    calls = texts.within(node)
    asking = next((call for call in reversed(calls) if call.messages), None)
    answering = next((call for call in reversed(calls) if texts.said(call)), None)
    answer = texts.said(answering) if answering is not None else ""
    step = _Step(
        node,
        stated=False,
        question=texts.question(asking) if asking is not None else "",
        answer=answer,
        failed=not answer and any(call.error for call in calls),
        verdict=answering is not None and _is_verdict(answering.response or ""),
        within=within,
    )
    _take(step, calls[-_WINDOW:], ())
    return step


def _take(step: _Step, calls: Iterable[Call], earlier: Iterable[tuple[str, str]]) -> None:
    """Record what the models of a step were sent: earlier turns separate from the rest."""
    sent: list[str] = []
    turns = list(earlier)
    for call in calls:
        last = request.last_user(call)
        for at, message in enumerate(call.messages):
            if message.role in ("user", "assistant") and at < last:
                turns.append((message.role, message.content))
            elif message.role != "assistant":
                sent.append(message.content)
    step.sent = f" {evidence.folded(chr(10).join(sent))} "
    asked = ""
    for role, content in turns:
        if role == "user":
            asked = evidence.folded(content)
        elif words := evidence.folded(content):
            step.before[words] = asked


# -- which steps are one request


def _grouped(steps: Sequence[_Step]) -> list[_Group]:
    """Return the requests that the steps make up, in order of their start."""
    for at, step in enumerate(steps):
        earlier = steps[max(0, at - _WINDOW) : at]
        for other in reversed(earlier):
            if (step.group is None or step.group is not other.group) and _are_one(other, step):
                _join(other, step)
        if step.group is None:
            step.group = _Group([step])
    for at, step in enumerate(steps):  # a call without a text has asked for a tool: the next call continues it
        if step.group is not None and not any(one.ends for one in step.group.steps):
            neighbour = steps[at + 1] if at + 1 < len(steps) else steps[at - 1] if at else step
            _join(step, neighbour)
    found = {id(step.group): step.group for step in steps if step.group is not None}
    groups = list(found.values())
    for group in groups:
        group.steps.sort(key=lambda step: (step.node.span.start_ns, step.node.span.span_id))
    return sorted(groups, key=lambda one: (one.steps[0].node.span.start_ns, one.steps[0].node.span.span_id))


def _join(one: _Step, other: _Step) -> None:
    first, second = one.group, other.group
    if first is second and first is not None:
        return
    if first is None:
        first = one.group = _Group([one])
    if second is None:
        other.group = first
        first.steps.append(other)
        return
    if len(first.steps) < len(second.steps):
        first, second = second, first
    for step in second.steps:
        step.group = first
    first.steps += second.steps


def _dissolve(steps: Sequence[_Step]) -> None:
    """Take steps out of an unfinished request that states only the first of several questions, as a batch does."""
    inside: dict[int, list[_Step]] = {}
    for step in steps:
        if step.within is not None:
            inside.setdefault(step.within.first, []).append(step)
    for theirs in inside.values():
        around = theirs[0].within
        asked = evidence.folded(around.seen.query) if around is not None and around.seen and around.seen.query else ""
        stated = [step for step in theirs if step.stated][:_WINDOW]
        first = next((step for step in stated if step.question == asked), None)
        if first is not None and any(not _are_related(first, one) for one in stated if one is not first):
            for step in theirs:
                step.within = None


def _are_one(earlier: _Step, later: _Step) -> bool:
    """Return whether two steps serve the same request."""
    if earlier.within is later.within and later.within is not None:
        return not (earlier.stated and later.stated and _follows(earlier, later))
    return _are_related(earlier, later)


def _are_related(earlier: _Step, later: _Step) -> bool:
    """Return whether the texts of two steps show that they serve the same request."""
    if _follows(earlier, later):
        return False
    question, answer = later.question, earlier.answer
    if question and question == earlier.question:
        return True
    if answer and (answer == question or (len(question) >= _FED and f" {question} " in f" {answer} ")):
        return True  # the question was rewritten, or planned
    if len(question) >= _TELLING and f" {question} " in earlier.sent:
        return True
    if len(earlier.question) >= _TELLING and f" {earlier.question} " in f" {later.question} ":
        return True  # what is it called, is it harmful
    both = earlier.stated and later.stated
    asked_before = len(earlier.question) >= _TELLING and f" {earlier.question} " in later.sent
    own = answer not in earlier.sent  # else both may quote the same document
    fed = len(answer) >= _FED and own and (f" {answer} " in later.sent or f" {answer} " in f" {question} ")
    return fed and not (both and asked_before) if both else fed or asked_before


def _follows(earlier: _Step, later: _Step) -> bool:
    """Return whether `later` continues a conversation in which `earlier` is a turn."""
    asked = later.before.get(earlier.answer) if earlier.answer and earlier.question else None
    return asked is not None and earlier.question in asked
