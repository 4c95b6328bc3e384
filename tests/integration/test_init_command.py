"""`rag-monitor init`: what is found is said and written, keys never are, and what is written can be run."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from monitor import config as configuration
from monitor.operations.setup import proposal as operation
from monitor.operations.setup import surroundings
from tests.support.command import command
from tests.support.http_api import HttpApi, Says
from tests.support.paths import ROOT
from tests.support.tools import free_port

SECRET = "sk-do-not-write-me"
TRAFFIC = ROOT / "monitor" / "cli" / "demo" / "traffic"
CAPTURES = ROOT / "tests" / "data" / "captures"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in surroundings.variables():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Ports in place of the usual ones, on which servers of the machine may listen."""
    found = {kind: free_port() for kind in surroundings.PORTS}
    monkeypatch.setattr(surroundings, "servers", functools.partial(surroundings.servers, ports=found))
    monkeypatch.setattr("monitor.cli.init.PORTS", found)
    return found


@pytest.fixture
def servers(ports: dict[str, int]) -> Iterator[dict[str, str]]:
    """Alertmanager, Prometheus and Grafana answer; their addresses."""
    prometheus = Says(data={"status": "success", "data": {"version": "3.1.0"}})
    alertmanager = Says(data={"cluster": {}, "versionInfo": {"version": "0.28.0"}})
    grafana = Says(data={"database": "ok", "version": "12.1.0"})
    with (
        HttpApi(prometheus, port=ports["Prometheus"]) as first,
        HttpApi(alertmanager, port=ports["Alertmanager"]) as second,
        HttpApi(grafana, port=ports["Grafana"]) as third,
    ):
        yield {"Prometheus": first.url, "Alertmanager": second.url, "Grafana": third.url}


def init(folder: Path, *arguments: object, output: object = None) -> Result:
    path = output or folder / "made.yaml"
    empty = ("--environment", folder / "empty") if "--environment" not in arguments else ()
    return command("init", "--timeout", "60s", "-o", path, *empty, *arguments)


def entries(path: Path, section: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text())[section]
    return found


def test_with_nothing_around_it_writes_what_runs_with_nothing_else(tmp_path: Path, ports: dict[str, int]) -> None:
    result = init(tmp_path)
    assert result.exit_code == 0, result.output
    made = tmp_path / "made.yaml"
    assert [one["type"] for one in entries(made, "evaluators")] == ["overlap_groundedness"]
    loaded = configuration.load(made)
    assert loaded.judge.model is None
    assert f"wrote {made}: valid" in result.stdout
    missing = ", ".join(f"{kind} ({port})" for kind, port in ports.items())
    assert f"did not find on 127.0.0.1: {missing}" in result.stdout
    assert f"rag-monitor run -c {made}" in result.stdout
    assert command("check", "-c", made).exit_code == 0


def test_what_answers_is_said_with_why_and_used(tmp_path: Path, servers: dict[str, str]) -> None:
    result = init(tmp_path)
    assert f"found Alertmanager at {servers['Alertmanager']}: /api/v2/status says 0.28.0" in result.stdout
    assert f"found Prometheus at {servers['Prometheus']}: /api/v1/status/buildinfo says 3.1.0" in result.stdout
    assert f"found Grafana at {servers['Grafana']}" in result.stdout
    made = tmp_path / "made.yaml"
    assert entries(made, "notify") == [{"type": "log"}, {"type": "alertmanager", "url": f"{servers['Alertmanager']}"}]
    assert f"rag-monitor rules -c {made}" in result.stdout
    assert f"rag-monitor dashboards install --url {servers['Grafana']}" in result.stdout
    configuration.load(made)


def test_a_key_is_named_by_its_variable_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    result = init(tmp_path)
    made = tmp_path / "made.yaml"
    judge = yaml.safe_load(made.read_text())["judge"]
    assert (judge["model"], judge["api_key"]) == ("openai/gpt-4o-mini", "${OPENAI_API_KEY}")
    assert "found a key for mistral/mistral-small-latest: the variable MISTRAL_API_KEY is set" in result.stdout
    assert [one["type"] for one in entries(made, "evaluators")] == ["overlap_groundedness", "groundedness"]
    assert SECRET not in result.output + made.read_text()
    assert "rag-monitor doctor -c" in result.stdout


def test_the_instrumentation_of_the_installed_frameworks_is_printed(tmp_path: Path) -> None:
    info = tmp_path / "venv" / "lib" / "python3.12" / "site-packages" / "haystack_ai-3.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haystack-ai\nVersion: 3.0\n")
    result = init(tmp_path, "--environment", tmp_path / "venv")
    assert "found Haystack: the package haystack-ai 3.0 is installed" in result.stdout
    assert "To connect Haystack, add to your service:" in result.stdout
    assert "tracing.enable_tracing(OpenTelemetryTracer(" in result.stdout


def test_a_file_is_overwritten_only_by_force(tmp_path: Path) -> None:
    made = tmp_path / "made.yaml"
    made.write_text("mine: true\n")
    refused = init(tmp_path)
    assert refused.exit_code == 2
    assert f"{made} exists already; --force overwrites it" in refused.stderr
    assert made.read_text() == "mine: true\n"
    assert init(tmp_path, "--force").exit_code == 0
    configuration.load(made)


