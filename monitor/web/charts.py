"""Small SVG charts: a rate with its interval, and its trend. They contain numbers only, never text of the traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from markupsafe import Markup

from monitor.web.rate_views import RateView, TrendStepView
from monitor.web.texts import interval, percent

_WIDTH, _HEIGHT = 240.0, 20.0
_TREND_WIDTH, _TREND_HEIGHT = 240.0, 44.0
_MARGIN: Final = 1.15
_ENDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)


def scale(rate: RateView) -> float:
    """Return the right end of a rate's charts: a round share above its thresholds, rate and nearly all of its trend."""
    rates = sorted(step.rate for step in rate.trend if step.rate is not None and step.evaluated)
    nearly_all = rates[: -len(rates) // 10 or None]
    wanted = max([*rate.thresholds.values(), rate.rate or 0.0, min(rate.upper or 0.0, 0.1), *nearly_all]) * _MARGIN
    return next((end for end in _ENDS if end >= wanted), 1.0)


def bar(rate: RateView, end: float) -> Markup:
    """Draw the rate as a dot on its interval, with a line at each threshold, from 0 to `end`."""

    def x(share: float) -> str:
        return _n(4 + min(share / end, 1.0) * (_WIDTH - 8))

    y = _n(_HEIGHT / 2)
    parts = [f'<line class="track" x1="4" y1="{y}" x2="{_n(_WIDTH - 4)}" y2="{y}"/>']
    if rate.rate is not None and rate.lower is not None and rate.upper is not None:
        parts.append(f'<line class="interval" x1="{x(rate.lower)}" y1="{y}" x2="{x(rate.upper)}" y2="{y}"/>')
    parts += [
        f'<line class="limit {severity}" x1="{x(share)}" y1="2" x2="{x(share)}" y2="{_n(_HEIGHT - 2)}"/>'
        for severity, share in rate.thresholds.items()
    ]
    if rate.rate is not None:
        parts.append(f'<circle class="rate" cx="{x(rate.rate)}" cy="{y}" r="4"/>')
        said = f"{percent(rate.rate)}, 95 % interval {interval(rate.lower, rate.upper)}, {_thresholds(rate.thresholds)}"
    else:
        said = f"no answer scored, {_thresholds(rate.thresholds)}"
    return _svg("bar", _WIDTH, _HEIGHT, f"defect rate {said}, axis from 0 to {percent(end)}", parts)


def trend(rate: RateView, end: float) -> Markup:
    """Draw the rate over time on the band of its intervals, with a line at each threshold, from 0 to `end`."""
    count = max(len(rate.trend), 1)
    wide = _TREND_WIDTH / count

    def y(share: float) -> float:
        return _TREND_HEIGHT - 2 - min(share / end, 1.0) * (_TREND_HEIGHT - 4)

    parts = [f'<line class="base" x1="0" y1="{_n(y(0))}" x2="{_n(_TREND_WIDTH)}" y2="{_n(y(0))}"/>']
    lines: list[str] = []
    for run in _runs(rate.trend):
        # Each step is drawn at its middle; a run begins and ends at the edges of its first and last step.
        xs = [run[0][0] * wide, *((place + 0.5) * wide for place, _ in run), (run[-1][0] + 1) * wide]
        steps = [run[0][1], *(step for _, step in run), run[-1][1]]
        upper = [f"{_n(x)},{_n(y(step.upper or 0.0))}" for x, step in zip(xs, steps, strict=True)]
        lower = [f"{_n(x)},{_n(y(step.lower or 0.0))}" for x, step in zip(xs, steps, strict=True)]
        line = [f"{_n(x)},{_n(y(step.rate or 0.0))}" for x, step in zip(xs, steps, strict=True)]
        parts.append(f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>')
        lines.append(f'<polyline class="line" points="{" ".join(line)}"/>')
    parts += [
        f'<line class="limit {severity}" x1="0" y1="{_n(y(share))}" x2="{_n(_TREND_WIDTH)}" y2="{_n(y(share))}"/>'
        for severity, share in rate.thresholds.items()
    ]
    known = [step.rate for step in rate.trend if step.rate is not None]
    said = f"trend from {percent(known[0])} to {percent(known[-1])}" if known else "trend: no answer scored"
    return _svg("trend", _TREND_WIDTH, _TREND_HEIGHT, f"{said}, axis from 0 to {percent(end)}", [*parts, *lines])


def _runs(steps: Sequence[TrendStepView]) -> Iterator[list[tuple[int, TrendStepView]]]:
    """Yield consecutive steps with scored answers, with their places."""
    for judged, run in groupby(enumerate(steps), key=lambda one: one[1].rate is not None):
        if judged:
            yield list(run)


def _thresholds(thresholds: Mapping[str, float]) -> str:
    return ", ".join(f"{severity} above {percent(share)}" for severity, share in thresholds.items()) or "no threshold"


def _svg(kind: str, width: float, height: float, said: str, parts: Sequence[str]) -> Markup:
    head = f'<svg class="{kind}" viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{said}">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704 - numbers and words of ours


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
