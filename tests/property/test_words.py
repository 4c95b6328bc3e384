"""Texts are taken apart by quick ways and by the patterns that define the same words."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators import _text
from monitor.extraction import evidence

PIECES = [
    "word",
    "Z\u00fcrich",
    "it\u2019s",
    "3,000.5",
    "a",
    "e.g.",
    "\u2026",
    "\u3002",
    "\u6f22\u5b57",
    "\u30ab\u30ca",
    "\uac00\ub098",
    "e\u0301",
    "x\u200dy",
    "_",
]
MARKS = (
    "ab Z\u00e9'\u2019.,!?\u2026\n\t 12\u3002\uff01\u5b57\u30ab\u306a\uac00\u05d0"
    "\u0301\u200d_\u0663\u0964-() \u00a0\r\x1c\u2028\u201c\u2014"
)
TEXTS = st.one_of(
    st.text(),
    st.text(MARKS),
    st.lists(st.sampled_from([*PIECES, " ", "\n", "? ", ". ", "\u201c"])).map("".join),
)


@given(TEXTS)
def test_a_text_is_reduced_to_what_the_pattern_for_words_finds(text: str) -> None:
    plain = text.replace("\\", "")
    assert evidence.folded(plain) == re.sub(r"\W+", " ", plain.lower()).strip()


@given(TEXTS)
def test_both_ways_to_take_a_text_apart_find_the_same_words_in_the_same_sentences(text: str) -> None:
    by_sentence: dict[int, list[str]] = {}
    for word in _text.words(text):
        by_sentence.setdefault(word.sentence, []).append(word.key)
    assert _text.sentences_of_keys(text) == [keys for _, keys in sorted(by_sentence.items())]


@given(TEXTS)
def test_what_is_remembered_of_a_word_is_not_changed_by_its_users(text: str) -> None:
    before = _text.sentences_of_keys(text)
    for sentence in _text.sentences_of_keys(text):
        sentence.append("changed")
    assert _text.sentences_of_keys(text) == before
