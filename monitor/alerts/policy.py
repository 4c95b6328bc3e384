"""Alert policies: which defect rate of which evaluator is too high, as configured under `alerts`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from monitor.errors import ConfigError
from monitor.errors.explanation import nearest
from monitor.model.case import app_name
from monitor.model.outcome import DefectRule
from monitor.quantities import Duration, Rate, format_duration
from monitor.stages import Component
from monitor.statistics.change import FAMILIES
from monitor.statistics.severe_cases import FALSE_PAGES, unexplained_limits
from monitor.telemetry.metrics import Metrics

_SHORTEST, _LONGEST = 10.0, 7 * 86400.0


class Severity(StrEnum):
    """The values of the label `severity`."""

    WARNING = "warning"
    CRITICAL = "critical"


class Family(StrEnum):
    """How sensitive to be to a rise over the week before. The limits are those of `FAMILIES`."""

    DEFAULT = "default"
    STRICT = "strict"
    SENSITIVE = "sensitive"


def _family(value: object) -> object:
    """Read the YAML values `true` and `false`; pydantic reads everything else."""
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


def _app(given: str | None) -> str | None:
    if given is not None and not app_name(given):
        raise ValueError("must be the name of a service, not blank")
    return None if given is None else app_name(given)


def _severe(value: object) -> object:
    """Read the YAML values `true` and `false`; pydantic reads everything else."""
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


def _rule(value: object) -> object:
    """Read a defect rule without resolving names of levels, which needs the evaluator's scale."""
    if value is None or isinstance(value, DefectRule):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        kind, given = next(iter(value.items()))
        if kind == "label":
            return DefectRule("label", label=str(given))
        if kind in ("below", "at_least") and isinstance(given, (int, float)) and not isinstance(given, bool):
            return DefectRule(kind, float(given))
    raise ValueError("must be one of `{below: x}`, `{at_least: x}`, `{label: name}`")


def _threshold(rate: float) -> float:
    if not 0 < rate < 1:
        raise ValueError("a threshold must be above 0 and below 1 (100%)")
    return rate


class AlertWindow(Component):
    """One window over which a defect rate is estimated."""

    window: Annotated[Duration, AfterValidator(_whole_window)]
    """Length of the window, `10s` to `7d`. With Prometheus, at least four scrape intervals."""

    z: float = Field(ge=1, le=6)
    """Certainty, in standard deviations: the window fires if the one-sided lower limit of the rate at this z is above
    the threshold. 3.09 means wrong once in 1000 checks, 2.33 once in 100."""

    def __str__(self) -> str:
        return f"{format_duration(self.window)} (z {self.z:g})"


DEFAULT_WINDOWS = (
    AlertWindow(window=3600.0, z=3.09),
    AlertWindow(window=21600.0, z=2.58),
    AlertWindow(window=86400.0, z=2.33),
)
"""Simulated with a rate of 2 % and a threshold of 3 %: 0.3 false alarms in 30 days at 10 scores an hour, fewer at more.
A rise to 10 % is detected after 6.7, 1.0 and 0.4 hours (median) at 10, 100 and 1000 scores an hour."""


class SevereSettings(Component):
    """An alert on single severe cases, each judged twice before anyone is paged."""

    level: str = ""
    """Answers at this level, or a worse one, are severe. Default: the worst level of the scale."""

    judge: str | None = None
    """The judge, by its name in `judges`, that judges a severe answer a second time. A different model repeats fewer of
    the first one's errors. Default: the same judge, asked in other words; only for evaluators with a rubric."""

    max_false_pages: float = Field(default=FALSE_PAGES, gt=0, le=1000)
    """False pages to accept in 30 days, for each app. The more confirmed cases of the last 30 days were not called
    right, the more sessions with such a case within an hour it takes to page; a single one then only warns."""

    page: Literal["limited", "each"] = "limited"
    """`limited`: as `max_false_pages` allows. `each`: every session with a confirmed case pages, and each page says
    how many false pages to expect."""

    @property
    def accepted(self) -> float:
        """The false pages in 30 days that are accepted; infinity with `page: each`."""
        return math.inf if self.page == "each" else self.max_false_pages


