"""Files that hold people's questions: readable by their owner only, and never reached through a link."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(path: Path) -> None:
    """See to it that `path` is a file of mode 0600; a missing folder is made with mode 0700, an existing one kept.

    SQLite gives its companion files (`-wal`, `-journal`) the mode of the database, so this covers them. Raises
    `OSError`, also where `path` is a symbolic link: following one would let whoever planted it choose the file.
    """
    for folder in reversed([path.parent, *path.parent.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make renames within `folder` durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
