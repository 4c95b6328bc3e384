"""Who works the queue of a folder off: one process at a time, which others can tell."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from monitor.errors import MonitorError
from monitor.storage.files import make_private

_NAME: Final = "backfill.lock"


class Turn:
    """The right to work on the queue in `folder`, held by this process until `leave` or its end."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._held: int | None = None

    def take(self) -> bool:
        """Take it; whether it is ours now. Raises `MonitorError` where the folder does not allow it."""
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
        """Let others have it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def somebody_works(folder: Path) -> bool:
    """Whether a process, a running monitor as a rule, works the queue in `folder` off."""
    turn = Turn(folder)
    free = turn.take()
    turn.leave()
    return not free
