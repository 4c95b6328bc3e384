"""`rag-monitor coverage` and `rag-monitor cases --explain`: what is read of a service, and what to change."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from monitor import registry
from monitor.cli.coverage import lines
from monitor.extraction import coverage
from monitor.extraction.coverage import Coverage
from monitor.extraction.rows.shapes import SHAPES
from monitor.operations.instrumentation import summarise
from tests.support.monitor import MonitorProcess
from tests.support.tools import wait_until
from tests.support.traces import SETUPS

ADVICE = Path(coverage.__file__).parents[1] / "conventions" / "advice"
DIALECTS = [one.name for one in registry.conventions()]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("dialect", [*DIALECTS, "rows"])
def test_every_dialect_says_how_to_send_what_may_be_missing(dialect: str) -> None:
    text = (ADVICE / f"{dialect}.md").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == ["question", "context", "answer", "model", "session"]
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("convention", [*DIALECTS, *(shape.name for shape in SHAPES), "configuration", "a_plug_in", ""])
def test_there_is_advice_for_whoever_wrote_the_trace(convention: str) -> None:
    assert all(coverage.advice(convention, name) for name in ("question", "context", "answer", "model"))


def test_no_advice_is_looked_for_outside_of_its_folder() -> None:
    assert coverage.advice("../../../README", "question") == coverage.advice("gen_ai", "question")


def test_what_is_missing_is_counted_and_advised_on() -> None:
    found = {("shop", "gen_ai"): Coverage(4, {**dict.fromkeys(coverage.FIELDS, 4), "context": 1, "session": 0})}
    shown = list(lines(summarise(found)))
    assert shown[1].split() == ["shop", "gen_ai", "4", "100%", "25.0%", "100%", "100%", "0%", "100%"]
    headings = [line for line in shown if line.startswith("shop (gen_ai): no ")]
    assert headings == [
        "shop (gen_ai): no context in 3 of 4 requests",
        "shop (gen_ai): no session in 4 of 4 requests",
    ]


def test_captures_are_covered() -> None:
    done = run("coverage", str(SETUPS["captures/openai__otel_genai__span"]))
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["app", "dialect", "requests", *coverage.FIELDS]


def test_a_running_monitor_is_asked_for_its_coverage(tmp_path: Path) -> None:
    body = b"".join(path.read_bytes() for path in sorted(SETUPS["captures/langchain__openinference"].glob("*.pb")))
    with MonitorProcess(tmp_path) as monitor:
        assert monitor.post(body) == 200
        url = f"http://127.0.0.1:{monitor.metrics_port}/metrics"
        wait_until(lambda: "openinference" in run("coverage", "--url", url).stdout, 30, "the coverage")
        shown = run("coverage", "--url", url)
    assert shown.returncode == 0
    row = next(line.split() for line in shown.stdout.splitlines() if "openinference" in line)
    assert int(row[2]) > 0


def test_nobody_there_is_said_to_be_so() -> None:
    done = run("coverage", "--url", "http://127.0.0.1:9/metrics")
    assert done.returncode == 1
    assert "no monitor responds" in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_says_for_each_field_where_it_came_from() -> None:
    done = run("cases", "--explain", str(SETUPS["captures/langchain__openinference"]))
    assert done.returncode == 0
    assert re.search(
        r"^  question  \".*\"\n +from openinference, span '.*' \w{16}: input\.value$", done.stdout, re.MULTILINE
    )
    assert "not used:" in done.stdout


def test_a_mapping_in_the_configuration_is_tried_on_a_capture(tmp_path: Path) -> None:
    attributes = {"acme.q": "Why?", "acme.a": "Because.", "acme.docs": '["One."]'}
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "ask",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
    }
    (tmp_path / "001.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    config = tmp_path / "config.yaml"
    config.write_text("extraction: {attributes: {question: acme.q, answer: acme.a, documents: acme.docs}}")
    plain = run("cases", str(tmp_path / "001.json"))
    assert json.loads(plain.stdout)["status"] == "no_request"
    mapped = run("cases", "-c", str(config), str(tmp_path / "001.json"))
    assert json.loads(mapped.stdout)["status"] == "ready"
    told = run("cases", "--explain", "-c", str(config), str(tmp_path / "001.json"))
    assert "from configuration, span 'ask' eee19b7ec3c1b174: acme.q" in told.stdout


def test_a_wrong_configuration_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("extraction: {attributes: {questions: x}}")
    done = run("cases", "-c", str(tmp_path / "c.yaml"), str(tmp_path))
    assert done.returncode == 2
    assert "unknown key (did you mean 'question'?); allowed: question, " in done.stderr
