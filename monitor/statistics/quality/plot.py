"""Draws ROC curves and the reliability diagram side by side, as an SVG for any browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

_SIDE, _LEFT, _TOP, _GAP = 320, 64, 44, 84
_LINE = 20
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Colours that colour-blind people can distinguish too (Okabe and Ito, 2008)."""

_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #222 }
  .title { font-size: 14px; font-weight: 600 }
  .tick { font-size: 11px; fill: #555 }
  .grid { stroke: #e3e3e3 }
  .frame { fill: none; stroke: #888 }
  .even { stroke: #888; stroke-dasharray: 4 4 }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round }
  .thin { fill: none; stroke-opacity: .5 }"""


class Curve(NamedTuple):
    """The data of one evaluator: corners of its ROC curve, and `(predicted, observed, number)` of its bins."""

    name: str
    roc: Sequence[tuple[float, float]]
    auroc: float | None
    bins: Sequence[tuple[float, float, int]]


def draw(curves: Sequence[Curve]) -> str:
    """Draw the picture. Curves that share a colour, from the eighth on, have different dashes."""
    width = _LEFT + _SIDE + _GAP + _SIDE + 24
    height = _TOP + _SIDE + 56 + _LINE * len(curves) + 12
    second = _LEFT + _SIDE + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}\n</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_panel(_LEFT, "ROC", "good answers flagged", "defective answers flagged"),
        *_panel(second, "Reliability", "predicted probability of a defect", "share that is defective"),
    ]
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = ("", ' stroke-dasharray="7 3"', ' stroke-dasharray="2 3"')[number // len(_COLOURS) % 3]
        stroke = f'stroke="{colour}"{dashes}'
        if curve.roc:
            parts.append(f'<polyline class="curve" {stroke} points="{_points(_LEFT, curve.roc)}"/>')
        parts += _reliability(second, curve, colour, stroke)
        y = _TOP + _SIDE + 62 + _LINE * number
        area = f", AUROC {curve.auroc:.3f}" if curve.auroc is not None else ""
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + 24}" y1="{y - 4}" y2="{y - 4}" stroke-width="2" {stroke}/>')
        parts.append(f'<text x="{_LEFT + 32}" y="{y}">{escape(curve.name)}{area}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _reliability(left: int, curve: Curve, colour: str, stroke: str) -> Iterator[str]:
    """Draw dots with an area as large as the number of answers, joined by a thin line."""
    if not curve.bins:
        return
    most = max(number for _, _, number in curve.bins)
    joined = _points(left, [(predicted, observed) for predicted, observed, _ in curve.bins])
    yield f'<polyline class="thin" {stroke} points="{joined}"/>'
    for predicted, observed, number in curve.bins:
        x, y = _place(left, predicted, observed)
        radius = max(5.5 * (number / most) ** 0.5, 1.5)
        title = f"{number} answers: predicted {predicted:.2f}, defective {observed:.2f}"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"><title>{title}</title></circle>'


def _panel(left: int, title: str, across: str, up: str) -> Iterator[str]:
    """Draw frame, grid, diagonal and labels of one diagram; both axes run from 0 to 1."""
    bottom, right, middle = _TOP + _SIDE, left + _SIDE, left + _SIDE // 2
    yield f'<text class="title" x="{left}" y="{_TOP - 14}">{title}</text>'
    for tick in range(6):
        x, y = _place(left, tick / 5, tick / 5)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick / 5:g}</text>'
        yield f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick / 5:g}</text>'
    yield f'<line class="even" x1="{left}" y1="{bottom}" x2="{right}" y2="{_TOP}"/>'
    yield f'<rect class="frame" x="{left}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}"/>'
    yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{across}</text>'
    turned = f"{left - 40} {_TOP + _SIDE // 2}"
    yield f'<text transform="translate({turned}) rotate(-90)" text-anchor="middle">{up}</text>'


def _points(left: int, shares: Sequence[tuple[float, float]]) -> str:
    """Convert corners to pixels; those on the same pixel are drawn once."""
    places = (_place(left, across, up) for across, up in shares)
    return " ".join(dict.fromkeys(f"{x:.1f},{y:.1f}" for x, y in places))


def _place(left: int, across: float, up: float) -> tuple[float, float]:
    return left + across * _SIDE, _TOP + (1 - up) * _SIDE
