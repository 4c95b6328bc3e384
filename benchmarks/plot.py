"""Draw small diagrams side by side, as an SVG for any browser, light or dark."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

_WIDTH, _HEIGHT = 250, 130
_LEFT, _TOP, _BETWEEN, _BELOW = 52, 46, 62, 40
_ACROSS: Final = 3

_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 }
  .title { font-weight: 600 }
  .tick { font-size: 11px; fill: #555 }
  .grid { stroke: #e3e3e3 }
  .line { fill: none; stroke: #0072b2; stroke-width: 2 }
  .spread { stroke: #0072b2 }
  .dot { fill: #0072b2 }
  .back { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd }
    .tick { fill: #aaa }
    .grid { stroke: #3a3a3a }
    .line, .spread { stroke: #56b4e9 }
    .dot { fill: #56b4e9 }
    .back { fill: #1b1b1b }
  }"""


class Diagram(NamedTuple):
    """Measurements at several numbers of something: a few figures for each number."""

    title: str
    across: str
    measured: Mapping[int, Sequence[float]]


def draw(diagrams: Sequence[Diagram]) -> str:
    """Draw the median of each number, and a line from the lowest to the highest figure.

    The numbers are in order at even distances; all vertical axes begin at 0.
    """
    rows = math.ceil(len(diagrams) / _ACROSS)
    width = _ACROSS * (_WIDTH + _BETWEEN) + _LEFT - _BETWEEN + 16
    height = rows * (_TOP + _HEIGHT + _BELOW) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}\n</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]
    for number, diagram in enumerate(diagrams):
        row, column = divmod(number, _ACROSS)
        parts += _diagram(diagram, _LEFT + column * (_WIDTH + _BETWEEN), _TOP + row * (_TOP + _HEIGHT + _BELOW))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _diagram(diagram: Diagram, left: float, top: float) -> Iterator[str]:
    bottom = top + _HEIGHT
    step, ticks = _scale(max(max(figures) for figures in diagram.measured.values()))
    yield f'<text class="title" x="{left}" y="{top - 16}">{escape(diagram.title)}</text>'
    for tick in range(ticks + 1):
        y = bottom - _HEIGHT * tick / ticks
        yield f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * step:g}</text>'
    places: list[str] = []
    for place, (number, figures) in enumerate(sorted(diagram.measured.items())):
        x = left + _WIDTH * (place + 0.5) / len(diagram.measured)
        middle, low, high = (
            bottom - _HEIGHT * one / (step * ticks) for one in (statistics.median(figures), min(figures), max(figures))
        )
        yield f'<line class="spread" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{middle:.1f}" r="3.5"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_short(number)}</text>'
        places.append(f"{x:.1f},{middle:.1f}")
    yield f'<polyline class="line" points="{" ".join(places)}"/>'
    yield f'<text x="{left + _WIDTH / 2}" y="{bottom + 33}" text-anchor="middle">{escape(diagram.across)}</text>'


def _scale(highest: float) -> tuple[float, int]:
    """Return the distance between ticks of an axis that begins at 0, and how many ticks there are above 0."""
    rough = highest / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(one * size for one in (1, 2, 5, 10) if one * size >= rough)
    return step, math.ceil(highest / step)


def _short(number: int) -> str:
    """Write 100,000,000 as 100M."""
    for size, sign in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:g}{sign}"
    return str(number)
