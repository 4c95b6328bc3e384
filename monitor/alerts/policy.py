"""Which defect rate of which evaluator is too high: what stands under `alerts` in the configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from monitor.errors import ConfigError
from monitor.quantities import Duration, Rate, format_duration
from monitor.stages import Component
from monitor.statistics.change import FAMILIES
from monitor.telemetry.metrics import Metrics

_SHORTEST, _LONGEST = 10.0, 7 * 86400.0


class Severity(StrEnum):
    """How bad it is, as the label `severity` says it."""

    WARNING = "warning"
    CRITICAL = "critical"


class Family(StrEnum):
    """How readily a rise against the week before is an alert; the thresholds are those of `FAMILIES`."""

    DEFAULT = "default"
    STRICT = "strict"
    SENSITIVE = "sensitive"


def _family(value: object) -> object:
    """YAML knows `true` and `false`; what is neither is left to the enumeration."""
    return {True: Family.DEFAULT, False: None}[value] if isinstance(value, bool) else value


def _whole_window(seconds: float) -> float:
    if not (_SHORTEST <= seconds <= _LONGEST and seconds == int(seconds)):
        raise ValueError(
            f"a window must be whole seconds from {format_duration(_SHORTEST)} to {format_duration(_LONGEST)}"
        )
    return seconds


def _whole_seconds(seconds: float) -> float:
    if seconds != int(seconds):
        raise ValueError("must be whole seconds")
    return seconds


def _threshold(rate: float) -> float:
    if not 0 < rate < 1:
        raise ValueError("a threshold must be above 0 and below 1 (100%)")
    return rate


class AlertWindow(Component):
    """One window that a defect rate is looked at over."""

    window: Annotated[Duration, AfterValidator(_whole_window)]
    """How far back it reaches, `10s` to `7d`. With Prometheus at least four scrape intervals."""

    z: float = Field(ge=1, le=6)
    """How sure to be, in standard deviations: the window fires where the one-sided lower limit of the rate at this z is
    above the threshold. 3.09 is wrong once in 1000 looks, 2.33 once in 100."""

    def __str__(self) -> str:
        return f"{format_duration(self.window)} (z {self.z:g})"


DEFAULT_WINDOWS = (
    AlertWindow(window=3600.0, z=3.09),
    AlertWindow(window=21600.0, z=2.58),
    AlertWindow(window=86400.0, z=2.33),
)
"""Simulated at a 2 % rate and a 3 % threshold: 0.3 false alarms in 30 days at 10 judged an hour, fewer above; a rise to
10 % shows after 7.2, 1.1 and 0.4 hours (median) at 10, 100 and 1000 judged an hour."""


class AlertPolicy(Component):
    """When the share of defective answers, as one evaluator sees them, is an alert."""

    evaluator: str = Field(min_length=1)
    """The name of the evaluator whose verdicts count."""

    app: str | None = Field(default=None, min_length=1)
    """The app (service name) that this holds for. Left out: every app that has no policy of its own for
    this evaluator."""

    warning: Annotated[Rate, AfterValidator(_threshold)] | None = None
    """The defect rate above which to warn, such as `5%`. It is compared with the lower limit of the rate, so an alert
    means "surely above", not "measured above"."""

    critical: Annotated[Rate, AfterValidator(_threshold)] | None = None
    """The defect rate above which to call somebody, such as `15%`. Must be higher than `warning`; one of the two, or
    `regression`, is needed."""

    regression: Annotated[Family | None, BeforeValidator(_family)] = None
    """Whether to tell when the defect rate has clearly risen against the week before, whatever its level: `true`, which
    is `default`, or `strict` (a third of its false alarms, slower) or `sensitive` (four times as many, quicker). The
    last 1 h, 6 h, day and 3 days are compared with the seven days that ended one day earlier (three, for 3 days), with
    the daily and weekly ups and downs of those allowed for; bad hours among them do not count. Silent until three such
    days are known of the same version of the evaluator and its judge; over after an hour without."""

    regression_severity: Severity = Severity.WARNING
    """How bad a regression is: `warning`, or `critical` to call somebody. The thresholds above say by themselves when a
    level is critical; a rise below them is news, and seldom a reason to wake anybody."""

    windows: tuple[AlertWindow, ...] = Field(default=DEFAULT_WINDOWS, min_length=1)
    """The windows to look at; one that fires is enough, unless the shortest shows that it is over. The default, `1h` at
    z 3.09, `6h` at 2.58 and `24h` at 2.33, finds sharp rises within the hour and slow ones within the day."""

    resolve_after: Annotated[Duration, AfterValidator(_whole_seconds)] = 300.0
    """How long no window must fire before an alert is over, in whole seconds: holds one incident together that would
    otherwise be many alerts. `0s`: over at once."""

    @model_validator(mode="after")
    def _consistent(self) -> AlertPolicy:
        if self.warning is None and self.critical is None and self.regression is None:
            raise ValueError("needs a threshold: `warning`, `critical` or both; or `regression`")
        if self.warning is not None and self.critical is not None and self.warning >= self.critical:
            raise ValueError(f"`warning` ({self.warning:g}) must be lower than `critical` ({self.critical:g})")
        lengths = [one.window for one in self.windows]
        if len(set(lengths)) < len(lengths):
            raise ValueError("`windows` names the same window twice")
        return self

    @property
    def thresholds(self) -> dict[Severity, float]:
        """The thresholds that are set, the graver first."""
        both = {Severity.CRITICAL: self.critical, Severity.WARNING: self.warning}
        return {severity: rate for severity, rate in both.items() if rate is not None}

    @property
    def by_length(self) -> tuple[AlertWindow, ...]:
        """The windows, the shortest first."""
        return tuple(sorted(self.windows, key=lambda one: one.window))


def policy_for(policies: Iterable[AlertPolicy], app: str, evaluator: str) -> AlertPolicy | None:
    """The policy that holds for a pair: the app's own before the one for every app."""
    general = None
    for policy in policies:
        if policy.evaluator == evaluator:
            if policy.app == app:
                return policy
            if policy.app is None:
                general = policy
    return general


