"""Digests beside the running monitor: each is read in a process of its own, so that receivers do not wait for it."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from pathlib import Path
from subprocess import DEVNULL
from typing import Final, cast

import anyio
import anyio.to_thread

from monitor.errors import MonitorError
from monitor.operations.digest import Digest, DigestRequest, build_digest

LONGEST: Final = 300.0
"""Seconds after which the process is ended."""

_COMMAND: Final = "from monitor.operations.digest.process import main; main()"
_NICE: Final = 10


async def read_digest(request: DigestRequest) -> Digest:
    """Read a digest. Raises `MonitorError` where the history cannot be read, or where it takes too long."""
    command = (sys.executable, "-P", "-c", _COMMAND)
    with anyio.move_on_after(LONGEST):
        try:
            environment = {**os.environ, "PYTHONPATH": _path()}
            given = pickle.dumps(request)
            done = await anyio.run_process(command, input=given, stderr=DEVNULL, check=False, env=environment)
        except OSError:  # no more processes, or no interpreter: here, beside the event loop
            return await anyio.to_thread.run_sync(build_digest, request)
        try:
            found = pickle.loads(done.stdout)  # noqa: S301 - our own process wrote it
        except Exception:  # noqa: BLE001 - pickle raises anything for half an answer
            raise MonitorError(f"reading the digest ended early, with exit status {done.returncode}") from None
        if isinstance(found, str):
            raise MonitorError(found)
        return cast("Digest", found)
    raise MonitorError(f"reading the digest took longer than {LONGEST:g} s")


def _path() -> str:
    return os.pathsep.join(str(Path(one).absolute()) for one in sys.path)


def main() -> None:
    """Read the digest that standard input asks for, and write it, or the text of its error, to standard output."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    try:
        found: Digest | str = build_digest(pickle.load(sys.stdin.buffer))  # noqa: S301 - the monitor wrote it
    except MonitorError as error:
        found = str(error)
    sys.stdout.buffer.write(pickle.dumps(found))
