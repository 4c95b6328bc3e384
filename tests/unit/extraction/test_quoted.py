"""Lists of quoted texts in which nothing is escaped."""

from __future__ import annotations

import pytest

from monitor.extraction import quoted

TRICKY = (
    "plain",
    "",
    "two\nlines",
    'the "Safe" package',
    '"Safe" is a package',
    'a package called "Safe"',
    'sizes "S", "M", "L" and "XL"',
    '"S", "M"',
    '{"name": "x", "tags": ["a", "b"]}',
    'f("a", "b")',
    "commas, brackets [1], [2] and 'quotes'",
    'a wheel of 28" here, and one of 26", too',
    '["a list"]',
)


def java(*texts: str) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


@pytest.mark.parametrize("first", TRICKY)
@pytest.mark.parametrize("second", TRICKY)
def test_texts_come_apart_as_they_were_put_together(first: str, second: str) -> None:
    assert quoted.texts(java(first, second, "end")) == (first, second, "end")


def test_an_empty_list_holds_no_texts_and_an_empty_text_is_one() -> None:
    assert quoted.texts("[]") == ()
    assert quoted.texts('[""]') == ("",)
    assert quoted.texts(java("", "")) == ("", "")


@pytest.mark.parametrize("text", ["", "[", "]", '["', '"]', '["]', '["cut here', "no list", "['one', 'two']", "[1, 2]"])
def test_what_is_no_such_list_or_lost_its_end_is_not_read(text: str) -> None:
    assert quoted.texts(text) is None
    assert quoted.only(text) is None
    assert quoted.entries(text, ("user",)) == {}


def test_a_list_known_to_hold_one_text_is_that_text_whatever_stands_in_it() -> None:
    assert quoted.only('["one", "two"]') == 'one", "two'
    assert quoted.only("[]") is None


def test_texts_have_keys_in_a_known_order() -> None:
    keys = ("system", "user")
    assert quoted.entries('["system":"Be "kind"", "user":"Why, "sir"?"]', keys) == {
        "system": 'Be "kind"',
        "user": 'Why, "sir"?',
    }
    assert quoted.entries('["user":"Why?"]', keys) == {"user": "Why?"}


@pytest.mark.parametrize("listed", ['["user":"a", "user":"b"]', '["user":"a", "system":"b"]', '["a", "b"]'])
def test_keys_that_come_twice_or_in_another_order_were_written_by_somebody_else(listed: str) -> None:
    assert quoted.entries(listed, ("system", "user")) == {}


def test_a_long_list_of_open_quotations_is_read_at_once() -> None:
    assert len(quoted.texts(java(*['say "x'] * 50_000)) or ()) == 50_000
    assert len(quoted.texts(java(*['"a', 'b"'] * 25_000)) or ()) == 25_000
