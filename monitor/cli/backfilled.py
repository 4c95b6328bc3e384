"""What `rag-monitor backfill` does: find cases, choose as production does, ask, and follow until all is judged."""

from __future__ import annotations

import signal
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from monitor.backfill.cases import Item, Origin
from monitor.backfill.lock import somebody_works
from monitor.backfill.store import NAME, Store
from monitor.cli import backfill_here, backfill_kafka, backfill_price, backfill_traffic
from monitor.cli.backfill_choice import Choice, Chosen, Wish
from monitor.cli.console.progress import Bars
from monitor.clock import SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Case
from monitor.operations.event_loop import run_async
from monitor.quantities import human_duration, parse_rate

_LOOK_EVERY: Final = 0.5
_LOST_AFTER: Final = 3


@dataclass(frozen=True, slots=True)
class Way:
    """Where cases come from: one of these, or none."""

    missed: bool = False
    source: str | None = None
    paths: tuple[Path, ...] = ()


def wish(
    config: Config, names: str | None, *, app: str | None, sample: str | None, since: float | None, until: float | None
) -> Wish:
    """What is asked for, made sure of. Raises `ConfigError`."""
    if config.backfill.retention <= 0:
        raise ConfigError("backfill.retention: is 0, so nothing is judged afterwards")
    working = {one.evaluator.name: one for one in config.assignments if config.works(one)}
    wanted = list(dict.fromkeys(name.strip() for name in (names or "").split(",") if name.strip()))
    for name in wanted:
        if name not in working:
            known = ", ".join(sorted(working)) or "none"
            raise ConfigError(f"--evaluator: {name!r} is not at work in this configuration; there are: {known}")
    try:
        share = None if sample is None else parse_rate(sample)
    except ValueError as error:
        raise ConfigError(f"--sample: {error}") from None
    return Wish(
        evaluators=tuple(working[name] for name in wanted),
        app=app,
        share=share,
        since=since or 0.0,
        until=until if until is not None else float("inf"),
    )


def run(config: Config, wish: Wish, way: Way, *, dry_run: bool, detach: bool, here: bool) -> int:
    """Do it; the exit status. Raises `ConfigError`."""
    folder = config.storage.path
    store = Store(folder / NAME, at_most=config.backfill.max_size, clock=SystemClock())
    batch = uuid.uuid4().hex
    try:
        choice = Choice(config, wish)
        unreadable = 0
        if way.missed or way.source or way.paths:
            found, unreadable = _found(config, wish, way, store, choice)
            if dry_run:
                _say_price(config, list(found), choice.done)
                return 1 if unreadable else 0
            asked = store.ask(found, batch=batch, now=SystemClock().now())
            if unreadable:
                typer.echo(f"{unreadable} deliveries, files or rows could not be read", err=True)
            _say(choice.done, asked.new, asked.there, asked.known + choice.done.known, asked.full)
            if asked.full:
                unreadable += 1
            if not asked.new:
                return int(unreadable > 0)
        elif here:
            batch = ""
        return max(_work(config, store, batch, detach=detach, here=here), int(unreadable > 0))
    except MonitorError as error:
        raise ConfigError(str(error)) from None
    finally:
        store.close()


def _found(config: Config, wish: Wish, way: Way, store: Store, choice: Choice) -> tuple[Iterable[Item], int]:
    """The judgements that are wanted, and how much could not be read."""
    if way.missed:
        names = [one.evaluator.name for one in wish.evaluators]
        return choice.of_missed(store.missed_items(names, wish.app or "")), 0
    if way.paths:
        recorded = backfill_traffic.of_files(config, way.paths, sys.stderr)
        return list(_chosen(choice, recorded.cases, Origin.FILE)), recorded.unreadable
    replay = backfill_traffic.Replay(config)
    if way.source == "kafka":
        cases = backfill_kafka.of_kafka(config, wish.since, wish.until, replay)
    else:
        cases = backfill_traffic.of_spool(config, wish.since, replay)
    items = list(_chosen(choice, cases, Origin(str(way.source))))
    return items, replay.unreadable


def _chosen(choice: Choice, cases: Iterable[Case], origin: Origin) -> Iterator[Item]:
    items: list[Item] = []

    async def main() -> None:
        items.extend(await choice.of_cases(cases, origin))

    run_async(main)
    yield from items


def _say(done: Chosen, new: int, there: int, known: int, full: int) -> None:
    for line in done.lines():
        typer.echo(line)
    told = [f"{new} judgements are asked for"]
    told += [f"{known} have a verdict already"] if known else []
    told += [f"{there} were asked for before"] if there else []
    typer.echo("; ".join(told))
    if full:
        typer.echo(f"{full} more have no room in the queue: ask again when some are done, or raise backfill.max_size")


def _say_price(config: Config, items: list[Item], done: Chosen) -> None:
    for line in done.lines():
        typer.echo(line)
    for line in backfill_price.lines(config, items):
        typer.echo(line)
    typer.echo(f"{len(items)} judgements would be asked for; {done.known} have a verdict already")


def _work(config: Config, store: Store, batch: str, *, detach: bool, here: bool) -> int:
    """See it judged, or say who will."""
    if here:
        return _report(store, batch, backfill_here.work(config, store, batch))
    if not store.standing(batch).get("asked"):
        return 0
    folder = config.storage.path
    if not somebody_works(folder):
        typer.echo(
            f"no monitor runs on {folder}: what was asked for waits there until one does, at most"
            f" {human_duration(config.backfill.retention)}; `rag-monitor backfill --here` judges it without one"
        )
        return 0
    if detach:
        typer.echo(f"the monitor on {folder} judges them when it has nothing else to do")
        return 0
    return _report(store, batch, _follow(store, batch, folder))


def _follow(store: Store, batch: str, folder: Path) -> str:
    """Wait until all is judged; why it did not come to that, if it did not."""
    total = sum(store.standing(batch).values())
    seen, lost = 0, 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Bars().steps(total, "judging") as advance:
            while True:
                waiting = store.standing(batch).get("asked", 0)
                while seen < total - waiting:
                    seen += 1
                    advance()
                if not waiting:
                    return ""
                lost = 0 if somebody_works(folder) else lost + 1
                if lost >= _LOST_AFTER:
                    return f"the monitor on {folder} has ended: the rest is judged when it runs again"
                time.sleep(_LOOK_EVERY)
    except KeyboardInterrupt:
        return "the monitor goes on with the rest"


def _report(store: Store, batch: str, why: str) -> int:
    """Say what came of it."""
    found = store.standing(batch)
    waiting = found.pop("asked", 0)
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.items()))
    if told:
        typer.echo(f"judged: {told}" if not waiting else f"judged so far: {told}")
    if waiting:
        typer.echo(f"{waiting} wait: {why}" if why else f"{waiting} wait", err=True)
        return 1
    return 0
