"""Small pictures for terminal tables, as wide as their column: a rate with its interval, an axis, a trend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_NARROWEST = 8


class _Wide:
    """Takes all the width there is."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(_NARROWEST, options.max_width), options.max_width)


@dataclass(frozen=True, slots=True)
class IntervalBar(_Wide):
    """A rate as a dot on the line of its interval, and the threshold as a stroke; shares from 0 to `scale`.

    None for a limit that is not known. What lies beyond `scale` is drawn at its end.
    """

    rate: float | None
    lower: float | None
    upper: float | None
    threshold: float | None
    scale: float
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        track, line, dot, stroke = ".=o|" if options.ascii_only else "\u00b7\u2501\u25cf\u2502"
        width = options.max_width
        cells = [(track, "dim")] * width

        def at(share: float) -> int:
            return min(round(share / self.scale * (width - 1)), width - 1)

        if self.lower is not None and self.upper is not None:
            for place in range(at(self.lower), at(self.upper) + 1):
                cells[place] = (line, self.style)
        if self.threshold is not None:
            cells[at(self.threshold)] = (stroke, "bold")
        if self.rate is not None:
            cells[at(self.rate)] = (dot, self.style)
        yield Text.assemble(*cells, no_wrap=True, overflow="crop")


@dataclass(frozen=True, slots=True)
class Axis(_Wide):
    """The ends of the bars below it: 0 and `scale`, in percent."""

    scale: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        stroke = "|" if options.ascii_only else "\u2502"
        end = f"{self.scale:.0%}"
        yield Text(f"{stroke} threshold", no_wrap=True, overflow="crop")
        yield Text("0" + end.rjust(max(options.max_width - 1, 0)), no_wrap=True, overflow="crop")


@dataclass(frozen=True, slots=True)
class Sparkline(_Wide):
    """Shares from 0 to `scale` over time, the newest on the right; a gap where there is none."""

    shares: Sequence[float | None]
    scale: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        steps = "_.-=*#" if options.ascii_only else "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
        shown = list(self.shares)[-options.max_width :]
        drawn = "".join(
            " " if share is None else steps[min(int(share / self.scale * len(steps)), len(steps) - 1)]
            for share in shown
        )
        yield Text(drawn.rjust(options.max_width), no_wrap=True, overflow="crop")
