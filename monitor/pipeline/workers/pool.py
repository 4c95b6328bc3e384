"""A pool of worker processes, each with a pipe; the requests that wait, and the requests being read."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, get_args

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.pipeline.complete import Complete
from monitor.pipeline.local_evaluation import (
    LocalOutcome,
    LocalReader,
    Noted,
    ReadResult,
    ThisProcess,
    WorkerLost,
    Workers,
    described,
)
from monitor.pipeline.workers.connection import Ended, SentRequest, WorkerProcess, open_notes
from monitor.pipeline.workers.packing import frame
from monitor.pipeline.workers.process import SLOWER, Assignment, code_on_disk
from monitor.stages import Runtime
from monitor.telemetry.events import Event

_COMMAND: Final = (
    "import gc; gc.disable(); gc.set_threshold(50_000, 20, 20); "
    "from monitor.pipeline.workers.process import main; main()"
)
_AT_ONCE: Final = 4  # requests in one worker's pipe, so that it need not wait for this process after each
_SLOW: Final = 2.0  # seconds at one request after which other requests no longer wait behind it
_PATIENCE: Final = 10.0  # seconds beyond its own limits after which a worker is killed from here
_LISTENING: Final = 5.0  # seconds that sources may take to listen, before workers start anyway
_LOOK: Final = 1.0  # seconds between two checks
_IDLE: Final = 5.0  # seconds between checks while idle, for a process that ended but left its pipe open
_LONGEST_PAUSE: Final = 30.0  # seconds between two failing starts
_FAILED_STARTS: Final = 3  # failed starts in a row after which this process reads
_MOST_DEATHS: Final = 2  # workers that may die while reading one request


class _NoWorkers(Exception):  # noqa: N818 - never leaves this module
    """No worker can be started."""


class WorkerPool(Workers):
    """`number` processes that read requests. A process that ends is replaced; it costs the request that it was reading.

    Requests do not wait behind a slow one: while all workers are busy with slow requests, there is an extra worker.
    If workers cannot be started, for example after an upgrade of the code on disk, this process reads.

    `time_limit` is the processor time for one request, in seconds. Raises `ConfigError` if the reader cannot be sent
    to another process.
    """

    def __init__(
        self,
        reader: LocalReader,
        number: int,
        *,
        time_limit: float,
        runtime: Runtime,
        log: tuple[str, Literal["json", "text"]] = ("INFO", "json"),
    ) -> None:
        self.number = number
        try:
            self._assignment = frame(Assignment(reader, time_limit, log))
        except Exception as error:  # noqa: BLE001 - pickle passes on any exception of a component
            raise ConfigError(
                f"scoring.processes: a plug-in cannot be sent to a worker process ({described(error)}); set it to 0"
            ) from None
        self._path = os.pathsep.join(str(Path(one).absolute()) for one in sys.path)
        self._longest = time_limit * SLOWER + _PATIENCE
        self._runtime = runtime
        self._here = ThisProcess(reader)
        self._code = ""
        self._upgraded = False
        self._failed_starts = 0
        self._alone = False
        self._workers: list[WorkerProcess] = []
        self._relief: WorkerProcess | None = None
        self._relieving = False
        self._waiting: deque[SentRequest] = deque()
        self._asked = asyncio.Event()
        metrics = runtime.metrics
        self._busy = metrics.worker_busy_seconds
        metrics.workers.set_function(lambda: sum(one.ready for one in self._workers))
        self._ended = {how: metrics.workers_replaced.labels(how) for how in get_args(Ended)}

    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """See `Workers`."""
        try:
            result: ReadResult = await self._ask(complete, noted)
        except _NoWorkers:
            return await self._here.read(complete, noted)
        return result

    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """See `Workers`."""
        try:
            result: LocalOutcome = await self._ask((case, evaluator), noted)
        except _NoWorkers:
            return await self._here.evaluate(case, evaluator, noted)
        return result

    async def run(self, listening: anyio.Event) -> None:
        """See `Workers`."""
        with anyio.move_on_after(_LISTENING):
            await listening.wait()
        self._code = await anyio.to_thread.run_sync(code_on_disk)
        async with anyio.create_task_group() as tasks:
            for _ in range(self.number):
                tasks.start_soon(self._keep_one)
            while True:
                if all(one.ready and not one.held for one in self._workers) and not self._waiting:
                    with anyio.move_on_after(_IDLE):
                        await self._asked.wait()
                self._asked.clear()
                await anyio.sleep(_LOOK)
                now = asyncio.get_running_loop().time()
                for one in self._workers:
                    one.look(now, _SLOW, self._longest)
                self._relieve(tasks)

    def _relieve(self, tasks: TaskGroup) -> None:
        """Take back requests that wait behind a slow one. If no worker is free for them, start an extra worker."""
        slow = [one for one in self._workers if one.slow]
        if any(one.free for one in self._workers):
            for one in slow:
                self._waiting.extendleft(reversed(one.give_up_waiting()))
            self._hand_out()
        elif (
            slow and self._starts and not self._relieving and (self._waiting or any(len(one.held) > 1 for one in slow))
        ):
            self._relieving = True
            tasks.start_soon(self._keep_relief)
        relief = self._relief
        if relief is not None and sum(one.free for one in self._workers if one is not relief) >= self.number:
            relief.leaving = True
            if not relief.held:
                relief.gone.set()

    async def _keep_relief(self) -> None:
        """Run an extra worker until it is no longer needed or ends."""
        with suppress(OSError):
            await self._run_one(relief=True)
        self._relieving = False

    def _answered(self, seconds: float) -> None:
        """Record that a worker is ready or has answered."""
        self._busy.inc(seconds)
        if any(one.ready for one in self._workers):
            self._failed_starts, self._alone = 0, False
        self._hand_out()

    def _hand_out(self) -> None:
        """Assign waiting requests to the workers with the fewest requests."""
        while self._waiting:
            if self._waiting[0].answer.done():  # its reader has gone
                self._waiting.popleft()
                continue
            free = [one for one in self._workers if one.free and len(one.held) < _AT_ONCE]
            if not free:
                return
            min(free, key=lambda one: len(one.held)).take(self._waiting.popleft())

    async def _ask(self, request: object, noted: Noted) -> Any:
        if self._reads_here:
            raise _NoWorkers
        piece = SentRequest(frame(request), asyncio.get_running_loop().create_future(), noted)
        self._waiting.append(piece)
        self._asked.set()
        self._hand_out()
        return await piece.answer

    @property
    def _starts(self) -> bool:
        """Whether the last start of a process succeeded, so that the next one will too."""
        return not self._upgraded and not self._failed_starts

    @property
    def _reads_here(self) -> bool:
        cannot_start = self._upgraded or self._failed_starts >= _FAILED_STARTS
        return cannot_start and not any(one.ready and one.alive for one in self._workers)

    async def _keep_one(self) -> None:
        """Run one process after another."""
        pause = 0.0
        while not self._upgraded:
            await anyio.sleep(pause)
            useful = False
            try:
                useful = await self._run_one()
            except OSError as error:
                self._not_started("not_started", type(error).__name__)
            self._read_here_if_alone()
            pause = 0.0 if useful else min(max(1.0, 2 * pause), _LONGEST_PAUSE)

    async def _run_one(self, *, relief: bool = False) -> bool:
        """Run a process to its end. Return whether it answered anything. Raises `OSError` if it cannot be started."""
        with open_notes() as notes:
            ours, theirs = socket.socketpair()
            rest = ours.dup()
            worker = WorkerProcess(self._code, self._answered, notes)
            self._relief = worker if relief else self._relief
            try:
                with theirs:
                    worker.process = await anyio.to_thread.run_sync(self._start, theirs, notes)
                await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
                worker.take_assignment(self._assignment)
                self._workers.append(worker)
                await worker.gone.wait()
            finally:
                self._workers = [one for one in self._workers if one is not worker]
                self._relief = None if relief else self._relief
                with anyio.CancelScope(shield=True):
                    await worker.close(ours, rest)
            self._take_back(worker)
        return worker.answered > 0

    def _start(self, pipe: socket.socket, notes: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a process. Blocks. Raises `OSError`."""
        return subprocess.Popen(  # noqa: S603 - our own command
            (sys.executable, "-P", "-c", _COMMAND, str(notes.fileno())),
            stdin=pipe.fileno(),
            stdout=pipe.fileno(),
            pass_fds=(notes.fileno(),),
            env={**os.environ, "PYTHONPATH": self._path},
        )

    def _take_back(self, worker: WorkerProcess) -> None:
        """Take back the requests of a process that has ended. The first, which it was reading, may be at fault."""
        if worker.leaving and not worker.held:
            return
        how, at = worker.how, worker.at
        if not worker.ready:
            self._not_started(how, at)
        else:
            self._report(how, at)
        piece = worker.held.popleft() if worker.held and how in ("hung", "died") else None
        if piece is not None:
            piece.deaths += 1
            if how == "hung" or piece.deaths >= _MOST_DEATHS:
                if not piece.answer.done():
                    piece.answer.set_exception(WorkerLost("hung" if how == "hung" else "died", at))
            else:  # it may have been killed for another reason, such as a shortage of memory on the machine
                self._waiting.appendleft(piece)
        self._waiting.extendleft(one for one in reversed(worker.held) if one is not None)
        worker.held.clear()
        self._hand_out()

    def _not_started(self, how: Ended, at: str) -> None:
        self._failed_starts += 1
        self._upgraded = self._upgraded or how == "upgraded"
        self._report(how, at)

    def _read_here_if_alone(self) -> None:
        """If there are no workers and none can start, let this process read the waiting requests, and log that once."""
        if not self._reads_here:
            return
        for piece in self._waiting:
            if not piece.answer.done():
                piece.answer.set_exception(_NoWorkers())
        self._waiting.clear()
        if self._alone:
            return
        self._alone = True
        message = "no worker process can be started: this process reads requests itself"
        if self._upgraded:
            message = "the monitor's files changed after its start: restart it; until then it reads requests itself"
        self._runtime.events.error(Event.NO_WORKERS, message)

    def _report(self, how: Ended, at: str) -> None:
        self._ended[how].inc()
        if how != "memory":
            self._runtime.events.warning(Event.WORKER_REPLACED, "a worker process is replaced", reason=how, at=at)
