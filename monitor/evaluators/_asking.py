"""Shared by evaluators that ask a model with the prompt format that it was trained on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from monitor.errors import JudgeError
from monitor.extraction.content import why_trivial
from monitor.model.case import Case, Document
from monitor.model.outcome import Scale, Score, UnscoredReason
from monitor.stages import Judge

NO_DOCUMENTS = "(none: the search found nothing)"
"""Placeholder in a prompt for documents, if there are none."""

NOTHING_TO_SUPPORT = "By rule, without a judge: nothing was retrieved, so nothing supports the response."

T = TypeVar("T")


def trivial(case: Case, scale: Scale) -> Score | None:
    """Return the score of a response without content: the bad end of the scale. None if it has content."""
    why = why_trivial(case)
    if not why:
        return None
    worst = scale.lowest if scale.better == "higher" else scale.highest
    return Score(worst, f"By rule, without a judge: the response has no content; {why}.", scale.level(worst))


def asked(judge: Judge | None, name: str) -> Judge:
    """Return the judge. Raises `JudgeError` if there is none."""
    if judge is None:
        raise JudgeError(UnscoredReason.ERROR, f"{name} needs a judge, but there is none")
    return judge


def malformed(message: str) -> JudgeError:
    """Return the error for an unreadable reply. `message` is in our own words and repeats nothing of the reply."""
    return JudgeError(UnscoredReason.MALFORMED, message)


async def together(asks: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run all of them concurrently and return their results in order. The first `JudgeError` cancels the others."""
    answers: dict[int, T] = {}
    faults: list[JudgeError] = []

    async def one(number: int, ask: Callable[[], Awaitable[T]]) -> None:
        try:
            answers[number] = await ask()
        except JudgeError as fault:
            faults.append(fault)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for number, ask in enumerate(asks):
            group.start_soon(one, number, ask)
    if faults:
        raise faults[0]
    return [answers[number] for number in range(len(asks))]


def without(marks: re.Pattern[str], text: str) -> str:
    """Put `> ` before each line of `text` that looks like a heading of the prompt, so that material cannot forge one.

    `marks` is matched at the beginning of each line; any line break counts.
    """
    return "\n".join("> " + line if marks.match(line) else line for line in text.splitlines())


def context_of(case: Case) -> str:
    """Join the texts of the retrieved documents with blank lines."""
    return joined(case.retrieved_context)


def joined(found: Sequence[Document]) -> str:
    """Join the texts of the documents with blank lines, leaving out empty ones."""
    return "\n\n".join(one.content.strip() for one in found if one.content.strip())
