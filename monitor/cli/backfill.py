"""`rag-monitor backfill`: judge afterwards what was missed, or what somebody wants to know of traffic that is past."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from monitor.cli._options import ConfigPath

From = Literal["kafka", "spool"]


def backfill(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders.")
    ] = None,
    *,
    missed: Annotated[bool, typer.Option("--missed", help="What was due while a judge refused.")] = False,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="kafka|spool", help="Instead of files: topics, or `storage.spool_retention`."),
    ] = None,
    evaluator: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who judges. With --missed by default all who missed something.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="2h", help="Only answers of so long ago, or newer.")] = None,
    until: Annotated[str | None, typer.Option(metavar="1h", help="Only answers of so long ago, or older.")] = None,
    app: Annotated[str | None, typer.Option(metavar="NAME", help="Only those of this app.")] = None,
    sample: Annotated[
        str | None, typer.Option(metavar="10%", help="The share that is judged. Default: the evaluator's own `sample`.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many, and what they cost at most.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait until they are judged.")] = False,
    here: Annotated[bool, typer.Option("--here", help="Judge in this process: where no monitor runs.")] = False,
    config: ConfigPath = None,
) -> None:
    """Ask for judgements of past traffic: the running monitor makes them, behind all live ones and by a budget apart.

    Results stand apart as `backfill`, in no rate and no alert. What has a verdict of this version of the evaluator is
    not judged again. Exit status 1 when something could not be read, or not all could be judged.
    """
    ways = [bool(paths), source is not None, missed]
    if sum(ways) > 1 or not (any(ways) or here):
        raise typer.BadParameter("give files, or --from, or --missed", param_hint="FILE")
    if source not in (None, "kafka", "spool"):
        raise typer.BadParameter(f"{source!r} is neither `kafka` nor `spool`", param_hint="--from")
    if detach and here:
        raise typer.BadParameter("goes not together with --here", param_hint="--detach")
    if evaluator is None and not missed and any(ways):
        raise typer.BadParameter("say who is to judge", param_hint="--evaluator")
    if source == "kafka" and since is None:
        raise typer.BadParameter("say from when on to read, such as `--since 2h`", param_hint="--from")
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import backfilled  # noqa: PLC0415
    from monitor.clock import SystemClock  # noqa: PLC0415
    from monitor.telemetry import logs  # noqa: PLC0415

    loaded = configuration.load(config)
    logs.configure("WARNING", "text", sys.stderr)
    now = SystemClock().now()
    wish = backfilled.wish(
        loaded, evaluator, app=app, sample=sample, since=_ago("--since", since, now), until=_ago("--until", until, now)
    )
    way = backfilled.Way(missed=missed, source=source, paths=tuple(paths or ()))
    code = backfilled.run(loaded, wish, way, dry_run=dry_run, detach=detach, here=here)
    if code:
        raise typer.Exit(code)


def _ago(option: str, given: str | None, now: float) -> float | None:
    """The wall-clock second that lies so long ago."""
    from monitor.quantities import parse_duration  # noqa: PLC0415

    try:
        return None if given is None else now - parse_duration(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
