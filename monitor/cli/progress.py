"""How far a command has come: a bar on standard error, and only while that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.progress import TimeRemainingColumn as Left

from monitor.cli.words import clean
from monitor.telemetry import logs


@contextmanager
def steps(total: int, what: str) -> Iterator[Callable[[], object]]:
    """A bar of `total` steps, and warnings of the log beside it; the result moves it on by one."""
    with _bar(total, what, (MofNCompleteColumn(), Left())) as advance:
        logs.configure("WARNING", "text", sys.stderr)
        yield lambda: advance(1)


@contextmanager
def reading(paths: Iterable[Path], *, beside_output: bool = False) -> Iterator[Callable[[int], object]]:
    """A bar of the bytes of `paths`, folders among them; the result moves it on by so many.

    `beside_output`: while it shows, results are printed. Then there is none where these go to a terminal themselves.
    """
    hidden = beside_output and sys.stdout.isatty()
    with _bar(_bytes(paths), "reading", (DownloadColumn(), Left()), hidden=hidden) as advance:
        yield advance


@contextmanager
def _bar(
    total: int, what: str, columns: Sequence[ProgressColumn], *, hidden: bool = False
) -> Iterator[Callable[[int], object]]:
    console = Console(stderr=True)
    # What FORCE_COLOR makes of a file is no terminal, and a dumb one cannot move its cursor.
    shown = sys.stderr.isatty() and not console.is_dumb_terminal and not hidden
    named = (TextColumn("{task.description}", markup=False), BarColumn(), *columns)
    with Progress(*named, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(clean(what), total=total)
        yield lambda number: bar.advance(task, number)


def _bytes(paths: Iterable[Path]) -> int:
    """How much there is to read; what cannot be looked at is somebody else's to complain about."""
    total = 0
    for path in paths:
        try:
            inside = list(path.iterdir()) if path.is_dir() else [path]
            total += sum(one.stat().st_size for one in inside if one.is_file())
        except OSError:
            continue
    return total
