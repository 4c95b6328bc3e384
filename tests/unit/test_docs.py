"""What is written for users is what the code does."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from click import Command

from monitor import config
from monitor.cli.main import app
from monitor.config import Config
from monitor.operations.reference import Page, render
from tests.support.written import PAGES, ROOT, Example, anchors, examples

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Command] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}


def here(example: Example) -> str:
    return str(example)


@pytest.mark.parametrize(
    ("page", "name"),
    [(Page.CONFIG, "configuration.md"), (Page.METRICS, "metrics.md"), (Page.EVALUATORS, "evaluators/README.md")],
)
def test_the_reference_is_fresh(page: Page, name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == render(page), f"rag-monitor reference {page} > docs/{name}"


def test_every_command_has_its_line_in_the_readme_or_on_the_page_of_commands() -> None:
    listed = (ROOT / "docs" / "commands.md").read_text()
    for command in COMMANDS:
        assert f"`rag-monitor {command}" in listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_within_the_project_is_broken(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            if anchor and linked.suffix == ".md":
                assert anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_are_there_light_and_dark_and_have_a_text(page: Path) -> None:
    text = page.read_text()
    shown = re.findall(r"<(?:img|source)[^>]*\b(?:src|srcset)=\"([^\"]+)\"", text)
    assert [one for one in shown if not (page.parent / one).exists()] == []
    light, dark = ({one for one in shown if one.endswith(f"-{kind}.png")} for kind in ("light", "dark"))
    assert {one.replace("-light", "-dark") for one in light} == dark
    assert re.findall(r"<img(?![^>]*\balt=\"[^\"]+\")", text) == []


def test_the_readme_in_chinese_shows_the_same_pictures() -> None:
    pages = (ROOT / "README.md", ROOT / "docs" / "README.zh-CN.md")
    ours, chinese = (re.findall(r"\b(?:src|srcset)=\"(?:docs/)?([^\"]+)\"", page.read_text()) for page in pages)
    assert ours == chinese != []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {
        (ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", index) if "://" not in target
    }
    pages = {page for page in PAGES if page.parent in (ROOT / "docs", ROOT / "docs" / "evaluators")}
    assert pages - linked == {ROOT / "docs" / "README.md"}


WAY = re.findall(r"^\d+\. \[`([\w.]+)`\]\(\.\./(\S+)\)", (ROOT / "docs" / "contributing.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("name", "path"), WAY, ids=[name for name, _ in WAY])
def test_every_function_on_the_way_of_a_request_is_where_contributing_says(name: str, path: str) -> None:
    found: list[ast.AST] = [ast.parse((ROOT / path).read_text())]
    for part in name.split("."):
        inner = [node for one in found for node in ast.iter_child_nodes(one)]
        found = [one for one in inner if getattr(one, "name", None) == part]
        assert found, f"{part} of {name} is not in {path}"


def test_contributing_names_every_wing() -> None:
    named = set(re.findall(r"^\| \**`(\w+)`\** \|", (ROOT / "docs" / "contributing.md").read_text(), re.MULTILINE))
    wings = {path.parent.name for path in (ROOT / "monitor").glob("*/__init__.py")}
    assert wings | {"plugins"} == named & (wings | {"plugins"})


@pytest.mark.parametrize("example", examples("python"), ids=here)
def test_python_in_the_pages_compiles(example: Example) -> None:
    ast.parse(example.text)


@pytest.mark.parametrize("example", examples("toml"), ids=here)
def test_toml_in_the_pages_parses(example: Example) -> None:
    tomllib.loads(example.text)


@pytest.mark.parametrize("example", examples("json"), ids=here)
def test_json_in_the_pages_parses(example: Example) -> None:
    decoder, rest = json.JSONDecoder(), example.text.strip()
    while rest:
        _, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()


def configurations() -> Iterator[Example]:
    """The YAML that is a configuration of the monitor, or a part of one."""
    for example in examples("yaml"):
        loaded = next(iter(yaml.safe_load_all(example.text)), None)
        if isinstance(loaded, dict) and loaded.keys() <= Config.model_fields.keys():
            yield example


@pytest.mark.parametrize("example", list(configurations()), ids=here)
def test_a_configuration_in_the_pages_reads(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$\{(\w+)\}", example.text):
        monkeypatch.setenv(name, "example")
    monkeypatch.chdir(tmp_path)
    shutil.copy(
        ROOT / "monitor" / "jobs" / "canary" / "cases.jsonl", tmp_path / "canary.jsonl"
    )  # as one of the pages names it
    loaded = yaml.safe_load(example.text)
    others = {"user_feedback", *loaded.get("feedback", {}).get("evaluators", ())}
    named = [one["evaluator"] for one in loaded.get("alerts", ()) if one["evaluator"] not in others]
    if "evaluators" not in loaded and named:
        loaded["evaluators"] = [{"type": name} for name in dict.fromkeys(named)]
    elif "evaluators" in loaded and "alerts" not in loaded:
        loaded["alerts"] = []
    if "evaluators" in loaded or "alerts" in loaded:
        loaded.setdefault("judge", {"model": "openai/gpt-4o-mini"})  # which the pages set up elsewhere
    for entry in loaded.get("evaluators", ()):
        if "file" in entry:  # a rubric of the reader's own
            entry["file"] = str(ROOT / "monitor" / "evaluators" / "rubrics" / "coherence.md")
            entry["replaces"] = True
        if entry["type"] == "hhem":
            entry["optional"] = True  # its extra is not installed for tests
    config.parse_text(yaml.safe_dump(loaded))


def calls() -> Iterator[tuple[Example, str]]:
    for example in examples("console", "sh"):
        for line in example.text.replace("\\\n", " ").splitlines():
            if found := re.match(r"^(?:\$ )?(?:\S*/)?rag-monitor (\S.*)$", line):
                yield example, found[1]


@pytest.mark.parametrize(("example", "line"), list(calls()), ids=str)
def test_a_command_in_the_pages_exists_with_its_options(example: Example, line: str) -> None:
    words = shlex.split(re.split(r"\s[|>&]|\s2>", line)[0], comments=True)
    command = COMMANDS.get(words[0])
    if words[0].startswith("-"):
        return
    assert command is not None, f"{example}: there is no command {words[0]}"
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words[1:]:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in known | {"--help"}, f"{example}: {words[0]} has no {word}"


def _without_words(text: str) -> list[str]:
    """The commands and options of a page: its fenced lines without their comments, and its inline code."""
    fenced = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0].split("  ")[0].rstrip() for block in fenced for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return lines + sorted(re.findall(r"`([^`\n]+)`", prose))


def test_the_readme_in_chinese_names_the_same_commands_options_and_pages() -> None:
    readme, chinese = ROOT / "README.md", ROOT / "docs" / "README.zh-CN.md"
    assert _without_words(chinese.read_text()) == _without_words(readme.read_text())

    def links(page: Path) -> list[str]:
        found = re.findall(r"\]\(([^)#]+)(#[^)]*)?\)", page.read_text())
        return [f"{(page.parent / path).resolve().relative_to(ROOT)}{anchor}" for path, anchor in found]

    other = {links(readme)[0], links(chinese)[0]}  # each leads to the other
    assert other == {"README.md", "docs/README.zh-CN.md"}
    assert links(chinese)[1:] == links(readme)[1:]
