"""`rag-monitor run` where it cannot start: one line that names the section and the option, and exit status 2."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import plugins
from tests.support.command import command, start


@contextmanager
def taken() -> Iterator[int]:
    """A port that another server listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def refused(folder: Path, **given: Any) -> str:
    """What `run` says last."""
    path = folder / "config.yaml"
    base = {
        "sources": [{"type": "otlp_http", "port": 0}],
        "sinks": [{"type": "prometheus", "port": 0}],
        "storage": {"path": str(folder / "state"), "max_size": "1MiB"},
    }
    path.write_text(yaml.safe_dump({**base, **given}))
    with start("run", "-c", path) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 2, errors
    return errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("section", "entries", "place"),
    [
        ("sources", [{"type": "otlp_http", "port": 0}, {"type": "otlp_http"}], "sources[1].port"),
        ("sources", [{"type": "otlp_grpc"}], "sources[0].port"),
        ("sinks", [{"type": "prometheus"}], "sinks[0].port"),
    ],
)
def test_a_port_in_use_is_named_with_its_section(tmp_path, section, entries, place):
    with taken() as port:
        entries = [{"port": port, **one} for one in entries]
        assert refused(tmp_path, **{section: entries}).startswith(f"{place}: cannot listen on 127.0.0.1:{port}: ")


def test_a_host_that_is_not_of_this_machine_is_named_with_its_section(tmp_path):
    entry = {"type": "otlp_http", "host": "no.such.invalid", "port": 0, "insecure": True}
    said = refused(tmp_path, sources=[entry])
    assert said.startswith("sources[0].host: 'no.such.invalid' is not an address of this machine")


@pytest.mark.parametrize("folder", ["file/state", "/proc/none"])
def test_a_folder_that_cannot_be_written_is_named_with_its_option(tmp_path, folder):
    (tmp_path / "file").write_text("")
    said = refused(tmp_path, storage={"path": str(tmp_path / folder)})
    assert said.startswith("storage.path: ")
    assert "cannot be opened" in said


def test_a_file_of_results_that_cannot_be_written_is_named_with_its_option(tmp_path):
    (tmp_path / "file").write_text("")
    sink = {"type": "jsonl", "path": str(tmp_path / "file" / "results.jsonl")}
    said = refused(tmp_path, sinks=[{"type": "prometheus", "port": 0}, sink])
    assert said.startswith("sinks[1].path: cannot open")


LITERAL = {
    "sources": [{"type": "otlp_http", "port": 0, "auth": {"token": "s3cret-token"}}],
    "sinks": [{"type": "prometheus", "port": 0, "auth": {"token": "${METRICS_TOKEN}"}}],
    "notify": [{"type": "slack", "url": "https://hooks.example.com/services/T0/B0/s3cret"}],
    "telemetry": {"endpoint": "http://127.0.0.1:4317", "headers": {"authorization": "s3cret"}},
}


@pytest.mark.parametrize(("mode", "warned"), [(0o644, 3), (0o640, 3), (0o600, 0)])
def test_d14_check_warns_of_secrets_written_into_a_file_that_others_can_read(tmp_path, monkeypatch, mode, warned):
    monkeypatch.setenv("METRICS_TOKEN", "from the environment")
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(LITERAL))
    path.chmod(mode)
    found = [line for line in command("check", "-c", path).stdout.splitlines() if "other users can read" in line]
    assert len(found) == warned
    assert not any("s3cret" in line for line in found)
    places = ("sources[0].auth.token", "notify[0].url", "telemetry.headers.authorization")
    assert all(any(line.startswith(f"warning: {place} is written in") for place in places) for line in found)


def test_d14_the_warning_is_in_the_log_of_a_start_as_well(tmp_path):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        path = tmp_path / "config.yaml"
        sources = [{"type": "otlp_http", "port": server.getsockname()[1], "auth": {"token": "s3cret-token"}}]
        path.write_text(yaml.safe_dump({"sources": sources, "storage": {"path": str(tmp_path / "state")}}))
        path.chmod(0o644)
        with start("run", "-c", path) as process:
            _, errors = process.communicate(timeout=300)
    assert "sources[0].auth.token is written in" in errors
    assert "s3cret-token" not in errors


def test_check_and_the_log_of_a_start_name_deprecated_options_that_the_user_has_set(tmp_path):
    entry = {"type": "sensitive", "pause": 3, "sample": "50%"}
    with taken() as port:
        path = tmp_path / "config.yaml"
        sources = [{"type": "otlp_http", "port": port}]
        storage = {"path": str(tmp_path / "state")}
        path.write_text(yaml.safe_dump({"sources": sources, "evaluators": [entry], "alerts": [], "storage": storage}))
        environment = plugins.install(tmp_path / "plugins")
        said = []
        for name in ("check", "run"):
            with start(name, "-c", path, env=environment) as process:
                said.append("".join(process.communicate(timeout=300)))
    sentence = "evaluators[0].pause: deprecated since 1.5, removed in 2.0; use `rest` instead"
    assert f"warning: {sentence}" in said[0].splitlines()
    assert said[1].count(sentence) == 1
    assert "rest:" not in "".join(said), "what is not set is not named"


def test_d13_a_start_with_a_wrong_line_prints_no_key(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("judge:\n  model: openai/m\n  api_key: sk-Zq81xWvU7rT3oN: oops\n")
    with start("run", "-c", path) as process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "line 3" in errors
    assert "Zq81" not in output + errors


@pytest.mark.parametrize(
    "given",
    [
        {"judge": {"model": "openai/m", "api_base": "http://[::169.254.169.254]/v1"}},
        {"judge": {"model": "openai/m", "api_base": "http://169.254.43518/v1"}},
        {"notify": [{"type": "webhook", "url": "http://100.100.100.200/hook"}]},
        {"notify": [{"type": "alertmanager", "url": "http://[64:ff9b::a9fe:a9fe]:9093"}]},
    ],
    ids=["judge", "a short form", "webhook", "alertmanager"],
)
def test_d11_a_start_that_would_send_to_a_metadata_service_is_refused(tmp_path, given):
    assert re.search("metadata|link-local", refused(tmp_path, **given))


def test_d20_a_file_that_stands_for_too_much_is_one_line_and_no_traceback(tmp_path):
    path = tmp_path / "config.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path.write_text("\n".join(lines))
    with start("run", "-c", path) as process:
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "more than 20,000 values" in errors
    assert "Traceback" not in errors
