"""A bounded memory of the ids that came lately."""

from __future__ import annotations


class RecentIds:
    """The ids that came lately: two generations of at most `limit` each, so that memory is bounded."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self._new or key in self._old

    def forget(self, key: bytes) -> None:
        """Take the next sight of `key` for the first again."""
        self._new.discard(key)
        self._old.discard(key)

    def first(self, key: bytes) -> bool:
        """Say whether this is the first sight of `key`; from now on it is not."""
        if key in self._new:
            return False
        known = key in self._old
        if len(self._new) >= self._limit:
            self._old, self._new = self._new, set()
        self._new.add(key)
        return not known
