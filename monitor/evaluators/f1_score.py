"""Measures how many words a response shares with the expected one. No model; well below a millisecond."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from typing import ClassVar, Final

from monitor.extraction.content import why_trivial
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Evidence, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

_LISTED, _SHOWN = 20, 120
_ARTICLES: Final = frozenset({"a", "an", "the"})
_PUNCTUATION: Final = {ord(mark): None for mark in string.punctuation}
# One character of a script without spaces, or a run of others up to the next space or punctuation.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_word = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_foreign = re.compile(r"[^\w\s]+")


class F1Score(Evaluator):
    """The words shared by response and expected response, as F1 of precision and recall, 0 to 1, higher is better.

    As in SQuAD: case, punctuation and English articles are ignored, a word counts as often as both have it, and F1 is
    the harmonic mean of the shared part of each response. Beyond SQuAD: scripts without spaces are compared character
    by character, and variants of a character (full width, ligatures) are equal.

    It sees words, not meaning: "not" weighs as much as any other word, and a correct full sentence scores low against
    an expected answer of two words. Compare it with its own history, not with a fixed threshold.
    """

    name: ClassVar[str] = "f1_score"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(different=0.0, loose=0.25, partial=0.5, close=0.75)
    needs: ClassVar[frozenset[Needs]] = frozenset({"reference", "response"})
    measures: ClassVar[Measures | None] = "answering"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.25)
    """A starting point, chosen without labels. Too high if the expected answers are terse."""
    definition: ClassVar[str] = "Rajpurkar et al. 2016, SQuAD, arXiv:1606.05250; scripts without spaces: our own"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped if it has no expected response with a word in it."""
        expected = _words(case.expected_response or "")
        if not expected:
            return Skipped(SkippedReason.NO_REFERENCE)
        why = why_trivial(case)
        if why:
            return Score(0.0, f"By rule: the response has no content; {why}.", self.scale.level(0.0))
        said = _words(case.response)
        shared = expected & said
        value = 2 * shared.total() / (expected.total() + said.total())
        missing = [Evidence(word[:_SHOWN], "absent") for word in expected - said]
        explanation = (
            f"{shared.total()} words are in both, of {said.total()} in the response and {expected.total()} expected."
        )
        return Score(value, explanation, self.scale.level(value), tuple(missing[:_LISTED]))


def _words(text: str) -> Counter[str]:
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_PUNCTUATION)
    found = _word.findall(plain if plain.isascii() else _foreign.sub(_not_a_mark, plain))
    # "A" alone is the answer to a question with options, not an article.
    return Counter([word for word in found if word not in _ARTICLES] or [word for word in found if word == "a"])


def _not_a_mark(found: re.Match[str]) -> str:
    """Replace characters that separate words with spaces: accents and vowel signs do not."""
    return "".join(c if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d" else " " for c in found[0])
