"""Alerts in a few lines: whatever a stranger calls an app formats, links and mentions nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.notify.delivery_state import Notice
from monitor.alerts.notify.text import description, links, plain, status, title
from tests.support.alerts import state


def notice(ended: float | None = None, **annotations: Any) -> Notice:
    fired = state()
    return Notice(replace(fired, annotations={**fired.annotations, **annotations}), ended)


def test_the_title_is_the_same_when_it_fires_and_when_it_is_resolved() -> None:
    assert title(notice()) == title(notice(1_700_000_060.0)) == "RagDefectRateHigh (critical): shop, grounded"
    assert (status(notice()), status(notice(1_700_000_720.0))) == ("Firing", "Resolved after 12 min")


def test_two_rules_of_one_evaluator_have_two_titles() -> None:
    fired = state()
    ruled = replace(fired, labels={**fired.labels, "defect_rule": "low or higher"})
    assert title(Notice(ruled)) == "RagDefectRateHigh (critical): shop, grounded, low or higher"


@pytest.mark.parametrize(
    "text",
    ["@channel", "@here all", "a@b.example", "<!channel>", "[me](https://evil.example)", "https://evil.example",
     "WWW.evil.example", "*bold*", "`code`", "~gone~", "a\nb\r\n# title", "\u202eevil\u2066", "\x1b[31m"],
)  # fmt: skip
def test_markup_mentions_and_addresses_are_broken(text: str) -> None:
    shown = plain(text, 100)
    assert not set(shown) & set("*`~[]\n\r\u202e\u2066\x1b")
    assert not re.search(r"@\w|://\w|(?i:www\.)\w", shown)


def test_plain_words_stay_as_they_are() -> None:
    words = "13.3 % (at least 6.45 %) of the answers from shop_de/2, 60 scored; 你好, it's \u201cfine\u201d."
    assert plain(words, 200) == words


@given(st.text(max_size=400), st.integers(4, 60))
def test_any_text_is_one_line_of_bounded_length(text: str, longest: int) -> None:
    shown = plain(text, longest)
    assert len(shown) <= 3 * longest
    assert shown.isprintable() or "\u200b" in shown
    assert not set(shown) & set("*`~[]\n")


def test_a_long_description_is_cut() -> None:
    assert description(notice(description="x" * 10_000), 100) == "x" * 97 + "..."


def test_only_web_addresses_in_one_word_are_links() -> None:
    runbook = "https://wiki.example/RagDefectRateHigh.md"
    assert list(links(notice(runbook_url=runbook, answers_url="https://m.example/answers?app=a%20b"))) == [
        ("Runbook", runbook),
        ("Answers", "https://m.example/answers?app=a%20b"),
    ]
    long = f"https://a.example/{'x' * 9_000}"
    for url in ("javascript:alert(1)", "https://a.example/|b", "https://a.example/>", "https://a b.example", long):
        assert list(links(notice(runbook_url=url))) == []
