"""Records the sums, the rate and its limits over one window, by the formulas of `statistics/rates.py` in PromQL.

By version of the evaluator, over all replicas. Values that several limits of a window read are recorded once.
Prometheus has no minimum or maximum of two series: `a > b or b` is the larger one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from monitor.alerts.prometheus.promql import BY_EVALUATOR, OF_PAIR, RateSeries, Rule, record
from monitor.quantities import format_duration
from monitor.statistics.change import DAY, HOUR
from monitor.statistics.rates import Z_95

WEEK = 7 * DAY
SHOWN = (HOUR / 2, HOUR, 6 * HOUR, DAY, WEEK)
"""Windows with rates and 95 % limits that are always recorded, for dashboards and the release gate."""
SUMS = (
    "evaluations",
    "evaluation_weight",
    "defect_weight",
    "defect_weight_squares",
    "good_weight_squares",
    "defect_products",
    "every_products",
    "both_products",
)
"""The sums recorded by version. `rates.Sums` describes each."""

_WEEK = "167h59m"  # 168 whole hours, even if a range includes its older end


def rates(
    window: float,
    lower_zs: Collection[float],
    upper_zs: Collection[float],
    *,
    of_hours: bool,
    series: RateSeries = BY_EVALUATOR,
) -> list[Rule]:
    """Record the sums of a window, the rate, and its one-sided limits at each z.

    `of_hours`: a window of a week may be the sum of its hours, which is cheaper than reading all of it each time.
    `series` selects the counters.
    """
    sums = _sums_of_hours(series) if of_hours and window == WEEK else _sums(window, series)
    return [*sums, *_limits(window, lower_zs, upper_zs, series)]


def _sums(window: float, series: RateSeries) -> list[Rule]:
    span = format_duration(window)
    weight, squares = series.counter("evaluation_weight"), series.counter("evaluation_weight_squares")
    products = series.counter("evaluation_session_products")
    counters = {
        "evaluations": series.counter("evaluations"),
        "evaluation_weight": weight,
        "defect_weight": weight + '{defect="true"}',
        "defect_weight_squares": squares + '{defect="true"}',
        "good_weight_squares": squares + '{defect="false"}',
        "defect_products": products + '{of="defects"}',
        "every_products": products + '{of="all"}',
        "both_products": products + '{of="both"}',
    }
    every = f"sum {series.by_version} (increase({weight}[{span}]))"

    def summed(name: str) -> str:
        found = f"sum {series.by_version} (increase({counters[name]}[{span}]))"
        return found if name in ("evaluations", "evaluation_weight") else f"{found}\nor\n{every} * 0"

    return [record(f"{series.recorded}{name}:increase{span}", summed(name)) for name in SUMS]


def limit_95(name: str, span: str, *matchers: str) -> str:
    """Return the query for a recorded limit, `lower` or `upper`, by version; `span` is one of `SHOWN`."""
    labels = ", ".join((*matchers, f'z="{Z_95:g}"'))
    return f"max {BY_EVALUATOR.by_version} ({BY_EVALUATOR.recorded}defect_ratio:{name}{span}{{{labels}}})"


def _sums_of_hours(series: RateSeries) -> list[Rule]:
    span, hour, recorded = format_duration(WEEK), format_duration(HOUR), series.recorded
    return [
        record(f"{recorded}{name}:increase{span}", f"sum_over_time({recorded}{name}:increase{hour}[{_WEEK}:{hour}])")
        for name in SUMS
    ]


def defect_session_squares(span: str, series: RateSeries) -> Rule:
    """Record the squares of the defects by session, from recorded sums: `Sums.defect_session_squares`."""
    weight, squares, products = (f"{series.recorded}{name}:increase{span}" for name in SUMS[2:4] + SUMS[5:6])
    name = f"{series.recorded}defect_session_squares:increase{span}"
    return record(name, between(squares, products, f"{weight} ^ 2"))


class _LimitSide(NamedTuple):
    """The defects, or the good answers: names of the records of their weight, squares and squares by session.

    The names of further records of that side begin with `prefix`.
    """

    prefix: str
    weight: str
    squares: str
    in_sessions: str


def _limits(window: float, lower_zs: Collection[float], upper_zs: Collection[float], series: RateSeries) -> list[Rule]:
    span, recorded = format_duration(window), series.recorded
    (_, weight, defects, bad_squares, good_squares, bad_products, every_products, both_products) = (
        f"{recorded}{name}:increase{span}" for name in SUMS
    )
    rate, good = f"{recorded}defect_ratio:rate{span}", f"{recorded}good_weight:increase{span}"
    typical, pseudo = f"{recorded}typical_weight:increase{span}", f"{recorded}heavy_weight:increase{span}"
    bad_sessions, good_sessions = (f"{recorded}{kind}_session_squares:increase{span}" for kind in ("defect", "good"))
    good_products = f"({every_products} - 2 * {both_products} + {bad_products})"
    largest = f"{OF_PAIR} max by (app, evaluator) (max_over_time(ragmonitor_evaluation_weight_max[{span}]))"
    usual = f"{recorded}typical_weight:increase{format_duration(DAY)}"
    half = f"(({typical} + {largest}) / 2 > {typical} or {typical})"
    rules = [
        record(rate, f"{defects} / ({weight} > 0)"),
        record(good, f"clamp_min({weight} - {defects}, 0)"),
        record(typical, f"({bad_squares} + {good_squares}) / ({weight} > 0)"),
        record(pseudo, f"{usual} > {half}\nor\n{half}"),
        defect_session_squares(span, series),
        record(good_sessions, between(good_squares, good_products, f"{good} ^ 2")),
    ]
    bad_side = _LimitSide(f"{recorded}defect", defects, bad_squares, bad_sessions)
    good_side = _LimitSide(f"{recorded}good", good, good_squares, good_sessions)
    every_session = (
        f"clamp_min((({every_products} < {weight} ^ 2 or {weight} ^ 2) - {bad_squares} - {good_squares})"
        f" / ({weight} > 0), 0)"
    )
    across = f"clamp_min({both_products} - {bad_products}, 0)"
    if upper_zs:
        rules += _one_more(bad_side, good_side, pseudo, across, span, least=f"{weight} * 0")
    if lower_zs:
        rules += _one_more(good_side, bad_side, pseudo, across, span, least=every_session)
    none = f"({weight} > 0) * 0"
    for z in sorted(upper_zs):
        found = f"(1 - 1 / (1 + {_odds(bad_side, z, span)})\nor {none} + 1) > {rate}\nor\n{rate}"
        rules.append(record(f"{recorded}defect_ratio:upper{span}", found, z=f"{z:g}"))
    for z in sorted(lower_zs):
        found = f"(1 / (1 + {_odds(good_side, z, span)})\nor {none}) < {rate}\nor\n{rate}"
        rules.append(record(f"{recorded}defect_ratio:lower{span}", found, z=f"{z:g}"))
    return rules


def between(least: str, value: str, most: str) -> str:
    """Write `value`, but at least `least` and at most `most`; `least` must never be missing."""
    return f"({value} < {most} or {most}) > {least}\nor\n{least}"


def _heavier(side: _LimitSide, span: str) -> str:
    """Return the name of the weight of a side with one more answer."""
    return f"{side.prefix}_weight:one_more{span}"


def _error(side: _LimitSide, span: str) -> str:
    """Return the name of a ninth of the relative variance of the odds with that answer."""
    return f"{side.prefix}_odds:variance{span}"


def _share(side: _LimitSide, span: str) -> str:
    """Return the name of the share of a side with that answer."""
    return f"{side.prefix}_ratio:one_more{span}"


def _one_more(side: _LimitSide, rest: _LimitSide, pseudo: str, across: str, span: str, *, least: str) -> list[Rule]:
    """Record what a limit is computed from: the weight of a side with one session more, and the variance.

    That session weighs at least `least`, in addition to `pseudo`.
    """
    weight, other = _heavier(side, span), f"({rest.weight} > 0)"
    by_session = (
        f"({side.in_sessions} - {side.squares}) / {weight} ^ 2 + ({rest.in_sessions} - {rest.squares}) / {other} ^ 2"
        f" - 2 * {across} / ({weight} * {other})"
    )
    own = f"({side.in_sessions} - {side.squares}) / ({side.weight} > 0)"
    return [
        record(weight, f"(({own} > {least} or {least}) + {side.weight} + {pseudo})"),
        record(
            _error(side, span),
            f"(\n  ({side.squares} + ({weight} - {side.weight}) ^ 2) / {weight} ^ 2 + {rest.squares} / {other} ^ 2\n"
            f"  + clamp_min({by_session}, 0)\n) / 9",
        ),
        record(_share(side, span), f"{weight} / ({weight} + {rest.weight})"),
    ]


def _odds(side: _LimitSide, z: float, span: str) -> str:
    return _limit_of_odds(_error(side, span), _share(side, span), z)


def lower_limit_of_counts(bad: str, good: str, z: float) -> str:
    """Return the lower limit of the share of `bad` in both counts together; no series if there is no limit."""
    error, share = f"((1 / ({bad} > 0) + 1 / ({good} + 1)) / 9)", f"(({good} + 1) / ({bad} + {good} + 1))"
    return f"1 / (1 + {_limit_of_odds(error, share, z)})"


def _limit_of_odds(e: str, p: str, z: float) -> str:
    """Return the upper limit of the odds of a share p with the variance e; no series if every share is possible.

    With m = e^2 p (1 - p), the cube root of the factor is
    (1 - e + m + z sqrt(e - m (4 + z^2 - e))) / (1 - (2 + z^2) e p + (e p)^2).
    """
    m = f"{e} ^ 2 * {p} * (1 - {p})"
    root = f"sqrt(clamp_min({e} - {m} * ({4 + z * z:.12g} - {e}), 0))"
    below = f"(1 - {2 + z * z:.12g} * {e} * {p} + ({e} * {p}) ^ 2 > 0)"
    return f"{p} / (1 - {p})\n* clamp_min(\n  (1 - {e} + {m}\n  + {z:.12g} * {root})\n  / {below}, 0\n) ^ 3"
