"""Traffic rules: which requests are dropped, which are not production, which results are late.

A dropped request ends in the ledger as `filtered`. Traffic that is not production is evaluated at its own rates and
counted in its own series (`ragmonitor_non_production_*`), so production rules and dashboards need not filter it out.
Late results are also counted separately (`ragmonitor_late_*`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import translate
from functools import cached_property
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from monitor.extraction import slices
from monitor.model.case import Case, Reading, ReadingStatus, Traffic, app_name, changed
from monitor.model.outcome import RateScope
from monitor.pipeline.ledger import RequestOutcome
from monitor.quantities import Duration, Rate
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling
from monitor.telemetry.events import Event

T = TypeVar("T")

_PATHS: Final = ("http.route", "url.path", "http.target")
_AGENTS: Final = ("user_agent.original", "http.user_agent")
_HEALTH_PATH: Final = re.compile(
    r"/(?:-/)?(?:actuator/)?(?:health|healthz|healthy|healthcheck|livez|liveness|readyz|readiness|ready|ping|heartbeat)"
    r"(?:/.*)?"
)
_HEALTH_AGENT: Final = re.compile(r"(?:kube-probe|GoogleHC|ELB-HealthChecker|Prometheus|Blackbox-Exporter)\b.*")

_CLASSES: Final[Mapping[str, Traffic]] = {
    **{one.value: one for one in Traffic},
    **dict.fromkeys(("canary", "probe", "loadtest", "load-test"), Traffic.SYNTHETIC),
    **dict.fromkeys(
        ("staging", "stage", "test", "testing", "qa", "ci", "development", "dev", "local"), Traffic.INTERNAL
    ),
}
"""Values of a class attribute: OpenTelemetry's environments and their usual short forms.
Any other value is production, so that an unknown name does not turn alerts off."""


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _not_production(rates: Mapping[Traffic, float]) -> Mapping[Traffic, float]:
    if Traffic.PRODUCTION in rates:
        raise ValueError("`production` cannot be set here; use `sampling.traces` or an evaluator's `sample`")
    return rates


class _TrafficSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Drop(_TrafficSection):
    """A kind of request that is not evaluated."""

    attribute: str = Field(min_length=1)
    """Attribute of the service's spans or resource, such as `http.route`."""

    matches: str
    """Pattern for its whole value: `*` is any characters, `?` is one. Case-sensitive."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """`matches`, compiled."""
        return re.compile(translate(self.matches))


class Quota(_TrafficSection):
    """Limits on evaluations of an app; at least one is set."""

    per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Maximum expected evaluations in any hour, plus a sixth (at least two) after a quiet time."""

    per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The same for any 24 hours."""

    @model_validator(mode="after")
    def _something_is_bounded(self) -> Quota:
        if self.per_hour is None and self.per_day is None:
            raise ValueError("needs per_hour, per_day or both")
        return self


_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _by_app(given: Mapping[str, T]) -> Mapping[str, T]:
    """Return the settings by app, with app names in the form that cases have."""
    found: dict[str, T] = {}
    for name, one in given.items():
        if not app_name(name):
            raise ValueError("an app without a name: leave the entry out")
        if app_name(name) in found:
            raise ValueError(f"there are two entries for the app {app_name(name)!r}: remove one")
        found[app_name(name)] = one
    return found


class TrafficSettings(_TrafficSection):
    """Which requests count in rates and alerts."""

    drop: tuple[Drop, ...] = ()
    """Requests not to evaluate: `{attribute: http.route, matches: "/internal/*"}`. Counted as `filtered`."""

    health_checks: bool = False
    """Whether to evaluate requests from known probes and to the usual health check paths (`/health`, `/healthz`,
    `/livez`, `/readyz`, `/ping` and similar). Off: they are counted as `filtered`."""

    class_attribute: Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)] = (
        "rag.traffic.class",
        "deployment.environment.name",
    )
    """Attributes with the class of a request; the first one present counts. Values: `production`, `experiment`,
    `synthetic`, `internal`, or an environment: `staging`, `test`, `qa`, `ci`, `development` and `local` are internal.
    Any other value, or no attribute, means production."""

    rates: Annotated[Mapping[Traffic, Rate], AfterValidator(_not_production)] = Field(default={})
    """Share of each class's requests to evaluate, before each evaluator's own `sample`, such as `{synthetic: 1%}`.
    Default: all."""

    late_after: Annotated[Duration, Field(gt=0)] = 900.0
    """How long after the answer a result still counts as current. Later results, for example from a backlog, are
    counted in `ragmonitor_late_*` and raise no alert."""

    weights: Annotated[Mapping[str, _Weight], AfterValidator(_by_app)] = Field(default={})
    """Weight of each app when evaluations queue for the judge: with `{shop: 3}`, the app `shop` gets three turns for
    each turn of any other app. Default: 1 each."""

    quotas: Annotated[Mapping[str, Quota], AfterValidator(_by_app)] = Field(default={})
    """Maximum evaluations per app, over all judged evaluators: `{search: {per_hour: 200}}`, or `per_day`, or both;
    `"*"` applies to all other apps. Near the limit, cases are sampled with a lower, known probability: rates stay
    unbiased, intervals widen. Replicas that share a Kafka source share the quota; otherwise it applies per process.
    Default: none."""


class TrafficRules:
    """Applies the settings. `salt` is the evaluators' sampling salt; decisions here are independent of theirs."""

    def __init__(self, settings: TrafficSettings, salt: str, runtime: Runtime) -> None:
        self._settings = settings
        self._salt = f"{salt}/traffic"
        self._runtime = runtime
        self._announced: set[tuple[str, Traffic]] = set()

    def sort(self, reading: Reading) -> Reading | RequestOutcome:
        """Return the reading with its class and updated probability, or the outcome if the request ends here."""
        case = reading.case
        if self._dropped_by(case):
            return RequestOutcome.FILTERED
        traffic = self.class_of(case)
        rate = self._settings.rates.get(traffic, 1.0) if reading.status is ReadingStatus.READY else 1.0
        if rate < 1 and not consistent_sampling.chosen(case.request_id, self._salt, rate):
            return RequestOutcome.SAMPLED_OUT
        if traffic is not Traffic.PRODUCTION:
            self._announce(case.app, traffic)
        if traffic is case.traffic and rate == 1:
            return reading
        return replace(reading, case=changed(case, traffic=traffic, probability=case.probability * rate))

    def left_out_by(self, case: Case) -> str:
        """Return the option that made `sort` end the request, as written in the configuration."""
        option = self._dropped_by(case)
        return option or f"traffic.rates.{self.class_of(case).value}"

    def class_of(self, case: Case) -> Traffic:
        """Return the traffic class of a case."""
        said = slices.first_value(case, self._settings.class_attribute)
        return _CLASSES.get(said.strip().lower(), Traffic.PRODUCTION)

    def _announce(self, name: str, traffic: Traffic) -> None:
        app = self._runtime.metrics.app(name)
        if (app, traffic) not in self._announced:
            self._announced.add((app, traffic))
            self._runtime.events.info(
                Event.NON_PRODUCTION_TRAFFIC,
                "non-production requests are counted separately (ragmonitor_non_production_*) and raise no alert",
                app=app,
                traffic=traffic.value,
            )

    def _dropped_by(self, case: Case) -> str:
        if not self._settings.health_checks and _is_health_check(case.attributes):
            return "traffic.health_checks"
        drop = enumerate(self._settings.drop)
        found = (index for index, one in drop if one.pattern.match(slices.value(case, one.attribute)))
        index = next(found, None)
        return "" if index is None else f"traffic.drop[{index}]"


def _is_health_check(attributes: Mapping[str, str]) -> bool:
    paths = (attributes.get(key, "").partition("?")[0] for key in _PATHS)
    agents = (attributes.get(key, "") for key in _AGENTS)
    return any(map(_HEALTH_PATH.fullmatch, paths)) or any(map(_HEALTH_AGENT.fullmatch, agents))


def rate_scope(case: Case, evaluated_at: float, late_after: float) -> RateScope:
    """Return the scope of a result made at `evaluated_at`. A case without an answer time is never late."""
    if case.traffic is not Traffic.PRODUCTION:
        return RateScope.NON_PRODUCTION
    late = case.answered_at > 0 and evaluated_at - case.answered_at > late_after
    return RateScope.LATE if late else RateScope.LIVE
