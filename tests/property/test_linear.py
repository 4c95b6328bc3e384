"""Reading a text takes time linear in its length: users write the texts, and senders choose what stands around them.

Each reader, and each pattern of a dialect, gets texts of 100 000 characters out of what the patterns themselves are
made of.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import monitor.conventions
import monitor.extraction
from monitor.extraction import documents, evidence
from tests.support.examples import TIMES
from tests.support.readers import READERS
from tests.support.work import assert_linear

pytestmark = pytest.mark.timeout(1200)

LONG = 100_000


def _patterns() -> dict[str, re.Pattern[str]]:
    """Every compiled pattern of the readers and of the dialects, by where it stands."""
    found = {}
    for package in (monitor.extraction, monitor.conventions):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(info.name)).items():
                for at, one in enumerate(value if isinstance(value, tuple) else (value,)):
                    if isinstance(one, re.Pattern):
                        found[f"{info.name}.{name}.{at}"] = one
    return found


PATTERNS = _patterns()


def _tokens() -> list[str]:
    """What the patterns are made of, and what stands between: words, brackets, quotes, white space."""
    words = {word for one in PATTERNS.values() for word in re.findall(r"[A-Za-z_]{2,}|[^\x00-\x7f]+", one.pattern)}
    marks = {"Context:", "Question:", "\n", "\n\n", " ", "\t", "#", "**", "[", "]", "[[", "<", ">", "</", "<context>"}
    marks |= {
        "<context ",
        "[1]",
        "1",
        "a",
        "A",
        "(",
        ")",
        "A(",
        "a=",
        "text='",
        'text="',
        "\\",
        "'",
        '"',
        "\\'",
        "{",
        "}",
    }
    marks |= {"- ", "---", "===\n", "```\n", "_", ".", ",", ":", '{"a":', '["', "\\u00e9", "'}", "score=1", "<A(", ")>"}
    marks |= {" at 0x", "no ", "the following context ", "Document [1] ", "Human: ", "role='"}
    return sorted(words | marks)


TOKENS = _tokens()


def _texts(rng: random.Random, pairs: int) -> Iterator[str]:
    """One token again and again, two that alternate, one after another; with a beginning and an end."""
    for token in TOKENS:
        yield token * (LONG // len(token))
    for _ in range(pairs):
        first, second, start, end = (rng.choice(TOKENS) for _ in range(4))
        yield start + (first + second) * (LONG // len(first + second)) + end
        yield start + first * (LONG // 2 // len(first)) + second * (LONG // 2 // len(second)) + end


@pytest.mark.parametrize("reader", READERS)
def test_no_text_of_users_keeps_a_reader_busy(reader: str) -> None:
    read = READERS[reader]
    for text in _texts(random.Random(None if TIMES else reader), 5 * max(TIMES, 1)):
        assert_linear(read, text)


@pytest.mark.parametrize("place", [place for place in PATTERNS if place.startswith("monitor.conventions")])
def test_no_text_of_senders_keeps_a_pattern_of_a_dialect_busy(place: str) -> None:
    module, name, _ = place.rsplit(".", 2)
    used = set(re.findall(rf"\b{name}\.(match|fullmatch|search|sub|finditer|split)\(", _source(module)))
    assert used, "a pattern is used by its name, so that it is seen here how"
    one = PATTERNS[place]
    apply = one.search if used - {"match", "fullmatch"} else one.fullmatch
    for text in _texts(random.Random(place), 5):
        assert_linear(apply, text)


def _source(module: str) -> str:
    return Path(str(importlib.import_module(module).__file__)).read_text()


def test_a_long_document_that_is_not_in_a_long_prompt_is_looked_for_only_so_long() -> None:
    text = " ".join(f"word{number}" for number in range(60_000))

    def look_for(part: str) -> None:
        found = documents.read([f"{part} {number}" for number in range(20)]) or ()
        evidence.reached(found, [part[::-1] * 3])

    assert_linear(look_for, text)
