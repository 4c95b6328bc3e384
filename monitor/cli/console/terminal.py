"""Showing views as they come: in place on a terminal, as lines anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from monitor.cli.console.live_view import lines, render, summary
from monitor.cli.console.view import ConsoleView

SIGN_OF_LIFE = 15.0
_ROW = 2  # lines of one rate

Draw = Callable[[ConsoleView], None]


@contextmanager
def open_terminal(console: Console | None = None) -> Iterator[Draw]:
    """Give a function that draws a view. On a terminal the last picture stays when the context is left."""
    console = console if console is not None else Console()
    if not console.is_terminal or console.is_dumb_terminal:  # one that cannot move its cursor
        yield _Lines(console).draw
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda view: live.update(render(_fitting(view, console)), refresh=True)


class _Lines:
    """Prints one plain line for each change, and a summary when nothing has changed for a while."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: ConsoleView | None = None
        self._printed_at = 0.0

    def draw(self, view: ConsoleView) -> None:
        changes = lines(self._before, view)
        if not changes and view.elapsed - self._printed_at >= SIGN_OF_LIFE:
            changes = [summary(view)]
        for line in changes:
            self._console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
            self._printed_at = view.elapsed
        self._before = view


def _fitting(view: ConsoleView, console: Console) -> ConsoleView:
    """Leave out worst answers, then rates, until the view fits the height of the terminal."""
    for count in range(len(view.worst), 0, -1):
        fewer = replace(view, worst=view.worst[:count])
        if _height(fewer, console) < console.height:
            return fewer
    view = replace(view, worst=())
    over = _height(view, console) - console.height + 1
    if over <= 0:
        return view
    shown = max(len(view.rates) - (over + 2) // _ROW, 1)
    left_out = len(view.rates) - shown
    notes = (*view.notes, f"and {left_out} more rates that do not fit here") if left_out else view.notes
    return replace(view, rates=view.rates[:shown], notes=notes)


def _height(view: ConsoleView, console: Console) -> int:
    return len(console.render_lines(render(view), pad=False))
