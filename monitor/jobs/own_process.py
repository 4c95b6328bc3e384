"""Runs work that takes some seconds of processor time beside the running monitor, each in a process of its own.

Receivers and scrapes do not wait for it, and its memory, up to some hundred megabytes, is freed with the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import MonitorError

FRESH: Final = 60.0
"""Seconds for which a report is reused: paging through it costs nothing, and shows the same report."""

_COMMAND: Final = "from monitor.jobs.own_process import main; main()"
_SCORE: Final = Path("/proc/self/oom_score_adj")
_FIRST_TO_GO: Final = "900"
_NICE: Final = 10
R = TypeVar("R")
T = TypeVar("T")


async def in_own_process(work: Callable[..., T], *given: object, name: str, longest: float) -> T:
    """Return what `work(*given)` returns in another process.

    Args:
        work: a module-level function; its arguments and its result can be pickled.
        given: its arguments.
        name: name of the work in errors, such as `the diagnosis`.
        longest: seconds after which the process is ended.

    Raises `MonitorError` as `work` does, if the process dies, or if it takes too long.
    """
    command = (sys.executable, "-P", "-c", _COMMAND)
    environment = {**os.environ, "PYTHONPATH": _path()}
    with anyio.move_on_after(longest):
        try:
            asked = pickle.dumps((work, given))
            done = await anyio.run_process(command, input=asked, stderr=DEVNULL, check=False, env=environment)
        except OSError:  # no more processes, or no interpreter: run it here, in a thread
            return await anyio.to_thread.run_sync(lambda: work(*given))
        try:
            said, found = await anyio.to_thread.run_sync(pickle.loads, done.stdout)
        except Exception:  # noqa: BLE001 - pickle raises anything for half an answer
            raise MonitorError(f"{name} ended early, with exit status {done.returncode}") from None
        if said:
            raise MonitorError(said)
        made: T = found
        return made
    raise MonitorError(f"{name} took longer than {longest:g} s")


def _path() -> str:
    return os.pathsep.join(str(Path(one).absolute()) for one in sys.path)


def main() -> None:
    """Do the work read from standard input; write the text of its error, and its result, to standard output."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
        _SCORE.write_text(_FIRST_TO_GO)  # if memory runs out, the system ends this process first
    said, found = "", None
    try:
        work, given = pickle.load(sys.stdin.buffer)  # noqa: S301 - the monitor wrote it
        found = work(*given)
    except MonitorError as error:
        said = str(error)
    sys.stdout.buffer.write(pickle.dumps((said, found)))


class FreshReports(Generic[R, T]):
    """Makes reports of one kind, one at a time, and reuses each for a minute.

    Args:
        work: makes the report in a process of its own, from the request and any further arguments of `of`.
        name: name of the report in errors.
        clock: for the age of a report.
        longest: seconds that a report may take, including the wait for earlier ones.
        kept: how many reports to keep.
    """

    def __init__(self, work: Callable[..., T], *, name: str, clock: Clock, longest: float, kept: int) -> None:
        self._work = work
        self._name = name
        self._clock = clock
        self._longest = longest
        self._most = kept
        self._one = anyio.Lock()
        self._kept: dict[R, tuple[float, T]] = {}

    async def of(self, request: R, *given: Any) -> T:
        """Return the report of `work(*given, request, now)`, made now or at most a minute ago.

        Raises `MonitorError` as `in_own_process` does.
        """
        with anyio.move_on_after(self._longest):
            async with self._one:
                now = self._clock.now()
                made = self._kept.pop(request, None)
                if made is None or not 0 <= now - made[0] < FRESH:
                    work, name, longest = self._work, self._name, self._longest
                    made = now, await in_own_process(work, *given, request, now, name=name, longest=longest)
                while len(self._kept) >= self._most:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[request] = made
                return made[1]
        raise MonitorError(f"{self._name} took longer than {self._longest:g} s")
