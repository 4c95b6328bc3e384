"""What packages outside build on changes only on purpose, and says of itself what it is for."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from monitor import __version__
from tests.support import surface
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "public_surface.txt"


REGENERATE = "python -m tests.support.surface > tests/golden/public_surface.txt, after a look at docs/stability.md"


PUBLIC = [f"{module}.{name}" for module in surface.MODULES for name in surface.names(module)]


def test_names_fields_and_signatures_are_those_written_down():
    assert GOLDEN.read_text() == surface.render(), REGENERATE


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported_and_every_class_and_function_has_a_docstring(name):
    module, _, name = name.rpartition(".")
    member = getattr(importlib.import_module(module), name)
    assert inspect.getdoc(member) or not (inspect.isclass(member) or inspect.isfunction(member))


def test_a_name_means_the_same_in_every_public_module():
    homes = {}
    for module in surface.MODULES:
        for name in surface.names(module):
            home = surface.home_of(module, name)
            assert homes.setdefault(name, home) == home


def test_what_is_promised_is_little():
    """Whatever is promised to others can be changed no more."""
    assert len(surface.names("monitor.plugins")) <= 50


def test_the_page_names_every_public_module():
    page = (ROOT / "docs" / "stability.md").read_text()
    assert set(surface.MODULES) <= set(re.findall(r"`([\w.]+)`", page))


def test_the_version_stands_in_one_place_and_the_changelog_begins_with_it():
    """At most what is not released yet stands above the section of the current version."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = headings[1:] if headings[0] == "Unreleased" else headings
    assert not released or released[0] == __version__
    assert "version" not in re.findall(r"^(\w+) =", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
