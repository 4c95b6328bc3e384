"""Splits text in any script into words with offsets and into sentences; longest common subsequences. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

T = TypeVar("T")

# Scripts without spaces between words, or (Hangul) with particles: compared by pairs of characters.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
# Marks that belong to a word but are not in `\w`: accents, Hebrew, Arabic and Indic vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
# Possessive, and never starting inside a run: a run of 30,000 full stops costs one pass, not quadratic time.
_END = r"(?<![.!?\u2026])[.!?\u2026]++(?=\s|$)|[\u3002\uff01\uff1f\uff0e\u0964\u0965\u06d4\u061f]+|\n+"
_NUMBER = r"\d++(?:[.,]\d++)++"
_SUFFIX = rf"(?:['\u2019](?!\d)[\w{_MARKS}]+)?"
_WORD = rf"[\w{_MARKS}]+{_SUFFIX}"

_spaced = re.compile(rf"{_NUMBER}|{_WORD}|{_END}")
_mixed = re.compile(rf"{_NUMBER}|[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+{_SUFFIX}|{_END}")
_unspaced = re.compile(rf"[{_UNSPACED}]")
_hiragana = re.compile(r"[\u3040-\u309f]+")

_KEY_LENGTH = 6
_AFTER_ITEM_NUMBER = (".", ")", ":")
_SHORT = 2
_LONGEST = 64
_REMEMBERED = 8_192
_DOCUMENTS, _DOCUMENT = 512, 4_096  # number of documents cached, and maximum characters of each

_FUNCTION, _CONTENT, _MARKED = (False, False), (True, False), (True, True)  # whether it is content, and marked

SENTENCE_END = "\n"
"""Separates the keys of two sentences. It is never the key of a word."""

FUNCTION_WORDS = frozenset(
    """
    a about above after again all also although am an and any are as at be because been before being below between both
    but by can cannot could did do does doing don't down during each either few for from further get had has have having
    he her here hers him his how however i if in including into is it its itself just may me might more most must my
    neither no nor not of off on once only or other our ours out over own please same shall she should since so some
    such than that the their theirs them then there these they this those though through to too under until up upon us
    very was we were what when where whether which while who whom whose why will with within without would yes yet you
    your yours it's i'm you're we're they're that's there's isn't aren't doesn't can't won't
    """.split()  # noqa: SIM905 - forty lines of quoted words would be harder to check
)
"""English function words, which have no content of their own."""


def remembered(make: Callable[[str], T]) -> Callable[[str], T]:
    """Cache the result of `make` for a document, for the next requests that retrieve it.

    It caches 512 documents of at most 4,096 characters. Callers must not change the result.
    """
    known = lru_cache(maxsize=_DOCUMENTS)(make)

    def of(text: str) -> T:
        return known(text) if len(text) <= _DOCUMENT else make(text)

    return of


class Word(NamedTuple):
    """One word (or pair of characters, in a script without spaces) of a text.

    `key` is used for comparison: case-folded, only the first six letters (inflection mostly comes after them), numbers
    in full and without thousands separators. `start` and `end` are character offsets, end exclusive. `marked`: it is a
    number or looks like a name.
    """

    key: str
    start: int
    end: int
    content: bool
    marked: bool
    sentence: int


def words(text: str) -> list[Word]:
    """Return the words of `text` in order, each with the number of its sentence, counted from 0."""
    found: list[Word] = []
    add, new = found.append, tuple.__new__
    sentence = at = 0
    opened = False  # whether the sentence has a word yet: its first word is capitalised anyway
    for line in text.split("\n"):
        pieces = line.split()
        for piece, placed in zip(pieces, map(_placed.__getitem__, pieces), strict=True):
            at = text.index(piece, at)
            for shown in placed:
                if shown is None:
                    sentence, opened = sentence + opened, False
                    continue
                key, start, end, first, later = shown
                content, marked = later if opened else first
                add(new(Word, (key, at + start, at + end, content, marked, sentence)))
                opened = True
            at += len(piece)
        sentence, opened = sentence + opened, False
    return found


class _Placed(NamedTuple):
    """A word within a text without white space.

    `first` and `later` say whether it is content and marked: as the first word of its sentence, and as a later word.
    """

    key: str
    start: int
    end: int
    first: tuple[bool, bool]
    later: tuple[bool, bool]


def _words_of(piece: str) -> tuple[_Placed | None, ...]:
    """Return the words of a text without white space, and None for each end of a sentence."""
    found: list[_Placed | None] = []
    for match in _pattern(piece).finditer(piece):
        shown, start = match[0], match.start()
        if not _is_word(shown):
            found.append(None)
        elif _unspaced.match(shown):
            found += _placed_pairs(shown, start)
        else:
            word, end = _form(shown), match.end()
            numbers_item = len(shown) <= _SHORT and shown.isdigit() and piece[end : end + 1] in _AFTER_ITEM_NUMBER
            first = _FUNCTION if numbers_item else word.traits(marked=word.always_marked)
            later = word.traits(marked=word.always_marked or word.upper)
            found.append(_Placed(word.key, start, end, first, later))
    return tuple(found)


def _placed_pairs(run: str, start: int) -> Iterator[_Placed]:
    """Yield the pairs of characters of a run without spaces. Pairs of hiragana alone are mostly grammar."""
    has_hiragana = _hiragana.search(run) is not None
    for at, pair in enumerate(_pairs(run), start):
        traits = _FUNCTION if has_hiragana and _hiragana.fullmatch(pair) else _CONTENT
        yield tuple.__new__(_Placed, (pair, at, at + len(pair), traits, traits))


class _WordForm(NamedTuple):
    """The traits of a word regardless of its position. `upper`: it is capitalised, which marks a name unless first."""

    key: str
    upper: bool
    always_marked: bool
    function: bool
    long: bool

    def traits(self, *, marked: bool) -> tuple[bool, bool]:
        """Return whether it is content, and whether it is marked. `marked` applies only to content."""
        if self.function or not (marked or self.long):
            return _FUNCTION
        return _MARKED if marked else _CONTENT


def _form(shown: str) -> _WordForm:
    folded = _fold(shown)
    upper = shown[0].isupper()
    always = (upper and len(shown) > 1 and shown.isupper()) or any(map(str.isdigit, shown))
    long = len(shown) > _SHORT or not folded.isascii()
    return _WordForm(_key(folded), upper, always, folded in FUNCTION_WORDS, long)


def sentences_of_keys(text: str) -> list[list[str]]:
    """Return the keys of `text`, by sentence. Faster than `words`, for texts whose offsets are not needed."""
    found: list[list[str]] = []
    for line in text.split("\n"):
        current: list[str] = []
        for piece in map(_pieces.__getitem__, line.split()):
            if isinstance(piece, str):
                current.append(piece)
                continue
            keys, ended = piece
            current += keys
            if ended is not None:
                if current:
                    found.append(current)
                found += map(list, ended[:-1])
                current = list(ended[-1])
        if current:
            found.append(current)
    return found


def _piece(piece: str) -> str | tuple[list[str], list[list[str]] | None]:
    """Return the keys of a text without white space: those of its first sentence, and a list for each later sentence.

    The second part is None if no sentence ends in the text. Its last list holds the keys after the last end and may be
    empty; the other lists are not empty. A single word, as most texts without white space are, returns just its key.
    """
    first: list[str] = []
    later: list[list[str]] = []
    current = first
    for shown in _pattern(piece).findall(piece):
        if shown.isascii() and shown.isalpha():
            current.append(shown[:_KEY_LENGTH].lower())
        elif not _is_word(shown):
            if current or not later:
                later.append(current := [])
        elif _unspaced.match(shown):
            current += _pairs(shown)
        else:
            current.append(_key(_fold(shown)))
    return first[0] if len(first) == 1 and not later else (first, later or None)


@remembered
def keys_of_document(text: str) -> tuple[str, ...]:
    """Return the keys of `text`, with `SENTENCE_END` between two sentences. Cached.

    The result is one tuple, so that loops in C run once per document instead of once per sentence.
    """
    found: list[str] = []
    for sentence in sentences_of_keys(text):
        found += sentence
        found.append(SENTENCE_END)
    return tuple(found[:-1])


class _WordTable(dict[str, T]):
    """A cache of the results of `make` for short texts: a language has few words that are used often.

    `map` over `__getitem__` looks a word up without running Python code: in 40 ns, where `lru_cache` takes 300.
    """

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> T:
        made = self._make(text)
        if len(text) <= _LONGEST:
            if len(self) >= _REMEMBERED:
                self.clear()  # frequent words soon return
            self[text] = made
        return made


_placed = _WordTable(_words_of)
_pieces = _WordTable(_piece)


def common_subsequence(one: Sequence[str], other: Iterable[str]) -> int:
    """Return the length of a longest common subsequence, by bit-parallel dynamic programming (Hyyrö, 2004).

    Costs len(one) * len(other) / 64 machine words, not counting elements of `other` that are not in `one`.
    """
    places: dict[str, int] = {}
    bit = 1
    for key in one:
        places[key] = places.get(key, 0) | bit
        bit += bit
    row = everything = bit - 1
    for matches in filter(None, map(places.get, other)):
        if both := row & matches:  # else nothing changes
            row = (row + both) | (row - both)  # with one more bit beyond `everything` for each element found
    return len(one) - (row & everything).bit_count()


def _pattern(text: str) -> re.Pattern[str]:
    return _spaced if text.isascii() or _unspaced.search(text) is None else _mixed


def _is_word(shown: str) -> bool:
    return shown[0].isalnum() or shown[0] == "_" or shown[-1].isalnum() or unicodedata.category(shown[0])[0] == "M"


def _fold(shown: str) -> str:
    # Word by word on both sides: normalising a whole text could join two words on one side.
    return shown.lower() if shown.isascii() else unicodedata.normalize("NFKC", shown[:_LONGEST]).casefold()


def _key(folded: str) -> str:
    if any(map(str.isdigit, folded)):
        return folded.replace(",", "")
    if folded.endswith(("'s", "\u2019s")):
        folded = folded[:-2]
    return folded[:_KEY_LENGTH]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def windows(text: str, at_most: int) -> list[tuple[int, str]]:
    """Return the parts of a text to read, with offsets: all of it, or the start (3/4 of `at_most`) and the end."""
    if len(text) <= at_most:
        return [(0, text)]
    tail = at_most // 4
    return [(0, text[: at_most - tail]), (len(text) - tail, text[-tail:])]
