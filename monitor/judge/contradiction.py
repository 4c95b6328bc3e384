"""Detects an explanation that says the opposite of its score, in English, and only where there is no doubt.

Evaluators that measure the same thing state their verdicts in the same words (`contradiction_patterns.py`): one that
measures grounding says "supported by the context", one that measures harm says "contains threats". A statement counts
only if it is unmistakable: about the whole answer, negation included, and outside quotations. An explanation counts
only if all its statements point one way: a single "but", "partly" or word of the other side makes it undecided. A clear
statement is then compared with the score: praise contradicts a score in the worst quarter of the scale, a stated fault
one in the best quarter.

docs/contradictions.md lists what this detects and what it misses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from monitor.judge.contradiction_patterns import HEDGED, LEFT_BAD, LEFT_GOOD, RIGHTLY, STATEMENTS
from monitor.model.outcome import Scale
from monitor.stages import Measures

END: Final = 0.25
"""The part of the scale at each end in which a score can be contradicted by praise or by a fault."""
_LONGEST: Final = 4_000  # characters read

_ENDLESS: Final = re.compile(r"\S{40,}")  # not a word, and slow to search
_QUOTED: Final = re.compile(
    r"\"[^\"]{0,400}\"|\u201c[^\u201d]{0,400}\u201d|«[^»]{0,400}»|`[^`]{0,400}`"
    r"|(?<!\w)'[^'\n]{2,400}?'(?!\w)|(?<!\w)\u2018[^\u2019\n]{2,400}?\u2019(?!\w)"
)
_FIGURE: Final = re.compile(
    r"\b(?:score|rating|grade|verdict)(?: here| therefore)?(?: is| of|:| =| should be| must be)(?: a| an)?"
    r" (\d+(?:\.\d+)?)\b(?! ?(?:/|%|out of|or|to|-|\u2013|points? ))"
)
_UNSAID: Final = re.compile(
    r"\b(?:not|never|would|could|if|unless|than|instead|rather|short|previous|first|cannot|for)\b|n't\b"
)


def contradicts(explanation: str, value: float, scale: Scale, measures: Measures | None) -> bool:
    """Return whether an explanation clearly says the opposite of its score. Never raises; reads 4,000 characters.

    `value` lies on `scale`; `measures` is what its evaluator is about.
    """
    text = _plain(explanation)
    if _names_another(text, value, scale):
        return True
    goodness = (value - scale.lowest) / (scale.highest - scale.lowest)
    if scale.better == "lower":
        goodness = 1.0 - goodness
    if END < goodness < 1.0 - END:
        return False
    return reading(explanation, measures) == ("good" if goodness <= END else "bad")


def reading(explanation: str, measures: Measures | None) -> Literal["good", "bad"] | None:
    """Return what an explanation clearly says: `good`, or `bad` for a fault; None if it is not clear."""
    known = STATEMENTS.get(measures) if measures is not None else None
    text = _plain(explanation)
    if known is None or HEDGED.search(text):
        return None
    left, cleared = _take(known.cleared, text)
    left, blamed = _take(known.bad, left)
    left, praised = _take(known.good, left)
    praised += cleared
    if praised and not blamed and not LEFT_BAD.search(left):
        return "good"
    if blamed and not praised and not LEFT_GOOD.search(left) and not RIGHTLY.search(text):
        return "bad"
    return None


def _take(patterns: Sequence[re.Pattern[str]], text: str) -> tuple[str, int]:
    """Return the text without the matches of `patterns`, and the number of matches."""
    taken = 0
    for pattern in patterns:
        text, number = pattern.subn(" ~ ", text)
        taken += number
    return text, taken


def _names_another(text: str, value: float, scale: Scale) -> bool:
    """Return whether the text names a single score, at least half of the scale away from the one given."""
    named = set()
    for found in _FIGURE.finditer(text):
        clause = re.split(r"[.;,:]\s", text[: found.start()])[-1]
        number = float(found[1])
        if _UNSAID.search(clause) or not scale.holds(number):
            return False
        named.add(number)
    return len(named) == 1 and abs(named.pop() - value) >= (scale.highest - scale.lowest) / 2


def _plain(text: str) -> str:
    """Return the text in lower case, with single spaces and without quotations."""
    unquoted = _QUOTED.sub(" it ", text[:_LONGEST]).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return " ".join(_ENDLESS.sub(" ~ ", unquoted).split())
