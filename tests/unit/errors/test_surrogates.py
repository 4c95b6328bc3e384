"""Half a character in JSON costs that character; nothing else in the text changes."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors.surrogates import without_lone
from tests.support.work import assert_linear

TEXTS = st.text(st.characters(codec=None) | st.sampled_from('\\"\nud8\ud83d\ude42'), max_size=30)


def whole(text: str) -> str:
    """Join halves that follow one another, replace the others."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@given(TEXTS)
def test_each_half_character_is_replaced_and_all_else_is_kept(text: str) -> None:
    assert orjson.loads(without_lone(json.dumps({"said": text}).encode())) == {"said": whole(text)}


@given(TEXTS)
def test_a_text_without_half_characters_stays_as_it_is(text: str) -> None:
    for body in (json.dumps(whole(text)).encode(), orjson.dumps(whole(text))):
        assert without_lone(body) == body


@given(TEXTS)
def test_json_within_json_is_left_to_its_reader(text: str) -> None:
    body = json.dumps(json.dumps(text)).encode()
    assert without_lone(body) == body


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"cut \uD83D", "cut \ufffd"),
        (r"\ude42 cut", "\ufffd cut"),
        (r"\ud83d\ude42", "\U0001f642"),
        (r"\ud83d\ud83d\ude42", "\ufffd\U0001f642"),
        (r"\ude42\ud83d", "\ufffd\ufffd"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\\ufffd"),
        (r"\\\\ud83d", r"\\ud83d"),
        (r"\ud83d\\ude42", r"�\ude42"),
        (r"\u005cud83d", r"\ud83d"),
        (r"\"\ud83d\"", '"\ufffd"'),
        (r"\ud83d\n\ude42", "\ufffd\n\ufffd"),
    ],
)
def test_what_is_an_escape_and_what_only_looks_like_one(written: str, read: str) -> None:
    assert orjson.loads(without_lone(f'"{written}"'.encode())) == read


@pytest.mark.parametrize("unit", [r"\ud83d", r"\ud83da", r"\\", r"\\a", r"\ud83d\ude42", r"\ud83", "\\", r"\\\ud83d"])
def test_it_is_linear_in_hostile_texts(unit: str) -> None:
    assert_linear(without_lone, unit.encode() * 100_000)
