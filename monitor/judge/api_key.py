"""The provider's API key: configured, or read from a file periodically, so that a new key needs no restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread

from monitor.errors import ConfigError
from monitor.errors.reading import read_file
from monitor.judge.settings import JudgeSettings

EVERY: Final = 2.0
"""Seconds between two reads of the file."""
_LONGEST: Final = 64 * 1024  # bytes: credentials in JSON are a few thousand


class ApiKey:
    """The API key of one judge. It is never logged, and its file is not kept open.

    `failed` is called once, with the reason, when the file can no longer be read. `place` is the judge's section.
    """

    def __init__(
        self, settings: JudgeSettings, failed: Callable[[str], None] = lambda _why: None, *, place: str = "judge"
    ) -> None:
        self._place = place
        self._given = settings.api_key.get_secret_value() if settings.api_key is not None else None
        self._path = settings.api_key_file
        self._tell = failed
        self._failed = False

    @property
    def current(self) -> str | None:
        """The key as last read; None if none is configured."""
        return self._given

    def load(self) -> None:
        """Read the file for the first time. Call from a worker thread. Raises `ConfigError` if it holds no key."""
        if self._path is not None:
            try:
                self._given = self._read()
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self._place}.api_key_file: {self._path}: {_told(error)}") from None

    async def refresh(self) -> bool:
        """Read the file again and return whether the key changed. A file that cannot be read changes nothing."""
        if self._path is None:
            return False
        try:
            read = await anyio.to_thread.run_sync(self._read)
        except (OSError, ValueError) as error:
            if not self._failed:
                self._tell(_told(error))
            self._failed = True
            return False
        self._failed = False
        changed, self._given = read != self._given, read
        return changed

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the key, until cancelled. Returns at once if there is no file."""
        while self._path is not None:
            await anyio.sleep(EVERY)
            if await self.refresh():
                changed()

    def _read(self) -> str:
        assert self._path is not None  # noqa: S101 - only called with a file
        raw = read_file(self._path, at_most=_LONGEST)
        try:
            key = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise ValueError("it is not text") from None
        if not key:
            raise ValueError("it is empty")
        return key


def _told(error: OSError | ValueError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else str(error)
