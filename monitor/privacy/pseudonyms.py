"""Pseudonyms of users: a keyed hash of their id, by which stored data can be found but no user guessed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final

NAME: Final = "user.key"
"""The file of the key, beside the data. Deleting it cuts the link between users and results."""

_BYTES: Final = 32
_PSEUDONYM: Final = re.compile(r"user-[0-9a-f]{32}")


class UserKey:
    """A key, which makes pseudonyms."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, user_id: str) -> str:
        """Return the pseudonym of a user, always the same under one key; a pseudonym as it is; empty without a user."""
        if not user_id or _PSEUDONYM.fullmatch(user_id):
            return user_id
        hashed = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key)
        return f"user-{hashed.hexdigest()}"

    def word(self, text: str) -> str:
        """Return a hash of a word or a short text, 16 hex digits, always the same under one key."""
        hashed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key, person=b"word")
        return hashed.hexdigest()


def load(folder: Path) -> UserKey | None:
    """Load the key in `folder`; None where there is none. Raises `OSError`, also where the file holds no key."""
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
    """Load the key in `folder`, or make one, readable by its owner only. Raises `OSError`."""
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
        with contextlib.suppress(FileExistsError):  # another process was quicker: use its key
            os.link(fresh, folder / NAME)
    finally:
        fresh.unlink()
    found = load(folder)
    if found is None:
        raise OSError(f"{folder / NAME} cannot be kept")
    return found


def at_hand(folder: Path) -> UserKey:
    """Load or make the key in `folder`; where that fails, make one for this process alone."""
    try:
        return load_or_make(folder)
    except OSError:
        return UserKey(secrets.token_bytes(_BYTES))
