"""Detects an answer in a different language from its documents, by script and common words. Pure functions.

Text without a sign of its language (names, numbers, code, two words) decides nothing: the languages then count as the
same. docs/decisions has the figures behind the thresholds.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from monitor.evaluators._language_words import ARABIC, CHINESE, CYRILLIC, LATIN
from monitor.evaluators._text import remembered

_READ = 1_200  # characters of an answer, and of a document
_READ_OF_DOCUMENTS, _LEAST_OF_ONE, _DOCUMENTS = 3_000, 120, 40

_MOST = 0.6  # share of letters from which on their script is the script of the text
_SOME, _FEW = 0.2, 0.1  # share of letters of a script that is enough to count against a difference
_LETTERS = 4
_SHARE, _SHARE_OF_DOCUMENTS = 0.12, 0.16  # share of a text's words that must be signs of its language
_ENOUGH, _PLENTY = 2, 4  # minimum words of a language in an answer, and in documents
_KANA, _NO_KANA = 0.1, 0.02  # share of kana among kana and Chinese characters: Japanese from 0.1, not below 0.02
_CHINESE, _TELLING = 6, 5

_address = re.compile(r"(?:https?://|www\.)\S+")
_run = re.compile(r"[^\W\d_]+")
# Every character that is not a letter becomes a space. This runs in C, five times as fast as the pattern above.
_LETTERS_OF_LATIN_1: Final = bytes(code if _run.match(chr(code)) else ord(" ") for code in range(256))
_LETTERS_OF_ASCII: Final = _LETTERS_OF_LATIN_1.lower()  # in lower case, which loses no letter in ASCII
# Typographic marks outside Latin-1 that occur in texts whose letters are all in Latin-1.
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
_chinese = re.compile(r"[\u3400-\u9fff]")
_of_one_script = re.compile(
    "|".join(f"[{chr(before + 1)}-{chr(last)}]+" for before, last in pairwise((-1, *_LAST_LETTERS)))
)
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


_BITS: Final = 16
"""Bits for the word count of one language, in a number that holds all counts. A text has fewer than 65,536 words."""
_COUNTS: Final = struct.Struct(f"<{len(_LISTS)}H")


def _languages_of_words() -> dict[str, int]:
    languages: dict[str, int] = {}
    for number, words in enumerate(_LISTS):
        for word in words:
            if len(word) > 1 or not word.isascii():  # a single letter may be an item "(a)", an initial or a variable
                languages[word] = languages.get(word, 0) | 1 << number * _BITS
    same = {one: one for one in languages.values()}  # share equal numbers: 300 words of a language need only one
    return {word: same[one] for word, one in languages.items()}


_WORDS: Final = _languages_of_words()
"""For each word, the languages that have it: a number with a count of 1 for each of them.

The sum of these numbers counts the words of all languages at once, and Python adds them up in C.
"""


class _Traits(NamedTuple):
    """The features that show the language of a text. `letters` counts by script, each letter with its weight."""

    letters: Mapping[str, int]
    script: str | None
    words: int
    listed: Sequence[int]  # for each of its words that is in a list: the languages that have it, as in `_WORDS`
    total: int  # the sum of `listed`
    others: Sequence[str]  # its words with letters beyond A to Z that are in no list, without names
    simplified: int  # characters that only simplified Chinese has
    traditional: int

    def share(self, script: str | None) -> float:
        """Return the share of letters of this script, 0 to 1."""
        letters = _east_asian(self.letters) if script == _EAST_ASIAN else self.letters.get(script or "", 0)
        return letters / max(sum(self.letters.values()), 1)

    def by_language(self, also: int | None = None) -> tuple[int, ...]:
        """Count, for each language, the words in its list: all of them, or only those also in the list of `also`."""
        total = self.total if also is None else sum(filter((1 << also * _BITS).__and__, self.listed))
        return _COUNTS.unpack(total.to_bytes(_COUNTS.size, "little"))


def in_another_language(answer: str, documents: Sequence[str]) -> bool:
    """Return whether the language or script of `answer` differs from that of all `documents`.

    False if the answer, or the documents together, have no clear language, or if any document is in the language of the
    answer. Reads the first 1,200 characters of the answer, and 3,000 to 4,800 characters of the documents in all, from
    the start of each. Of more than 40 documents it reads 40.
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
        ways = (_way_of_writing(_begun(one)) for one in beginnings)
        return _ways_differ(way, _way_of_writing(found)) and all(not one or _ways_differ(way, one) for one in ways)
    language = _commonest_language(found)
    # Checked first, because it takes less work, and usually the answer is not in another language.
    own = None if language is None else _other_language(spoken, language)
    if language is None or own is None or not _is_clearly(found, language):
        return False
    others = {_other_language(_begun(one), language) for one in beginnings} - {None}
    return own not in others and all(
        _other_language(spoken, other) is not None for other in others if other is not None
    )


