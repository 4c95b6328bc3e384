"""Servers that are too large for the repository: built once from pinned versions and kept in a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.tools import unavailable

VARIABLE = "RAG_MONITOR_TEST_CACHE"
"""The environment variable that names the folder; without it, `rag-monitor-tests` in the user's cache folder."""


def root() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rag-monitor-tests"


def made_once(name: str, recipe: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder that `make` filled from `recipe`: now, or in an earlier run with the same recipe.

    `make` gets a new folder, which is renamed when it is complete; of two runs at once the second one waits.
    """
    final = root() / f"{name}-{hashlib.sha256(recipe.read_bytes()).hexdigest()[:12]}"
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with _untimed(), (final.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            making = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
            try:
                make(making)
                making.rename(final)
            finally:
                shutil.rmtree(making, ignore_errors=True)
    return final


@contextmanager
def _untimed() -> Iterator[None]:
    """Pause the test's time limit (pytest-timeout's, by a signal): building here must not count against it."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


def run(what: str, command: Sequence[str], *, cwd: Path, seconds: float = 900) -> None:
    """Run one command of `made_once`; if it fails, the test reports that `what` is missing, and why."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        unavailable(f"{what} (`{command[0]}` took longer than {seconds:.0f} s)")
    if done.returncode:
        unavailable(f"{what} (`{command[0]}` ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]})")
