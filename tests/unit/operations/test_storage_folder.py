"""Whether a storage folder is a monitor's, and of a version that commands can read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.operations.storage_folder import existing_history, refuse_newer, require_state
from monitor.storage import files, folder


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE something (text TEXT)")
        db.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("name", sorted(files.DATABASES))
def test_a_database_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path, name: str) -> None:
    newer(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(ConfigError, match=f"{name} was written by a newer version"):
        refuse_newer(tmp_path)
    assert (tmp_path / name).read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_other_files_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / folder.NAME).write_text('{"version": "9.0", "format": 99}')
    with pytest.raises(ConfigError, match=r"newer version of rag-monitor \(9\.0\)"):
        refuse_newer(tmp_path)


@pytest.mark.parametrize("name", [folder.NAME, files.SPOOL, files.INCIDENTS])
def test_a_folder_with_any_file_of_a_monitor_is_a_monitors(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    require_state(tmp_path)


@pytest.mark.parametrize("place", ["missing", "empty", "file"])
def test_a_folder_that_no_monitor_has_written_to_is_probably_of_another_configuration(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("notes")
    with pytest.raises(ConfigError, match=rf"storage\.path: no monitor has written to .*{place}; is this the monitor"):
        require_state(tmp_path / place)


def test_a_history_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / files.HISTORY
    with pytest.raises(ConfigError, match=r"there is no history at .*history\.db; is this the monitor's configuration"):
        existing_history(path)
    path.touch()
    assert existing_history(path) == path