def _traits(text: str) -> _Traits:
    runs = _runs(text)
    foreign = [] if text.isascii() else [run for run in runs if not run.isascii()]
    plain = [run for run in runs if run.isascii()] if foreign else runs
    lengths = list(map(len, plain))
    letters = {"latin": sum(lengths)}
    listed = list(filter(None, map(_WORDS.get, plain if text.isascii() else map(str.lower, plain))))
    words = len(plain) - lengths.count(1)
    others: list[str] = []
    for run, found in zip(foreign, map(_WORDS.get, map(str.lower, foreign)), strict=True):
        script, worth = _script(run[0])
        if script in _TWO_SCRIPTS:
            for part in _of_one_script.findall(run):
                script, worth = _script(part[0])
                letters[script] = letters.get(script, 0) + worth * len(part)
            continue
        letters[script] = letters.get(script, 0) + worth * len(run)
        words += 1
        if found is not None:
            listed.append(found)
        elif run[0].islower():
            others.append(run)
    simplified = traditional = 0
    if foreign and _chinese.search(text):
        simplified, traditional = (sum(map(some.__contains__, text)) for some in (_SIMPLIFIED, _TRADITIONAL))
    return _Traits(letters, _main_script(letters), words, listed, sum(listed), others, simplified, traditional)


_begun = remembered(_traits)
"""Return the traits of the beginning of a document."""


@lru_cache(maxsize=8)
def _together(beginnings: tuple[str, ...]) -> _Traits:
    """Return the traits of all of these together. Cached: several evaluators ask about the same documents."""
    every = list(map(_begun, beginnings))
    letters = {"latin": 0}
    for one in every:
        for script, count in one.letters.items():
            letters[script] = letters.get(script, 0) + count
    return _Traits(
        letters,
        _main_script(letters),
        words=sum(one.words for one in every),
        listed=list(chain.from_iterable(one.listed for one in every)),
        total=sum(one.total for one in every),
        others=list(chain.from_iterable(one.others for one in every)),
        simplified=sum(one.simplified for one in every),
        traditional=sum(one.traditional for one in every),
    )


def _runs(text: str) -> list[str]:
    """Return the runs of letters in a text, without addresses; in lower case if the text is ASCII."""
    if "://" in text or "www." in text:
        text = _address.sub(" ", text)
    if text.isascii():
        return text.encode().translate(_LETTERS_OF_ASCII).decode().split()
    for mark in _TYPOGRAPHIC:
        text = text.replace(mark, " ")
    try:
        single = text.encode("latin-1")
    except UnicodeEncodeError:
        return _run.findall(text)
    return single.translate(_LETTERS_OF_LATIN_1).decode("latin-1").split()


@lru_cache(maxsize=1024)
def _script(letter: str) -> tuple[str, int]:
    number = bisect_left(_LAST_LETTERS, ord(letter))
    return _SCRIPTS[number][1:]


def _main_script(letters: Mapping[str, int]) -> str | None:
    total = sum(letters.values())
    script, most = max(((_EAST_ASIAN, _east_asian(letters)), *letters.items()), key=itemgetter(1))
    return script if script and total >= _LETTERS and most >= _MOST * total else None


def _east_asian(letters: Mapping[str, int]) -> int:
    return letters.get("kana", 0) + letters.get("han", 0)


def _scripts_differ(spoken: _Traits, found: _Traits) -> bool:
    """Return whether texts of different scripts differ in language: not if one uses much of the other's script."""
    if found.share(spoken.script) > _SOME or spoken.share(found.script) > _FEW:
        return False
    # Names, units and code are in Latin letters in every language.
    if spoken.script != "latin":
        return True
    counts = spoken.by_language()
    return max(counts[language] for language in _OF_SCRIPT["latin"]) >= _ENOUGH


def _way_of_writing(text: _Traits) -> str:
    """Return `japanese`, `simplified`, `traditional`, `chinese` for one of these two, or empty if it is unclear."""
    kana, han = text.letters.get("kana", 0) / 2, text.letters.get("han", 0) / 3
    if kana >= max(_ENOUGH, _KANA * (kana + han)):
        return "japanese"
    if kana > _NO_KANA * (kana + han) or han < _CHINESE:
        return ""
    if max(text.simplified, text.traditional) >= max(_ENOUGH, _TELLING * min(text.simplified, text.traditional)):
        return "simplified" if text.simplified > text.traditional else "traditional"
    return "chinese"


def _ways_differ(one: str, other: str) -> bool:
    return {one, other} == {"simplified", "traditional"} or (
        bool(one and other) and (one == "japanese") != (other == "japanese")
    )


def _commonest_language(text: _Traits) -> int | None:
    """Return the language with the most words in the documents, or None if these are too few."""
    languages = _OF_SCRIPT.get(text.script or "")
    if languages is None:
        return None
    counts = text.by_language()
    best = max(languages, key=counts.__getitem__)
    return best if counts[best] >= max(_PLENTY, _SHARE_OF_DOCUMENTS * text.words) else None


def _is_clearly(text: _Traits, language: int) -> bool:
    """Return whether a text is clearly in `language`: its list has clearly more of the words than any other list."""
    counts, both = text.by_language(), text.by_language(also=language)
    return all(
        counts[language] - both[other] >= 2 * (counts[other] - both[other]) + 2
        for other in _OF_SCRIPT.get(text.script or "", ())
        if other != language
    )


def _other_language(text: _Traits, language: int) -> int | None:
    """Return the language that a text is clearly in, if that is another language of its script than `language`.

    Signs are words that only the list of the other language has and, if there is such a word, words with letters that
    only the other language has.
    """
    best, most = None, 0
    counts, both = text.by_language(), text.by_language(also=language)
    if counts == both:
        return None
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
