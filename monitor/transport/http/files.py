"""Reload files that change while the process runs, so that tokens and certificates rotate without a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.errors.reading import read_file
from monitor.telemetry.events import Event, Events

T = TypeVar("T")

_LOOK_EVERY = 1.0  # seconds: a rotation need not be noticed faster, and each check costs one system call per file


class Reloaded(Generic[T]):
    """The result of `load`, which is called again when one of its files has changed.

    Raises the `ConfigError` of `load` if the first call fails. If a file is missing or unreadable later, the last good
    value stays in use, and an event reports it.
    """

    def __init__(self, paths: Sequence[Path], load: Callable[[], T], clock: Clock, events: Events) -> None:
        self._paths = tuple(paths)
        self._load = load
        self._clock = clock
        self._events = events
        self._stamps = self._look()
        self._looked_at = clock.monotonic()
        self._value = load()

    def __call__(self) -> T:
        """Return the current value; the files are checked at most once a second."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY:
            self._looked_at = now
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                self._reload()
        return self._value

    def _reload(self) -> None:
        names = ", ".join(str(path) for path in self._paths)
        try:
            self._value = self._load()
        except ConfigError as error:
            self._events.warning(
                Event.RELOAD_FAILED, f"reload failed, the previous version stays in use: {error}", files=names
            )
        else:
            self._events.info(Event.RELOADED, "reloaded after a change", files=names)

    def _look(self) -> tuple[object, ...]:
        stamps: list[object] = []
        for path in self._paths:
            try:
                stat = path.stat()
                stamps.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
            except OSError as error:
                stamps.append(error.errno)
        return tuple(stamps)


def read(path: Path, what: str) -> bytes:
    """Read a file named in the configuration. Raises `ConfigError` with the file and the reason."""
    try:
        return read_file(path)
    except OSError as error:
        raise ConfigError(f"{what} {str(path)!r} cannot be read: {error.strerror}") from None