class AlertPolicy(Component):
    """When the defect rate according to one evaluator raises an alert."""

    evaluator: str = Field(min_length=1)
    """Name of the evaluator."""

    app: Annotated[str | None, AfterValidator(_app)] = Field(default=None, min_length=1)
    """App (service name) that the policy applies to. Default: every app without a policy of its own for this
    evaluator and defect rule."""

    defect: Annotated[DefectRule | None, BeforeValidator(_rule)] = None
    """What counts as a defect for this alert, in place of the evaluator's own rule: `{at_least: high}`, `{below: 3}` or
    `{label: attack}`. With two entries, one evaluator can warn at a low level and page at a high one. A level, a number
    between two levels, and a label all work."""

    warning: Annotated[Rate, AfterValidator(_threshold)] | None = None
    """Defect rate above which to warn, for example `5%`. It is compared with the lower limit of the rate, so an alert
    means "clearly above", not "measured above"."""

    critical: Annotated[Rate, AfterValidator(_threshold)] | None = None
    """Defect rate above which to page someone, for example `15%`. Must be higher than `warning`. One of `warning`,
    `critical`, `regression` and `severe` is required."""

    regression: Annotated[Family | None, BeforeValidator(_family)] = None
    """Whether to alert when the defect rate is clearly higher than in the week before, at any level: `true` (the same
    as `default`), `strict` (a third of the false alarms, slower) or `sensitive` (four times as many, faster). The last
    1 h, 6 h and day are compared with the seven days that ended one day ago, the last 3 days with those that ended
    three days ago. Daily and weekly variation is allowed for, and bad hours in the baseline do not count. Silent until
    the baseline has three days with the same version of the evaluator and its judge."""

    regression_severity: Severity = Severity.WARNING
    """Severity of a regression: `warning`, or `critical` to page someone. Use the thresholds above for a critical
    level; a rise below them is rarely a reason to page."""

    severe: Annotated[SevereSettings | None, BeforeValidator(_severe)] = None
    """Whether to page when a single answer was judged severe twice (docs/alerts.md): `true`, or a mapping with `level`,
    `judge`, `max_false_pages` and `page`. For evaluators that ask a judge."""

    rate: Literal["judged", "corrected"] = "judged"
    """Which rate the thresholds are compared with. `judged`: the judge's own rate. `corrected`: the rate as people
    would judge, estimated from human labels of this version of the evaluator (docs/labels.md). Until there are 100
    labelled defects and 100 labelled good answers, the judge's own rate is used, and the alert says so. A `regression`
    always compares the judge with itself."""

    windows: tuple[AlertWindow, ...] = Field(default=DEFAULT_WINDOWS, min_length=1)
    """Windows to check. The alert fires if any of them does, unless the shortest shows that the incident is over. The
    default, `1h` at z 3.09, `6h` at 2.58 and `24h` at 2.33, detects sharp rises within an hour and slow ones within a
    day."""

    resolve_after: Annotated[Duration, AfterValidator(_whole_seconds)] = 300.0
    """How long no window may fire before the alert ends, in whole seconds: keeps one incident from becoming many
    alerts. `0s`: end at once."""

    optional: bool = False
    """Whether the policy may name an evaluator that is off, for example because there is no judge. The alert is then
    silent; without this option it is an error."""

    @model_validator(mode="after")
    def _consistent(self) -> AlertPolicy:
        if not self.watches_rate and self.severe is None:
            raise ValueError("needs a threshold: `warning`, `critical` or both; or `regression`, or `severe`")
        if not self.watches_rate and self.defect is not None:
            raise ValueError("`severe` has a `level` of its own: remove `defect`, or set a threshold for it")
        if self.rate == "corrected" and self.defect is not None:
            raise ValueError("`rate: corrected` uses the evaluator's own defect rule, as labels do: remove `defect`")
        if self.warning is not None and self.critical is not None and self.warning >= self.critical:
            raise ValueError(f"`warning` ({self.warning:g}) must be lower than `critical` ({self.critical:g})")
        lengths = [one.window for one in self.windows]
        if len(set(lengths)) < len(lengths):
            raise ValueError("`windows` names the same window twice")
        return self

    @property
    def watches_rate(self) -> bool:
        """Whether it watches a defect rate, rather than only single severe cases."""
        return bool(self.thresholds) or self.regression is not None

    @property
    def thresholds(self) -> dict[Severity, float]:
        """The configured thresholds, the more severe first."""
        both = {Severity.CRITICAL: self.critical, Severity.WARNING: self.warning}
        return {severity: rate for severity, rate in both.items() if rate is not None}

    @property
    def by_length(self) -> tuple[AlertWindow, ...]:
        """The windows, shortest first."""
        return tuple(sorted(self.windows, key=lambda one: one.window))


def policies_for(policies: Iterable[AlertPolicy], app: str, evaluator: str) -> list[AlertPolicy]:
    """Return the policies on rates for a pair, one per defect rule: the app's own, or else the one for every app."""
    found: dict[DefectRule | None, AlertPolicy] = {}
    for policy in policies:
        if not policy.watches_rate:
            continue
        if policy.evaluator == evaluator and (policy.app == app or (policy.app is None and policy.defect not in found)):
            found[policy.defect] = policy
    return list(found.values())


def policy_for(
    policies: Iterable[AlertPolicy], app: str, evaluator: str, defect: DefectRule | None = None
) -> AlertPolicy | None:
    """Return the policy for a pair with this defect rule; None means the evaluator's own rule."""
    return next((one for one in policies_for(policies, app, evaluator) if one.defect == defect), None)


