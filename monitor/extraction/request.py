"""Find the request in a trace: the model calls, the call that answered, the question, and the tokens used."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.extraction import evidence, messages, prompt
from monitor.extraction.forest import FieldSource, Forest, Node, mapped, saying
from monitor.extraction.template import PromptTemplate
from monitor.model.case import Message, Request, Usage

_NESTED: Final = 50
"""Maximum number of spans around an answer that are compared with the model's own words."""

_FED = 20
"""Minimum characters of an earlier answer in a later prompt that counts as passed on, not as a coincidence."""

_LOOK_BACK = 100
"""Maximum number of calls that are examined, counted back from the last."""

_NEAR = 20
"""Maximum number of spans above a call that are searched for the roles of its messages."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One model call. `node` is the span with the most detail, `outermost` the outermost span that wraps it."""

    node: Node
    outermost: Node
    messages: tuple[Message, ...]
    response: str | None
    model: str
    error: str

    @property
    def prompt(self) -> str:
        """The contents of all messages sent, one per line."""
        return "\n".join(message.content for message in self.messages)


class Answered(NamedTuple):
    """The answer to a request and its origin.

    `around` are the spans that enclose the answer, the outermost first; `last` is the model call that gave it;
    `response` is None if no answer was sent; `source` is the field that it was read from.
    """

    around: tuple[Node, ...]
    last: Call | None
    response: str | None
    source: FieldSource | None


class StatedRequest(NamedTuple):
    """The question with the turns before it, and the field that each was read from."""

    request: Request = Request()
    question: FieldSource | None = None
    history: FieldSource | None = None


def calls(forest: Forest) -> list[Call]:
    """Return all model calls in order of their start.

    If several layers are instrumented, one call appears as nested spans that each have a part of the detail. These
    spans count as one call. A span around several calls is not a call.
    """
    generations = list(forest.of_kind("generation"))
    inner = [one for one, after in itertools.pairwise([*generations, None]) if one and not (after and one.above(after))]
    firsts = [node.first for node in inner]
    around = {id(g): bisect_right(firsts, g.last) - bisect_left(firsts, g.first) for g in generations}
    enclosing: dict[int, Node | None] = {}  # the next generation above each node
    for node in forest.nodes:
        up = node.parent
        enclosing[node.first] = up if up is None or id(up) in around else enclosing[up.first]
    found = []
    for node in inner:
        chain, outer = [node], enclosing[node.first]
        while outer is not None and around[id(outer)] == 1:
            chain.append(outer)
            outer = enclosing[outer.first]
        found.append(_one(chain))
    return sorted(found, key=lambda call: (call.node.span.start_ns, call.node.first))


def answered(forest: Forest, found: Sequence[Call]) -> Answered:
    """Find the answer, the spans that enclose it, and the call in `found` that gave it."""
    configured = mapped(forest, "response")
    last = _final(found, None)
    around = _around(forest, last)
    source = configured or _answering(around, found)
    better = _final(found, source.text if source else None)
    if better is not last:
        last, around = better, _around(forest, better)
        source = configured or _answering(around, found)
    if source is not None:
        return Answered(around, last, source.text, source)
    if last is not None:
        return Answered(around, last, last.response, FieldSource(last.node, "response"))
    return Answered(around, None, None, None)


def asked(
    forest: Forest, found: Sequence[Call], request: Answered, limit: int, templates: Sequence[PromptTemplate]
) -> StatedRequest:
    """Read the user's own words and earlier turns from the outermost span that has them, else from the last prompt.

    `limit` is the number of characters at which the trace's texts were cut, 0 if they were not.
    """
    chat = FieldSource(request.last.node, "messages") if request.last else None
    stating = mapped(forest, "query") or _asking(request.around, found)
    if stating is not None and stating.node.seen is not None:
        query = stating.text if "query" in stating.node.seen.stated else unstuffed(stating.text, templates)
        before = mapped(forest, "history") or saying([stating.node], "history")
        if before is not None and before.node.seen is not None:
            history, chat = before.node.seen.history or (), before
        else:  # the prompt may continue after the question: with search results, with a critique of a first answer
            _, history = _sent(request.last, query, templates)
        return _asked(query, history, stating, chat)
    sent, history = _sent(request.last, "", templates)
    parts = prompt.split(sent, templates)
    stated = parts.question or "" if parts is not None else sent
    if stated and not (limit and len(sent) == limit):
        return _asked(stated, history, chat, chat)
    if request.response is None:
        return StatedRequest()
    # If the prompt was cut, the retriever's query cannot replace the question: it is often a rewritten one.
    for kind in ("request",) if limit else ("request", "retrieval"):
        asking = [FieldSource(node, "query") for node in forest.of_kind(kind) if node.seen and node.seen.query]
        if len({one.text for one in asking}) == 1:
            return _asked(asking[0].text, history, asking[0], chat)
    return StatedRequest()


