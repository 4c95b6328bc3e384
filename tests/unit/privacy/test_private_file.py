"""Who may read a file that is created, and whose it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from monitor.privacy.private_file import open_private

OWNER, GROUP = 4711, 4712


@pytest.fixture
def given_away(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Run as root in folders that belong to somebody else; the owners that files are given to."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _descriptor, owner, group: given.append((owner, group)))
    found = Path.stat
    monkeypatch.setattr(
        Path,
        "stat",
        lambda self, **how: os.stat_result([*found(self, **how)[:4], OWNER, GROUP, *found(self, **how)[6:10]]),
    )
    return given


def test_a_file_that_root_creates_belongs_to_the_owner_of_its_folder(
    tmp_path: Path, given_away: list[tuple[int, int]]
) -> None:
    os.close(open_private(tmp_path / "new", os.O_RDWR))
    assert given_away == [(OWNER, GROUP)]


def test_a_file_that_is_there_is_never_given_away(tmp_path: Path, given_away: list[tuple[int, int]]) -> None:
    (tmp_path / "there").write_text("content")
    os.close(open_private(tmp_path / "there", os.O_RDWR))
    assert given_away == []
    assert (tmp_path / "there").read_text() == "content"


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "new", os.O_RDWR))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").write_text("content")
    (tmp_path / "link").symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
        open_private(tmp_path / "link", os.O_RDWR)