def test_a_dash_prints_the_configuration_alone_and_the_rest_to_standard_error(tmp_path: Path) -> None:
    result = init(tmp_path, output="-")
    configuration.parse_text(result.stdout)
    assert "sources:" in result.stdout
    assert "did not find" not in result.stdout
    assert "did not find" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    result = init(tmp_path, output=tmp_path / "missing" / "made.yaml")
    assert result.exit_code == 2
    assert "--output: cannot write" in result.stderr


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A capture of some dozens of answers, about half of them unsupported by their documents."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name in ("acme-docs.supported", "acme-docs.unsupported"):
        (folder / f"{name}.pb").write_bytes(gzip.decompress((TRAFFIC / f"{name}.pb.gz").read_bytes()))
    return folder


def test_recorded_traffic_gives_evaluators_and_thresholds_with_their_reasons(tmp_path: Path, recorded: Path) -> None:
    result = init(tmp_path, "--from", recorded)
    assert result.exit_code == 0, result.output
    made = tmp_path / "made.yaml"
    configuration.load(made)
    text, alerts = made.read_text(), {one["evaluator"]: one for one in entries(made, "alerts")}
    assert {one["type"] for one in entries(made, "evaluators")} == set(alerts)
    assert "# local: scored 124 of 124 answers here" in text
    assert alerts["overlap_groundedness"] == {"evaluator": "overlap_groundedness", "regression": True}
    assert "no threshold, since that many are normal here" in " ".join(text.replace("#", " ").split())
    assert alerts["pii_leak"]["warning"] in ("3%", "5%")
    assert "0 of 124 were defects, 0 % (0 % to" in text
    assert "no judge: without an API key, evaluators that compare meaning are off" in text


def test_with_a_key_the_rate_of_the_judge_follows_from_the_traffic_and_its_price_is_said(
    tmp_path: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    init(tmp_path, "--from", recorded, "--traffic", "1000000/day", output=tmp_path / "much.yaml")
    much = {one["type"]: one for one in entries(tmp_path / "much.yaml", "evaluators")}
    assert much["groundedness"]["sample"] == "5%"
    text = " ".join((tmp_path / "much.yaml").read_text().replace("#", " ").split())
    assert (
        "to notice within six hours that the defect rate has risen from 2.0 % to 4.0 % takes 866 scored answers" in text
    )
    assert "a month" in text
    assert SECRET not in text
    init(tmp_path, "--from", recorded, "--traffic", "1000/day", output=tmp_path / "little.yaml")
    little = {one["type"]: one for one in entries(tmp_path / "little.yaml", "evaluators")}
    assert little["groundedness"]["sample"] == "100%"
    assert "there are fewer: all are asked about" in " ".join(
        (tmp_path / "little.yaml").read_text().replace("#", " ").split()
    )


def test_few_answers_leave_the_default_thresholds(tmp_path: Path) -> None:
    row = {"request": "How long?", "response": "Two years.", "retrieved_context": [{"content": "It is two years."}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert init(tmp_path, "--from", tmp_path / "rows.jsonl").exit_code == 0
    alerts = {one["evaluator"]: one for one in entries(tmp_path / "made.yaml", "alerts")}
    assert (alerts["overlap_groundedness"]["warning"], alerts["overlap_groundedness"]["critical"]) == ("10%", "25%")
    assert "too few answers to choose by" in (tmp_path / "made.yaml").read_text()


HOSTILE = {
    "empty.pb": b"",
    "empty.json": b"",
    "broken.pb": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    "broken.json": b'{"resourceSpans": [{"scopeSpans"',
    "deep.json": b'{"resourceSpans": ' + b"[" * 100_000,
    "other.json": b'{"hello": "world"}',
    "other.pb": b"\x89PNG\r\n\x1a\n" + b"\0" * 1000,
    "other.txt": b"hello",
    "lines.jsonl": b"not json\n{}\n",
    "no_answers.jsonl": b'{"request": "Is anyone there?"}\n',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_capture_without_an_answer_is_one_clear_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(HOSTILE[name])
    result = init(tmp_path, "--from", tmp_path / name)
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith("from: no")
    assert str(tmp_path / name) in result.stderr
    assert not (tmp_path / "made.yaml").exists()


def test_a_capture_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = init(tmp_path, "--from", tmp_path / "missing.json")
    assert result.exit_code == 2
    assert "from: no request in" in result.stderr


def test_a_huge_capture_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_MOST_BYTES", 1000)
    (tmp_path / "huge.pb").write_bytes(b"\0" * 1001)
    result = init(tmp_path, "--from", tmp_path)
    assert result.exit_code == 2
    assert "some minutes of traffic are enough" in result.stderr


def test_nothing_of_the_texts_or_names_of_the_traffic_is_written(tmp_path: Path) -> None:
    rows = [
        {
            "request": "a: b\n- type: evil",
            "response": "# } ] ${HOME} {{",
            "retrieved_context": [{"content": "x"}],
            "app": "evil\nalerts: []",
        }
        for _ in range(3)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert init(tmp_path, "--from", tmp_path / "rows.jsonl").exit_code == 0
    assert "evil" not in (tmp_path / "made.yaml").read_text()
    configuration.load(tmp_path / "made.yaml")


@pytest.mark.parametrize("capture", [one.name for one in sorted(CAPTURES.iterdir()) if one.is_dir()])
def test_every_captured_dialect_gives_a_configuration_that_reads(tmp_path: Path, capture: str) -> None:
    result = init(tmp_path, "--from", CAPTURES / capture)
    assert result.exit_code == 0, result.output
    configuration.load(tmp_path / "made.yaml")


def test_a_host_that_must_not_be_called_is_refused(tmp_path: Path) -> None:
    result = init(tmp_path, "--host", "169.254.169.254")
    assert result.exit_code == 2
    assert "host: " in result.stderr
