"""Detects an explanation that says the opposite of its score, in English, and only if there is no doubt.

Explanations of evaluators that measure the same thing use the same phrases (`STATEMENTS`): for grounding, "supported by
the context"; for harm, "contains threats". A statement counts only if it is unmistakable: about the whole answer,
negation included, and outside quotations. An explanation counts only if all its statements point one way: a single
"but", "partly" or word of the other side makes it undecided. A clear statement is then compared with the score: praise
contradicts a score in the worst quarter of the scale, and a stated fault contradicts a score in the best quarter.

docs/contradictions.md lists what this detects and what it misses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from monitor.model.outcome import Scale
from monitor.stages import Measures

_NOT: Final = r"(?:not|never|neither|nowhere|hardly|cannot|\w+n't)"
_NO: Final = r"(?:no|nothing|none|without|neither|never|not|free (?:of|from)|lacks|\w+n't)"
_FEW: Final = r"(?:[\w-]+ ){0,4}?"
_ON: Final = r"(?:(?!\bnot\b|n't\b)[^.;,]){0,50}"  # on within the same clause, without a negation
_FULLY: Final = (
    r"(?:fully|entirely|completely|wholly|directly|clearly|well|accurately|correctly|precisely|thoroughly|highly"
    r"|perfectly)"
)
_QUITE: Final = r"(?:completely |entirely |totally |wholly |plainly |simply |clearly |openly |deeply |extremely |all )?"
_ANSWER: Final = (
    r"\b(?:response|answer|reply|claims?|statements?|figures?|facts?|details?|assertions?|sentences?|everything"
    r"|nothing|it)\b"
)
_ASKED: Final = r"(?:questions?|parts?|points?|query|request)"
_FOUND: Final = r"(?:supported|grounded|backed|consistent|faithful|stated|found|confirmed|true)\b"
_MADE_UP: Final = (
    r"(?:unsupported|ungrounded|unfounded|fabricated|hallucinated|made[- ]up(?! of))\b"  # things are invented
)
_TEXTS: Final = r"(?:context|documents?|passages?|sources?|evidence|snippets?|chunks?|material|text)\b"
_THEM: Final = rf"(?:the |its )?{_FEW}{_TEXTS}"
_BY_THEM: Final = rf"(?: (?:by|in|on|with|from|to) (?:this |any )?{_THEM})"
_PIECES: Final = r"\b(?:context|documents?|passages?|chunks?|results?)\b"
_USELESS: Final = r"(?:irrelevant|unrelated|insufficient|not relevant|off[- ]topic)\b"
_HARM: Final = (
    r"(?:violen\w+|hate\w*|threat\w*|slurs?|sexual\w*|harm\w*|self-harm|unsafe|offensive|abus\w+|discriminat\w+"
    r"|demeaning|graphic|explicit|dangerous|derogatory|insult\w*|stereotyp\w+|suicid\w+)"
)
_SPREADS: Final = (
    r"(?:contains?|includes?|promotes?|encourages?|glorif(?:y|ies)|incites?|praises?|threatens?|uses?|describes?)"
)
_HARMFUL: Final = r"(?:violent|hateful|unsafe|offensive|abusive|demeaning|discriminatory|dangerous|derogatory)\b"


class Statements(NamedTuple):
    """The phrases for one measure, in lower case, in the order in which they are matched.

    `cleared` phrases deny a fault and therefore contain its words; they are matched before `bad` ones.
    """

    cleared: Sequence[re.Pattern[str]]
    bad: Sequence[re.Pattern[str]]
    good: Sequence[re.Pattern[str]]


def _made(*, cleared: Sequence[str] = (), bad: Sequence[str], good: Sequence[str]) -> Statements:
    return Statements(*([re.compile(one) for one in listed] for listed in (cleared, bad, good)))


_GROUNDING: Final = _made(
    cleared=(
        rf"\b{_NO} {_FEW}(?:{_MADE_UP}|invented\b|fabricat\w+|hallucinat\w+)(?: claims?\b)?",
        rf"\b{_NO} {_FEW}(?:contradicts?|conflicts? with|goes beyond|departs? from) {_THEM}",
    ),
    bad=(
        rf"{_ANSWER}[^.;,]{{0,40}}\b{_NOT} {_FEW}{_FOUND}(?: at all| anywhere)?{_BY_THEM}",
        rf"\b(?:none|nothing)\b[^.;,]{{0,40}}\b{_FOUND}{_BY_THEM}?",
        rf"\b(?:is|are|was|were|looks?) {_QUITE}{_MADE_UP}",
        rf"{_ANSWER} (?:directly |clearly |flatly )?contradicts? {_THEM}",
        rf"{_ANSWER} (?:fabricates|invents|hallucinates|makes up)\b",
    ),
    good=(
        rf"\b(?:all|every|each)\b{_ON}\b{_FOUND}{_BY_THEM}?",
        rf"{_ANSWER}{_ON}\b{_FULLY} {_FOUND}{_BY_THEM}?",
        rf"{_ANSWER} (?:is|are|stays|remains) {_FOUND}{_BY_THEM}",
    ),
)
_ANSWERING: Final = _made(
    cleared=(r"\bnothing (?:of weight |important )?is (?:missing|left out)\b",),
    bad=(
        (
            rf"{_ANSWER} (?:{_NOT}|does not|did not|fails to|failed to) (?:actually |at all |really )?"
            r"(?:answer|address|respond to|cover)\b"
        ),
        rf"{_ANSWER} (?:is|are) {_QUITE}(?:incorrect|wrong|not correct|{_USELESS})",
        rf"{_ANSWER} (?:has nothing to do with|ignores|misses) (?:the )?(?:point|{_ASKED})\b",
        rf"{_ANSWER} contradicts the (?:expected|reference)\b",
    ),
    good=(
        rf"{_ANSWER} (?:is |does )?{_FULLY} (?:answers?|address(?:es)?|responds? to|covers?)\b",
        (
            rf"{_ANSWER} (?:answers|addresses|covers) (?:the |each |every |all )?{_FEW}{_ASKED}(?: of the question)?"
            rf" (?:{_FULLY}|in full)\b"
        ),
        rf"{_ANSWER} (?:is|are) {_FULLY} (?:relevant|correct|accurate|complete|on topic)\b",
        rf"{_ANSWER} (?:matches|agrees with|is equivalent to|means the same as) the (?:expected|reference)\b",
    ),
)
_RETRIEVAL: Final = _made(
    bad=(
        r"\b(?:none|nothing)\b[^.;,]{0,40}\b(?:relevant|useful|bears on|helps|answers)\b",
        (
            rf"{_PIECES} (?:{_NOT}|does not|do not) (?:contain|hold|have|give|provide)"
            r" (?:the answer|any|anything|what|information)\b"
        ),
        rf"{_PIECES} (?:is|are) {_QUITE}{_USELESS}",
    ),
    good=(
        rf"\b(?:all|every|each)\b{_ON}\b(?:relevant|useful|on topic)\b",
        (
            rf"{_PIECES} (?:contains?|holds?|has|have|gives?|provides?) (?:everything"
            r"|the (?:complete|full|whole) answer|all (?:of )?the (?:information|facts|details))\b"
        ),
        rf"{_PIECES} (?:is|are) {_FULLY} (?:relevant|sufficient)\b",
    ),
)
_HARMING: Final = _made(
    cleared=(rf"\b{_NO} {_FEW}{_HARM}(?:(?:,| or| and| nor) {_FEW}{_HARM})*",),
    bad=(rf"{_ANSWER} {_SPREADS} {_FEW}{_HARM}", rf"{_ANSWER} (?:is|are) {_QUITE}{_HARMFUL}"),
    good=(rf"{_ANSWER} (?:is|are) (?:perfectly )?{_QUITE}(?:safe|harmless|benign|neutral|inoffensive)\b",),
)

STATEMENTS: Final[Mapping[Measures, Statements]] = {
    "grounding": _GROUNDING,
    "answering": _ANSWERING,
    "retrieval": _RETRIEVAL,
    "harm": _HARMING,
}
"""Phrases by what an evaluator measures. Explanations of other evaluators are not read."""

HEDGED: Final = re.compile(
    r"\b(?:but|however|although|though|except|while|whereas|yet|still|despite|nonetheless|nevertheless|otherwise"
    r"|instead|unless|if|would|could|should|might|may|perhaps|apart|aside|partly|partial\w*|mostly|largely|mainly"
    r"|somewhat|minor|slight\w*|some|several|few|only|nearly|almost|mixed|unclear|ambiguous|borderline|one of|two of"
    r"|\d+ (?:out )?of|half|rather|hypothetical\w*|whether|even)\b|\?"
)
"""With any of these words an explanation is not one-sided, or is hypothetical."""
RIGHTLY: Final = re.compile(
    r"\b(?:correctly|rightly|accurately|appropriately|properly|honestly|acknowledg\w+|admits?|declin\w+|refus\w+"
    r"|abstain\w*|(?:says|states|notes) that|points out|warns?|condemns?)\b"
)
"""With any of these words an apparent fault may be something that the answer itself rightly says."""
LEFT_BAD: Final = re.compile(
    r"\b(?:not|no|never|none|nothing|cannot|fails?|failed|lacks?|lacking|missing|misses|omits?|wrong\w*|incorrect\w*"
    r"|error\w*|inaccura\w+|contradict\w*|conflict\w*|unsupported|unverif\w+|fabricat\w+|hallucinat\w+|invent\w*"
    r"|irrelevant|unrelated|problem\w*|issue\w*|flaw\w*|beyond|ignor\w+|refus\w+|declin\w+|evasive|vague|differs?"
    r"|false|unsafe|harmful)\b|n't\b"
)
"""Words of blame. An explanation that praises must not contain them outside its statements."""
LEFT_GOOD: Final = re.compile(
    r"\b(?:correct|right|accurate|appropriate|proper|honest|relevant|supported|grounded|backed|stated|found|confirmed"
    r"|stands in|consistent|faithful\w*|agrees?|matches|harmless|safe|benign|neutral|fictional|educational|no"
    r"|nothing|none|without|quot\w+|user|question asks)\b"
)
"""Words of praise. An explanation that finds fault must not contain them outside its statements."""


END: Final = 0.25
"""The part of the scale at each end in which praise or a stated fault can contradict a score."""
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

    `value` lies on `scale`; `measures` is what its evaluator measures.
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
    """Return what an explanation clearly says: `good`, or `bad` for a fault; None if that is unclear."""
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
    """Return whether the text names a single score, at least half the scale away from `value`."""
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
