"""The contents of the pages in `docs/`: fenced examples, links, headings."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])

_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)


class Example(NamedTuple):
    """One fenced block: its page, first line, language and text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """Return its place, as named in test reports."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def examples(*languages: str) -> list[Example]:
    """Yield all fenced blocks in one of `languages`."""
    return [one for page in PAGES for one in _of(page) if one.language in languages]


def of_page(name: str, language: str) -> list[str]:
    """Return the texts of the blocks in `language` on the page `docs/NAME`, in order."""
    return [one.text for one in _of(ROOT / "docs" / name) if one.language == language]


def module(name: str, code: str) -> types.ModuleType:
    """Return the module made from a block of Python."""
    made = sys.modules[name] = types.ModuleType(name)  # pydantic looks up the names in annotations there
    exec(compile(code, name, "exec"), made.__dict__)
    return made


def anchors(page: Path) -> set[str]:
    """Return the anchors on `page`, by the rules of GitHub."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower().replace("`", "")).replace(" ", "-")
        unique, number = slug, 0
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


def _of(page: Path) -> Iterator[Example]:
    whole = page.read_text()
    for match in _FENCED.finditer(whole):
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        yield Example(page, whole.count("\n", 0, match.start()) + 1, match["language"], text)
