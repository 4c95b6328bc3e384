"""Tells whether an answer is in another language than its documents, by script and common words. Pure functions.

What is no sign of a language (names, numbers, code, two words) decides nothing: then the languages do not differ.
docs/decisions has the figures behind the bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from monitor.evaluators._language_words import ARABIC, CHINESE, CYRILLIC, LATIN
from monitor.evaluators._text import remembered

_READ = 1_200  # characters of an answer, and of a document
_READ_OF_DOCUMENTS, _LEAST_OF_ONE, _DOCUMENTS = 3_000, 120, 40

_MOST = 0.6  # of the letters: their script is that of the text
_SOME, _FEW = 0.2, 0.1  # of the letters: enough of a script to speak against a difference
_LETTERS = 4
_SHARE, _SHARE_OF_DOCUMENTS = 0.12, 0.16  # of the words of a text: so many must be signs of its language
_ENOUGH, _PLENTY = 2, 4  # words that an answer, and documents, must have of a language
_KANA, _NO_KANA = 0.1, 0.02  # of kana and Chinese characters together: Japanese, and not Japanese
_CHINESE, _TELLING = 6, 5

_address = re.compile(r"(?:https?://|www\.)\S+")
_run = re.compile(r"[^\W\d_]+")
# Every character that is no letter becomes a space. In C, five times as fast as the pattern that defines it.
_LETTERS_OF_LATIN_1: Final = bytes(code if _run.match(chr(code)) else ord(" ") for code in range(256))
# Marks in texts that have only letters of Latin-1.
_TYPOGRAPHIC: Final = "\u2018\u2019\u201c\u201d\u201e\u2013\u2014\u2026\u2022"
# The last letter of each script, and how many Latin letters one of its characters is worth.
_SCRIPTS: Final = (
    (0x036F, "latin", 1),
    (0x03FF, "greek", 1),
    (0x052F, "cyrillic", 1),
    (0x058F, "armenian", 1),
    (0x05FF, "hebrew", 1),
    (0x077F, "arabic", 1),
    (0x08FF, "", 1),
    (0x097F, "devanagari", 2),
    (0x0DFF, "indic", 2),
    (0x0EFF, "thai", 1),
    (0x109F, "", 1),
    (0x10FF, "georgian", 1),
    (0x1DFF, "", 1),
    (0x1EFF, "latin", 1),
    (0x1FFF, "greek", 1),
    (0x303F, "", 1),
    (0x30FF, "kana", 2),
    (0x33FF, "", 1),
    (0x9FFF, "han", 3),
    (0xABFF, "", 1),
    (0xD7AF, "hangul", 2),
    (0xFAFF, "han", 3),
    (0x1FFFF, "", 1),
    (0x10FFFF, "han", 3),
)
_LAST_LETTERS: Final = [last for last, _, _ in _SCRIPTS]
_TWO_SCRIPTS: Final = frozenset({"kana", "han"})
_EAST_ASIAN: Final = "kana and han"

_LISTS: Final = tuple(frozenset(words.split()) for table in (LATIN, CYRILLIC, ARABIC) for words in table.values())
_ALPHABETS: Final = tuple(frozenset(letter for letter in "".join(words) if not letter.isascii()) for words in _LISTS)
_OF_SCRIPT: Final = {
    "latin": range(len(LATIN)),
    "cyrillic": range(len(LATIN), len(LATIN) + len(CYRILLIC)),
    "arabic": range(len(LATIN) + len(CYRILLIC), len(_LISTS)),
}
_SIMPLIFIED, _TRADITIONAL = (frozenset(characters) for characters in CHINESE.values())


def _languages_of_words() -> dict[str, int]:
    languages: dict[str, int] = {}
    for number, words in enumerate(_LISTS):
        for word in words:
            languages[word] = languages.get(word, 0) | 1 << number
    return languages


_WORDS: Final = _languages_of_words()
"""For each word a set of languages: bit n stands for list n."""


class _Traits(NamedTuple):
    """What tells the language of a text. `letters` are counted by script, each weighted by what it is worth."""

    letters: Counter[str]
    script: str | None
    words: int
    languages: Counter[int]  # of its words that are in a list: how many are in exactly this set of lists
    others: list[str]  # its words with letters beyond A to Z that are in no list, without names
    characters: str

    def share(self, script: str | None) -> float:
        """Return the share of letters that are of this script, 0 to 1."""
        letters = (
            sum(self.letters[one] for one in _TWO_SCRIPTS) if script == _EAST_ASIAN else self.letters[script or ""]
        )
        return letters / max(self.letters.total(), 1)

    def by_language(self, also: int | None = None) -> list[int]:
        """Count, for each language, the words in its list: all, or those that are in the list of `also` too."""
        counts = [0] * len(_LISTS)
        for languages, count in self.languages.items():
            if also is None or languages >> also & 1:
                for language in _numbers(languages):
                    counts[language] += count
        return counts


@lru_cache(maxsize=4096)
def _numbers(languages: int) -> tuple[int, ...]:
    """Return the bits that are set."""
    return tuple(number for number in range(languages.bit_length()) if languages >> number & 1)


def in_another_language(answer: str, documents: Sequence[str]) -> bool:
    """Return whether `answer` is in another language, or another script, than every one of `documents`.

    False where one of them has no clear language, and where a document is in that of the answer. Reads the first 1,200
    characters of the answer and 3,000 to 4,800 of the documents, from the start of each; of more than 40 documents, 40.
    """
    spoken = _traits(answer[:_READ])
    if spoken.script is None:
        return False
    read = documents
    if len(documents) > _DOCUMENTS:
        read = [documents[number * len(documents) // _DOCUMENTS] for number in range(_DOCUMENTS)]
    share = min(_READ, max(_LEAST_OF_ONE, _READ_OF_DOCUMENTS // max(len(read), 1)))
    beginnings = [text[:share] for text in read]
    found = _together(tuple(beginnings))
    if found.script is None:
        return False
    if spoken.script != found.script:
        return _scripts_differ(spoken, found) and not any(_begun(one).script == spoken.script for one in beginnings)
    if spoken.script == _EAST_ASIAN:
        way = _way_of_writing(spoken)
        ways = [_way_of_writing(_begun(one)) for one in beginnings]
        return _ways_differ(way, _way_of_writing(found)) and all(not one or _ways_differ(way, one) for one in ways)
    language = _language(found)
    own = None if language is None else _other_language(spoken, language)
    if language is None or own is None:
        return False
    others = {_other_language(_begun(one), language) for one in beginnings} - {None}
    return own not in others and all(
        _other_language(spoken, other) is not None for other in others if other is not None
    )


def _traits(text: str) -> _Traits:
    runs = _runs(text)
    foreign = [] if text.isascii() else [run for run in runs if not run.isascii()]
    plain = [run for run in runs if run.isascii()] if foreign else runs
    letters: Counter[str] = Counter(latin=sum(map(len, plain)))
    longer = [run for run in plain if len(run) > 1]  # not a list's (a), an initial, a variable
    languages = Counter(filter(None, map(_WORDS.get, map(str.lower, longer))))
    words = len(longer)
    others: list[str] = []
    for run in foreign:
        script, worth = _script(run[0])
        if script in _TWO_SCRIPTS:
            for character in run:
                script, worth = _script(character)
                letters[script] += worth
            continue
        letters[script] += worth * len(run)
        words += 1
        if found := _WORDS.get(run.lower()):
            languages[found] += 1
        elif run[0].islower():
            others.append(run)
    return _Traits(letters, _main_script(letters), words, languages, others, text)


_begun = remembered(_traits)
"""The traits of the beginning of a document."""


@lru_cache(maxsize=8)
def _together(beginnings: tuple[str, ...]) -> _Traits:
    """Return the traits of all of these, one a line: several evaluators ask for those of the same documents."""
    letters, languages, words, others = Counter(latin=0), Counter[int](), 0, list[str]()
    for one in map(_begun, beginnings):
        for script, count in one.letters.items():  # `update` takes five times as long for so few
            letters[script] += count
        for lists, count in one.languages.items():
            languages[lists] += count
        words += one.words
        others += one.others
    return _Traits(letters, _main_script(letters), words, languages, others, "\n".join(beginnings))


def _runs(text: str) -> list[str]:
    """Return the runs of letters in a text, without addresses."""
    if "://" in text or "www." in text:
        text = _address.sub(" ", text)
    for mark in () if text.isascii() else _TYPOGRAPHIC:
        text = text.replace(mark, " ")
    try:
        single = text.encode("latin-1")
    except UnicodeEncodeError:
        return _run.findall(text)
    return single.translate(_LETTERS_OF_LATIN_1).decode("latin-1").split()


def _script(letter: str) -> tuple[str, int]:
    number = bisect_left(_LAST_LETTERS, ord(letter))
    return _SCRIPTS[number][1:]


def _main_script(letters: Counter[str]) -> str | None:
    total = letters.total()
    east_asian = sum(letters[script] for script in _TWO_SCRIPTS)
    script, most = max(((_EAST_ASIAN, east_asian), *letters.items()), key=lambda one: one[1])
    return script if script and total >= _LETTERS and most >= _MOST * total else None


def _scripts_differ(spoken: _Traits, found: _Traits) -> bool:
    """Return whether two texts of different scripts are in different languages: not if one has much of the other's."""
    if found.share(spoken.script) > _SOME or spoken.share(found.script) > _FEW:
        return False
    # Names, units and code are in Latin letters in every language.
    if spoken.script != "latin":
        return True
    counts = spoken.by_language()
    return max(counts[language] for language in _OF_SCRIPT["latin"]) >= _ENOUGH


