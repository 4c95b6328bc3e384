"""Measures how much two answers to the same prompt agree, by their words, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from monitor.evaluators._text import Word, words

_READ: Final = 24_576  # characters of an answer
_SIMILAR, _SAME = 0.8, 0.2
# Function words that reverse the meaning of a sentence.
_NEGATIONS: Final = frozenset(
    """
    no not never none neither nor cannot without yes doesn' don't isn't aren't wasn't weren't won't can't didn't hasn't
    haven't shouldn't wouldn't couldn't nicht kein keine nein nie ohne non pas jamais sans ne nunca sin não nem нет не
    """.split()  # noqa: SIM905
)


def agreement(one: str, other: str) -> float:
    """Return the agreement of two answers, from 0 (nothing in common) to 1 (the same words).

    It is 0.8 times the similarity of the words, plus 0.2 if both have the same words in the same order. These weights
    are from Chen and Mueller (arXiv:2308.16175, section 3.1), who measure similarity with an inference model. Here it
    is the F1 of content words and negations; if an answer has numbers or names, the mean of that and the F1 of numbers
    and names alone, since that is where answers differ. A paraphrase counts as disagreement.
    """
    here, there = words(one[:_READ]), words(other[:_READ])
    same = [word.key for word in here] == [word.key for word in there]
    telling = (_telling(one, here), _telling(other, there))
    similar = _f1(*telling) if any(telling) else float(same)
    marked = (_keys(here), _keys(there))
    if any(marked):
        similar = (similar + _f1(*marked)) / 2
    return _SIMILAR * similar + _SAME * same


def _telling(text: str, found: Sequence[Word]) -> list[str]:
    return [word.key for word in found if word.content or text[word.start : word.end].lower() in _NEGATIONS]


def _keys(found: Sequence[Word]) -> list[str]:
    return [word.key for word in found if word.marked]


def _f1(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the F1 of two bags of words; 0 if one is empty."""
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other)) if shared else 0.0
