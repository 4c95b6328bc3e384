"""Users under another name: a keyed hash of their id, so that what is kept of one can be found and nobody guessed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

NAME: Final = "user.key"
"""The key's file, in the folder of what is kept under it. Whoever deletes it cuts the tie between users and results."""

_BYTES: Final = 32
_PSEUDONYM: Final = re.compile(r"user-[0-9a-f]{32}")


class UserKey:
    """The key at work."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, user_id: str) -> str:
        """The pseudonym of a user: always the same one under the same key. A pseudonym is its own; empty for nobody."""
        if not user_id or _PSEUDONYM.fullmatch(user_id):
            return user_id
        hashed = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key)
        return f"user-{hashed.hexdigest()}"


def load(folder: Path) -> UserKey | None:
    """The key in `folder`; None where there is none. Raises `OSError`, also for a file that holds something else."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        key = file.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise OSError(f"{folder / NAME} does not hold {_BYTES} bytes")
    return UserKey(key)


def load_or_make(folder: Path) -> UserKey:
    """The key in `folder`, made where there is none, readable by its owner only. Raises `OSError`."""
    found = load(folder)
    if found is not None:
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = folder / f"{NAME}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was quicker: its key it is
            os.link(fresh, folder / NAME)
    finally:
        fresh.unlink()
    found = load(folder)
    if found is None:
        raise OSError(f"{folder / NAME} cannot be kept")
    return found


def at_hand(folder: Path) -> UserKey:
    """The key in `folder`; where none can be kept there now, one for this process alone."""
    try:
        return load_or_make(folder)
    except OSError:
        return UserKey(secrets.token_bytes(_BYTES))