def severe_policy_for(policies: Iterable[AlertPolicy], app: str, evaluator: str) -> AlertPolicy | None:
    """Return the policy on single severe cases for a pair: the app's own, or else the one for every app."""
    found = None
    for policy in policies:
        if policy.severe is not None and policy.evaluator == evaluator and policy.app in (app, None):
            found = policy if found is None or policy.app is not None else found
    return found


def own_rules(policies: Iterable[AlertPolicy]) -> dict[str, tuple[DefectRule, ...]]:
    """Return, by evaluator name, the alerts' own defect rules, without the evaluator's."""
    found: dict[str, dict[DefectRule, None]] = {}
    for policy in policies:
        if policy.defect is not None:
            found.setdefault(policy.evaluator, {})[policy.defect] = None
    return {evaluator: tuple(rules) for evaluator, rules in found.items()}


def check(policies: Sequence[AlertPolicy], evaluators: Collection[str], place: str = "alerts") -> None:
    """Refuse policies that contradict each other or name an unknown evaluator. Raises `ConfigError`."""
    seen: dict[tuple[str, str | None, DefectRule | None], int] = {}
    severe: dict[tuple[str, str | None], int] = {}
    for number, policy in enumerate(policies):
        if policy.evaluator not in evaluators:
            allowed = ", ".join(sorted(evaluators)) or "none"
            raise ConfigError(
                f"{place}[{number}].evaluator: {policy.evaluator!r} is not among the evaluators"
                f"{nearest(policy.evaluator, evaluators)}: {allowed}"
            )
        whom = f"app {policy.app!r}" if policy.app is not None else "every app"
        first = number
        if policy.watches_rate:
            first = seen.setdefault((policy.evaluator, policy.app, policy.defect), number)
        if first != number:
            raise ConfigError(
                f"{place}[{number}]: evaluator {policy.evaluator!r} and {whom} already have a policy with the same"
                f" defect rule: {place}[{first}]. Merge the two, or give one of them another `defect`"
            )
        if policy.severe is None:
            continue
        same = next((one.severe for one in policies if one.evaluator == policy.evaluator and one.severe), policy.severe)
        if (same.level, same.judge) != (policy.severe.level, policy.severe.judge):
            raise ConfigError(
                f"{place}[{number}].severe: `level` and `judge` must be the same in all entries of {policy.evaluator!r}"
            )
        if severe.setdefault((policy.evaluator, policy.app), number) != number:
            other = severe[policy.evaluator, policy.app]
            raise ConfigError(
                f"{place}[{number}]: evaluator {policy.evaluator!r} and {whom} already have `severe`: {place}[{other}]"
            )


def longest_window(policies: Iterable[AlertPolicy], at_least: float = 86400.0) -> float:
    """Return the longest window of these policies, in seconds, but not less than `at_least`."""
    return max([at_least, *(one.window for policy in policies for one in policy.windows)])


def needs_baselines(policies: Iterable[AlertPolicy]) -> bool:
    """Return whether any policy compares with the week before."""
    return any(policy.regression is not None for policy in policies)


def export_thresholds(policies: Sequence[AlertPolicy], apps: Iterable[str], metrics: Metrics) -> None:
    """Set `ragmonitor_alert_threshold_ratio` and `ragmonitor_alert_regression_z` for every app.

    There is one series for each app, evaluator and severity, and none for "all apps": a rule can join rates with
    thresholds `on (app, evaluator)` and needs to know nothing about precedence. Thresholds of alerts with their own
    defect rule have families of their own, with the rule as a label. Call it again when an app is first seen; `apps`
    are label values. Apps named in a policy are always exported.
    """
    named = {policy.app for policy in policies if policy.app is not None}
    for evaluator in {policy.evaluator for policy in policies}:
        for app in named.union(apps):
            for policy in policies_for(policies, app, evaluator):
                _export(policy, app, metrics)
    for app in named.union(apps):
        _export_severe_limits(policies, app, metrics)


def _export_severe_limits(policies: Sequence[AlertPolicy], app: str, metrics: Metrics) -> None:
    """Set `ragmonitor_severe_unexplained_limit_sessions`, from which the rules derive how many sessions page."""
    for evaluator in {policy.evaluator for policy in policies}:
        policy = severe_policy_for(policies, app, evaluator)
        if policy is not None and policy.severe is not None:
            for sessions, limit in enumerate(unexplained_limits(policy.severe.accepted), 1):
                metrics.severe_unexplained_limit.labels(app, evaluator, str(sessions)).set(limit)


def _export(policy: AlertPolicy, app: str, metrics: Metrics) -> None:
    labels, thresholds, zs = [app, policy.evaluator], metrics.alert_threshold, metrics.alert_regression_z
    if policy.defect is not None:
        labels.append(policy.defect.name)
        thresholds, zs = metrics.rule_alert_threshold, metrics.rule_alert_regression_z
    for severity, rate in policy.thresholds.items():
        thresholds.labels(*labels, severity.value).set(rate)
    if policy.regression is not None:
        for length, z in FAMILIES[policy.regression].items():
            zs.labels(*labels, policy.regression_severity.value, format_duration(length)).set(z)
