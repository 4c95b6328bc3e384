"""The dashboards' queries: sums of raw counters over replicas, then rates and limits.

They need no recorded series, so the dashboards work without `rag-monitor rules` and over any window. The limits are
those of `monitor/statistics/rates.py`, which the alerts use too, in a shorter form: with u = 1 / sqrt(k) the factor
1 - u^2/9 + z u/3 is 1 + z^2/4 - (u/3 - z/2)^2, so each sum appears once. A test compares both over a real Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.alerts.prometheus.promql import OF_PAIR, ON_VERSION
from monitor.statistics.rates import Z_95

JOB = 'job=~"$job"'
APP, EVALUATOR = 'app=~"$app"', 'evaluator=~"$evaluator"'
ONE_APP = 'app="$app"'
"""For dashboards of one app: Grafana escapes a value for a regular expression only in a variable with many values."""
INSTANCE = 'instance=~"$instance"'
WINDOW = "$window"
STEP = "$__rate_interval"
"""The interval of one point of a graph, for values that are not summed over the dashboard's window."""

Z_POWER = 1.281552
"""As in `statistics/rates.py`: power 90 %."""

_BENT = f"{1 + Z_95**2 / 4:.9g}"
_HALF_Z = f"{Z_95 / 2:.9g}"


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
    """The label of the slice; empty: not sliced."""
    defect: str = 'defect="true"'
    """The matcher of a defect, such as another severity."""

    @property
    def _by(self) -> str:
        return f"by (app, evaluator, version{', ' + self.sliced if self.sliced else ''})"

    def _sum(self, name: str, *matchers: str) -> str:
        family = "ragmonitor_slice_evaluation" if self.sliced else "ragmonitor_evaluation"
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

    @property
    def _squares(self) -> str:
        return self._or_none(self._sum("_weight_squares", self.defect))

    def _or_none(self, found: str) -> str:
        """Add 0 where a slice has no defects: series of slices begin with their first event."""
        return f"({found} or {self.weight} * 0)" if self.sliced else found

    @property
    def rate(self) -> str:
        """The rate, 0 to 1; no series where nothing was scored."""
        return f"{self.defects}\n/\n({self.weight} > 0)"

    @property
    def lower(self) -> str:
        """The lower limit of the 95 % interval."""
        bent = f"(sqrt({self._squares}) / ({self.defects} > 0) / 3 + {_HALF_Z}) ^ 2"
        return (
            f"{self.defects}\n/\n({self.weight} > 0)\n* clamp_min({_BENT} - {bent}, 0) ^ 3\n"
            f"or\n{self.defects} / ({self.weight} > 0)"
        )

    @property
    def upper(self) -> str:
        """The upper limit: as if one more answer, of typical weight, were a defect."""
        one_more = (
            f"max {self._by} (\n"
            f'    label_replace({self._squares} / ({self.defects} > 0), "of", "defects", "", "")\n'
            f"    or\n    {self.weight} / ({self.scored} > 0)\n  )"
        )
        with_it = f"({self.defects} + {one_more})"
        spread = f"sqrt({self._squares} + {one_more} ^ 2)"
        return (
            f"clamp_max(\n  {with_it}\n  / ({self.weight} > 0)\n"
            f"  * ({_BENT} - ({spread} / {with_it} / 3 - {_HALF_Z}) ^ 2) ^ 3,\n  1\n)"
        )

    def before(self, offset: str) -> Rate:
        """Return the same rate, this long ago."""
        return replace(self, offset=offset)

    def leading(self, expression: str) -> str:
        """Return `expression` for the version with the most scores within the window, by app and evaluator.

        During a rollout there are two versions. They measure differently: neither their sum nor their mean means
        anything.
        """
        return (
            f"max by (app, evaluator) (\n(\n{expression}\n)\nand {ON_VERSION}\n"
            f"topk by (app, evaluator) (1, {self.scored})\n)"
        )


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
