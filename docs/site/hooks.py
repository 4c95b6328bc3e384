"""Turns pages that are written for GitHub into pages of the site; MkDocs calls the functions `on_...`.

README.md and CHANGELOG.md become pages. A file of the repository that a page links to is copied into the site as text;
a link to a folder becomes its text alone. Names of headings are those of GitHub, so that links to them hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import relpath
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {"about.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site that lie outside of docs/."""

UNFOUND = {"changelog.md": "---\nsearch: {exclude: true}\n---\n"}
"""The heads of pages that searches leave out: the changelog has every word, and says little of each."""

CSS = (
    ".md-grid{max-width:70rem}.md-typeset table:not([class]){font-size:.68rem}"
    ".md-typeset img{border-radius:.3rem}.md-typeset td:first-child code{word-break:keep-all}\n"
    ".md-typeset code .option{white-space:nowrap}\n"
    "@media(max-width:45em){.md-typeset table:not([class]) :is(th,td){min-width:0;padding:.5em .6em}}\n"
)

_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_ITEM = re.compile(r"^(?:[-*] |\d+\. )")
_CODE = re.compile(r"<code>[^<]*</code>")
_OPTION = re.compile(r"(?<![\w-])--\w[\w-]*")
_LOADED = re.compile(r"<(?:script|img|iframe|link (?!rel=\"canonical\"))[^>]*?(?:src|href)=\"(https?://[^\"]+)\"")


def slug(heading: str, _separator: str = "-") -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def outside(markdown: str, folder: Path) -> Iterator[Path]:
    """Yield the files of the repository outside of docs/ that a page in `folder` links to."""
    for line in _prose(markdown):
        for _, _, target, _ in _LINK.findall(line):
            found = (folder / target).resolve()
            if target and "://" not in target and not found.is_relative_to(DOCS) and found.is_file():
                yield found


def for_site(markdown: str, page: str, folder: Path) -> str:
    """Return a page for the site, where it is `page`; its links start in `folder`."""
    here = str(Path(page).parent)

    def moved(found: re.Match[str]) -> str:
        picture, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        to = _in_site((folder / target).resolve())
        return f"{picture}[{text}]({relpath(to, here)}{anchor})" if to else text

    lines: list[str] = []
    for line, is_prose in _lines(markdown):
        if is_prose and _ITEM.match(line) and lines and lines[-1].strip() and not _belongs(lines[-1]):
            lines.append("")  # GitHub begins a list right after a paragraph
        lines.append(_LINK.sub(moved, line) if is_prose else line)
    return re.sub(r'((?:src|srcset)=")docs/', r"\1", "\n".join(lines))


def unbroken(html: str) -> str:
    """Return a page in which no line ends within an option: `-` and `-url` would be read as two."""
    return _CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def _belongs(before: str) -> bool:
    return bool(_ITEM.match(before)) or before.startswith((" ", "#"))


def _in_site(path: Path) -> str:
    """Return where a file of the repository is in the site; "" for a folder."""
    inner = path.relative_to(ROOT).as_posix()
    page = next((name for name, of in PAGES.items() if of == inner), "")
    if page or path.is_dir():
        return page
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else f"source/{inner}.txt"


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is prose: not within a fenced block."""
    fenced = False
    for line in markdown.split("\n"):
        fence = bool(_FENCE.match(line))
        yield line, not (fenced or fence)
        fenced ^= fence


def _prose(markdown: str) -> Iterator[str]:
    return (line for line, is_prose in _lines(markdown) if is_prose)


# -- called by MkDocs


def on_config(config: Any) -> Any:
    """Name headings as GitHub does."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, and the files of the repository that pages link to."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only the environment of the site has it

    def add(name: str, content: str) -> None:
        files.append(File.generated(config, name, content=content))

    linked: set[Path] = set()
    for page in files.documentation_pages():
        linked.update(outside(page.content_string, (DOCS / page.src_uri).parent))
    for name, of in PAGES.items():
        linked.update(outside((ROOT / of).read_text(), ROOT))
        add(name, UNFOUND.get(name, "") + (ROOT / of).read_text())
    for path in sorted(linked):
        to = _in_site(path)
        if to not in PAGES:
            add(to, path.read_text())
    add("site.css", CSS)
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Prepare a page."""
    name = page.file.src_uri
    return for_site(markdown, name, ROOT if name in PAGES else (DOCS / name).parent)


def on_page_content(html: str, **_: Any) -> str:
    """Finish the text of a page."""
    return unbroken(html)


def on_post_build(config: Any, **_: Any) -> None:
    """Refuse a site that loads anything from elsewhere."""
    from mkdocs.exceptions import PluginError  # noqa: PLC0415 - as above

    site = Path(config.site_dir)
    found = {f"{page.name}: {url}" for page in site.rglob("*.html") for url in _LOADED.findall(page.read_text())}
    if found:
        raise PluginError(f"pages load from elsewhere: {', '.join(sorted(found)[:5])}")
