"""The lock of the backfill queue: one process at a time works on it, and others can see that."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from monitor.errors import MonitorError
from monitor.storage.files import make_private

_NAME: Final = "backfill.lock"


class QueueLock:
    """The right to work on the queue in `folder`, held by this process until `leave` or until it exits."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._held: int | None = None

    def take(self) -> bool:
        """Try to take the lock; whether this process holds it now. Raises `MonitorError` without access to the file."""
        if self._held is not None:
            return True
        try:
            make_private(self._path)
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise MonitorError(f"{self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._held = descriptor
        return True

    def leave(self) -> None:
        """Release the lock."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def somebody_works(folder: Path) -> bool:
    """Whether some process, usually a running monitor, works on the queue in `folder`."""
    turn = QueueLock(folder)
    free = turn.take()
    turn.leave()
    return not free
