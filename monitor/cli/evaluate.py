"""`rag-monitor evaluate`: the scores of the running monitor, offline, for every case in files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.run import ConfigPath

if TYPE_CHECKING:
    from monitor.cli.scored import Scored
    from monitor.config import Config
    from monitor.pipeline.assignment import Assignment

INTERRUPTED = 130
"""The exit status of what Ctrl-C has ended, as shells have it."""


def evaluate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders."),
    ] = None,
    *,
    evaluators: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who scores. Default: those of the configuration.")
    ] = None,
    config: ConfigPath = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Append each result to this file; what stands there is not judged again."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Judge again what stands there as unscored.")] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="BASELINE ATTACKED", help="Two files instead: the difference of their defect rates."),
    ] = None,
) -> None:
    """Score every case in files, without sampling, and print for each evaluator what came of it.

    Results are JSON Lines in the schema of the sink `jsonl`. Exit status 1 when a file or row could not be read, or a
    result not be written; 130 when interrupted: the same command with the same `-o` then goes on.
    """
    if (compare is None) == (not paths):
        raise typer.BadParameter("give files, or --compare with two of them", param_hint="FILE")
    if again and output is None:
        raise typer.BadParameter("needs --output", param_hint="--again")
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import offline, scored  # noqa: PLC0415

    loaded = configuration.load(config)
    assignments = offline.chosen(loaded, evaluators, sys.stderr)
    if compare is None:
        done = _score(loaded, assignments, paths or [], output, again=again)
        ended = [done]
    else:
        ended = []
        for path, name in zip(compare, ("baseline", "attacked"), strict=True):
            to = output and output.with_name(f"{output.stem}.{name}{output.suffix}")
            typer.echo(f"{name}: {path}")
            ended.append(_score(loaded, assignments, [path], to, again=again))
            typer.echo()
        for line in scored.difference(assignments, *ended):
            typer.echo(line)
    if any(one.unreadable for one in ended):
        raise typer.Exit(1)


def _score(
    config: Config, assignments: list[Assignment], paths: list[Path], output: Path | None, *, again: bool
) -> Scored:
    """Score the cases in `paths` and print the summary. Leaves with a message where that was cut short."""
    from monitor.cli import scored  # noqa: PLC0415

    done = scored.run(config, assignments, paths, output, again=again)
    for line in scored.summary(assignments, done):
        typer.echo(line)
    if done.failure:
        typer.echo(done.failure, err=True)
        raise typer.Exit(1)
    if done.interrupted:
        kept = f"what was judged stands in {output}: the same command goes on from there"
        typer.echo(f"interrupted; {kept if output else 'nothing was kept, as there is no --output'}", err=True)
        raise typer.Exit(INTERRUPTED)
    return done
