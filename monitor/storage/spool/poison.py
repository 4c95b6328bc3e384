"""Requests that kill the process: recorded while they are read, and set aside after they have killed it twice.

A request that kills the process (a crash of a library, memory, a hang that a liveness probe ends) is read again at the
next start, since nothing was settled: without a count it would kill every process from then on. A small file,
`reading.bin`, has an entry for each request being read, written in place before it is read and cleared afterwards.
The file is not synced: what a process wrote survives its death, however it dies, and a crash of the whole machine is
not caused by a request. Measured: 11 us of CPU per request (two steps, each written and cleared).
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from monitor.clock import Clock
from monitor.storage.files import make_private
from monitor.storage.spool.retained import forms_of

READING: Final = "reading.bin"
"""The file with the requests being read."""
FOLDER: Final = "poison"
"""The folder with the requests that were set aside."""
MOST_LIVES: Final = 2
"""A request on which this many processes have died is not read again."""

MAX_FILES: Final = 20
MAX_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = struct.Struct("<16sBBHI")  # key, processes that died on it, whether it is being read, unused, checksum
_ENTRIES: Final = 256
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SIZE: Final = _ENTRY.size
_EMPTY: Final = bytes(_SIZE)


class PoisonGuard:
    """The requests being read now, and those on which earlier processes have died. For one event loop.

    `folder` is the storage folder; `keep` is how many seconds requests that were set aside are kept. A failing disk is
    no reason not to read: then nothing is counted. At most 256 requests are tracked; beyond that, requests on which no
    process has died yet are not recorded.
    """

    def __init__(self, folder: Path, *, keep: float, clock: Clock) -> None:
        self._aside = PoisonFiles(folder / FOLDER, keep=keep, clock=clock)
        self._file = -1
        self._ended: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        self._free = list(range(_ENTRIES - 1, -1, -1))
        with suppress(OSError):
            path = folder / READING
            make_private(path)
            self._file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._take_over(os.pread(self._file, _ENTRIES * _SIZE, 0))
            self._aside.prune()

    @property
    def suspects(self) -> bool:
        """Whether there are requests on which a process has died and that have not been read completely since."""
        return bool(self._ended)

    def lives(self, request_id: str) -> int:
        """Return how many processes have died while reading the request."""
        return self._ended.get(_key(request_id), 0) if self._ended else 0

    def reading(self, request_id: str) -> AbstractContextManager[None]:
        """Record the request for as long as the context lasts; if the process dies meanwhile, that counts."""
        return _Reading(self, _key(request_id))

    def begin(self, key: bytes) -> None:
        """Record that the request with this key is being read. For `reading`."""
        place = self._places.get(key)
        if place is None and self._free:
            place = self._places[key] = self._free.pop()
        self._write(place, _encoded(key, self._ended.get(key, 0), now=True))

    def end(self, key: bytes) -> None:
        """Record that it is no longer being read. For `reading`."""
        ended = self._ended.get(key, 0)
        if ended:
            self._write(self._places.get(key), _encoded(key, ended, now=False))
        else:
            self._clear(key)

    def finished(self, request_id: str) -> None:
        """Drop the record of the request: it was read completely, or set aside."""
        if self._ended and self._ended.pop(key := _key(request_id), 0):
            self._clear(key)

    def set_aside(self, request_id: str, content: dict[str, bytes]) -> str:
        """Keep the `content`, by file extension, for a bug report; return where, "" if the disk refuses.

        Blocks; may run in a thread.
        """
        return self._aside.put(request_id, content)

    def close(self) -> None:
        """Close the file. A process that shuts down normally has not died on any request."""
        if self._file >= 0:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1

    def _take_over(self, left: bytes) -> None:
        """Read what the previous process left: it died on the requests that it was reading."""
        for at in range(0, len(left) - _SIZE + 1, _SIZE):
            key, ended, now, _, checksum = _ENTRY.unpack_from(left, at)
            if checksum == _checksum(key, ended, now) and ended + now and key not in self._ended:
                self._ended[key] = min(ended + now, 255)
        content = bytearray(_ENTRIES * _SIZE)
        for key, ended in self._ended.items():
            place = self._places[key] = self._free.pop()
            content[place * _SIZE : (place + 1) * _SIZE] = _encoded(key, ended, now=False)
        os.pwrite(self._file, bytes(content), 0)

    def _clear(self, key: bytes) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            self._write(place, _EMPTY)
            self._free.append(place)

    def _write(self, place: int | None, entry: bytes) -> None:
        if place is not None and self._file >= 0:
            with suppress(OSError):
                os.pwrite(self._file, entry, place * _SIZE)


class _Reading(AbstractContextManager[None]):
    """The context in which a request is read: a class, since a generator costs half a microsecond more per request."""

    __slots__ = ("_guard", "_key")

    def __init__(self, guard: PoisonGuard, key: bytes) -> None:
        self._guard = guard
        self._key = key

    def __enter__(self) -> None:
        self._guard.begin(self._key)

    def __exit__(self, *_: object) -> None:
        self._guard.end(self._key)


def _encoded(key: bytes, ended: int, *, now: bool) -> bytes:
    return _ENTRY.pack(key, ended, now, 0, _checksum(key, ended, int(now)))


def _checksum(key: bytes, ended: int, now: int) -> int:
    return zlib.crc32(key + bytes((ended, now)), 1)


def _key(request_id: str) -> bytes:
    return hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class PoisonFiles:
    """Keeps requests on which processes have died, for a bug report: the newest, at most 20 and 64 MiB.

    They are in `folder`, readable by their owner, for `keep` seconds: spans and log records as OTLP requests (`ID.pb`,
    `ID.logs.pb`), rows as JSON lines (`ID.jsonl`).
    """

    def __init__(self, folder: Path, *, keep: float, clock: Clock) -> None:
        self._folder = folder
        self._keep = keep
        self._clock = clock

    def put(self, request_id: str, content: dict[str, bytes]) -> str:
        """Write the `content`, by file extension, if small enough; return where, empty if the disk refuses. Blocks."""
        name = request_id if _FILE_NAME.fullmatch(request_id) else _key(request_id).hex()
        written = ""
        with suppress(OSError):
            self.prune(sum(map(len, content.values())), len(content))
            for ending, one in content.items():
                if one and len(one) <= MAX_BYTES:
                    path = self._folder / f"{name}{ending}"
                    make_private(path)
                    path.write_bytes(one)
                    written = written or str(path)
        return written

    def prune(self, more: int = 0, files: int = 0) -> None:
        """Delete old files, and the oldest until `more` bytes in `files` files have room. Raises `OSError`."""
        found = sorted(((path.stat().st_mtime, path) for path in kept(self._folder)), reverse=True)
        room, left = MAX_BYTES - more, MAX_FILES - files
        for at, path in found:
            room, left = room - path.stat().st_size, left - 1
            if room < 0 or left < 0 or self._clock.now() - at > self._keep:
                path.unlink(missing_ok=True)


def kept(folder: Path) -> list[Path]:
    """Return the files that were set aside."""
    return [path for path in folder.glob("*") if path.is_file() and not path.is_symlink()] if folder.is_dir() else []


def erase(folder: Path, ids: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the files that contain any of these ids of traces or users; return their number. Raises `OSError`."""
    wanted = [form for word in ids if word for form in forms_of(word)]
    gone = [path for path in kept(folder) if any(form in path.read_bytes() for form in wanted)]
    if not dry_run:
        for path in gone:
            path.unlink(missing_ok=True)
    return {"files": len(gone)} if gone else {}
