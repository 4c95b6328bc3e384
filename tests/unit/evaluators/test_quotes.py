"""A quote is found where it stands, whatever small slip the copying made; what was not said is not found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators._quotes import QuotedText
from tests.support.work import assert_linear

RESPONSE = (
    "## Fees\n\n"
    "The **annual fee** is 12\u00a0EUR [1] and is due in May \u2013 "
    "see the [price list](https://example.com/fees) for more.\n"
    "* Children don\u2019t pay.\n"
    "* Stra\u00dfenfest: \u201efrei\u201c f\u00fcr alle.\n"
    "> Cafe\u0301 opens at 9:00."
)


@pytest.mark.parametrize(
    ("quote", "stretch"),
    [
        ("is due in May", "is due in May"),
        ("  is   due\nin May ", "is due in May"),
        ("IS DUE IN MAY", "is due in May"),
        ('"is due in May"', "is due in May"),
        ("\u201cis due in May\u201d.", "is due in May"),
        ("is due in May, ...", "is due in May"),
        ("is due in May - see the price list", "is due in May \u2013 see the [price list"),
        ("The annual fee is 12 EUR and is due", "The **annual fee** is 12\u00a0EUR [1] and is due"),
        ("the *annual* fee is 12 EUR [1]", "The **annual fee** is 12\u00a0EUR"),
        ("see the price list for more.", "see the [price list](https://example.com/fees) for more."),
        ("Children don't pay.", "Children don\u2019t pay."),
        ("- Children don't pay.", "Children don\u2019t pay."),
        ("Children don't pay. Strassenfest: frei", "Children don\u2019t pay.\n* Stra\u00dfenfest: \u201efrei"),
        ("Caf\u00e9 opens at 9:00", "Cafe\u0301 opens at 9:00"),
        ("12\u200b EUR", "12\u00a0EUR"),
    ],
)
def test_a_slip_of_copying_does_not_hide_a_quote(quote: str, stretch: str) -> None:
    found = QuotedText(RESPONSE).place(quote)
    assert found is not None
    assert RESPONSE[slice(*found)] == stretch


@pytest.mark.parametrize(
    "quote",
    [
        "",
        " ",
        ".",
        "**",
        '""',
        "Mars is red",
        "is due in June",
        "The annual fee is due in May",
        "The annual fee is 13 EUR",
        "Children do pay.",
        "https://example.com/fees is due",
        RESPONSE + " And more.",
    ],
)
def test_what_was_not_said_is_not_found(quote: str) -> None:
    assert QuotedText(RESPONSE).place(quote) is None


def test_a_repeated_stretch_is_found_after_the_last_one_and_then_from_the_start() -> None:
    text = QuotedText("Two. *Two.* Three.")
    assert text.place("Two.") == (0, 4)
    assert text.place("Two.", 4) == (6, 10)
    assert text.place("TWO.", 4) == (6, 10)
    assert text.place("TWO.", 12) == (0, 4)


@given(st.text(max_size=200), st.text(max_size=50), st.integers(0, 250))
def test_a_place_lies_in_the_text_and_is_not_empty(text: str, quote: str, after: int) -> None:
    found = QuotedText(text).place(quote, after)
    if found is not None:
        assert 0 <= found[0] < found[1] <= len(text)


@given(st.text(max_size=100), st.text(min_size=1, max_size=50), st.text(max_size=100))
def test_every_stretch_with_a_word_is_found(before: str, stretch: str, after: str) -> None:
    found = QuotedText(before + stretch + after).place(stretch)
    assert (found is not None) == any(map(str.isalnum, stretch.strip()))


@pytest.mark.parametrize("unit", ["a ", "[", "](", "[1", "](x", "*", "\n", "\n- ", " ", "\u0301", "\u00df", "> "])
def test_a_hostile_text_takes_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert_linear(lambda part: QuotedText(part).place("Mars is red."), text)
    assert_linear(lambda part: QuotedText("Mars is red.").place(part), text)
