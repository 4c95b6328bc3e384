"""A worker process: reads requests from its pipe, one after another, and answers in that order.

Its standard input and output are the pipe, with frames of `packing`. It ends when the pipe is closed, so it never
outlives its parent. The system kills it when one request takes too long (SIGPROF after a limit of processor time,
SIGALRM after a limit of wall-clock time), no matter where it hangs, and that place is written to a file.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from monitor.clock import SystemClock
from monitor.model.case import Case
from monitor.pipeline.complete import Complete
from monitor.pipeline.local_evaluation import LocalReader
from monitor.pipeline.workers.packing import LENGTH, frame, read_request
from monitor.telemetry import logs

READY: Final = "ready"
"""The second answer of a worker, when it has read its assignment. The first is `code_on_disk`."""
SLOWER: Final = 6
"""Ratio of the wall-clock limit to the processor time limit of one request: machines can be busy."""

_STATM: Final = Path("/proc/self/statm")
_SCORE: Final = Path("/proc/self/oom_score_adj")
_FIRST_TO_GO: Final = "500"
_MORE_MEMORY: Final = 256 * 1024 * 1024
_LOOK_EVERY: Final = 64  # requests; and after each large one
_LARGE: Final = 1024 * 1024
_BUFFER: Final = 128 * 1024  # bytes: several requests, as most are, in one read


class Assignment(NamedTuple):
    """The first frame to a worker. `time_limit` is the processor time per request in seconds, `log` is as in `logs`."""

    reader: LocalReader
    time_limit: float
    log: tuple[str, Literal["json", "text"]]


def code_on_disk() -> str:
    """Return a fingerprint of this package as it is on disk: an upgrade changes it."""
    found, top = hashlib.blake2b(digest_size=16), Path(__file__).parents[2]
    with contextlib.suppress(OSError):  # a file that vanishes now is part of an upgrade
        for path in sorted(top.rglob("*.py")):
            found.update(b"%b\0%b\0" % (os.fsencode(path.relative_to(top)), path.read_bytes()))
    return found.hexdigest()


def _next(pipe: BinaryIO) -> bytes | None:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    content = pipe.read(LENGTH.unpack(head)[0])
    return content if len(content) == LENGTH.unpack(head)[0] else None


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Return both ends of the pipe, detached from standard input and output, which plug-ins may use."""
    taken, given = os.fdopen(os.dup(0), "rb", buffering=_BUFFER), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return taken, given


def _write(pipe: BinaryIO, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[pipe.write(view) :]


def _limit(seconds: float) -> None:
    """Kill this process after `seconds` of processor time, or six times as much wall-clock time; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * SLOWER)


def _memory() -> int:
    """Return the resident bytes of this process; 0 if the system does not report them."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _prepare(notes: int) -> None:
    for ignored in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # for the whole group: the parent decides when this one ends
        signal.signal(ignored, signal.SIG_IGN)
    faulthandler.enable(notes, all_threads=False)
    for ending in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(ending, notes, all_threads=False, chain=True)
    with contextlib.suppress(OSError):
        _SCORE.write_text(_FIRST_TO_GO)  # if memory runs out, the system ends a worker rather than the receivers


def main() -> None:
    """Work until the pipe is closed. The argument is the descriptor of the file that records where the process hung."""
    with contextlib.suppress(ConnectionError):
        _work(int(sys.argv[1]))
    os._exit(0)  # nothing here is worth the time to run finalizers


def _work(notes: int) -> None:
    _prepare(notes)
    taken, given = _pipe()
    _write(given, frame(code_on_disk()))
    first = _next(taken)
    if first is None:
        return
    task: Assignment = read_request(first)
    logs.configure(*task.log)
    with contextlib.suppress(Exception):
        task.reader.warm_up()
    gc.freeze()
    gc.enable()
    clock, most, count = SystemClock(), _memory() + _MORE_MEMORY, 0
    _write(given, frame(READY))
    while (content := _next(taken)) is not None:
        began = clock.monotonic()
        _limit(task.time_limit)
        result = _result(task.reader, read_request(content))
        answer = frame((result, clock.monotonic() - began))
        _limit(0)
        _write(given, answer)
        count += 1
        if (count % _LOOK_EVERY == 0 or len(content) > _LARGE) and _memory() > most:
            return  # a new process starts without the memory that this one has accumulated


def _result(reader: LocalReader, asked: Complete | tuple[Case, str]) -> object:
    return reader.read(asked) if isinstance(asked, Complete) else reader.evaluate(*asked)
