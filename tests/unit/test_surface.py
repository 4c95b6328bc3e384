"""What packages outside build on changes only on purpose, and says of itself what it is for."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

from monitor import __version__
from tests.support import surface
from tests.support.paths import ROOT

GOLDEN = ROOT / "tests" / "golden" / "public_surface.txt"


REGENERATE = "python -m tests.support.surface > tests/golden/public_surface.txt, after a look at docs/stability.md"


def public_modules():
    for name in surface.MODULES:
        module = importlib.import_module(name)
        yield module
        for inner in pkgutil.iter_modules(getattr(module, "__path__", ())):
            yield importlib.import_module(f"{name}.{inner.name}")


def test_names_fields_and_signatures_are_those_written_down():
    assert GOLDEN.read_text() == surface.render(), REGENERATE


@pytest.mark.parametrize("module", list(public_modules()), ids=lambda module: module.__name__)
def test_every_public_class_and_function_has_a_docstring(module):
    own = [
        member
        for name, member in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(member) or inspect.isfunction(member))
        and member.__module__ == module.__name__
    ]
    assert not [member.__qualname__ for member in own if not inspect.getdoc(member)]


def test_the_page_names_every_public_module():
    page = (ROOT / "docs" / "stability.md").read_text()
    assert set(surface.MODULES) <= set(re.findall(r"`([\w.]+)`", page))


def test_the_version_stands_in_one_place_and_the_changelog_begins_with_it():
    """At most what is not released yet stands above the section of the current version."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = headings[1:] if headings[0] == "Unreleased" else headings
    assert not released or released[0] == __version__
    assert "version" not in re.findall(r"^(\w+) =", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
