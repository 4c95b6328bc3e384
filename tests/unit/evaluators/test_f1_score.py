from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators.f1_score import F1Score
from monitor.model.case import Case
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason
from tests.support.local_evaluators import finish
from tests.support.work import assert_linear

pytestmark = pytest.mark.anyio


async def outcome(response: str, expected: str | None) -> Outcome:
    return await F1Score().evaluate(Case(request_id="1", response=response, expected_response=expected), None)


async def score(response: str, expected: str) -> Score:
    found = await outcome(response, expected)
    assert isinstance(found, Score)
    return found


@pytest.mark.parametrize(
    ("response", "expected", "value"),
    [
        ("Paris", "Paris", 1),
        ("The Paris!", "paris", 1),  # articles, case and punctuation do not count
        ("It is Paris.", "Paris", 2 / 4),
        ("B", "B", 1),  # the option of a question with several
        ("A", "a", 1),
        ("(C)", "B", 0),
        ("London", "Paris", 0),
        ("two two moons", "two moons", 4 / 5),  # a word counts as often as both have it
        ("two moons", "two two moons", 4 / 5),
        ("3,500.00 EUR", "3500.00 EUR", 1),
        ("well-known", "wellknown", 1),
        ("火星には衛星が二つ", "衛星は二つ", 2 * 5 / (9 + 5)),  # by characters: 衛 星 は 二 つ
        ("是。", "是", 1),
        ("\uff28\uff29\u3000\uff2d\uff21\uff32\uff33", "hi mars", 1),
        ("Straße", "STRASSE", 1),
        ("один — два", "один два", 1),
        ("हिन्दी भाषा", "हिन्दी", 2 / 3),  # vowel signs belong to their word
        ("cafe\u0301", "café", 1),
    ],
)
async def test_the_score_is_the_f1_of_the_words_that_both_share(response, expected, value):
    assert (await score(response, expected)).value == pytest.approx(value)


@pytest.mark.parametrize("expected", [None, "", " ", "?!", "the"])
async def test_without_a_word_to_expect_there_is_no_score(expected):
    assert await outcome("Paris", expected) == Skipped(SkippedReason.NO_REFERENCE)


@pytest.mark.parametrize("response", ["", ":", "Thought process:", "The answer is:"])
async def test_a_response_without_content_shares_nothing_even_if_its_words_are_expected(response):
    """S15."""
    assert (await score(response, "The thought process is the answer")).value == 0


async def test_it_names_the_words_that_are_missing():
    found = await score("Mars has Phobos", "Mars has Phobos and Deimos")
    assert [(one.claim, one.verdict) for one in found.evidence] == [("and", "absent"), ("deimos", "absent")]
    assert found.explanation == "3 words are in both, of 3 in the response and 5 expected."


@given(st.text(), st.text())
async def test_any_two_texts_give_the_same_in_both_directions_or_nothing(one, other):
    there, back = await outcome(one, other), await outcome(other, one)
    for found in (there, back):
        assert isinstance(found, Skipped) or 0 <= found.value <= 1
    if isinstance(there, Score) and isinstance(back, Score) and "By rule" not in there.explanation + back.explanation:
        assert there.value == back.value


def test_a_megabyte_takes_about_as_long_as_its_length_says():
    assert_linear(lambda part: finish(outcome(part, f"{part}more")), "wörd \u2014 " * 120_000)
