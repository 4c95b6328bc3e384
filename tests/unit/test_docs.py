"""What is written for users is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor import config
from monitor.cli.main import app
from monitor.cli.reference import Page, render

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize(("page", "name"), [(Page.CONFIG, "configuration.md"), (Page.METRICS, "metrics.md")])
def test_the_reference_is_fresh(page, name):
    assert (ROOT / "docs" / name).read_text() == render(page), f"rag-monitor reference {page} > docs/{name}"


def test_the_configuration_in_the_readme_reads(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-example")
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    loaded = config.parse_text(example)
    assert [one.evaluator.name for one in loaded.assignments] == ["overlap_groundedness", "groundedness"]


def test_every_command_has_its_line_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        assert f"`rag-monitor {command.name or command.callback.__name__}" in readme


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_within_the_project_is_broken(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
