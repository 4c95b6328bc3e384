"""Adding a component is writing one file, and its page: shown in a copy of the checkout in which nothing is edited.

A row shape is one entry in one file. Where the docs show a component, it is that one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.paths import ROOT
from tests.support.written import of_page

pytestmark = pytest.mark.timeout(2400)

TALLY = '''
"""Sink `tally`: how many results came, in a file."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from monitor.plugins import EvaluationResult, Sink


class TallySink(Sink):
    """Count results."""

    path: Path = Field(examples=["tally.txt"])
    """The file."""

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Add one for each that is new."""
        seen = {*(self.path.read_text().split() if self.path.exists() else ()), *(one.id for one in results)}
        self.path.write_text(" ".join(seen))
'''
ADVICE = "# Acme\n\nSend it.\n" + "".join(
    f"\n## {part}\n\nSet `acme.{part}`.\n" for part in ("question", "context", "answer", "model", "session")
)
LINE = "| `acme_row` | `acmeAsked` | `acmeAsked` | `acmeSaid` | `acmeFound` | | |"
ENTRY = '    Shape("acme_row", (("acmeAsked",),), *_plain(("acmeAsked",), ("acmeSaid",), ("acmeFound",))),\n'
SECTION = """
### acme_row

```json
{"acmeAsked": "How long?", "acmeSaid": "Two years.", "acmeFound": ["The warranty is two years."]}
```
"""
NAMES = {"cites_sources", "neatness", "tally", "acme", "acme_row", "RagSinkSlow"}
RUBRIC = (
    (ROOT / "monitor" / "evaluators" / "rubrics" / "coherence.md").read_text().replace("coherence\n", "neatness\n", 1)
)
RUNBOOK = "# RagSinkSlow\n\n" + "\n\n".join(
    f"**{part}** It is an example." for part in ("Meaning.", "Impact.", "Find out.", "Act.", "When it ends.")
)
ALERT = """
from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import PrometheusRule, SelfAlert


def tests():
    fires = expect_firing("RagSinkSlow", 60, {"severity": "warning"})
    yield promtool_test("RagSinkSlow: fires", [input_series("sink_slow", {}, "1x20")], [fires])


