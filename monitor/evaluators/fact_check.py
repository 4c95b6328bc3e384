"""Checks claims one by one with a small model: does this document support this claim, yes or no?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Literal

import anyio.to_thread
from pydantic import Field

from monitor.errors import JudgeError
from monitor.evaluators._asking import (
    NOTHING_TO_SUPPORT,
    asked,
    context_of,
    joined,
    malformed,
    together,
    trivial,
    without,
)
from monitor.evaluators._claims import Claim, claims_of, spread
from monitor.evaluators._refusals import is_pure_refusal
from monitor.model.case import Case, Document, Message
from monitor.model.outcome import (
    DefectRule,
    Evidence,
    Outcome,
    Scale,
    Score,
    Skipped,
    SkippedReason,
    UnscoredReason,
)
from monitor.stages import Evaluator, Judge, Measures, Needs, Prompt

_HEADINGS: Final = re.compile(r"\s*(?:document|claim)\s*:", re.IGNORECASE)
_WORD: Final = re.compile(r"[\"'*`]{0,3}(yes|no)\b[\"'*`]{0,3}(.*)", re.IGNORECASE | re.DOTALL)
_ENDS: Final = re.compile(r"[.!]?[\"'*`]{0,3}|[.,;:!]\s.*|[.!]?\s*\n.*", re.DOTALL)
_OPPOSITE: Final = {"yes": re.compile(r"\bno\b", re.IGNORECASE), "no": re.compile(r"\byes\b", re.IGNORECASE)}
_TOKENS: Final = 64  # such models stop after one word; others may add a sentence
_FORM: Final = len("Document: \nClaim: ")
_LEAST_ROOM: Final = 200  # minimum characters of a document in one question: less text says too little


class FactCheck(Evaluator):
    """The share of the response's claims that the retrieved context supports, 0 to 1, each claim checked on its own.

    For small models trained to check one claim against one document, such as MiniCheck; see docs/evaluators/special.md.
    Claims are the sentences of the response without greetings, questions and the like. A claim is supported if any
    piece of the context supports it. A piece has as many documents as the judge's `max_characters` permits.
    """

    name: ClassVar[str] = "fact_check"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(unsupported=0.0, partly_supported=0.25, mostly_supported=0.75, supported=1.0)
    needs: ClassVar[frozenset[Needs]] = frozenset({"context", "response"})
    cost: ClassVar[Literal["local", "judge"]] = "judge"
    measures: ClassVar[Measures | None] = "grounding"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.75)
    """One claim in four may be an error of the checker. A starting point, not a measurement."""
    definition: ClassVar[str] = "Tang et al. 2024, MiniCheck, arXiv:2404.10774"

    claims: int = Field(default=20, ge=1, le=100)
    """Maximum number of claims to check, spread evenly over the response. The score is a share of the checked claims;
    the explanation says how many were not checked."""

    documents: Literal["joined", "each"] = "joined"
    """`joined`: as many documents in one question as fit. `each`: one question per document, which costs more but helps
    models that get lost in long texts."""

    instructions: str = Field(default="", max_length=4_000)
    """The system message, for servers that do not supply the model's own and for models not trained on this form.
    Empty: none."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Check each claim. Skipped if the response claims nothing or only refuses. Raises `JudgeError`."""
        if (worthless := trivial(case, self.scale)) is not None:
            return worthless
        if await anyio.to_thread.run_sync(is_pure_refusal, case):
            return Skipped(SkippedReason.REFUSAL)
        found = await anyio.to_thread.run_sync(claims_of, case.response)
        if not found:
            return Skipped(SkippedReason.NO_CLAIMS)
        chosen = spread(found, self.claims)
        if not context_of(case):
            absent = tuple(Evidence(claim.text, "absent", claim.start, claim.end) for claim in chosen)
            return Score(0.0, NOTHING_TO_SUPPORT, self.scale.level(0.0), absent)
        checker = asked(judge, self.name)
        pieces = self._pieces(case.retrieved_context, chosen, checker.max_characters)
        answers = await together([partial(self._supported, checker, claim, pieces) for claim in chosen])
        value = sum(answers) / len(answers)
        evidence = tuple(
            Evidence(claim.text, "supported" if yes else "absent", claim.start, claim.end)
            for claim, yes in zip(chosen, answers, strict=True)
        )
        said = f"{sum(answers)} of {len(answers)} claims are supported by the context"
        unasked = f"; {len(found) - len(chosen)} more were not checked" if len(found) > len(chosen) else ""
        return Score(value, f"{said}{unasked}.", self.scale.level(value), evidence)

    async def _supported(self, judge: Judge, claim: Claim, pieces: Sequence[str]) -> bool:
        for piece in pieces:
            text = f"Document: {piece}\nClaim: {_line(claim)}"
            system = (Message("system", self.instructions),) if self.instructions else ()
            prompt = Prompt(self.name, (*system, Message("user", text)), max_tokens=_TOKENS)
            if read_yes_no((await judge.ask(prompt)).data["text"]):
                return True
        return False

    def _pieces(self, found: Sequence[Document], chosen: Sequence[Claim], most: int) -> list[str]:
        """Split the context into pieces that each fit into one question with the longest claim."""
        room = most - max(len(_line(claim)) for claim in chosen) - len(self.instructions) - _FORM
        if room < _LEAST_ROOM:
            raise JudgeError(UnscoredReason.TOO_LARGE, "a claim is too long for judge.max_characters")
        groups = [[one] for one in found] if self.documents == "each" else [found]
        texts = (without(_HEADINGS, joined(group)) for group in groups)
        return [piece for text in texts if text for piece in _cut(text, room)]


def read_yes_no(reply: str) -> bool:
    """Return whether the reply says yes: its first word is `Yes` or `No`, alone or before punctuation and a reason.

    Raises `JudgeError(malformed)` for anything else, and if the reason also contains the other word.
    """
    match = _WORD.fullmatch(reply.strip())
    if match is None or not _ENDS.fullmatch(match[2]):
        raise malformed("the reply does not begin with the word Yes or No")
    if _OPPOSITE[match[1].lower()].search(match[2]):
        raise malformed("the reply says both yes and no")
    return match[1].lower() == "yes"


def _line(claim: Claim) -> str:
    return " ".join(claim.text.split())


def _cut(text: str, room: int) -> list[str]:
    """Cut the text into pieces of at most `room` characters, at a paragraph, line or space if possible."""
    pieces = []
    begin = 0
    while len(text) - begin > room:
        ends = (text.rfind(border, begin + room // 2, begin + room) for border in ("\n\n", "\n", " "))
        end = next((one for one in ends if one >= 0), begin + room)
        pieces.append(text[begin:end])
        begin = end
    pieces.append(text[begin:])
    return [piece.strip() for piece in pieces if piece.strip()]
