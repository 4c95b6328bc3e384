"""`rag-monitor backfill`: evaluate past answers: those that were missed, or those that you choose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import echo_lines, report
from monitor.cli.console.progress import Bars
from monitor.clock import SystemClock
from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.operations.backfill import BackfillOrigin
from monitor.operations.backfill.run import BackfillClient, BackfillEstimate, BackfillProgress, Enqueued
from monitor.operations.backfill.selection import BackfillRequest, SelectionCounts
from monitor.operations.event_loop import run_async, stop_on_signal
from monitor.quantities import dollars, human_duration, number_of, parse_duration, parse_rate
from monitor.telemetry import logs


def backfill(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders.")
    ] = None,
    *,
    missed: Annotated[
        bool, typer.Option("--missed", help="Evaluate what was missed while the judge was paused.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="kafka|spool", help="Read Kafka topics, or what `storage.spool_retention` keeps."
        ),
    ] = None,
    evaluators: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            autocompletion=_options.complete_evaluators,
            help="Evaluators to use. With --missed the default is all of them.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="2h", help="Only answers newer than this.")] = None,
    until: Annotated[str | None, typer.Option(metavar="1h", help="Only answers older than this.")] = None,
    app: Annotated[
        str | None, typer.Option(metavar="NAME", callback=_options.app, help="Only answers of this service.")
    ] = None,
    sample: Annotated[
        str | None, typer.Option(metavar="10%", help="The share to evaluate. Default: the evaluator's own `sample`.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the number of evaluations and their cost; queue nothing.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Queue them and exit without waiting.")] = False,
    here: Annotated[
        bool,
        typer.Option("--here", help="Evaluate in this process, if no monitor is running. On its own: the whole queue."),
    ] = False,
    config: _options.ConfigPath = None,
) -> None:
    """Queue evaluations of past traffic. The running monitor makes them when it is idle, within a separate budget.

    Results are marked `backfill` and count in no rate and no alert. An answer that the current version of an evaluator
    has scored is not evaluated again. Exit status 1: something could not be read, or was not evaluated.
    """
    ways = [bool(paths), source is not None, missed]
    if sum(ways) > 1 or not (any(ways) or (here and not dry_run)):
        raise typer.BadParameter("give files, or --from, or --missed", param_hint="FILE")
    if source not in (None, "kafka", "spool"):
        raise typer.BadParameter(f"{source!r} is neither `kafka` nor `spool`", param_hint="--from")
    if detach and here:
        raise typer.BadParameter("cannot be used with --here", param_hint="--detach")
    if evaluators is None and (paths or source):
        raise typer.BadParameter("is required, except with --missed", param_hint="--evaluators")
    if source == "kafka" and since is None:
        raise typer.BadParameter("kafka requires --since, such as --since 2h", param_hint="--from")
    loaded, now = configuration.load(config), SystemClock().now()
    logs.configure("WARNING", "text", sys.stderr)
    request = None
    if any(ways):
        request = BackfillRequest(
            source=BackfillOrigin.MISSED if missed else BackfillOrigin(source) if source else BackfillOrigin.FILE,
            paths=tuple(paths or ()),
            evaluators=tuple(_options.comma_list(evaluators) or ()),
            app=app,
            share=None if sample is None else _options.read("--sample", parse_rate, sample),
            since=0.0 if since is None else now - _options.read("--since", parse_duration, since),
            until=float("inf") if until is None else now - _options.read("--until", parse_duration, until),
        )
    try:
        with BackfillClient(loaded) as client:
            if dry_run and request is not None:
                ok = _estimate(client, request)
            else:
                ok = _run(loaded, client, request, detach=detach, here=here)
    except MonitorError as error:
        raise ConfigError(str(error)) from None
    if not ok:
        raise typer.Exit(1)


def _estimate(client: BackfillClient, request: BackfillRequest) -> bool:
    found = run_async(partial(client.estimate, request, report=report))
    echo_lines(_estimate_lines(found))
    return _all_read(found.counts)


def _run(config: Config, client: BackfillClient, request: BackfillRequest | None, *, detach: bool, here: bool) -> bool:
    """Queue the requested evaluations and see them done. Return whether everything was read and evaluated."""
    batch, complete = "", True
    if request is not None:
        queued = run_async(partial(client.enqueue, request, report=report))
        echo_lines(_queued_lines(queued))
        batch, complete = queued.batch, _all_read(queued.counts) and not queued.full
        if not queued.new:
            return complete
    if not here and (detach or not client.has_worker):
        typer.echo(_left_to_the_monitor(config, running=client.has_worker))
        return complete

    async def finish() -> BackfillProgress:
        async with stop_on_signal() as stop:
            if here:
                return await client.work(batch, stop=stop)
            return await client.follow(batch, progress=Bars(), stop=stop)

    return _print_progress(run_async(finish)) and complete


def _left_to_the_monitor(config: Config, *, running: bool) -> str:
    folder = config.storage.path
    if running:
        return f"the monitor on {folder} evaluates them when it is idle"
    return (
        f"no monitor is running on {folder}: they wait there for up to {human_duration(config.backfill.retention)};"
        " `rag-monitor backfill --here` evaluates them without a monitor"
    )


def _count_lines(counts: SelectionCounts) -> Iterator[str]:
    yield f"{number_of(counts.read, 'case')} read, {counts.matching:,} matching"
    for name in sorted({*counts.selected, *counts.left_out}):
        yield f"  {name}: {counts.selected[name]:,} selected, {counts.left_out[name]:,} not sampled or not applicable"


def _all_read(counts: SelectionCounts) -> bool:
    if counts.unreadable:
        one = counts.unreadable == 1
        what = "1 delivery, file or row" if one else f"{counts.unreadable} deliveries, files or rows"
        report(f"{what} could not be read")
    return not counts.unreadable


def _estimate_lines(found: BackfillEstimate) -> Iterator[str]:
    yield from _count_lines(found.counts)
    for one in found.costs:
        cost = "price unknown" if one.dollars is None else f"at most {dollars(one.dollars)}" if one.dollars else "free"
        yield f"  {one.evaluator}: {number_of(one.evaluations, 'evaluation')}, {cost}"
    yield f"{number_of(found.evaluations, 'evaluation')} would be queued; {found.counts.scored:,} already scored"


def _queued_lines(queued: Enqueued) -> Iterator[str]:
    yield from _count_lines(queued.counts)
    parts = [f"{number_of(queued.new, 'evaluation')} queued"]
    parts += [f"{queued.scored:,} already scored"] if queued.scored else []
    parts += [f"{queued.waiting:,} already in the queue"] if queued.waiting else []
    yield "; ".join(parts)
    if queued.full:
        yield f"the queue is full: {queued.full} left out; try again later, or raise backfill.max_size"


def _print_progress(found: BackfillProgress) -> bool:
    done = ", ".join(f"{number} {outcome}" for outcome, number in sorted(found.done.items()))
    if done:
        typer.echo(f"{'done so far' if found.waiting else 'done'}: {done}")
    if found.waiting:
        report(f"{found.waiting} still waiting{f': {found.reason}' if found.reason else ''}")
    return not found.waiting
