"""A pool of worker processes, each with a pipe; the requests that wait, and those that are being read."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, cast

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.pipeline.complete import Complete
from monitor.pipeline.local_evaluation import (
    LocalOutcome,
    LocalReader,
    Noted,
    ReadResult,
    WorkerLost,
    Workers,
    described,
)
from monitor.pipeline.workers.packing import LENGTH, frame, read_answer
from monitor.pipeline.workers.process import READY, SLOWER, Assignment
from monitor.stages import Runtime
from monitor.telemetry.events import Event

Ended: TypeAlias = Literal["hung", "died", "memory", "not_started"]

_COMMAND: Final = "from monitor.pipeline.workers.process import main; main()"
_AT_ONCE: Final = 4  # requests in one worker's pipe, so that it need not wait for this process after each
_STARTING: Final = 120.0  # seconds; a busy machine and a plug-in that loads a model take their time
_PATIENCE: Final = 10.0  # seconds beyond its own limits after which a worker is ended from here
_LISTENING: Final = 5.0  # seconds that sources may take to listen, before workers start all the same
_LOOK: Final = 1.0  # seconds between two looks
_LONGEST_PAUSE: Final = 30.0  # seconds between two starts that fail
_MOST_DEATHS: Final = 2  # of workers, at one request
_NOTES: Final = 4_096
_LINE: Final = re.compile(r'File "([^"\n]++)", line (\d++) in (\S++)')


@dataclass(slots=True, eq=False)
class _Piece:
    """A request on its way to a worker and back; `deaths` counts the workers that died at it."""

    content: bytes
    answer: asyncio.Future[Any]
    noted: Noted
    deaths: int = 0


class _WorkerProcess(asyncio.Protocol):
    """One process: what is in its pipe, and how it ended."""

    def __init__(self, pool: WorkerPool, notes: IO[bytes]) -> None:
        self._pool = pool
        self.process: subprocess.Popen[bytes] | None = None
        self._notes = notes
        self._received = bytearray()
        self._pipe: asyncio.Transport | None = None
        self._noted = ExitStack()
        self._overdue = False
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self.held: deque[_Piece] = deque()
        self.ready = False
        self.answered = 0
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._pipe = cast("asyncio.Transport", transport)

    def take_assignment(self, assignment: bytes) -> None:
        """Put what it has to know before all requests into the pipe."""
        self._write(assignment)

    def take(self, piece: _Piece) -> None:
        """Put a request into the pipe."""
        self.held.append(piece)
        if len(self.held) == 1:
            self._next()
        self._write(piece.content)

    def data_received(self, data: bytes) -> None:
        """Take what came: parts of answers, or several."""
        self._received += data
        while len(self._received) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            content = bytes(self._received[LENGTH.size : end])
            del self._received[:end]
            self._answered(content)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - its end says why
        """Note that nothing more comes."""
        self.gone.set()

    async def close(self, pipe: socket.socket) -> None:
        """End the process at once, and wait until it is gone: it holds nothing that is not also here."""
        self._noted.close()
        if self._pipe is None:
            pipe.close()
        else:
            self._pipe.abort()
        if self.process is not None:
            self.process.kill()
            await anyio.to_thread.run_sync(self.process.wait)

    @property
    def how(self) -> Ended:
        """How it ended."""
        status = self.process.returncode if self.process is not None else None
        if not self.ready:
            return "not_started"
        if self._overdue or status in (-signal.SIGPROF, -signal.SIGALRM):
            return "hung"
        return "memory" if status == 0 else "died"

    @property
    def at(self) -> str:
        """The line of code in which it was ended, if that is known."""
        self._notes.seek(0)
        found = _LINE.search(self._notes.read(_NOTES).decode(errors="replace"))
        return f"{Path(found[1]).name}:{found[2]} in {found[3]}" if found is not None else ""

    def look(self, now: float, longest: float) -> None:
        """Give the process up if it has ended, or does not keep to its own limits."""
        busy = now - self._since if self.held or not self.ready else 0.0
        if busy > (longest if self.ready else _STARTING):
            self._overdue = True
        if self._overdue or (self.process is not None and self.process.poll() is not None):
            self.gone.set()

    def _next(self) -> None:
        """Note that the process has come to the next request in its pipe."""
        self._since = self._loop.time()
        self._noted.close()
        if self.held:
            self._noted.enter_context(self.held[0].noted())

    @property
    def alive(self) -> bool:
        """Whether it is not known to have ended."""
        return self._pipe is not None and not self._pipe.is_closing() and not self.gone.is_set()

    def _write(self, content: bytes) -> None:
        if self._pipe is None or not self.alive:
            return  # what it holds is taken back when it has ended
        try:
            self._pipe.write(content)
        except (OSError, RuntimeError):  # uvloop's word for a pipe that was closed a moment ago
            self.gone.set()

    def _answered(self, content: bytes) -> None:
        try:
            answer = read_answer(content)
        except Exception:  # noqa: BLE001 - it is not in its right mind
            self.gone.set()
            return
        if not self.ready:
            self.ready = answer == READY
        else:
            piece = self.held.popleft()
            self._next()
            self.answered += 1
            self._pool.busy.inc(answer[1])
            if not piece.answer.done():
                piece.answer.set_result(answer[0])
        self._pool.hand_out()


def _notes() -> IO[bytes]:
    """Open a nameless file, in memory where the system has such files: folders may be read-only."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox may forbid it
            return os.fdopen(os.memfd_create("rag-monitor-worker"), "w+b")
    return tempfile.TemporaryFile()


