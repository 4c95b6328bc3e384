"""Sink `jsonl`: results as JSON lines in a file. Schema: `monitor/storage/history/rows.py`.

After a restart the file may contain a result twice, with the same `id`. Files are readable by their owner only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import Field

from monitor.errors import ConfigError, InvalidData, MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.quantities import Size
from monitor.stages import Deliver, Runtime, Sink
from monitor.storage.files import make_private
from monitor.storage.history.rows import as_json, line


class JsonLines(Sink):
    """Append each result to a file, one JSON object per line."""

    path: Path = Field(examples=["results.jsonl"])
    """The file. It is created if missing, with its folder."""

    include_texts: bool = False
    """Whether to write question, context and answer. Off: only score and explanation, which may quote them. Needs
    `storage: {texts: all}`."""

    fsync: bool = False
    """Whether to flush results to disk (fsync) before they count as delivered."""

    max_file_size: Size = Field(default=100 * 1024**2, gt=0)
    """At this size the file is renamed to `<path>.1` and a new one is started."""

    max_files: int = Field(default=5, ge=1)
    """How many renamed files to keep; `.1` is the newest."""

    def external_copies(self) -> str:
        """Name the file."""
        return f"jsonl {self.path}"

    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Open the file. Raises `ConfigError` for an unusable path.

        Delivering raises `MonitorError` on failure, and `ResultsRefused` if a result cannot be written as a line.
        """
        del runtime
        return open_lines(self, partial(as_json, texts=self.include_texts))


@asynccontextmanager
async def open_lines(options: JsonLines, row: Callable[[EvaluationResult], dict[str, Any]]) -> AsyncIterator[Deliver]:
    """Open the file of `options`; `row` turns a result into a row. Raises as `JsonLines.open` does."""
    file, turn = _RotatingFile(options, row), anyio.Lock()

    async def deliver(results: Sequence[EvaluationResult]) -> None:
        async with turn:
            await anyio.to_thread.run_sync(file.write, results)

    await anyio.to_thread.run_sync(file.open)
    try:
        yield deliver
    finally:
        file.close()


class _RotatingFile:
    def __init__(self, options: JsonLines, row: Callable[[EvaluationResult], dict[str, Any]]) -> None:
        self._options = options
        self._row = row
        self._path = options.path
        self._descriptor: int | None = None

    def open(self) -> None:
        try:
            self._reopen()
        except OSError as error:
            raise ConfigError(f"path: cannot open {self._path}: {error.strerror}") from None

    def write(self, results: Sequence[EvaluationResult]) -> None:
        """Write all of these or none: lines cut off by a full disk are removed, so that each line is complete.

        Raises `ResultsRefused` for results that cannot be written as a line; all others are written.
        """
        found: list[bytes] = []
        refused: dict[str, InvalidData] = {}
        for one in results:
            try:
                found.append(line(one, self._row))
            except InvalidData as error:
                refused[one.id] = error
        if found:
            self._append(b"".join(each + b"\n" for each in found))
        if refused:
            raise ResultsRefused(f"jsonl: {next(iter(refused.values()))}", refused)

    def _append(self, lines: bytes) -> None:
        try:
            descriptor = self._current()
            size = os.fstat(descriptor).st_size
            if size and size + len(lines) > self._options.max_file_size:
                descriptor, size = self._rotate(), 0
            try:
                self._write_all(descriptor, lines)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        except OSError as error:
            self.close()
            raise MonitorError(f"jsonl: cannot write {self._path}: {error.strerror}") from error

    def _current(self) -> int:
        """Return the file at the path: one that is gone or replaced, as by an editor, takes no more lines."""
        if self._descriptor is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._descriptor), self._path.lstat()):
                    return self._descriptor
            self.close()
        return self._reopen()

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _reopen(self) -> int:
        make_private(self._path)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # ends a line that a crash cut off
        return self._descriptor

    def _write_all(self, descriptor: int, lines: bytes) -> None:
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if self._options.fsync:
            os.fsync(descriptor)

    def _rotate(self) -> int:
        self.close()
        for number in range(self._options.max_files - 1, -1, -1):
            older = self._path.with_name(f"{self._path.name}.{number + 1}")
            with contextlib.suppress(FileNotFoundError):
                (self._path.with_name(f"{self._path.name}.{number}") if number else self._path).replace(older)
        return self._reopen()
