"""Creates files that only their owner may read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """Open `path`, creating it with mode 0600 if it is missing, and return its descriptor.

    A file created by root is given to the owner of its folder: commands may run as root while the monitor does not.
    Raises `OSError`, also if `path` is a symbolic link.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)  # its owner is never changed: it may be a hard link to a file elsewhere
    if os.geteuid() == 0:
        with suppress(OSError):
            owner = path.parent.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
