"""The request that a trace is about: which spans enclose it, which call of a model answered it, what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.content import calls, evidence, prompt
from monitor.content.calls import Call
from monitor.content.forest import Forest, Node
from monitor.content.sources import Source, mapped, saying
from monitor.content.template import Template
from monitor.model.case import Message, Request

_NESTED: Final = 50
"""Spans around an answer that are asked whether they speak in a model's words."""


class Answered(NamedTuple):
    """How a request was answered.

    `around` are the spans that enclose the answer, the outermost first; `last` is the call of a model that gave it;
    `response` is None where no answer was sent.
    """

    around: tuple[Node, ...]
    last: Call | None
    response: str | None
    source: Source | None


class Asked(NamedTuple):
    """The question with the turns before it, and where each was taken from."""

    request: Request = Request()
    question: Source | None = None
    history: Source | None = None


def answered(forest: Forest, found: Sequence[Call]) -> Answered:
    """Which spans enclose the answer, and which of the calls in `found` gave it."""
    configured = mapped(forest, "response")
    last = calls.final(found, None)
    source = configured or _answering(_around(forest, last), found)
    better = calls.final(found, source.text if source else None)
    if better is not last:
        last = better
        source = configured or _answering(_around(forest, last), found)
    if source is not None:
        return Answered(_around(forest, last), last, source.text, source)
    if last is not None:
        return Answered(_around(forest, last), last, last.response, Source(last.node, "response"))
    return Answered(_around(forest, last), None, None, None)


def asked(forest: Forest, found: Sequence[Call], request: Answered, limit: int, templates: Sequence[Template]) -> Asked:
    """The user's own words and the turns before: of the outermost span that states them, else of the last prompt.

    `limit` is the number of characters at which the trace's texts were cut, 0 where they were not.
    """
    sent, history = _sent(request.last, "", templates)
    chat = Source(request.last.node, "messages") if request.last else None
    told = mapped(forest, "query") or _asking(request.around, found)
    if told is not None and told.node.seen is not None:
        query = told.text if "query" in told.node.seen.stated else _unstuffed(told.text, templates)
        before = mapped(forest, "history") or saying([told.node], "history")
        if before is not None and before.node.seen is not None:
            history, chat = before.node.seen.history or (), before
        else:  # what the model was sent may go on after the question: with findings, with what to do better
            _, history = _sent(request.last, query, templates)
        return _asked(query, history, told, chat)
    parts = prompt.split(sent, templates)
    stated = parts.question or "" if parts is not None else sent
    if stated and not (limit and len(sent) == limit):
        return _asked(stated, history, chat, chat)
    if request.response is None:
        return Asked()
    # Of a prompt that was cut the retriever's query is a poor witness: it is often a rewritten one.
    for kind in ("request",) if limit else ("request", "retrieval"):
        asking = [Source(node, "query") for node in forest.of_kind(kind) if node.seen and node.seen.query]
        if len({one.text for one in asking}) == 1:
            return _asked(asking[0].text, history, asking[0], chat)
    return Asked()


def _asked(query: str, history: tuple[Message, ...], source: Source | None, before: Source | None) -> Asked:
    return Asked(Request(query, history), source, before if history else None)


def _sent(last: Call | None, question: str, templates: Sequence[Template]) -> tuple[str, tuple[Message, ...]]:
    """The last question that a model was sent, or that which holds `question`, and the turns before it."""
    if last is None:
        return "", ()
    sent, turns = calls.turns_before(last, question)
    users = (_unstuffed(m.content, templates) if m.role == "user" else m.content for m in turns)
    return sent, tuple(Message(m.role, text) for m, text in zip(turns, users, strict=True))


def _answering(around: Sequence[Node], found: Sequence[Call]) -> Source | None:
    """The outermost span that answers in the words of a model; else, for words can be edited, the outermost."""
    answers = [Source(node, "response") for node in around if node.seen and node.seen.response]
    said = calls.said(found)
    return next((one for one in answers[:_NESTED] if evidence.agree(one.text, said)), answers[0] if answers else None)


def _asking(around: Sequence[Node], found: Sequence[Call]) -> Source | None:
    """The outermost span that asks what a model was sent, be it in other words; else the outermost."""
    questions = [Source(node, "query") for node in around if node.seen and node.seen.query]
    sent = evidence.holding(calls.sent(found))
    return next((one for one in questions[:_NESTED] if sent(one.text)), questions[0] if questions else None)


def _unstuffed(text: str, templates: Sequence[Template]) -> str:
    parts = prompt.split(text, templates)
    return parts.question if parts is not None and parts.marked and parts.question else text


def _around(forest: Forest, last: Call | None) -> tuple[Node, ...]:
    if last is None:
        return tuple(forest.of_kind("request"))
    return tuple(node for node in last.outermost.ancestors() if node.seen is not None and node.seen.kind == "request")