def question(call: Call, templates: Sequence[PromptTemplate]) -> str:
    """Return the user's own words in the messages sent in one call; empty if there is no question."""
    at = last_user(call)
    return unstuffed(call.messages[at].content, templates) if at >= 0 else ""


def last_user(call: Call) -> int:
    """Return the index of the last user message with text in a call; -1 if there is none."""
    return messages.last_user(call.messages)


def _asked(
    query: str, history: tuple[Message, ...], source: FieldSource | None, before: FieldSource | None
) -> StatedRequest:
    return StatedRequest(Request(query, history), source, before if history else None)


def _sent(last: Call | None, question: str, templates: Sequence[PromptTemplate]) -> tuple[str, tuple[Message, ...]]:
    """Return the last user message sent to a model, or the one that contains `question`, and the turns before it."""
    if last is None:
        return "", ()
    sent, turns = _turns_before(last, question)
    users = (unstuffed(m.content, templates) if m.role == "user" else m.content for m in turns)
    return sent, tuple(Message(m.role, text) for m, text in zip(turns, users, strict=True))


def _answering(around: Sequence[Node], found: Sequence[Call]) -> FieldSource | None:
    """Return the outermost answer that agrees with a model's own words, or else the outermost: it may be edited."""
    answers = [FieldSource(node, "response") for node in around if node.seen and node.seen.response]
    said = _said(found)
    return next((one for one in answers[:_NESTED] if evidence.agree(one.text, said)), answers[0] if answers else None)


def _asking(around: Sequence[Node], found: Sequence[Call]) -> FieldSource | None:
    """Return the outermost question that was also sent to a model, or else the outermost."""
    questions = [FieldSource(node, "query") for node in around if node.seen and node.seen.query]
    sent = evidence.holding(_all_sent(found))
    return next((one for one in questions[:_NESTED] if sent(one.text)), questions[0] if questions else None)


def unstuffed(text: str, templates: Sequence[PromptTemplate]) -> str:
    """Return the question in a prompt that contains more; the text itself if the prompt has no clear marks."""
    parts = prompt.split(text, templates)
    return parts.question if parts is not None and parts.marked and parts.question else text


def _around(forest: Forest, last: Call | None) -> tuple[Node, ...]:
    if last is None:
        return tuple(forest.of_kind("request"))
    return tuple(node for node in last.outermost.ancestors() if node.seen is not None and node.seen.kind == "request")


def _one(chain: Sequence[Node]) -> Call:
    seen = [node.seen for node in chain if node.seen is not None]
    response = next((one.response for one in seen if one.response), None)
    if response is None:
        response = next((one.response for one in seen if one.response is not None), None)
    telling = max(chain, key=lambda n: (bool(n.seen and n.seen.messages), bool(n.seen and n.seen.response), n.depth))
    return Call(
        node=telling,
        outermost=chain[-1],
        messages=_with_roles(next((one.messages for one in seen if one.messages), ()), chain[-1]),
        response=response,
        model=next((one.model for one in seen if one.model), ""),
        error=next((one.error for one in seen if one.error), ""),
    )


def _with_roles(sent: tuple[Message, ...], outermost: Node) -> tuple[Message, ...]:
    """Add missing roles to messages if the next request around the call shows which message is the system's.

    The others alternate between user and assistant and end with the user. If that does not fit, they are left as sent.
    """
    if all(message.role for message in sent):
        return sent
    around = itertools.islice(_above(outermost), _NEAR)
    outer = next((n.seen.messages for n in around if n.seen and n.seen.kind == "request" and n.seen.messages), None)
    system = [message.content for message in outer or () if message.role == "system"]
    turns = [message for message in sent if message.content not in system]
    if outer is None or len(turns) % 2 == 0 or len(turns) + len(system) != len(sent):
        return sent
    roles = itertools.cycle(("user", "assistant"))
    return tuple(Message("system" if m.content in system else next(roles), m.content) for m in sent)


