"""How files that only their owner may read are created."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """Open `path`, and create it with mode 0600 where it is missing; return its descriptor.

    A file that root creates belongs to the owner of its folder: commands may run as root beside a monitor that does
    not. Raises `OSError`, also where `path` is a symbolic link.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)  # never given away: it may be a hard link to a file elsewhere
    if os.geteuid() == 0:
        with suppress(OSError):
            owner = path.parent.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
