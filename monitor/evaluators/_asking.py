"""Shared by evaluators that ask a model in the form of prompt that it was trained on; by rule, what they never ask.

Language models give good scores to a colon, to "Thought process:" or to "Solution" (Zhao et al. 2025, "One Token to
Fool LLM-as-a-Judge", arXiv:2507.08794). So a judge never sees a response without content. A single real word is
different: "Paris", "42" and "No" are answers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from monitor.errors import JudgeError
from monitor.model.case import Case, Document
from monitor.model.outcome import Scale, Score, UnscoredReason
from monitor.stages import Judge

_LABEL_WORDS, _LABEL_CHARACTERS = 5, 48
_COLONS = (":", "\N{FULLWIDTH COLON}")
# Openings of an answer that never comes, case-folded, without punctuation, in the paper's languages and more.
_OPENINGS = frozenset(
    """
    solution|the solution|answer|the answer|final answer|the final answer|the answer is|the final answer is|response
    explanation|reasoning|analysis|thinking|thought|thoughts|thought process|my thought process|steps|step by step
    conclusion|here is the answer|here is my answer|here you go|let me think
    let us think|let s think|lets think|let s think step by step|let us think step by step
    let s solve this problem step by step|let us solve this problem step by step|let s solve this step by step
    lösung|antwort|die antwort|ergebnis|erklärung|begründung|respuesta|la respuesta|solución|explicación
    réponse|la réponse|explication|raisonnement|risposta|soluzione|spiegazione|resposta|solução|explicação
    ответ|решение|объяснение|解|解答|解析|解决方案|答案|回答|答|思考过程|かいせつ|解説|答え|こたえ|해설|정답|답변|답
    """.replace("\n", "|").split("|")
)


def why_trivial(response: str) -> str:
    """Return why `response` has no content, as the end of a sentence; empty if it has content."""
    kept = (c if unicodedata.category(c)[0] in "LNM" else " " for c in unicodedata.normalize("NFKC", response))
    words = "".join(kept).casefold().split()
    bare = " ".join(words)
    if not words:
        return "it has no letter and no digit" if response.strip() else "it is empty"
    if len(bare) == 1 and bare.isascii() and bare.isalpha():
        return "it is a single letter"
    if bare in _OPENINGS_BARE:
        return "it is the opening of an answer that does not come"
    last = response.rstrip(" \t\r\n*_#>`\"'")
    if last.endswith(_COLONS) and len(words) <= _LABEL_WORDS and len(bare) <= _LABEL_CHARACTERS:
        return "it is a heading with nothing below it"
    return ""


_OPENINGS_BARE = frozenset(" ".join(opening.split()) for opening in _OPENINGS) - {""}


T = TypeVar("T")


def trivial(case: Case, scale: Scale) -> Score | None:
    """Return the score of a response without content: the bad end of the scale. None if it has content."""
    why = why_trivial(case.response)
    if not why:
        return None
    worst = scale.lowest if scale.better == "higher" else scale.highest
    return Score(worst, f"By rule, without a judge: the response has no content; {why}.", scale.level(worst))


def asked(judge: Judge | None, name: str) -> Judge:
    """Return the judge. Raises `JudgeError` if there is none."""
    if judge is None:
        raise JudgeError(UnscoredReason.ERROR, f"{name} needs a judge, and there is none")
    return judge


def malformed(message: str) -> JudgeError:
    """Return the error for a reply that cannot be read. `message` is our own and repeats nothing of the reply."""
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
    """Join the texts of the documents that have one with blank lines."""
    return "\n\n".join(one.content.strip() for one in found if one.content.strip())
