"""The site made of docs/: every page is in its navigation, and links of pages lead where they lead on GitHub."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import DOCS, ROOT
from tests.support.written import PAGES, anchors

SITE = DOCS / "site"


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", SITE / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_of(entries: Any) -> list[str]:
    """The pages of a navigation, with those of its parts."""
    if isinstance(entries, str):
        return [entries]
    inner = entries.values() if isinstance(entries, dict) else entries
    return [page for one in inner for page in pages_of(one)]


def test_every_page_is_in_the_navigation_once(hooks: Any) -> None:
    named = pages_of(yaml.safe_load((SITE / "mkdocs.yml").read_text())["nav"])
    assert len(named) == len(set(named))
    assert set(named) == {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)} | set(hooks.PAGES)


def test_nothing_is_asked_of_other_servers_for_fonts() -> None:
    assert yaml.safe_load((SITE / "mkdocs.yml").read_text())["theme"]["font"] is False


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](kafka.md#topics)", "[a](kafka.md#topics)"),
        ("[a](https://example.com/x)", "[a](https://example.com/x)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("[a](../README.md)", "[a](about.md)"),
        ("[`run`](../monitor/pipeline/run.py)", "[`run`](source/monitor/pipeline/run.py.txt)"),
        ("[the `conventions[]`](../monitor/conventions)", "the `conventions[]`"),
        ("![a picture](images/x.png)", "![a picture](images/x.png)"),
    ],
)
def test_a_link_leads_into_the_site(hooks: Any, link: str, expected: str) -> None:
    assert hooks.for_site(link, "page.md", DOCS) == expected


def test_a_link_from_a_folder_leads_up_again(hooks: Any) -> None:
    made = hooks.for_site("[a](../../LICENSE) [b](../why.md)", "runbooks/x.md", DOCS / "runbooks")
    assert made == "[a](../source/LICENSE.txt) [b](../why.md)"


def test_what_is_fenced_stays_and_is_no_link(hooks: Any) -> None:
    text = "```text\n[a](../LICENSE)\n- x\n```"
    assert hooks.for_site(text, "page.md", DOCS) == text
    assert list(hooks.outside(text, DOCS)) == []


def test_a_list_right_after_a_paragraph_is_a_list(hooks: Any) -> None:
    assert hooks.for_site("Options:\n- one\n- two\n  of it", "page.md", DOCS) == "Options:\n\n- one\n- two\n  of it"


def test_the_readme_finds_its_pictures(hooks: Any) -> None:
    made = hooks.for_site('<img src="docs/images/demo.svg">\n[a](docs/why.md)', "about.md", ROOT)
    assert made == '<img src="images/demo.svg">\n[a](why.md)'


def test_no_line_ends_within_an_option_of_a_command(hooks: Any) -> None:
    made = hooks.unbroken("<p>--a <code>top --once --no-color=x a--b</code></p><pre><code><b>x</b> --c</code></pre>")
    once, color = '<span class="option">--once</span>', '<span class="option">--no-color</span>'
    assert made == f"<p>--a <code>top {once} {color}=x a--b</code></p><pre><code><b>x</b> --c</code></pre>"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_are_named_as_on_github(page: Path, hooks: Any) -> None:
    for line in page.read_text().splitlines():
        if line.startswith("## ") and "`" not in line and "](" not in line:
            assert hooks.slug(line.removeprefix("## ")) in anchors(page)
