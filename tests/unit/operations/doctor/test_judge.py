"""A judge's key in a file: where it is looked for, and what `rag-monitor doctor` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor import config
from monitor.operations.doctor.judge import check_keys

TEXT = """
judge: {model: openai/gpt-4o-mini, api_key_file: secrets/key}
judges:
  small: {model: openai/small, api_key_file: /run/secrets/small}
"""


def test_a_relative_path_begins_at_the_folder_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(TEXT)
    found = config.load(tmp_path / "config.yaml")
    assert found.judge.api_key_file == tmp_path / "secrets" / "key"
    assert found.judges["small"].api_key_file == Path("/run/secrets/small")


def test_a_path_out_of_the_environment_is_taken_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials")
    (tmp_path / "config.yaml").write_text("judge: {model: m, api_key_file: '${CREDENTIALS_DIRECTORY}/key'}")
    assert config.load(tmp_path / "config.yaml").judge.api_key_file == Path("/run/credentials/key")


def test_doctor_says_whether_the_file_holds_a_key_without_showing_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    given = config.parse({"judge": {"model": "openai/gpt-4o-mini", "api_key_file": str(file)}})
    (missing,) = check_keys(given)
    file.write_text("sk-secret")
    (there,) = check_keys(given)
    assert (missing.level, there.level) == ("failed", "ok")
    assert "sk-secret" not in str(there)
    assert str(file) in str(missing)