def check(policies: Sequence[AlertPolicy], evaluators: Collection[str], place: str = "alerts") -> None:
    """Refuse policies that contradict each other or name an evaluator that is not there. Raises `ConfigError`."""
    seen: dict[tuple[str, str | None], int] = {}
    for number, policy in enumerate(policies):
        if policy.evaluator not in evaluators:
            allowed = ", ".join(sorted(evaluators)) or "none"
            raise ConfigError(
                f"{place}[{number}]: evaluator: {policy.evaluator!r} is not among the evaluators: {allowed}"
            )
        first = seen.setdefault((policy.evaluator, policy.app), number)
        if first != number:
            whom = f"app {policy.app!r}" if policy.app is not None else "every app"
            raise ConfigError(
                f"{place}[{number}]: evaluator {policy.evaluator!r} and {whom} have a policy already: {place}[{first}]"
            )


def longest_window(policies: Iterable[AlertPolicy], at_least: float = 86400.0) -> float:
    """How far back `Windows` must reach for these policies, in seconds."""
    return max([at_least, *(one.window for policy in policies for one in policy.windows)])


def needs_baselines(policies: Iterable[AlertPolicy]) -> bool:
    """Whether `Windows` must remember the week before."""
    return any(policy.regression is not None for policy in policies)


def export_thresholds(policies: Sequence[AlertPolicy], apps: Iterable[str], metrics: Metrics) -> None:
    """Set `ragmonitor_alert_threshold_ratio` and `ragmonitor_alert_regression_z` for every app, policies spelled out.

    A series per (app, evaluator, severity) and none for "all apps", so that a rule joins rates with thresholds by
    `on (app, evaluator)` and needs to know of no precedence. Call it again when an app is first seen; `apps` are label
    values. Apps that a policy names are always exported.
    """
    named = {policy.app for policy in policies if policy.app is not None}
    for evaluator in {policy.evaluator for policy in policies}:
        for app in named.union(apps):
            policy = policy_for(policies, app, evaluator)
            if policy is None:
                continue
            for severity, rate in policy.thresholds.items():
                metrics.alert_threshold.labels(app, evaluator, severity.value).set(rate)
            if policy.regression is not None:
                for length, z in FAMILIES[policy.regression].items():
                    labels = (app, evaluator, policy.regression_severity.value, format_duration(length))
                    metrics.alert_regression_z.labels(*labels).set(z)
