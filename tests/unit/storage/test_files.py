"""The files of all databases: sizes, and folders that are made durable."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.storage.files import size_of, sync_folder


def test_a_file_that_is_not_there_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"four")
    assert [size_of(tmp_path / name) for name in ("there", "not there")] == [4, 0]


def test_only_a_folder_is_made_durable_as_one(tmp_path: Path) -> None:
    sync_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")
