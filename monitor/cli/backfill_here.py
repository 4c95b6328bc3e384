"""`rag-monitor backfill --here`: the queue worked off in this very process, where no monitor runs."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from functools import partial

import anyio

from monitor.backfill.context import BackfillContext
from monitor.backfill.lock import somebody_works
from monitor.backfill.run import Backfill
from monitor.backfill.store import Store
from monitor.cli.backfill_choice import Choice, Wish
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.operations.event_loop import run_async
from monitor.pipeline.publish import Publisher
from monitor.sinks.history import History
from monitor.stages import Deliver, Runtime, type_name


def work(config: Config, store: Store, batch: str) -> str:
    """Judge what was asked for until all of `batch` (empty: all that waits) is done; why it did not come to that.

    Results go to the history and to all configured sinks save `prometheus`. Raises `ConfigError` where a monitor runs.
    """
    folder = config.storage.path
    if somebody_works(folder):
        raise ConfigError(f"--here: a monitor runs on {folder}, and judges what is asked for; leave --here out")
    why: list[str] = []

    def done(held: Mapping[str, str]) -> bool:
        waiting = store.standing(batch).get("asked", 0) if batch else sum(store.asked_after(0)[1].values())
        if held:
            why[:] = [f"the judge is not asked at present ({', '.join(sorted(set(held.values())))})"]
        return not waiting or bool(held)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope, why)
            await _run(config, partial(done))
            tasks.cancel_scope.cancel()

    run_async(main)
    return "; ".join(why)


async def _run(config: Config, done: partial[bool]) -> None:
    runtime = Runtime.standalone()
    assignments = [one for one in config.assignments if config.works(one)]
    current = Choice(config, Wish(())).versions
    storage = config.storage
    history = History.in_folder(storage.path, storage)
    async with AsyncExitStack() as stack:
        sinks: dict[str, Deliver] = {"storage": await stack.enter_async_context(history.open(runtime))}
        for number, sink in enumerate(config.sinks):
            if type_name(sink) != "prometheus":
                sinks[f"{type_name(sink)}_{number}"] = await stack.enter_async_context(sink.open(runtime))
        context = BackfillContext(
            evaluators=assignments,
            judges=config.all_judges,
            versions=current,
            deliver=Publisher(sinks, None, runtime).one,
            known=history.verdicts,
            turn=lambda _judge: nullcontext(),
            slices=config.slices,
        )
        await Backfill(config.backfill, storage, runtime, current).run(context, until_done=done)


async def _stop_on_signal(scope: anyio.CancelScope, why: list[str]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            why.append("interrupted")
            scope.cancel()
