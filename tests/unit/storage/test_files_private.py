"""Files of the storage folder: private, replaced whole, and told apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from monitor.storage import files
from monitor.storage.files import make_private, stamp_of, write_whole


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_and_its_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "file")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/file")] == [0o700, 0o700, 0o600]


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o601, 0o600), (0o400, 0o400), (0o700, 0o700)])
def test_a_file_that_others_can_use_is_restricted_and_its_content_stays(
    tmp_path: Path, before: int, after: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(before)
    if not os.access(path, os.W_OK):
        pytest.skip("only root opens it")
    make_private(path)
    assert (mode(path), path.read_bytes()) == (after, b"content")


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        make_private(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_replaced_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a longer content")
    before = stamp_of(str(path))
    write_whole(path, b"new")
    assert (path.read_bytes(), mode(path), [one.name for one in tmp_path.iterdir()]) == (b"new", 0o600, ["file"])
    assert stamp_of(str(path)) != before


def test_a_stamp_is_file_size_and_time_and_nothing_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    found = path.stat()
    assert stamp_of(str(path)) == (found.st_ino, 4, found.st_mtime_ns)
    assert stamp_of(str(tmp_path / "none")) == ()


def test_each_kind_of_data_has_its_file() -> None:
    names = ("SPOOL", "RETAINED", "HISTORY", "REQUEST_LOG", "SEVERE_CASES", "INCIDENTS", "LABELS", "STATE", "BACKFILL")
    assert [getattr(files, name) for name in names] == [f"{name.lower()}.db" for name in names]
