"""How far a command has come, as a bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.progress import TimeRemainingColumn as Left

from monitor.cli.console.output import clean
from monitor.telemetry import logs


class Bars:
    """Shows progress as bars on standard error if that is a terminal; meanwhile only warnings are logged.

    `beside_output`: results are printed while a bar shows. If they go to a terminal too, there is no bar.
    """

    def __init__(self, *, beside_output: bool = False) -> None:
        self._beside_output = beside_output

    @contextmanager
    def steps(self, total: int, name: str) -> Iterator[Callable[[], object]]:
        """Show a bar of `total` steps; call the result after each."""
        with self._bar(total, name, (MofNCompleteColumn(), Left())) as advance:
            logs.configure("WARNING", "text", sys.stderr)
            yield lambda: advance(1)

    @contextmanager
    def reading(self, paths: Iterable[Path]) -> Iterator[Callable[[int], object]]:
        """Show a bar of the bytes of `paths`, folders among them; call the result with the bytes read."""
        with self._bar(_bytes(paths), "reading", (DownloadColumn(), Left())) as advance:
            yield advance

    @contextmanager
    def _bar(self, total: int, name: str, columns: Sequence[ProgressColumn]) -> Iterator[Callable[[int], object]]:
        console = Console(stderr=True)
        hidden = self._beside_output and sys.stdout.isatty()
        # FORCE_COLOR does not make a file a terminal, and a dumb terminal cannot move its cursor.
        shown = sys.stderr.isatty() and not console.is_dumb_terminal and not hidden
        named = (TextColumn("{task.description}", markup=False), BarColumn(), *columns)
        with Progress(*named, console=console, transient=True, disable=not shown) as bar:
            task = bar.add_task(clean(name), total=total)
            yield lambda number: bar.advance(task, number)


def _bytes(paths: Iterable[Path]) -> int:
    """Add up the sizes. Files that cannot be read are reported by the reader itself."""
    total = 0
    for path in paths:
        try:
            inside = list(path.iterdir()) if path.is_dir() else [path]
            total += sum(one.stat().st_size for one in inside if one.is_file())
        except OSError:
            continue
    return total