ALERT = SelfAlert(
    name="RagSinkSlow",
    summary="A sink is slow.",
    rules=(PrometheusRule("sink_slow > 0", "It is slow.", Severity.WARNING),),
    tests=tests,
)
"""
ADDED = {
    "monitor/evaluators/cites_sources.py": of_page("writing-an-evaluator.md", "python")[0],
    "monitor/evaluators/rubrics/neatness.md": RUBRIC,
    "monitor/sinks/tally.py": TALLY,
    "monitor/conventions/acme.py": of_page("writing-a-dialect.md", "python")[0],
    "monitor/conventions/advice/acme.md": ADVICE,
    "monitor/alerts/self_alerts/sink_slow.py": ALERT,
    "docs/runbooks/RagSinkSlow.md": RUNBOOK,
}
SPANS = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "acme"},
                    "spans": [
                        {
                            "traceId": f"{7:032x}",
                            "spanId": f"{number:016x}",
                            **({"parentSpanId": f"{1:016x}"} if number > 1 else {}),
                            "name": step,
                            "startTimeUnixNano": "1790000000000000000",
                            "endTimeUnixNano": "1790000001000000000",
                            "attributes": [
                                {"key": key, "value": {"stringValue": value}}
                                for key, value in {"acme.step": step, **told}.items()
                            ],
                        }
                        for number, (step, told) in enumerate(
                            {
                                "ask": {"acme.question": "How long?", "acme.answer": "Two years."},
                                "search": {"acme.hits": '["The warranty is two years."]'},
                            }.items(),
                            1,
                        )
                    ],
                }
            ],
        }
    ]
}


def run(house: Path, *arguments: str, timeout: float = 300) -> str:
    """What a Python module prints that runs in the copy; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(house)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=house,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with one more component of every kind."""
    copy = tmp_path_factory.mktemp("adding") / "checkout"
    for name in ("monitor", "tests", "docs", "grafana", "pyproject.toml"):
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, copy / name, ignore=shutil.ignore_patterns("__pycache__", "captures"))
        else:
            shutil.copy(place, copy)
    (copy / "tests" / "data" / "captures").symlink_to(ROOT / "tests" / "data" / "captures")
    for name, text in ADDED.items():
        assert not (copy / name).exists(), "it is another one's"
        (copy / name).write_text(text)
    shapes = copy / "monitor" / "extraction" / "rows" / "shapes.py"
    text = shapes.read_text()
    assert text.endswith(",\n)\n"), "the table of shapes ends the file"
    shapes.write_text(text.removesuffix(")\n") + ENTRY + ")\n")
    page = copy / "docs" / "rows.md"
    text = page.read_text()
    order = re.search(r"otherwise the order is: ([^.]+)\.", text)
    assert order is not None
    text = text.replace(order[1], f"{order[1]}, acme_row").replace("\n| `case`:", f"\n{LINE}\n| `case`:")
    page.write_text(text + SECTION)
    page = copy / "docs" / "sinks.md"
    page.write_text(page.read_text() + "\n| [`tally`](#tally) | counts results |\n")
    return copy


def passed(house: Path, *tests: str) -> Counter[str]:
    """How many of these tests are about each of the names; all must pass."""
    report = house / "report.xml"
    run(house, "pytest", "-q", *tests, "-k", " or ".join(NAMES), f"--junitxml={report}")
    names = [case.attrib["name"] for case in ET.parse(report).iter("testcase")]
    return Counter(name for name in NAMES for one in names if re.search(rf"\b(\w+-)?{name}\b", one))


def test_the_contract_suite_takes_them_without_an_edit(house: Path) -> None:
    counted = passed(house, "tests/contract")
    assert counted.keys() == NAMES - {"RagSinkSlow"}
    assert counted["tally"] >= 5
    assert min(counted[name] for name in ("cites_sources", "neatness")) >= 15


def test_so_do_the_tests_of_pages_and_runbooks(house: Path) -> None:
    counted = passed(
        house,
        "tests/integration/test_coverage_command.py",
        "tests/unit/evaluators/test_rubrics.py",
        "tests/unit/test_rows_page.py",
        "tests/unit/alerts/test_self_alert_added.py",
    )
    assert counted.pop("neatness") >= 8
    assert counted == {"acme": 2, "acme_row": 3, "RagSinkSlow": 1}
    run(house, "pytest", "-q", "tests/unit/test_sinks_page.py")


def test_the_references_speak_of_them(house: Path) -> None:
    configuration = run(house, "monitor", "reference", "config")
    for heading in ("evaluators: `cites_sources`", "evaluators: `neatness`", "sinks: `tally`"):
        assert f"## {heading}\n" in configuration
    assert "| `at_least` | How many documents the answer must name. | `1` |" in configuration
    evaluators = run(house, "monitor", "reference", "evaluators")
    assert all(f"| `{name}` |" in evaluators for name in ("cites_sources", "neatness"))


def test_a_trace_and_a_row_are_read(house: Path) -> None:
    (house / "trace.json").write_text(json.dumps(SPANS))
    (house / "rows.jsonl").write_text(json.dumps({"acmeAsked": "How long?", "acmeSaid": "Two years."}))
    for file, convention, documents in (("trace.json", "acme", 1), ("rows.jsonl", "acme_row", 0)):
        (case,) = map(json.loads, run(house, "monitor", "cases", file).splitlines())
        assert (case["convention"], case["request"]["query"], case["response"]) == (
            convention,
            "How long?",
            "Two years.",
        )
        assert len(case["retrieved_context"] or ()) == documents


def test_a_configuration_takes_them_and_the_rules_have_the_alert(house: Path) -> None:
    config = {
        "evaluators": [{"type": "cites_sources"}],
        "sinks": [{"type": "tally", "path": "tally.txt"}],
        "alerts": [],
        "storage": {"path": "state"},
    }
    (house / "config.json").write_text(json.dumps(config))
    checked = run(house, "monitor", "check", "-c", "config.json")
    assert "tally" in checked
    assert "cites_sources" in checked
    assert "RagSinkSlow" in run(house, "monitor", "rules", "-c", "config.json")
