"""The dashboards' queries: sums of raw counters over replicas, then rates and limits.

Limits are those recorded by `rag-monitor rules`: computed from counters, each would read them a hundred times. Rates of
slices and of other severities are not recorded; their limits are computed here, assuming answers of typical weight. A
test compares both with `monitor/statistics/rates.py` over a real Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.alerts.prometheus.promql import BY_EVALUATOR, OF_PAIR
from monitor.alerts.prometheus.rates import limit_95
from monitor.statistics.rates import Z_95

JOB = 'job=~"$job"'
APP, EVALUATOR = 'app=~"$app"', 'evaluator=~"$evaluator"'
ONE_APP = 'app="$app"'
"""For dashboards of one app: Grafana escapes values for regular expressions only in variables with several values."""
INSTANCE = 'instance=~"$instance"'
WINDOW = "$window"
DEFECTS = 'defect="true"'
STEP = "$__rate_interval"
"""The interval of one point of a graph, for values that are not summed over the dashboard's window."""

Z_POWER = 1.281552
"""As in `statistics/rates.py`: power 90 %."""


def selector(name: str, *matchers: str) -> str:
    """Return the selector of a series of the monitor in the chosen jobs."""
    return f"{name}{{{', '.join((JOB, *matchers))}}}"


def increase(name: str, *matchers: str, by: str, window: str = WINDOW, offset: str = "") -> str:
    """Return the increase of a counter over all replicas within a window, `by` these labels (empty: the total)."""
    shifted = f" offset {offset}" if offset else ""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (increase({selector(name, *matchers)}[{window}]{shifted}))"


def per_second(name: str, *matchers: str, by: str) -> str:
    """Return the rate of a counter over all replicas, per second."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({selector(name, *matchers)}[{STEP}]))"


def quantile(share: float, histogram: str, *matchers: str, by: str = "", window: str = WINDOW) -> str:
    """Return a quantile of a histogram over all replicas within a window."""
    labels = f"{by}, le" if by else "le"
    found = f"sum by ({labels}) (increase({selector(f'{histogram}_bucket', *matchers)}[{window}]))"
    return f"histogram_quantile({share:g}, {found})"


@dataclass(frozen=True, slots=True)
class Rate:
    """A defect rate and its limits, by app, evaluator and version, and by `sliced`."""

    matchers: tuple[str, ...] = (APP, EVALUATOR)
    window: str = WINDOW
    offset: str = ""
    sliced: str = ""
    """The label of the slice, or `defect_rule` for the rates by alerts' own rules; empty: neither."""
    defect: str = DEFECTS
    """The matcher of a defect, for example of another severity."""

    @property
    def _by(self) -> str:
        return f"by (app, evaluator, version{', ' + self.sliced if self.sliced else ''})"

    def _sum(self, name: str, *matchers: str) -> str:
        kind = {"": "", "defect_rule": "rule_"}.get(self.sliced, "slice_")
        family = f"ragmonitor_{kind}evaluation"
        at = selector(f"{family}{name}_total", *self.matchers, *matchers)
        shifted = f" offset {self.offset}" if self.offset else ""
        return f"sum {self._by} (increase({at}[{self.window}]{shifted}))"

    @property
    def scored(self) -> str:
        """The number of scores."""
        return self._sum("s")

    @property
    def weight(self) -> str:
        """Their weight: the traffic that they stand for."""
        return self._sum("_weight")

    @property
    def defects(self) -> str:
        """The weight of the defects among them."""
        return self._or_none(self._sum("_weight", self.defect))

    def _or_none(self, found: str) -> str:
        """Add 0 if a slice has no defects: series of slices begin with their first event."""
        return f"({found} or {self.weight} * 0)" if self.sliced else found

    @property
    def rate(self) -> str:
        """The rate, 0 to 1; no series if nothing was scored."""
        return f"{self.defects}\n/\n({self.weight} > 0)"

    @property
    def lower(self) -> str:
        """The lower limit of the 95 % interval."""
        if self._recorded:
            return limit_95("lower", self.window, *self.matchers)
        found = f"1 / (1 + {self._odds(good=True)})\nor\n{self.weight} * 0"
        return f"({found})\n< {self.rate}\nor\n{self.rate}"

    @property
    def upper(self) -> str:
        """The upper limit of the 95 % interval."""
        if self._recorded:
            return limit_95("upper", self.window, *self.matchers)
        found = f"1 - 1 / (1 + {self._odds(good=False)})\nor\n{self.weight} * 0 + 1"
        return f"({found})\n> {self.rate}\nor\n{self.rate}"

    @property
    def _recorded(self) -> bool:
        return not self.sliced and self.defect == DEFECTS and not self.offset

    def _odds(self, *, good: bool) -> str:
        """Return the limit of the odds of good answers or of defects, in a form that repeats each term rarely.

        With e for the variance, p for the share with one more answer and q = p (1 - p), the cube root of the factor is
        (1 - e + q e^2 + z sqrt(e (1 - q (k^2/4 - (e - k/2)^2)))) / ((c - e p)^2 - c^2 + 1), k = 4 + z^2, c = k/2 - 1.
        """
        every = self._sum("_weight_squares")
        bad_squares, defects = self._or_none(self._sum("_weight_squares", self.defect)), self.defects
        good_squares, passed = f"({every} - {bad_squares})", f"clamp_min({self.weight} - {defects}, 0)"
        typical = f"{every} / ({self.weight} > 0)"
        own, own_squares, rest, rest_squares = (
            (passed, good_squares, defects, bad_squares) if good else (defects, bad_squares, passed, good_squares)
        )
        e = f"((({own_squares} + ({typical}) ^ 2) / ({own} + {typical}) ^ 2 + {rest_squares} / ({rest} > 0) ^ 2) / 9)"
        p = f"(({own} + {typical}) / ({self.weight} + {typical}))"
        q, k = f"(0.25 - ({p} - 0.5) ^ 2)", 4 + Z_95**2
        c = k / 2 - 1
        root = f"sqrt(clamp_min({e} * (1 - {q} * ({k * k / 4:.12g} - ({e} - {k / 2:.12g}) ^ 2)), 0))"
        below = f"(({c:.12g} - {e} * {p}) ^ 2 - {c * c - 1:.12g} > 0)"
        cube = f"clamp_min(\n  (1 - {e} + {q} * {e} ^ 2\n  + {Z_95} * {root})\n  / {below},\n  0\n)"
        return f"(1 / (1 - {p}) - 1)\n* {cube} ^ 3"

    def before(self, offset: str) -> Rate:
        """Return the same rate, this long ago."""
        return replace(self, offset=offset)

    def leading(self, expression: str) -> str:
        """Return `expression` for the version with the most scores within the window, by app and evaluator.

        During a rollout there are two versions. They measure differently, so neither their sum nor their mean is
        meaningful.
        """
        return (
            f"max by (app, evaluator) (\n(\n{expression}\n)\nand {BY_EVALUATOR.on_version}\n"
            f"topk by (app, evaluator) (1, {self.scored})\n)"
        )


