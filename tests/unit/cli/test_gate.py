"""`rag-monitor gate`: which token it sends, and which options go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.cli.gate import token_of
from monitor.errors import ConfigError
from tests.support.command import command
from tests.support.http_api import HttpApi, Says

NOTHING = Says(data={"data": {"result": []}})


def test_the_token_in_a_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("let-me-in\n")
    with HttpApi(NOTHING) as api:
        limits = ["--fail-on", "groundedness:5%", "--prometheus", api.url]
        command("gate", *limits, "--token-file", tmp_path / "token")
        assert {asked.headers.get("authorization") for asked in api.asked} == {"Bearer let-me-in"}


def test_the_token_of_the_environment_is_used_unless_a_file_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_MONITOR_PROMETHEUS_TOKEN", "of-the-environment")
    assert token_of(None) == "of-the-environment"
    (tmp_path / "token").write_text("of-the-file")
    assert token_of(tmp_path / "token") == "of-the-file"
    monkeypatch.delenv("RAG_MONITOR_PROMETHEUS_TOKEN")
    assert token_of(None) == ""


@pytest.mark.parametrize(("content", "said"), [("", "is empty"), (None, "cannot read")])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=rf"--token-file: .*{said}"):
        token_of(tmp_path / "token")


@pytest.mark.parametrize("option", ["--token-file", "--ca-file"])
def test_without_prometheus_these_options_are_refused(tmp_path: Path, option: str) -> None:
    done = command("gate", "--fail-on", "groundedness:5%", option, tmp_path)
    assert done.exit_code == 2
    assert "need --prometheus" in done.stderr
