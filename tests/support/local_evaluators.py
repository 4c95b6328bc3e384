"""A case for a local evaluator, and its outcome."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from monitor.model.case import Case, Document, Message, Request
from monitor.model.outcome import Outcome, Score
from monitor.stages import Evaluator
from tests.support.work import assert_linear


async def outcome(
    evaluator: Evaluator,
    response: str = "It is.",
    *,
    query: str = "What is it?",
    contexts: Iterable[str] = (),
    history: Iterable[tuple[str, str]] = (),
) -> Outcome:
    case = Case(
        request_id="1",
        request=Request(query, tuple(Message(*turn) for turn in history)),
        retrieved_context=tuple(map(Document, contexts)),
        response=response,
    )
    return await evaluator.evaluate(case, None)


async def score(evaluator: Evaluator, response: str = "It is.", **case: object) -> Score:
    found = await outcome(evaluator, response, **case)  # type: ignore[arg-type]
    assert isinstance(found, Score)
    return found


# Texts of 200,000 characters on which patterns with nested or unanchored repeats would take hours.
_UNITS = (
    "a", " ", ".", "-", "*", "0", "\u00e9", "\u0430", "<", "<!--", '"', "[", "q: a: ", "q: ", "a: ", "eyJ", "a@",
    "a.", "1 ", "ab ", "01", "010101010 ", ".- ", "- ", "ignore ", "ignore all ", "you are ", "your ", "part 1 ", "a0",
    "паспорт",
    "a ", "i g ", "<a ", "\u200b", "a\u200b", "\U000e0041", "+1", "(1", "[EMAIL", "://a:", "password is ", "i do not ",
    "the documents ", "```", "![](http", "\n", "\u4e0d", "ignore instructions. ", "xxx-", "the following code ",
)  # fmt: skip
HOSTILE = [unit * (200_000 // len(unit)) for unit in _UNITS] + [
    "q: " * 133 + "a: " * 133 + "q: " * 133 + "x" * 199_000,
    "a0" * 99_999 + "_",
    "ab " * 66_000 + "zz",
    "*" * 199_999 + "a",
]


def assert_hostile_texts_take_linear_time(evaluator: Evaluator) -> None:
    """Each text is used as question, document and response at once."""
    for text in HOSTILE:
        assert_linear(lambda part: finish(outcome(evaluator, part, query=part, contexts=[part])), text)


def finish(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Return the outcome of a local evaluator, which never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        found: Outcome = end.value
        return found
    raise AssertionError("it waits")