def _above(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _final(found: Sequence[Call], response: str | None) -> Call | None:
    """Return the last call whose text and the request's `response` overlap, else the last call with an answer."""
    said = evidence.folded(response) if response else ""
    if said:
        for call in reversed(found[-_LOOK_BACK:]):
            words = evidence.folded(call.response) if call.response else ""
            if words and (words in said or said in words):
                return call
    spoken = [call for call in found if call.response] or [call for call in found if call.messages] or found
    return spoken[-1] if spoken else None


def feeding(found: Sequence[Call], last: Call) -> list[Call]:
    """Return `last`, preceded by the calls that passed answers on to it: partial answers, summaries, earlier turns."""
    used = [last]
    at = found.index(last)
    earlier = found[max(0, at - _LOOK_BACK) : at]
    prompt = evidence.folded(last.prompt) if earlier else ""
    for call in reversed(earlier):
        words = evidence.folded(call.response) if call.response else ""
        if len(words) >= _FED and words in prompt:
            used.insert(0, call)
            prompt += " " + evidence.folded(call.prompt)
    return used


def _said(found: Sequence[Call]) -> list[str]:
    """Return the folded text of each model's answer."""
    answers = (evidence.folded(call.response) for call in found[-_LOOK_BACK:] if call.response)
    return [words for words in answers if words]


def _all_sent(found: Sequence[Call]) -> str:
    """Return the prompts of the last calls as one text."""
    return "\n".join(call.prompt for call in found[-_LOOK_BACK:])


def _turns_before(call: Call, question: str = "") -> tuple[str, tuple[Message, ...]]:
    """Return the last user message of a call as sent, or the one that contains `question`, and the turns before it."""
    users = [at for at, m in enumerate(call.messages) if m.role == "user" and m.content.strip()]
    if not users:
        return "", ()
    at = users[-1]
    if len(users) > 1 and (wanted := evidence.folded(question)):
        at = next((one for one in reversed(users) if wanted in evidence.folded(call.messages[one].content)), at)
    return messages.own_words(call.messages[at]), messages.turns(call.messages[:at])


def usage(forest: Forest) -> Usage:
    """Add up the tokens of all calls, each once: if a span and its descendants both count, use the larger sum."""
    sums: dict[int, tuple[Usage | None, Usage | None]] = {}
    for node in reversed(forest.nodes):
        calls_below, requests_below = _added([sums.pop(child.first) for child in node.children])
        seen = node.seen
        if seen is not None and seen.usage is not None and seen.kind == "generation":
            calls_below = _larger(seen.usage, calls_below)
        elif seen is not None and seen.usage is not None and seen.kind == "request":
            requests_below = _larger(seen.usage, requests_below)
        sums[node.first] = (calls_below, requests_below)
    of_calls, of_requests = _added([sums[top.first] for top in (*forest.roots, *forest.orphans)])
    counted = of_calls or of_requests or Usage()
    if counted.total_tokens is None and counted.input_tokens is not None and counted.output_tokens is not None:
        return Usage(counted.input_tokens, counted.output_tokens, counted.input_tokens + counted.output_tokens)
    return counted


def counted(forest: Forest) -> list[Node]:
    """Return the spans that report token counts."""
    return [node for node in forest.of_kind("generation", "request") if node.seen and node.seen.usage is not None]


def _added(pairs: Sequence[tuple[Usage | None, Usage | None]]) -> tuple[Usage | None, Usage | None]:
    """Add up the first of each pair, and the second."""
    return (_add([one for one, _ in pairs]), _add([one for _, one in pairs])) if pairs else (None, None)


def _add(several: Sequence[Usage | None]) -> Usage | None:
    counted = [one for one in several if one is not None]
    if not counted:
        return None
    return Usage(
        _sum([one.input_tokens for one in counted]),
        _sum([one.output_tokens for one in counted]),
        _sum([_total(one) for one in counted]),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    given = [number for number in numbers if number is not None]
    return sum(given) if given else None


def _total(one: Usage) -> int | None:
    return one.total_tokens if one.total_tokens is not None else _sum([one.input_tokens, one.output_tokens])


def _larger(own: Usage, below: Usage | None) -> Usage:
    return own if below is None or (_total(own) or 0) >= (_total(below) or 0) else below
