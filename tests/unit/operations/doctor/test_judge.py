"""A judge's key in a file: where it is looked for, and what `rag-monitor doctor` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from monitor import config
from monitor.operations.doctor import examine, local
from monitor.operations.doctor import judge as doctor_judge
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


@pytest.mark.anyio
async def test_a_check_that_raises_is_a_finding_and_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object, **__: object) -> None:
        raise RuntimeError("with a text of somebody")

    monkeypatch.setattr(doctor_judge, "open_judge", raises)
    monkeypatch.setattr(local.shutil, "disk_usage", raises)
    kafka = {"type": "kafka", "brokers": "127.0.0.1:1", "topics": {"spans": "otlp_proto"}}
    given = config.parse({**yaml.safe_load(TEXT), "sources": [kafka]})
    found = [one async for one in examine(given)]
    raised = [one.place for one in found if "RuntimeError" in one.message]
    assert raised == ["this machine", "judge", "judges.small"]
    assert any("cannot connect" in one.message for one in found)
    assert "somebody" not in str(found)
