"""What commands write to standard output and standard error, and how they read lists in options."""

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


def comma_list(text: str | None) -> list[str] | None:
    """Split `a, b` into its names, each once; None stays None."""
    return None if text is None else list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
