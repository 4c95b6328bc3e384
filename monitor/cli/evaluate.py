"""`rag-monitor evaluate`: the scores of the running monitor, offline, for every case in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from monitor.cli.run import ConfigPath

if TYPE_CHECKING:
    from monitor.cli.scored import Scored

INTERRUPTED = 130
"""The exit status of what Ctrl-C has ended, as shells have it."""

_NAMES = ("baseline", "attacked")


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
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of tables.")] = False,
) -> None:
    """Score every case in files, without sampling, and print for each evaluator what came of it.

    Results are JSON Lines in the schema of the sink `jsonl`. Exit status 1 when a file or row could not be read, or a
    result not be written; 130 when interrupted: the same command with the same `-o` then goes on.
    """
    sets = _sets(paths, compare)
    if again and output is None:
        raise typer.BadParameter("needs --output", param_hint="--again")
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import offline, scored  # noqa: PLC0415

    loaded = configuration.load(config)
    assignments = offline.chosen(loaded, evaluators, sys.stderr)
    ended: dict[str, Scored] = {}
    for name, files in sets.items():
        to = output and output.with_name(f"{output.stem}.{name}{output.suffix}") if compare is not None else output
        if compare is not None and not as_json:
            typer.echo(f"{name}: {files[0]}")
        done = ended[name] = scored.run(loaded, assignments, files, to, again=again)
        if not as_json:
            _print(scored.summary(assignments, done), then="\n" if compare is not None else "")
        if done.cut_short:
            break
    if as_json:
        typer.echo(scored.as_json(assignments, ended))
    if done.cut_short:
        _leave_early(done, to)
    if compare is not None and not as_json:
        _print(scored.difference(assignments, *ended.values()))
    if any(one.unreadable for one in ended.values()):
        raise typer.Exit(1)


def _sets(paths: list[Path] | None, compare: tuple[Path, Path] | None) -> dict[str, list[Path]]:
    """The files by the name of their set: one without a name, or the two that are compared."""
    if (compare is None) == (not paths):
        raise typer.BadParameter("give files, or --compare with two of them", param_hint="FILE")
    return {"": paths or []} if compare is None else {name: [path] for name, path in zip(_NAMES, compare, strict=True)}


def _print(lines: Iterable[str], then: str = "") -> None:
    for line in lines:
        typer.echo(line)
    typer.echo(then, nl=False)


def _leave_early(done: Scored, output: Path | None) -> NoReturn:
    """Leaves with a message after what was cut short."""
    if done.failure:
        typer.echo(done.failure, err=True)
        raise typer.Exit(1)
    kept = f"what was judged stands in {output}: the same command goes on from there"
    typer.echo(f"interrupted; {kept if output else 'nothing was kept, as there is no --output'}", err=True)
    raise typer.Exit(INTERRUPTED)
