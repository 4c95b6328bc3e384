"""No test is forgotten: `make test` and CI run every file, each of them once."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.support.paths import ROOT
from tests.support.tools import free_port

SUITE = (ROOT / "tests" / "all.sh").read_text()


def test_every_file_of_tests_is_in_one_part_of_the_suite():
    parts = [part.split() for part in re.findall(r"^\w+=\((tests/.*)\)$", SUITE, re.MULTILINE)]
    folders = [ROOT / folder for part in parts for folder in part]
    assert len(parts) == 2
    for file in (ROOT / "tests").rglob("test_*.py"):
        assert sum(folder in file.parents for folder in folders) == 1, f"{file} would run never, or twice"


def test_every_file_with_tests_is_found():
    for file in (ROOT / "tests").rglob("*.py"):
        if re.search(r"^(async )?def test_|^class Test", file.read_text(), re.MULTILINE):
            assert file.name.startswith("test_"), f"pytest passes {file} over"


def test_make_and_ci_run_the_whole_suite():
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^test: .*\n\t@tests/all\.sh$", makefile, re.MULTILINE)
    assert ci.rstrip().endswith("make check\nmake test")


def test_processes_of_one_run_take_ports_from_ranges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for worker in ("", "gw0", "gw1", "gw2", "gw3"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        found.append({free_port() for _ in range(20)})
    assert [len(one) for one in found] == [20] * 5, "none twice in a row"
    bounds = sorted((min(one), max(one)) for one in found)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    assert bounds[-1][1] < 32_768, "the system lends those above"