class WorkerPool(Workers):
    """`number` processes that read. One that ends is replaced; it costs the request that it was at.

    `time_limit` is in seconds of processor time for one request. Raises `ConfigError` where the reader cannot be sent
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
        except Exception as error:  # noqa: BLE001 - pickle raises whatever a component raises
            raise ConfigError(
                f"scoring.processes: a plug-in cannot be sent to a worker process ({described(error)}); set it to 0"
            ) from None
        self._path = os.pathsep.join(str(Path(one).absolute()) for one in sys.path)
        self._longest = time_limit * SLOWER + _PATIENCE
        self._runtime = runtime
        self._clock: Clock = runtime.clock
        self._workers: list[_WorkerProcess] = []
        self._waiting: deque[_Piece] = deque()
        metrics = runtime.metrics
        self.busy = metrics.worker_busy_seconds
        metrics.workers.set_function(lambda: sum(one.ready for one in self._workers))
        self._ended = {how: metrics.workers_replaced.labels(how) for how in ("hung", "died", "memory", "not_started")}

    async def read(self, complete: Complete, noted: Noted) -> ReadResult:
        """See `Workers`."""
        result: ReadResult = await self._ask(complete, noted)
        return result

    async def evaluate(self, case: Case, evaluator: str, noted: Noted) -> LocalOutcome:
        """See `Workers`."""
        result: LocalOutcome = await self._ask((case, evaluator), noted)
        return result

    async def run(self, listening: anyio.Event) -> None:
        """See `Workers`."""
        with anyio.move_on_after(_LISTENING):
            await listening.wait()
        async with anyio.create_task_group() as tasks:
            for _ in range(self.number):
                tasks.start_soon(self._keep_one)
            while True:
                await anyio.sleep(_LOOK)
                now = asyncio.get_running_loop().time()
                for one in self._workers:
                    one.look(now, self._longest)

    def hand_out(self) -> None:
        """Give requests that wait to the workers with the fewest."""
        while self._waiting:
            if self._waiting[0].answer.done():  # its reader has gone
                self._waiting.popleft()
                continue
            free = [one for one in self._workers if one.ready and one.alive and len(one.held) < _AT_ONCE]
            if not free:
                return
            min(free, key=lambda one: len(one.held)).take(self._waiting.popleft())

    async def _ask(self, request: object, noted: Noted) -> Any:
        piece = _Piece(frame(request), asyncio.get_running_loop().create_future(), noted)
        self._waiting.append(piece)
        self.hand_out()
        return await piece.answer

    async def _keep_one(self) -> None:
        """Run one process after the other."""
        pause = 0.0
        while True:
            await anyio.sleep(pause)
            useful = False
            try:
                useful = await self._run_one()
            except OSError as error:
                self._report("not_started", type(error).__name__)
            pause = 0.0 if useful else min(max(1.0, 2 * pause), _LONGEST_PAUSE)

    async def _run_one(self) -> bool:
        """Run a process to its end. Return whether it was of use. Raises `OSError` where it cannot be started."""
        with _notes() as notes:
            ours, theirs = socket.socketpair()
            worker = _WorkerProcess(self, notes)
            try:
                with theirs:
                    worker.process = await anyio.to_thread.run_sync(self._start, theirs, notes)
                await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=ours)
                worker.take_assignment(self._assignment)
                self._workers.append(worker)
                await worker.gone.wait()
            finally:
                self._workers = [one for one in self._workers if one is not worker]
                with anyio.CancelScope(shield=True):
                    await worker.close(ours)
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

    def _take_back(self, worker: _WorkerProcess) -> None:
        """Take back what a process held that has ended. What it was at, it has ended on: others come first."""
        how, at = worker.how, worker.at
        self._report(how, at)
        if worker.held and how in ("hung", "died"):
            piece = worker.held.popleft()
            piece.deaths += 1
            if how == "hung" or piece.deaths >= _MOST_DEATHS:
                if not piece.answer.done():
                    piece.answer.set_exception(WorkerLost("hung" if how == "hung" else "died", at))
            else:  # it may have been ended for something else, such as the memory of the machine
                self._waiting.appendleft(piece)
        self._waiting.extendleft(reversed(worker.held))
        worker.held.clear()
        self.hand_out()

    def _report(self, how: Ended, at: str) -> None:
        self._ended[how].inc()
        if how != "memory":
            self._runtime.events.warning(Event.WORKER_REPLACED, "a worker process is replaced", reason=how, at=at)
