"""For sinks that write files: a thread writes all waiting results together, never the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import anyio

from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver

_AT_ONCE = 256


@asynccontextmanager
async def batching(
    write: Callable[[list[EvaluationResult]], None],
    *,
    name: str,
    start: Callable[[], None],
    stop: Callable[[], None],
    every: float,
) -> AsyncIterator[Deliver]:
    """Yield a `Deliver` that returns when `write` has written its result, or raises what `write` raised.

    `start`, `write` and `stop` run in one thread of their own. After `every` seconds without a result `write` is called
    with an empty list, to tidy up. The queue is bounded by the number of callers: each waits for its own result.
    """
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    waiting: list[tuple[EvaluationResult, asyncio.Future[None]]] = []
    wake = asyncio.Event()
    closing = False

    async def deliver(result: EvaluationResult) -> None:
        done = loop.create_future()
        waiting.append((result, done))
        wake.set()
        await done

    async def work() -> None:
        while not (closing and not waiting):
            with anyio.move_on_after(every):
                await wake.wait()
            wake.clear()
            while True:
                taken = waiting[:_AT_ONCE]
                del waiting[:_AT_ONCE]
                error: Exception | None = None
                try:
                    await loop.run_in_executor(thread, write, [result for result, _ in taken])
                except Exception as raised:  # noqa: BLE001 - raised in the callers that wait for these results
                    error = raised
                for _, done in taken:
                    if done.cancelled():
                        continue
                    if error is not None:
                        done.set_exception(error)
                    else:
                        done.set_result(None)
                if not waiting:
                    break

    try:
        await loop.run_in_executor(thread, start)
        worker = asyncio.create_task(work(), name=name)
        try:
            yield deliver
        finally:
            closing = True
            wake.set()
            with anyio.CancelScope(shield=True):
                await worker
    finally:
        with anyio.CancelScope(shield=True):
            await loop.run_in_executor(thread, stop)
        thread.shutdown(wait=False)