def rule_threshold(severity: str) -> str:
    """Return the configured threshold by app, evaluator and the alert's own defect rule."""
    found = selector("ragmonitor_rule_alert_threshold_ratio", ONE_APP, f'severity="{severity}"')
    return f"max by (app, evaluator, defect_rule) ({found})"


def context_share(app: str, *status: str) -> str:
    """Return the share of an app's answers by context status: of one `status`, or of each by that label.

    `app` and `status` are matchers.
    """
    name = "ragmonitor_context_weight_total"
    every = increase(name, app, by="app")
    if status:
        return f"{increase(name, app, *status, by='app')}\n/\n({every} > 0)"
    return f"{increase(name, app, by='app, status')}\n/ on (app) group_left ()\n({every} > 0)"


def threshold(severity: str = "", app: str = APP) -> str:
    """Return the configured threshold by app and evaluator; without `severity` the lowest one."""
    if severity:
        found = selector("ragmonitor_alert_threshold_ratio", app, EVALUATOR, f'severity="{severity}"')
        return f"max by (app, evaluator) ({found})"
    return f"min by (app, evaluator) ({selector('ragmonitor_alert_threshold_ratio', app, EVALUATOR)})"


def needed() -> str:
    """Return the number of scores that show a rate of twice the threshold 9 times in 10 (`rates.judged_to_tell`)."""
    limit = threshold()
    clear = f"(2 * {limit} < (1 + {limit}) / 2 or (1 + {limit}) / 2)"
    return f"ceil({((Z_95 + Z_POWER) / 2) ** 2:.9g} / (sqrt({clear}) - sqrt({limit})) ^ 2)"


NO_THRESHOLD, OK, TOO_FEW, WARNING, CRITICAL = range(5)
STATES = {
    CRITICAL: ("above critical", "red"),
    WARNING: ("above warning", "orange"),
    TOO_FEW: ("too few to tell", "#8e8e99"),
    OK: ("within threshold", "green"),
    NO_THRESHOLD: ("no threshold", "#6e7fa8"),
}


def state(of: Rate) -> str:
    """Return the state of a rate against its threshold, as one of the numbers above."""
    return (
        f"(({of.lower}) > {OF_PAIR} {threshold('critical')}) * 0 + {CRITICAL}\n"
        f"or\n(({of.lower}) > {OF_PAIR} {threshold('warning')}) * 0 + {WARNING}\n"
        f"or\n(({of.upper}) < {OF_PAIR} {threshold()}) * 0 + {OK}\n"
        f"or\n({of.scored} >= {OF_PAIR} {needed()}) * 0 + {OK}\n"
        f"or\n({of.scored} * 0 + {TOO_FEW} and on (app, evaluator) {threshold()})\n"
        f"or\n{of.scored} * 0 + {NO_THRESHOLD}"
    )
