"""Asking a Prometheus that wants a token, or whose authority nobody else knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.cli import gate_prometheus
from monitor.cli.gate_prometheus import Prometheus
from monitor.errors import ConfigError
from tests.support.command import command
from tests.support.http_api import HttpApi, Says

NOTHING = Says(data={"data": {"result": []}})


def test_the_token_of_a_file_is_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("let-me-in\n")
    with HttpApi(NOTHING) as api:
        limits = ["--fail-on", "groundedness:5%", "--prometheus", api.url]
        command("gate", *limits, "--token-file", tmp_path / "token")
        assert {asked.headers.get("authorization") for asked in api.asked} == {"Bearer let-me-in"}


def test_the_token_of_the_environment_is_shown_unless_a_file_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_MONITOR_PROMETHEUS_TOKEN", "of-the-environment")
    assert gate_prometheus.token(None) == "of-the-environment"
    (tmp_path / "token").write_text("of-the-file")
    assert gate_prometheus.token(tmp_path / "token") == "of-the-file"


def test_without_any_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_MONITOR_PROMETHEUS_TOKEN", raising=False)
    with HttpApi(NOTHING) as api:
        Prometheus(api.url, token=gate_prometheus.token(None)).began("groundedness", None, 0.0)
        assert "authorization" not in api.asked[0].headers


def test_where_it_sends_on_the_token_is_not_shown() -> None:
    with HttpApi(NOTHING) as other, HttpApi(Says(status=302, headers={"location": f"{other.url}/api"})) as api:
        Prometheus(api.url, token="let-me-in").began("groundedness", None, 0.0)
        assert "authorization" in api.asked[0].headers
        assert "authorization" not in other.asked[0].headers


@pytest.mark.parametrize(
    ("content", "said"), [("", "is empty"), ("two words", "one word of plain ASCII"), (None, "cannot be read")]
)
def test_a_file_without_a_token_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=rf"--token-file: .*{said}"):
        gate_prometheus.token(tmp_path / "token")


@pytest.mark.parametrize("option", ["--token-file", "--ca-file"])
def test_without_prometheus_these_options_are_refused(tmp_path: Path, option: str) -> None:
    done = command("gate", "--fail-on", "groundedness:5%", option, tmp_path)
    assert done.exit_code == 2
    assert "are for --prometheus" in done.stderr


def test_an_authority_that_cannot_work_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"--ca-file: .*holds no certificate"):
        Prometheus("https://prometheus:9090", ca_file=tmp_path / "ca.pem")
    with pytest.raises(ConfigError, match="begins with https://"):
        Prometheus("http://prometheus:9090", ca_file=tmp_path / "ca.pem")
