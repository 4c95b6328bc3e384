"""Text of the traffic as HTML, and figures as people read them."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.web.texts import interval, number, percent, plain, shown, stamp

ANY = st.text(st.characters(exclude_categories=[]), max_size=80)  # halves of surrogate pairs too


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@given(text=ANY)
def test_nothing_of_a_text_becomes_markup(text):
    parser = Elements()
    parser.feed(str(shown(text)))
    parser.close()
    assert all(tag == "span" and found["class"] == "hidden" for tag, found in parser.tags)


@given(text=ANY)
def test_no_character_is_left_that_cannot_be_seen_or_turns_what_follows(text):
    hidden = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
    assert not hidden.search(str(shown(text)))
    assert not hidden.search(plain(text))


@given(text=st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u3164\u115f\u1160")))
def test_what_can_be_seen_is_shown_as_it_is(text):
    assert html.unescape(str(shown(text))) == text


def test_a_direction_override_is_shown_by_its_name():
    assert 'title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>gpj.exe' in str(shown("photo\u202egpj.exe"))


def test_many_of_the_same_are_one_sign_with_their_number():
    assert str(shown("\0" * 50_000)).count("<span") == 1
    assert "\u00d750000" in str(shown("\0" * 50_000))


def test_a_text_of_nothing_but_different_hidden_characters_does_not_swell_without_end():
    assert len(str(shown("\u202e\u202d" * 100_000))) < 500_000


def test_line_breaks_of_windows_are_line_breaks():
    assert str(shown("a\r\nb")) == "a\r\nb"


@pytest.mark.parametrize(
    ("share", "words"),
    [(None, "\u2013"), (0, "0"), (0.0004, "0.04"), (0.021, "2.1"), (0.0994, "9.9"), (0.0996, "10"), (1, "100")],
)
def test_a_share_has_digits_where_they_matter(share, words):
    assert percent(share).removesuffix("\u00a0%") == words


def test_an_interval_says_percent_once():
    assert interval(0.02, 0.061) == "2.0 to 6.1\u00a0%"


def test_numbers_have_their_thousands_apart():
    assert (number(1234567), number(2.0), number(0.123456)) == ("1,234,567", "2", "0.123")


def test_what_is_no_time_is_a_dash():
    assert stamp(1e300) == "\u2013"
    assert stamp(1_700_000_000) == "2023-11-14T22:13:20Z"
