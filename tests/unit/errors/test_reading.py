"""Files that people write are read in bounded time and memory, whatever stands in their place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.errors.reading import read_file


def in_its_place(kind: str, path: Path) -> Path:
    make: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "a folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "a device": lambda: path.symlink_to("/dev/zero"),
        "a link to itself": lambda: path.symlink_to(path),
        "too much": lambda: path.write_bytes(bytes(101)),
    }
    make[kind]()
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("nothing", "No such file or directory"),
        ("a folder", "Is a directory"),
        ("a pipe", "it is a pipe or a device, not a file"),
        ("a device", "it is a pipe or a device, not a file"),
        ("a link to itself", "Too many levels of symbolic links"),
        ("too much", "it is larger than 100 bytes"),
    ],
)
def test_what_is_no_file_or_is_too_large_is_refused_with_its_reason(tmp_path: Path, kind: str, said: str) -> None:
    with pytest.raises(OSError, match=said) as refused:
        read_file(in_its_place(kind, tmp_path / "file"), at_most=100)
    assert refused.value.strerror == said


def test_a_name_that_no_file_can_have_is_refused_like_a_file_that_is_not_there() -> None:
    with pytest.raises(OSError, match="null character"):
        read_file(Path("a\0b"))


def test_a_file_as_large_as_allowed_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link", at_most=100) == bytes(100)


def test_a_pipe_is_read_where_that_is_allowed_up_to_the_limit(tmp_path: Path) -> None:
    pipe = in_its_place("a pipe", tmp_path / "pipe")
    writer = threading.Thread(target=pipe.write_text, args=("slices: [a]",))
    writer.start()
    assert read_file(pipe, pipe=True) == b"slices: [a]"
    writer.join()
    with pytest.raises(OSError, match="larger than 100 bytes"):
        read_file(in_its_place("a device", tmp_path / "device"), at_most=100, pipe=True)
