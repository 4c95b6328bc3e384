"""What the boards ask Prometheus: sums over replicas of raw counters, then rates and limits of them.

No recorded series is needed, so that the boards also work without `rag-monitor rules`, and over any window. The limits
are those of `monitor/statistics/rates.py`, by which the rules alert as well. To be short they are written another way:
with u = 1 / sqrt(k) the factor 1 - u^2/9 + z u/3 is 1 + z^2/4 - (u/3 - z/2)^2, so each sum stands there once. A test
holds both against each other over a real Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.alerts.prometheus.format import OF_PAIR, ON_VERSION
from monitor.statistics.rates import Z_95

JOB = 'job=~"$job"'
APP, EVALUATOR = 'app=~"$app"', 'evaluator=~"$evaluator"'
ONE_APP = 'app="$app"'
"""Of boards about one app: Grafana makes a regular expression safe only of a variable with many values."""
INSTANCE = 'instance=~"$instance"'
WINDOW = "$window"
STEP = "$__rate_interval"
"""The time between two points of a graph: for what is drawn as it comes, not summed over the board's window."""

Z_POWER = 1.281552
"""As in `statistics/rates.py`: a clearly higher rate shows 9 times in 10."""

_BENT = f"{1 + Z_95**2 / 4:.9g}"
_HALF_Z = f"{Z_95 / 2:.9g}"


def selector(name: str, *matchers: str) -> str:
    """A series of the monitor, of the chosen jobs."""
    return f"{name}{{{', '.join((JOB, *matchers))}}}"


def increase(name: str, *matchers: str, by: str, window: str = WINDOW, offset: str = "") -> str:
    """How much a counter of all replicas rose within a window, `by` these labels (none: the total)."""
    shifted = f" offset {offset}" if offset else ""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (increase({selector(name, *matchers)}[{window}]{shifted}))"


def per_second(name: str, *matchers: str, by: str) -> str:
    """How fast a counter of all replicas rises."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({selector(name, *matchers)}[{STEP}]))"


def quantile(share: float, histogram: str, *matchers: str, by: str = "", window: str = WINDOW) -> str:
    """A quantile of a histogram of all replicas within a window."""
    labels = f"{by}, le" if by else "le"
    found = f"sum by ({labels}) (increase({selector(f'{histogram}_bucket', *matchers)}[{window}]))"
    return f"histogram_quantile({share:g}, {found})"


@dataclass(frozen=True, slots=True)
class Rate:
    """A defect rate and its limits, of each app, evaluator and version (`by`: and of more)."""

    matchers: tuple[str, ...] = (APP, EVALUATOR)
    window: str = WINDOW
    offset: str = ""
    sliced: str = ""
    """The label that slices it, of the family of slices."""
    defect: str = 'defect="true"'
    """What is counted as a defect: another severity, say."""

    @property
    def _by(self) -> str:
        return f"by (app, evaluator, version{', ' + self.sliced if self.sliced else ''})"

    def _sum(self, name: str, *matchers: str) -> str:
        family = "ragmonitor_slice_evaluation" if self.sliced else "ragmonitor_evaluation"
        at = selector(f"{family}{name}_total", *self.matchers, *matchers)
        shifted = f" offset {self.offset}" if self.offset else ""
        return f"sum {self._by} (increase({at}[{self.window}]{shifted}))"

    @property
    def judged(self) -> str:
        """How many were judged."""
        return self._sum("s")

    @property
    def weight(self) -> str:
        """The traffic that they stand for."""
        return self._sum("_weight")

    @property
    def defects(self) -> str:
        """The traffic that the defects among them stand for."""
        return self._or_none(self._sum("_weight", self.defect))

    @property
    def _squares(self) -> str:
        return self._or_none(self._sum("_weight_squares", self.defect))

    def _or_none(self, found: str) -> str:
        """Series of slices begin with the first verdict of a kind: a slice without defects has none of them."""
        return f"({found} or {self.weight} * 0)" if self.sliced else found

    @property
    def rate(self) -> str:
        """Between 0 and 1; no series where nothing was judged."""
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
        """The upper limit: as if one more, of typical weight, were a defect."""
        one_more = (
            f"max {self._by} (\n"
            f'    label_replace({self._squares} / ({self.defects} > 0), "of", "defects", "", "")\n'
            f"    or\n    {self.weight} / ({self.judged} > 0)\n  )"
        )
        with_it = f"({self.defects} + {one_more})"
        spread = f"sqrt({self._squares} + {one_more} ^ 2)"
        return (
            f"clamp_max(\n  {with_it}\n  / ({self.weight} > 0)\n"
            f"  * ({_BENT} - ({spread} / {with_it} / 3 - {_HALF_Z}) ^ 2) ^ 3,\n  1\n)"
        )

    def before(self, offset: str) -> Rate:
        """The same, so long ago."""
        return replace(self, offset=offset)

    def leading(self, expression: str) -> str:
        """Of each app and evaluator what holds of the version that judged most within the window.

        While a change is rolled out two versions judge. They are two instruments: neither their sum nor their mean
        means anything.
        """
        return (
            f"max by (app, evaluator) (\n(\n{expression}\n)\nand {ON_VERSION}\n"
            f"topk by (app, evaluator) (1, {self.judged})\n)"
        )


def threshold(severity: str = "", app: str = APP) -> str:
    """The configured threshold of an app and evaluator; of no severity in particular: the lowest one."""
    if severity:
        found = selector("ragmonitor_alert_threshold_ratio", app, EVALUATOR, f'severity="{severity}"')
        return f"max by (app, evaluator) ({found})"
    return f"min by (app, evaluator) ({selector('ragmonitor_alert_threshold_ratio', app, EVALUATOR)})"


def needed() -> str:
    """How many must be judged until a rate of twice the threshold shows, 9 times in 10 (`rates.judged_to_tell`)."""
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
    """Where a rate stands beside its threshold, as one of the numbers above."""
    return (
        f"(({of.lower}) > {OF_PAIR} {threshold('critical')}) * 0 + {CRITICAL}\n"
        f"or\n(({of.lower}) > {OF_PAIR} {threshold('warning')}) * 0 + {WARNING}\n"
        f"or\n(({of.upper}) < {OF_PAIR} {threshold()}) * 0 + {OK}\n"
        f"or\n({of.judged} >= {OF_PAIR} {needed()}) * 0 + {OK}\n"
        f"or\n({of.judged} * 0 + {TOO_FEW} and on (app, evaluator) {threshold()})\n"
        f"or\n{of.judged} * 0 + {NO_THRESHOLD}"
    )
