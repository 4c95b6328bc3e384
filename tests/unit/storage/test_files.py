"""The files of all databases: sizes, folders that are made durable, and why one cannot be opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from monitor.storage.files import size_of, sync_folder, why_not_opened

DENIED = PermissionError(errno.EACCES, "Permission denied")


def test_a_file_that_is_not_there_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"four")
    assert [size_of(tmp_path / name) for name in ("there", "not there")] == [4, 0]


def test_only_a_folder_is_made_durable_as_one(tmp_path: Path) -> None:
    sync_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")


def test_a_folder_of_someone_else_is_named_with_both_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 65532)
    whose = f"{tmp_path} belongs to user {owner}, and the monitor runs as user {owner + 65532}"
    assert why_not_opened(tmp_path / "spool.db", DENIED) == f"Permission denied: {whose}"


@pytest.mark.parametrize("error", [DENIED, OSError(errno.EROFS, "Read-only file system")])
def test_any_other_reason_stays_as_the_system_says_it(tmp_path: Path, error: OSError) -> None:
    assert why_not_opened(tmp_path / "spool.db", error) == error.strerror


def test_a_folder_that_is_not_there_is_no_second_error(tmp_path: Path) -> None:
    assert why_not_opened(tmp_path / "gone" / "spool.db", DENIED) == "Permission denied"
