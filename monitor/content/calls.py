"""The calls of a model in a trace: wrappers and what they wrap made one, and tokens counted once."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.content import evidence, messages
from monitor.content.forest import Forest, Node
from monitor.model.case import Message, Usage

_FED = 20
"""Characters from which on an earlier answer found in a later prompt is taken for handed on, not for chance."""

_LOOK_BACK = 100
"""Calls that are looked at, the last ones."""

_NEAR = 20
"""Spans above a call that are looked at for who said what."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a model. `node` is the span that says most of it, `outermost` the widest wrapper around it."""

    node: Node
    outermost: Node
    messages: tuple[Message, ...]
    response: str | None
    model: str
    error: str

    @property
    def prompt(self) -> str:
        """All that was sent, as one text."""
        return "\n".join(message.content for message in self.messages)


def calls(forest: Forest) -> list[Call]:
    """All calls of a model in order of their start.

    Instrumentations of several layers record one call as nested spans, each with a part of what there is to say: those
    spans are one call. A span around several calls is none.
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
    """Roles for messages that came without, where the next request around the call tells which one is the system's.

    People and assistant then take turns, and people have the last word; left as they are where that does not come out.
    """
    if all(message.role for message in sent):
        return sent
    around = itertools.islice(_above(outermost), _NEAR)
    told = next((n.seen.messages for n in around if n.seen and n.seen.kind == "request" and n.seen.messages), None)
    system = [message.content for message in told or () if message.role == "system"]
    turns = [message for message in sent if message.content not in system]
    if told is None or len(turns) % 2 == 0 or len(turns) + len(system) != len(sent):
        return sent
    roles = itertools.cycle(("user", "assistant"))
    return tuple(Message("system" if m.content in system else next(roles), m.content) for m in sent)


def _above(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def final(found: Sequence[Call], response: str | None) -> Call | None:
    """The call that gave the answer: the last whose words are in the request's `response`, else the last with words."""
    said = evidence.folded(response) if response else ""
    if said:
        for call in reversed(found[-_LOOK_BACK:]):
            words = evidence.folded(call.response) if call.response else ""
            if words and (words in said or said in words):
                return call
    spoken = [call for call in found if call.response] or [call for call in found if call.messages] or found
    return spoken[-1] if spoken else None


def feeding(found: Sequence[Call], last: Call) -> list[Call]:
    """`last`, and before it the calls whose answers were handed on to it: partial answers, summaries, earlier turns."""
    used = [last]
    prompt = evidence.folded(last.prompt)
    at = found.index(last)
    for call in reversed(found[max(0, at - _LOOK_BACK) : at]):
        words = evidence.folded(call.response) if call.response else ""
        if len(words) >= _FED and words in prompt:
            used.insert(0, call)
            prompt += " " + evidence.folded(call.prompt)
    return used


def said(found: Sequence[Call]) -> list[str]:
    """What the models said, each answer by its words."""
    answers = (evidence.folded(call.response) for call in found[-_LOOK_BACK:] if call.response)
    return [words for words in answers if words]


def sent(found: Sequence[Call]) -> str:
    """All that the models were sent, as one text."""
    return "\n".join(call.prompt for call in found[-_LOOK_BACK:])


def turns_before(call: Call, question: str = "") -> tuple[str, tuple[Message, ...]]:
    """The last user message of a call as it was sent, or that which holds `question`, and the turns before it."""
    wanted = evidence.folded(question)
    holding = [at for at, m in enumerate(call.messages) if m.role == "user" and wanted in evidence.folded(m.content)]
    at = holding[-1] if wanted and holding else messages.last_user(call.messages)
    return (call.messages[at].content, messages.turns(call.messages[:at])) if at >= 0 else ("", ())


def usage(forest: Forest) -> Usage:
    """Tokens of all calls, each counted once: where a span and spans within it count, the larger sum stands."""
    sums: dict[int, tuple[Usage | None, Usage | None]] = {}
    for node in reversed(forest.nodes):
        below = [sums.pop(child.first) for child in node.children]
        calls_below = _add([one for one, _ in below])
        requests_below = _add([one for _, one in below])
        seen = node.seen
        if seen is not None and seen.usage is not None and seen.kind == "generation":
            calls_below = _larger(seen.usage, calls_below)
        elif seen is not None and seen.usage is not None and seen.kind == "request":
            requests_below = _larger(seen.usage, requests_below)
        sums[node.first] = (calls_below, requests_below)
    tops = [sums[top.first] for top in (*forest.roots, *forest.orphans)]
    counted = _add([one for one, _ in tops]) or _add([one for _, one in tops]) or Usage()
    if counted.total_tokens is None and counted.input_tokens is not None and counted.output_tokens is not None:
        return Usage(counted.input_tokens, counted.output_tokens, counted.input_tokens + counted.output_tokens)
    return counted


def counted(forest: Forest) -> list[Node]:
    """The spans that count tokens."""
    return [node for node in forest.of_kind("generation", "request") if node.seen and node.seen.usage is not None]


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
