"""Watches the memory of the process and its workers: near the limit, receivers refuse requests until it has fallen."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from monitor.stages import Runtime
from monitor.telemetry.events import Event

REFUSE_FROM: Final = 0.90
"""Share of the limit from which receivers refuse: work in progress needs the rest."""

ACCEPT_BELOW: Final = 0.85
_RETURN_FROM: Final = 0.70
_INTERVAL: Final = 0.2
_QUIET_INTERVAL: Final = 2.0
_QUIET_AFTER: Final = 2.0  # seconds since the last arrival, while it is still being processed
_LIST_EVERY: Final = 1.0  # seconds between two searches for new processes: these cost most
_RETURN_EVERY: Final = 2.0
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_MMAP_FROM: Final = (
    4 * 1024**2
)  # orjson allocates 12 bytes per byte of JSON: 3 MiB for a request that is read in one piece
_KEEP: Final = 8 * 1024**2
_LARGEST: Final = 32 * 1024**2  # the largest value glibc accepts for the first of the two
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MOST: Final = 64 * 1024


class MemoryWatch:
    """Compares resident memory with `limit`, in bytes, and reports in `Health` while memory is short.

    `resident` measures it; `give_back` returns freed memory to the system, and is called in a thread.
    """

    def __init__(
        self,
        limit: int,
        runtime: Runtime,
        *,
        resident: Callable[[], int] | None = None,
        give_back: Callable[[], None] | None = None,
    ) -> None:
        self._limit = limit
        self._clock = runtime.clock
        self._events = runtime.events
        self._measure = resident if resident is not None else self._resident
        self._processes: list[int] = []
        self._listed_at = float("-inf")
        self._found = 0
        self._arrived = asyncio.Event()
        self._arrived_at = float("-inf")
        self._give_back = give_back if give_back is not None else give_back_memory()
        self._gave_back_at = float("-inf")
        self._health = runtime.health
        self._resident_gauge = runtime.metrics.memory_resident
        self._refusing_gauge = runtime.metrics.memory_refusing
        runtime.metrics.memory_limit.set(limit)

    async def run(self) -> None:
        """Check until cancelled: five times a second, or every two seconds while nothing arrives and much is free.

        The first arrival after a quiet time triggers a check at once.
        """
        self._health.arrives = self._arrived.set
        while True:
            await self.look()
            if self._quiet():
                with anyio.move_on_after(_QUIET_INTERVAL):
                    await self._arrived.wait()
            else:
                await anyio.sleep(_INTERVAL)

    def _quiet(self) -> bool:
        """Return whether nothing has arrived for a while and memory is far from the limit."""
        now = self._clock.monotonic()
        if self._arrived.is_set():
            self._arrived.clear()
            self._arrived_at = now
        return now - self._arrived_at > _QUIET_AFTER and self._found < _RETURN_FROM * self._limit

    def _resident(self) -> int:
        now = self._clock.monotonic()
        if now - self._listed_at >= _LIST_EVERY:
            self._listed_at = now
            self._processes = list(_processes())
        return sum(map(_resident, self._processes))

    async def look(self) -> None:
        """Measure once, and act on the result."""
        resident = self._measure()
        now = self._clock.monotonic()
        if resident > _RETURN_FROM * self._limit and now - self._gave_back_at >= _RETURN_EVERY:
            self._gave_back_at = now
            await anyio.to_thread.run_sync(self._give_back)
            resident = self._measure()
        self._found = resident
        self._resident_gauge.set(resident)
        was_short = bool(self._health.short_of_memory)
        short = resident > (ACCEPT_BELOW if was_short else REFUSE_FROM) * self._limit
        if short and not was_short:
            self._events.warning(
                Event.MEMORY_SHORT, "memory is short: receivers refuse until it is free", resident=resident
            )
        self._health.short_of_memory = f"memory: {resident} of {self._limit} bytes are in use" if short else ""
        self._refusing_gauge.set(short)


def resident_bytes() -> int:
    """Return the resident memory of this process and its child processes; 0 if the system does not show it."""
    return sum(map(_resident, _processes()))


def _processes() -> Iterator[int]:
    own = os.getpid()
    yield own
    tasks: list[Path] = []
    with contextlib.suppress(OSError):  # no /proc, or one of another namespace
        tasks += Path(f"/proc/{own}/task").iterdir()
    for task in tasks:
        with contextlib.suppress(OSError):  # a thread that has ended
            yield from map(int, _content(f"{task}/children").split())


def _resident(process: int) -> int:
    try:
        return int(_content(f"/proc/{process}/statm").split()[1]) * _PAGE
    except (OSError, IndexError):  # it has ended
        return 0


def _content(file: str) -> bytes:
    """Return the content of a small system file, at a tenth of the cost of `read_text`. Raises `OSError`."""
    opened = os.open(file, os.O_RDONLY)
    try:
        return os.read(opened, _MOST)
    finally:
        os.close(opened)


def keep_freed_memory(read: int = 0) -> None:
    """Let the C library keep some megabytes of freed memory for the next request; does nothing without glibc.

    Otherwise each body of more than 128 KiB is allocated in new pages from the system, which costs more than all the
    work done with it. `give_back_memory` still returns them. `read` is the size of the largest recurring read, in
    bytes: twice as much is kept, because it is in memory both whole and in pieces.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    set_option(_MMAP_THRESHOLD, min(max(_MMAP_FROM, 2 * read), _LARGEST))
    set_option(_TRIM_THRESHOLD, min(max(_KEEP, 2 * read), _LARGEST))


def give_back_memory() -> Callable[[], None]:
    """Return the C library's function that returns freed memory to the system, or one that does nothing.

    glibc keeps freed memory for the thread that used it: without this, a burst of large requests stays resident.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not glibc
        return lambda: None
    return lambda: trim(0)
