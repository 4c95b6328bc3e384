"""`rag-monitor benchmark`: how good evaluators are, by labelled answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.run import ConfigPath
from monitor.errors import ConfigError


def benchmark(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="LABELLED.jsonl", help="Rows of any shape, each with `label`: 1 defective, 0 good."),
    ],
    *,
    evaluators: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who is measured. Default: those of the configuration.")
    ] = None,
    config: ConfigPath = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="This many rows of each file, chosen by a hash of their ids.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the ROC curves and the reliability diagram.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of tables.")] = False,
) -> None:
    """Measure on labelled answers how well evaluators tell defective ones from good ones, at what cost.

    One table a file. Exit status 1 when a file or row could not be read; the others are measured all the same.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import measured, offline  # noqa: PLC0415

    loaded = configuration.load(config)
    assignments = offline.chosen(loaded, evaluators, sys.stderr)
    if plot is not None:
        _check_writable(plot)
    unreadable = 0
    found = []
    for path in paths:
        try:
            one = measured.run(loaded, assignments, path, limit)
        except OSError as error:
            unreadable += 1
            typer.echo(f"{path}: cannot be read: {error.strerror}", err=True)
            continue
        unreadable += one.unreadable
        found.append(one)
        if not as_json:
            for line in measured.lines(one):
                typer.echo(line)
            typer.echo()
    if as_json:
        typer.echo(measured.as_json(found))
    if plot is not None:
        from monitor.statistics.quality.plot import draw  # noqa: PLC0415

        plot.write_text(draw(measured.curves(found)), encoding="utf-8")
        typer.echo(f"wrote {plot}", err=True)
    if unreadable:
        raise typer.Exit(1)


def _check_writable(path: Path) -> None:
    """Before anything is paid for. Raises `ConfigError`."""
    try:
        path.open("a").close()
    except OSError as error:
        raise ConfigError(f"--plot: {path} cannot be written: {error.strerror}") from None
