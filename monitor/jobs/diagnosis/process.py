"""Diagnoses beside the running monitor: each in a process of its own, one at a time, and not again for a minute.

A diagnosis takes up to some seconds of processor time and some hundred megabytes: both end with the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import Final, cast

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.jobs.diagnosis import DiagnosisRequest, RateDiagnosis, diagnose_history

FRESH: Final = 60.0
"""Seconds for which a diagnosis is given again."""

LONGEST: Final = 60.0
"""Seconds after which a diagnosis is ended."""

_KEPT: Final = 32
_COMMAND: Final = "from monitor.jobs.diagnosis.process import main; main()"
_SCORE: Final = Path("/proc/self/oom_score_adj")
_FIRST_TO_GO: Final = "900"
_NICE: Final = 10


class Diagnoser:
    """Diagnoses from the history of the running monitor. `slices` are the configured ones."""

    def __init__(self, history: Path, slices: Sequence[str], clock: Clock) -> None:
        self._history = history
        self._slices = tuple(slices)
        self._clock = clock
        self._one = anyio.Lock()
        self._kept: dict[DiagnosisRequest, tuple[float, RateDiagnosis]] = {}

    def now(self) -> float:
        """Return now, in seconds since 1970."""
        return self._clock.now()

    async def diagnose(self, request: DiagnosisRequest) -> RateDiagnosis:
        """Diagnose a rate, or return the diagnosis of it that is not older than a minute.

        Raises `MonitorError` where the history cannot be read, or where it takes too long.
        """
        with anyio.move_on_after(LONGEST):
            async with self._one:
                now = self._clock.now()
                made, found = self._kept.pop(request, (0.0, None))
                if found is None or not 0 <= now - made < FRESH:
                    made, found = now, await self._made((self._history, self._slices, request, now))
                while len(self._kept) >= _KEPT:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[request] = made, found
                return found
        raise MonitorError(f"the diagnosis took longer than {LONGEST:g} s")

    async def _made(self, given: tuple[Path, tuple[str, ...], DiagnosisRequest, float]) -> RateDiagnosis:
        command = (sys.executable, "-P", "-c", _COMMAND)
        environment = {**os.environ, "PYTHONPATH": _path()}
        try:
            done = await anyio.run_process(
                command, input=pickle.dumps(given), stderr=DEVNULL, check=False, env=environment
            )
        except OSError:  # no more processes, or no interpreter: here, beside the event loop
            return await anyio.to_thread.run_sync(diagnose_history, *given)
        try:
            found = pickle.loads(done.stdout)  # noqa: S301 - our own process wrote it
        except Exception:  # noqa: BLE001 - pickle raises anything for half an answer
            raise MonitorError(f"the diagnosis ended early, with exit status {done.returncode}") from None
        if isinstance(found, str):
            raise MonitorError(found)
        return cast("RateDiagnosis", found)


def _path() -> str:
    return os.pathsep.join(str(Path(one).absolute()) for one in sys.path)


def main() -> None:
    """Make the diagnosis that standard input asks for, and write it, or the text of its error, to standard output."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
        _SCORE.write_text(_FIRST_TO_GO)  # if memory runs out, the system ends this process first
    try:
        found: RateDiagnosis | str = diagnose_history(*pickle.load(sys.stdin.buffer))  # noqa: S301 - the monitor wrote it
    except MonitorError as error:
        found = str(error)
    sys.stdout.buffer.write(pickle.dumps(found))
