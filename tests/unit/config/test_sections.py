"""The default storage folder, also of a user who has no home folder, as in a container with any user id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from monitor import config
from monitor.errors import ConfigError

PLACES = ("HOME", "XDG_STATE_HOME", "STATE_DIRECTORY")
HOMELESS = """
import pathlib

def home(cls):
    raise RuntimeError("Could not determine home directory.")

pathlib.Path.home = classmethod(home)
from monitor.__main__ import main
main()
"""


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in PLACES}
    command = [sys.executable, "-c", HOMELESS, "check", "--json", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_without_a_home_folder_a_configuration_with_a_storage_folder_works(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"storage: {{path: {tmp_path / 'state'}}}")
    done = check("-c", str(path))
    assert (done.returncode, json.loads(done.stdout)["valid"]) == (0, True), done.stderr


def test_without_a_home_folder_the_storage_folder_is_required_and_named() -> None:
    done = check()
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"].startswith(
        "storage.path: is required, because this user has no home folder"
    )


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("STATE_DIRECTORY", "/var/lib/rag-monitor"), ("XDG_STATE_HOME", "/var/lib"), ("HOME", "/var")],
)
def test_each_place_of_the_state_is_enough(monkeypatch: pytest.MonkeyPatch, variable: str, folder: str) -> None:
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, folder)
    beneath = "/var/.local/state/rag-monitor" if variable == "HOME" else "/var/lib/rag-monitor"
    assert config.parse({}).storage.path == Path(beneath)


def test_in_a_section_of_its_own_the_path_is_required_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(ConfigError, match=r"^my\.yaml: storage\.path: is required, because"):
        config.parse_text("storage: {retention: 1d}", "my.yaml")
    assert config.parse({"storage": {"path": "/var/lib/rag-monitor"}}).storage.retention > 0
