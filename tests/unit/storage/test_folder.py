"""Which version wrote a storage folder last: noted, named where it is newer, and no obstacle where it is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor import __version__
from monitor.errors import ConfigError
from monitor.storage import folder


def write(path: Path, content: object) -> bytes:
    text = json.dumps(content).encode()
    (path / folder.NAME).write_bytes(text)
    return text


def test_this_version_is_noted_in_a_private_file_and_only_when_it_changes(tmp_path: Path) -> None:
    folder.mark(tmp_path / "state")
    path = tmp_path / "state" / folder.NAME
    assert json.loads(path.read_text()) == {"version": __version__, "format": folder.FORMAT}
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.stat()
    folder.mark(tmp_path / "state")
    assert path.stat().st_ino == before.st_ino
    write(tmp_path / "state", {"version": "0.0.9", "format": 1})
    folder.mark(tmp_path / "state")
    assert json.loads(path.read_text())["version"] == __version__


def test_a_newer_format_is_refused_with_both_versions(tmp_path: Path) -> None:
    written = write(tmp_path, {"version": "7.1.0", "format": folder.FORMAT + 1})
    with pytest.raises(ConfigError) as refused:
        folder.refuse_newer(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / folder.NAME} was written by a newer version of rag-monitor (7.1.0): it has format "
        f"{folder.FORMAT + 1}, this version ({__version__}) reads up to {folder.FORMAT}; "
        "start the newer version again, or set `storage.path` to another folder"
    )
    assert (tmp_path / folder.NAME).read_bytes() == written


def test_another_version_with_the_same_format_is_no_obstacle(tmp_path: Path) -> None:
    write(tmp_path, {"version": "7.1.0", "format": folder.FORMAT})
    folder.refuse_newer(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"somebody's text",
        b"[]",
        b'{"version": "1"}',
        b'{"version": 1, "format": 99}',
        b'{"version": "1.0", "format": true}',
        b'{"version": "1.0", "format": 1e999}',
        b'{"version": "1.0\\u001b[31m\\nnot a version", "format": 99}',
        b'{"version": "' + b"9" * 5000 + b'", "format": 99}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_says_nothing_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / folder.NAME).write_bytes(content)
    folder.refuse_newer(tmp_path)
    assert " rag-monitor: it has format 5" in str(folder.rolled_back(tmp_path / "history.db", 5, 4))
    folder.mark(tmp_path)
    assert json.loads((tmp_path / folder.NAME).read_text())["version"] == __version__


def test_a_disk_that_refuses_is_no_reason_not_to_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder.mark(tmp_path / "file" / "state")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / f"{folder.NAME}.new").symlink_to(tmp_path / "file")
    folder.mark(tmp_path / "linked")
    assert (tmp_path / "file").read_text() == ""