def _way_of_writing(text: _Traits) -> str:
    """Return `japanese`, `simplified`, `traditional`, `chinese` for either of the two, or empty if it is not clear."""
    kana, han = text.letters["kana"] / 2, text.letters["han"] / 3
    if kana >= max(_ENOUGH, _KANA * (kana + han)):
        return "japanese"
    if kana > _NO_KANA * (kana + han) or han < _CHINESE:
        return ""
    simplified = sum(character in _SIMPLIFIED for character in text.characters)
    traditional = sum(character in _TRADITIONAL for character in text.characters)
    if max(simplified, traditional) >= max(_ENOUGH, _TELLING * min(simplified, traditional)):
        return "simplified" if simplified > traditional else "traditional"
    return "chinese"


def _ways_differ(one: str, other: str) -> bool:
    return {one, other} == {"simplified", "traditional"} or (
        bool(one and other) and (one == "japanese") != (other == "japanese")
    )


def _language(text: _Traits) -> int | None:
    """Return the language of the documents. None if no list has clearly more of their words than every other."""
    languages = _OF_SCRIPT.get(text.script or "", range(0))
    if not languages:
        return None
    counts = text.by_language()
    best = max(languages, key=counts.__getitem__)
    if counts[best] < max(_PLENTY, _SHARE_OF_DOCUMENTS * text.words):
        return None
    both = text.by_language(also=best)
    if any(counts[best] - both[other] < 2 * (counts[other] - both[other]) + 2 for other in languages if other != best):
        return None
    return best


def _other_language(text: _Traits, language: int) -> int | None:
    """Return the language that a text is clearly in, if it is another one of its script than `language`.

    Signs are words that only the list of the other language has and, if there is one, words with letters that only
    words of the other language have.
    """
    best, most = None, 0
    counts, both = text.by_language(), text.by_language(also=language)
    for other in _OF_SCRIPT.get(text.script or "", ()):
        signs = counts[other] - both[other]
        if not signs:
            continue
        letters = _ALPHABETS[other] - _ALPHABETS[language]
        signs += sum(not letters.isdisjoint(word) for word in text.others)
        against = counts[language] - both[other]
        if signs - against > most and signs >= max(_ENOUGH, _SHARE * text.words, 3 * against + 2 if against else 0):
            best, most = other, signs - against
    return best
