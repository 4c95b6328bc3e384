"""The durable queue before assembly: a delivery that was acknowledged survives crashes, full disks and damaged files.

`queue` is the interface for the pipeline (asyncio, group commit); `store` is the SQLite file behind it (one thread,
blocking), with its rows in `table` and what is remembered beside them in `memory`. `salvage` repairs a damaged file,
`retained` keeps processed deliveries for a time, `poison` counts the processes that die while they read a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from monitor.clock import Clock
from monitor.storage.spool.poison import MOST_LIVES, PoisonGuard
from monitor.storage.spool.queue import Replayed, Spool
from monitor.storage.spool.store import SpoolDatabase
from monitor.storage.spool.table import SpoolRecord
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

__all__ = ["MOST_LIVES", "PoisonGuard", "Replayed", "Spool", "SpoolRecord", "open_spool"]


@asynccontextmanager
async def open_spool(
    path: Path,
    *,
    at_most: int,
    keep: float,
    retain: float = 0.0,
    erase: bool = False,
    waiting_at_most: int = 64 * 1024**2,
    results_at_most: int = 8 * 1024**2,
    draws_at_most: int = 8 * 1024**2,
    clock: Clock,
    metrics: Metrics,
    events: Events,
) -> AsyncIterator[Spool]:
    """Open the spool with the database file `path`, which is created with its folder if it does not exist.

    A disk that fails or is full does not prevent the start: appends are refused until it works. Leaving the context
    finishes the commits in progress.

    Args:
        at_most: bytes on disk.
        keep: seconds after which a record is too old to be processed at replay.
        retain: seconds for which processed deliveries are kept beside it, see `retained.py`.
        waiting_at_most: bytes that may wait in memory for their commit.
        results_at_most: bytes of memory for the ids of delivered results.
        draws_at_most: bytes of memory for first draws.
        erase: overwrite processed records on disk, at the cost of an extra write.

    Raises `ConfigError` if the path can never work.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="spool")
    store = SpoolDatabase(
        path, at_most=at_most, keep=keep, retain=retain, erase=erase, clock=clock, metrics=metrics, events=events
    )
    spool = Spool(
        store,
        thread,
        at_most=at_most,
        keep=keep,
        waiting_at_most=waiting_at_most,
        results_at_most=results_at_most,
        draws_at_most=draws_at_most,
        clock=clock,
        metrics=metrics,
        events=events,
    )
    try:
        async with spool.running():
            yield spool
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.get_running_loop().run_in_executor(thread, store.close)
        thread.shutdown(wait=False)
