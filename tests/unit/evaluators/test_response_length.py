"""The length of a response: a band of words, and nothing is too short."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from monitor.evaluators.response_length import ResponseLength, count_words
from tests.support.local_evaluators import assert_hostile_texts_take_linear_time, score

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("words", "label"),
    [(1, "too_short"), (2, "too_short"), (3, "fits"), (5, "fits"), (6, "too_long"), (500, "too_long")],
)
async def test_the_band_includes_both_ends(words: int, label: str) -> None:
    found = await score(ResponseLength(shortest=3, longest=5), " ".join(["word"] * words))
    assert found.label == label
    assert ResponseLength.default_defect.matches(found) == (label != "fits")


@pytest.mark.parametrize("response", ["", "  ", ":", "\u200b", "Answer:"])
async def test_a_response_without_content_is_too_short_whatever_the_band(response: str) -> None:
    assert (await score(ResponseLength(shortest=0), response)).label == "too_short"


async def test_one_word_is_enough_by_default() -> None:
    assert (await score(ResponseLength(), "Paris")).label == "fits"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One, two -- three!", 3),
        ("don't stop", 2),
        ("火星には二つの衛星があります。", 7),
        ("화성에는 위성이 있다", 3),
        ("Mars 火星 2", 3),
        ("* - 1", 1),
    ],
)
def test_words_are_counted_in_any_script(text: str, words: int) -> None:
    assert count_words(text) == words


def test_a_band_upside_down_is_refused() -> None:
    with pytest.raises(ValidationError, match="shortest"):
        ResponseLength(shortest=10, longest=5)


async def test_the_explanation_tells_words_and_characters() -> None:
    assert (await score(ResponseLength(), "One two")).explanation == "2 words, 7 characters."


def test_hostile_texts_cost_no_more_than_others() -> None:
    assert_hostile_texts_take_linear_time(ResponseLength())
