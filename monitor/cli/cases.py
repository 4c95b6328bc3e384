"""`rag-monitor cases`: what the monitor reads from captured OTLP and from rows, one JSON object a trace or row."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from monitor import explain, registry
from monitor.cli import explained
from monitor.cli.console.progress import Bars
from monitor.content.settings import ReadingSettings
from monitor.errors import ConfigError
from monitor.operations.offline.files import CaseFiles


def cases(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files or folders of .pb, .logs.pb and .json captures; .jsonl files of rows, MLflow traces as .json.",
        ),
    ],
    why: Annotated[
        bool, typer.Option("--explain", help="For a person: where each field was taken from, and what was not used.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines, with --explain: one JSON object a trace or row. Else it is.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A configuration, for its `extraction`.")
    ] = None,
) -> None:
    """Print what is read from captured OTLP and from rows: one JSON object a trace or row.

    Rows come in their order, then traces in the order in which they first arrive. A folder is read in name order. Exit
    status 1 when a file or row could not be read; the others are read all the same.
    """
    try:
        settings = reading_settings(config)
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    show = partial(print_explained, as_json=as_json) if why else print_cases
    with Bars(beside_output=True).reading(paths) as advance:
        unreadable = show(paths, sys.stdout, settings=settings, advance=advance)
    if unreadable:
        raise typer.Exit(1)


def reading_settings(config: Path | None) -> ReadingSettings:
    """The section `extraction` of a configuration; the default without one. Raises `ConfigError`."""
    if config is None:
        return ReadingSettings()
    from monitor import config as configuration  # noqa: PLC0415 - imports every component

    return configuration.load(config).extraction


def print_cases(
    paths: Iterable[Path],
    out: TextIO,
    notes: TextIO | None = None,
    settings: ReadingSettings | None = None,
    advance: Callable[[int], object] = lambda _bytes: None,
) -> int:
    """Write a line for each row and trace in `paths` to `out`, and what was not read to `notes` (default: stderr).

    Returns how many files and rows could not be read.
    """
    files = _files(paths, notes, settings, advance)
    out.writelines(json.dumps(reading.as_row(), ensure_ascii=False) + "\n" for reading in files.readings())
    return files.unreadable


def print_explained(
    paths: Iterable[Path],
    out: TextIO,
    notes: TextIO | None = None,
    settings: ReadingSettings | None = None,
    advance: Callable[[int], object] = lambda _bytes: None,
    *,
    as_json: bool = False,
) -> int:
    """As `print_cases`, in lines for a person: where each field was taken from, and what was there but not used."""
    files = _files(paths, notes, settings, advance)
    settings = settings or ReadingSettings()
    for found in files.found():
        if found.trace is not None:
            told = explain.explain(found.trace, registry.conventions(), settings)
        elif found.reading is not None:
            told = explain.Explanation(found.reading, {}, ())
        text = explained.as_json(told) if as_json else "\n".join(explained.lines(told)) + "\n"
        out.write(text + "\n")
    return files.unreadable


def _files(
    paths: Iterable[Path], notes: TextIO | None, settings: ReadingSettings | None, advance: Callable[[int], object]
) -> CaseFiles:
    out = notes if notes is not None else sys.stderr
    return CaseFiles(paths, settings, report=lambda message: out.write(f"{message}\n"), advance=advance)
