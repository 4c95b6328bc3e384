"""What commands write to standard output and standard error."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def echo_lines(lines: Iterable[str]) -> None:
    """Print each line to standard output."""
    for line in lines:
        typer.echo(line)


def report(message: str) -> None:
    """Print a message to standard error: what was skipped, or could not be read."""
    typer.echo(message, err=True)
