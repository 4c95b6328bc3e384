"""Pseudonyms of users: a keyed hash of their id, which finds their stored data but does not let anyone guess the id."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

NAME: Final = "user.key"
"""The key file, next to the data. Deleting it cuts the link between users and results."""

_BYTES: Final = 32
_PSEUDONYM: Final = re.compile(r"user-[0-9a-f]{32}")


class UserKey:
    """A key for making pseudonyms."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, user_id: str) -> str:
        """Return a user's pseudonym, the same for the same key. A pseudonym and an empty id are returned unchanged."""
        if not user_id or _PSEUDONYM.fullmatch(user_id):
            return user_id
        hashed = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key)
        return f"user-{hashed.hexdigest()}"

    def word(self, text: str) -> str:
        """Return a hash of a word or a short text, 16 hex digits, always the same for the same key."""
        hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key, person=b"word")
        return hashed.hexdigest()


def load(folder: Path) -> UserKey | None:
    """Load the key in `folder`; None if there is none. Raises `OSError`, also if the file does not hold a key."""
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
    """Load the key in `folder`, or create one that only its owner can read. Raises `OSError`."""
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
        with contextlib.suppress(FileExistsError):  # another process was faster: use its key
            os.link(fresh, folder / NAME)
    finally:
        fresh.unlink()
    found = load(folder)
    if found is None:
        raise OSError(f"{folder / NAME} cannot be stored")
    return found


def at_hand(folder: Path) -> UserKey:
    """Load or create the key in `folder`; if that fails, create a key for this process only."""
    try:
        return load_or_make(folder)
    except OSError:
        return UserKey(secrets.token_bytes(_BYTES))
