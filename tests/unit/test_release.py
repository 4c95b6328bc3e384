"""What `make release` refuses, and the notes that it cuts out of the changelog."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from monitor import __version__
from tests import release
from tests.release import Refused
from tests.support.paths import ROOT

CHANGELOG = """# Changelog

What a user can see.

## Unreleased

- Something to come.

## 0.2.0 (2027-01-31)

**Receive**

- A line with `## no heading` in it.

## 0.1.0 (unreleased)

- The first version.
"""


def test_the_notes_are_the_section_of_the_version_and_no_other() -> None:
    notes = "**Receive**\n\n- A line with `## no heading` in it.\n"
    assert release.release_notes(CHANGELOG, "0.2.0") == notes


@pytest.mark.parametrize("version", ["0.2", "0.2.0.1", "0x2.0", "9.9.9"])
def test_a_version_without_a_section_is_refused(version: str) -> None:
    with pytest.raises(Refused, match="has no section"):
        release.release_notes(CHANGELOG, version)


def test_a_section_needs_a_day_except_for_a_rehearsal() -> None:
    with pytest.raises(Refused, match=r"write `## 0\.1\.0 \(YYYY-MM-DD\)`"):
        release.release_notes(CHANGELOG, "0.1.0")
    assert release.release_notes(CHANGELOG, "0.1.0", rehearse=True) == "- The first version.\n"
    with pytest.raises(Refused, match="YYYY-MM-DD"):
        release.release_notes("## 0.3.0\n- x\n", "0.3.0", rehearse=True)


def test_an_empty_section_is_refused() -> None:
    with pytest.raises(Refused, match="is empty"):
        release.release_notes("## 0.3.0 (2027-02-01)\n\n## 0.2.0 (2027-01-01)\n- x\n", "0.3.0")


def test_the_present_version_has_a_section() -> None:
    notes = release.release_notes((ROOT / "CHANGELOG.md").read_text(), __version__, rehearse=True)
    assert "**Receive traces**" in notes


def test_what_is_not_committed_is_refused_by_name_and_what_is_ignored_does_not_count(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ("-c", "user.name=Ana", "-c", "user.email=ana@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / ".gitignore").write_text("dist/\n")
    (tmp_path / "kept").write_text("1")
    git("add", ".")
    git("commit", "-m", "all")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "built").write_text("")
    release.refuse_changes(tmp_path)
    (tmp_path / "kept").write_text("2")
    (tmp_path / "new").write_text("")
    with pytest.raises(Refused, match="not everything is committed: kept, new"):
        release.refuse_changes(tmp_path)


def test_a_byte_or_a_file_that_differs_between_two_builds_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "same").write_bytes(b"1")
        (folder / "wheel").write_bytes(folder.name.encode())
    (other / "more").write_bytes(b"")
    assert release.differing(one, other) == ["more", "wheel"]
    assert release.differing(one, one) == []


def test_checksums_are_lines_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.gz").write_bytes(b"a")
    digests = [hashlib.sha256(text).hexdigest() for text in (b"a", b"b")]
    assert release.checksums(tmp_path) == f"{digests[0]}  a.gz\n{digests[1]}  b.whl\n"
