"""Where requests are read and evaluated locally: in this process, or in worker processes.

    readers ──complete request──> `Workers` ──cases, local outcomes──> readers
                                  ThisProcess: a thread of this process
                                  WorkerPool (pool.py): processes (process.py), each with a pipe to here and back

A text that hangs or kills its reader costs one request where that is a process of its own: the worker is replaced, and
its request is set aside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Literal, TypeAlias

import anyio
import anyio.to_thread

from monitor.model.case import Case
from monitor.pipeline.complete import Complete
from monitor.pipeline.local_evaluation import LocalOutcome, LocalReader, ReadResult

Loss: TypeAlias = Literal["hung", "died"]

Noted: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes the context in which a request is noted as being read: from when it is its turn until it is done."""

_LARGE: Final = 256 * 1024  # bytes of a request that is decoded in a thread, so that the receivers stay quick


class WorkerLost(Exception):  # noqa: N818 - it is lost, and it is no error of ours
    """The worker that had the request has `hung` or `died`, `at` a line of code if that is known."""

    def __init__(self, reason: Loss, at: str = "") -> None:
        super().__init__(f"the worker has {reason}")
        self.reason = reason
        self.at = at


class Workers(ABC):
    """Reads requests and evaluates them locally, several at the same time."""

    number: int = 0
    """The number of processes; 0: this one."""

    @abstractmethod
    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """Read a trace or a row, with its local evaluation. Raises `WorkerLost`, and nothing else."""

    @abstractmethod
    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """Run one local evaluator, by its name, on a case as it was read. Raises `WorkerLost`, and nothing else."""

    @abstractmethod
    async def run(self, listening: anyio.Event) -> None:
        """Keep the processes running until cancelled. They start when the sources are `listening`."""


class ThisProcess(Workers):
    """Reads in this process: small traces at once, all else in a thread."""

    def __init__(self, reader: LocalReader) -> None:
        self._reader = reader

    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """See `Workers`."""
        with noted():
            if complete.size > _LARGE or self._reader.evaluates:
                return await anyio.to_thread.run_sync(self._reader.read, complete)
            return self._reader.read(complete)

    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """See `Workers`."""
        with noted():
            return await anyio.to_thread.run_sync(self._reader.evaluate, case, evaluator)

    async def run(self, listening: anyio.Event) -> None:
        """See `Workers`: there are none."""
