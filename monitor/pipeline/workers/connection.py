"""One worker process as the monitor sees it: its pipe, the requests in it, and how it ended."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, cast

import anyio
import anyio.to_thread

from monitor.pipeline.local_evaluation import Noted
from monitor.pipeline.workers.packing import LENGTH, read_answer
from monitor.pipeline.workers.process import READY

Ended: TypeAlias = Literal["hung", "died", "memory", "not_started", "upgraded"]

_STARTING: Final = 120.0  # seconds; a busy machine and a plug-in that loads a model take their time
_NOTES: Final = 4_096
_CHUNK: Final = 65_536
_LAST_ANSWERS: Final = 1.0  # seconds for what is still in the pipe of a process that has ended
_LINE: Final = re.compile(r'File "([^"\n]++)", line (\d++) in (\S++)')


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request on its way to a worker and back; `deaths` counts the workers that died while reading it."""

    content: bytes
    answer: asyncio.Future[Any]
    noted: Noted
    deaths: int = 0


class WorkerProcess(asyncio.Protocol):
    """One process: the requests in its pipe, and how it ended.

    `code` is the fingerprint of the code that it must run. `answered` is called after each answer with the seconds that
    it took, and with 0 when the process is ready. `held` are the requests in its pipe; None replaces requests that were
    taken back.
    """

    def __init__(self, code: str, answered: Callable[[float], None], notes: IO[bytes]) -> None:
        self._code = code
        self._known = False
        self._tell = answered
        self.process: subprocess.Popen[bytes] | None = None
        self._notes = notes
        self._received = bytearray()
        self._pipe: asyncio.Transport | None = None
        self._noted: AbstractContextManager[None] | None = None
        self._overdue = False
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self.held: deque[SentRequest | None] = deque()
        self.ready = False
        self.upgraded = False
        self.slow = False
        """Whether it has been reading one request for long: it gets no others."""
        self.leaving = False
        """Whether it gets no more requests because it is no longer needed."""
        self.answered = 0
        self.gone = asyncio.Event()
        self._lost = asyncio.Event()
        self._ignored = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._pipe = cast("asyncio.Transport", transport)

    def take_assignment(self, assignment: bytes) -> None:
        """Send the assignment, which must come before all requests."""
        self._write(assignment)

    @property
    def free(self) -> bool:
        """Whether it can take requests."""
        return self.ready and self.alive and not self.slow and not self.leaving

    def give_up_waiting(self) -> list[SentRequest]:
        """Take back the requests behind the one that it is reading: its answers to them are ignored."""
        behind = [one for one in list(self.held)[1:] if one is not None]
        self.held = deque([*list(self.held)[:1], *[None] * (len(self.held) - 1)])
        return behind

    def take(self, piece: SentRequest) -> None:
        """Put a request into the pipe."""
        self.held.append(piece)
        if len(self.held) == 1:
            self._next()
        self._write(piece.content)

    def data_received(self, data: bytes) -> None:
        """Take received bytes: parts of answers, or several answers."""
        self._received += data
        while len(self._received) >= LENGTH.size and not self._ignored:
            (length,) = LENGTH.unpack_from(self._received)
            end = LENGTH.size + length
            if len(self._received) < end:
                return
            content = bytes(self._received[LENGTH.size : end])
            del self._received[:end]
            self._answered(content)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - its end says why
        """Record that no more data will come."""
        self._lost.set()
        self.gone.set()

    async def close(self, pipe: socket.socket, rest: socket.socket) -> None:
        """Kill the process at once, and wait until it is gone: everything it holds is also held here.

        Answers that it gave before its end are still read: otherwise it would not be known which request it was
        reading. `rest` is a second handle of the same `pipe`, because a write after the end of the process closes the
        first one and discards its content.
        """
        if self.process is not None:
            self.process.kill()
            await anyio.to_thread.run_sync(self.process.wait)
        if self._pipe is None:
            pipe.close()
        else:
            with anyio.move_on_after(_LAST_ANSWERS):  # its child processes may hold the pipe open
                await self._lost.wait()
            self._pipe.abort()
        with rest, suppress(OSError):  # nothing is left in it
            rest.setblocking(False)
            while data := rest.recv(_CHUNK):
                self.data_received(data)
        self._leave_note()

    @property
    def how(self) -> Ended:
        """How it ended."""
        status = self.process.returncode if self.process is not None else None
        if not self.ready:
            return "upgraded" if self.upgraded else "not_started"
        if self._overdue or status in (-signal.SIGPROF, -signal.SIGALRM):
            return "hung"
        return "memory" if status == 0 else "died"

    @property
    def at(self) -> str:
        """The line of code at which it was ended, if that is known."""
        self._notes.seek(0)
        found = _LINE.search(self._notes.read(_NOTES).decode(errors="replace"))
        return f"{Path(found[1]).name}:{found[2]} in {found[3]}" if found is not None else ""

    def look(self, now: float, slow: float, longest: float) -> None:
        """Check whether it is slow at a request; give it up if it has ended or exceeds its own limits."""
        busy = now - self._since if self.held or not self.ready else 0.0
        self.slow = self.ready and busy > slow
        if busy > (longest if self.ready else _STARTING):
            self._overdue = True
        if self._overdue or (self.process is not None and self.process.poll() is not None):
            self.gone.set()

    def _next(self) -> None:
        """Record that the process has moved on to the next request in its pipe."""
        self._since = self._loop.time()
        self.slow = False
        self._leave_note()
        if self.held and (piece := self.held[0]) is not None:
            self._noted = piece.noted()
            self._noted.__enter__()

    def _leave_note(self) -> None:
        """Record that the process is no longer reading the request recorded last."""
        noted, self._noted = self._noted, None
        if noted is not None:
            noted.__exit__(None, None, None)

    @property
    def alive(self) -> bool:
        """Whether it is not known to have ended."""
        return self._pipe is not None and not self._pipe.is_closing() and not self.gone.is_set()

    def _write(self, content: bytes) -> None:
        if self._pipe is None or not self.alive:
            return  # what it holds is taken back when it has ended
        try:
            self._pipe.write(content)
        except (OSError, RuntimeError):  # uvloop raises `RuntimeError` for a pipe that was just closed
            self.gone.set()

    def _answered(self, content: bytes) -> None:
        try:
            answer = read_answer(content)
        except Exception:  # noqa: BLE001 - the process can no longer be trusted
            self._ignored = True
            self.gone.set()
            return
        seconds = 0.0
        if not self._known:
            self._known, self.upgraded = True, answer != self._code
            if self.upgraded:
                self._ignored = True
                self.gone.set()
        elif not self.ready:
            self.ready = answer == READY
        else:
            piece = self.held.popleft()
            self._next()
            self.answered += 1
            result, seconds = answer
            if piece is not None and not piece.answer.done():
                piece.answer.set_result(result)
        self._tell(seconds)


def open_notes() -> IO[bytes]:
    """Open an unnamed file, in memory if the system supports that, because folders may be read-only."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox may forbid it
            return os.fdopen(os.memfd_create("rag-monitor-worker"), "w+b")
    return tempfile.TemporaryFile()
