"""No test is forgotten: CI runs every file, and `make test` those that need nothing but Python."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.support import suite, tools
from tests.support.examples import examples, load
from tests.support.monitor import MonitorProcess
from tests.support.paths import ROOT
from tests.support.tools import free_port
from tests.support.work import assert_linear, calls

FILES = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py"))


def test_every_file_of_tests_runs_once_and_the_longest_begin_first():
    order = suite.in_order(FILES)
    assert sorted(order) == FILES
    assert order[: len(suite.LONGEST)] == list(suite.LONGEST)
    assert {file.split("/")[1] for file in order[-20:]} <= set(suite.COMPUTING), "they fill the cores to the end"


def test_what_needs_a_real_program_or_minutes_is_left_out_of_the_quick_part_and_named_once():
    left_out = suite.all_left_out()
    named = [f"tests/{file}" for files in left_out.values() for file in files]
    assert len(named) == len(set(named))
    quick = set(FILES) - set(named)
    assert quick >= {file for file in FILES if file.split("/")[1] in suite.COMPUTING}
    assert "tests/integration/test_otlp_http.py" in quick
    assert {file for file in FILES if file.startswith("tests/e2e/")} <= set(named)
    for file, reason in {
        "integration/test_kafka_source.py": "Apache Kafka: Java 17 and Maven",
        "integration/test_boards_in_prometheus.py": "Apache Kafka: Java 17 and Maven",
        "integration/test_page_browser.py": "Chromium",
        "integration/test_promtool_rules.py": "Prometheus and Alertmanager",
        "integration/test_otel_events.py": "the OpenTelemetry Collector: Go",
        "integration/test_sdk_javascript.py": "node",
    }.items():
        assert file in left_out[reason]


def test_make_test_starts_no_whole_monitor_and_tries_a_quarter_of_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(tools, "quick", True)
    with pytest.raises(pytest.skip.Exception, match="start a whole monitor"):
        MonitorProcess(tmp_path).start()
    load(quick=True)
    some = examples(200).max_examples
    load(quick=False)
    assert some < examples(200).max_examples / 4 + 1
    load(quick=request.config.option.quick)


def test_every_helper_that_brings_a_program_and_every_lengthy_file_is_there():
    assert [one for one in (*suite.SERVERS, *suite.LENGTHY, *suite.LONGEST) if not (ROOT / one).exists()] == []


def _mirrored(file: Path) -> bool:
    """Whether a file of tests is named after a module of the folder that its own folder stands for, or after that."""
    folder = file.parent.relative_to(ROOT / "tests" / "unit")
    of = ROOT / "monitor" / folder if (ROOT / "monitor" / folder).is_dir() else ROOT / folder
    names = {path.stem.lstrip("_") for path in of.glob("*") if path.suffix == ".py" or path.is_dir()}
    topic = file.stem.removeprefix("test_")
    return any(topic == name or topic.startswith(f"{name}_") for name in {*names, folder.name})


def test_unit_tests_stand_where_what_they_test_stands():
    """`test_MODULE.py` or `test_MODULE_TOPIC.py`; at the top only what is about no single module."""
    folders = [path for path in (ROOT / "tests" / "unit").rglob("*") if path.is_dir() and path.name != "__pycache__"]
    files = [file for folder in folders for file in folder.glob("test_*.py")]
    assert len(files) > 100
    assert [str(file.relative_to(ROOT)) for file in files if not _mirrored(file)] == []


def test_no_test_imports_from_another_one():
    """Helpers are in `tests/support`."""
    kinds = "|".join(path.name for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py")))
    importing = re.compile(rf"^\s*(from|import) tests\.({kinds})\b", re.MULTILINE)
    everything = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert [str(file.relative_to(ROOT)) for file in everything if importing.search(file.read_text())] == []


def test_every_file_with_tests_is_found():
    for file in (ROOT / "tests").rglob("*.py"):
        if re.search(r"^(async )?def test_|^class Test", file.read_text(), re.MULTILINE):
            assert file.name.startswith("test_"), f"pytest passes {file} over"


def test_ci_runs_everything_and_the_readme_and_the_docs_name_the_same_commands():
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    targets = dict(re.findall(r"^([a-z-]+):.*\n\t(.+)$", makefile, re.MULTILINE))
    assert "pytest --quick" in targets["test"]
    assert targets["test-all"] == "@tests/all.sh"
    everything = (ROOT / "tests" / "all.sh").read_text().rstrip()
    assert everything.endswith('"$@" tests')
    assert re.findall(r"--ignore=(\S+)", everything) == ["tests/containers"]
    assert targets["containers"] == "@tests/containers.sh"
    assert re.findall(r"^make (?!\.)(\S+)", ci, re.MULTILINE) == ["check", "test-all"]
    contributing = (ROOT / "docs" / "contributing.md").read_text()
    for text in ((ROOT / "README.md").read_text(), contributing):
        assert set(re.findall(r"^\$ make ([\w-]+)", text, re.MULTILINE)) <= set(targets)
        assert "$ make test " in text
    assert "$ make test-all" in contributing
    assert "$ make containers" in contributing


def test_processes_of_one_run_take_ports_from_ranges_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for worker in ("", "gw0", "gw1", "gw2", "gw3"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        found.append({free_port() for _ in range(20)})
    assert [len(one) for one in found] == [20] * 5, "none twice in a row"
    bounds = sorted((min(one), max(one)) for one in found)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    assert bounds[-1][1] < 32_768, "the system lends those above"


def test_work_that_grows_with_the_square_of_a_text_is_told_from_work_that_grows_with_it():
    text = "ab" * 10_000
    assert_linear(lambda part: [one.upper() for one in part], text)
    with pytest.raises(pytest.fail.Exception, match="for an eighth of 'abab"):
        assert_linear(lambda part: [part.count(one) for one in part], text)


def test_calls_of_python_and_of_c_are_counted():
    assert calls(lambda: [len(text) for text in ("a", "b", "c")]) in (5, 6), "the work, three times len, the end of it"
