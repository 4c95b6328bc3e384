"""Checks whether a response is as long as usual: finds empty, truncated and runaway responses."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from monitor.extraction.content import why_trivial
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score
from monitor.stages import Evaluator, Judge, Measures

# Scripts without spaces: two characters count as a word.
_unspaced = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_word = re.compile(r"[^\W_]")
_FITS, _SHORT, _LONG = 0.0, 1.0, 2.0


class ResponseLength(Evaluator):
    """Whether the number of words of the response is within a range: 0 `fits`, 1 `too_short`, 2 `too_long`.

    The score is the class, not the length: neither short nor long is good in itself, and no range suits both a chat bot
    and a report writer. The explanation gives the numbers of words and characters. A response without content (empty, a
    colon, "Answer:") is always `too_short`. In scripts without spaces two characters count as one word. A truncated
    response that is still long enough is not detected. Set the range for your application: from a little below its
    shortest good answer to a little above its longest.
    """

    name: ClassVar[str] = "response_length"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.points("fits", "too_short", "too_long", better="lower")
    measures: ClassVar[Measures | None] = "form"
    default_defect: ClassVar[DefectRule] = DefectRule("at_least", _SHORT)
    """Outside the range, on either side."""
    definition: ClassVar[str] = "own"

    shortest: Annotated[int, Field(ge=0)] = 1
    """Minimum number of words. Fewer are `too_short`."""

    longest: Annotated[int, Field(ge=1)] = 1_000
    """Maximum number of words. More are `too_long`. Answers in the mtRAG benchmark have 6 to 411."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) must be at most longest ({self.longest})")
        return self

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`; never skipped."""
        count = count_words(case.response)
        length = f"{count} {'word' if count == 1 else 'words'}, {len(case.response)} characters"
        why = why_trivial(case)
        if why:
            return Score(_SHORT, f"{length}: no content, {why}.", "too_short")
        if count < self.shortest:
            return Score(_SHORT, f"{length}: fewer than {self.shortest} words.", "too_short")
        if count > self.longest:
            return Score(_LONG, f"{length}: more than {self.longest} words.", "too_long")
        return Score(_FITS, f"{length}.", "fits")


def count_words(text: str) -> int:
    """Count words with a letter or a digit, and pairs of characters in scripts without spaces."""
    unspaced = 0
    if not text.isascii():
        text, unspaced = _unspaced.subn(" ", text)
    return sum(_word.search(part) is not None for part in text.split()) + (unspaced + 1) // 2
