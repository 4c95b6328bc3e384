"""Who counts: requests that are left out, traffic that is not production, and how late a verdict may be.

A request that is left out ends in the ledger as `filtered`. What is not production is evaluated, at rates of its own,
and counted in series of its own (`ragmonitor_non_production_*`), so that rules and dashboards of production need not
know of it. The same goes for verdicts that come too late to be news (`ragmonitor_late_*`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import translate
from functools import cached_property
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from monitor.extraction import slices
from monitor.model.case import EVALUABLE, Case, Reading, Traffic
from monitor.model.outcome import RateScope
from monitor.pipeline.ledger import TraceOutcome
from monitor.quantities import Duration, Rate
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling
from monitor.telemetry.events import Event

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
"""Values of a class attribute; the environments are those of OpenTelemetry's conventions and their usual short forms.
What is not among them is production: a name nobody has thought of must not switch alerts off."""


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _not_production(rates: Mapping[Traffic, float]) -> Mapping[Traffic, float]:
    if Traffic.PRODUCTION in rates:
        raise ValueError("`production` has no rate here: it is sampled by `sampling` and by each evaluator's `sample`")
    return rates


class _TrafficSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Drop(_TrafficSection):
    """One kind of request that is left out."""

    attribute: str = Field(min_length=1)
    """The attribute, as the service's spans or its resource carry it, such as `http.route`."""

    matches: str
    """What its whole value looks like: `*` stands for any characters, `?` for one. Upper and lower case differ."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """`matches`, compiled."""
        return re.compile(translate(self.matches))


class Quota(_TrafficSection):
    """How much an app may be judged; at least one of both is set."""

    per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Judgements expected in any hour, at most, and a sixth more (two at least) after a quiet time."""

    per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The same of any 24 hours."""

    @model_validator(mode="after")
    def _something_is_bounded(self) -> Quota:
        if self.per_hour is None and self.per_day is None:
            raise ValueError("needs per_hour, per_day or both")
        return self


class TrafficSettings(_TrafficSection):
    """Which requests count in rates and alerts, and when."""

    drop: tuple[Drop, ...] = ()
    """Requests that are not evaluated at all: `{attribute: http.route, matches: "/internal/*"}`. Counted as
    `filtered`."""

    health_checks: bool = False
    """Whether requests to the usual paths of health checks (`/health`, `/healthz`, `/livez`, `/readyz`, `/ping` and
    their kin), or by the usual probes, are evaluated. Off: they are `filtered`."""

    class_attribute: Annotated[tuple[str, ...], BeforeValidator(_several)] = (
        "rag.traffic.class",
        "deployment.environment.name",
    )
    """Attributes that say what a request was made for, of which the first present counts. Values: `production`,
    `experiment`, `synthetic`, `internal`, or an environment: `staging`, `test`, `qa`, `ci`, `development` and `local`
    are internal. Any other value, or none, is production."""

    rates: Annotated[Mapping[Traffic, Rate], AfterValidator(_not_production)] = Field(default={})
    """The share of a class's requests that is evaluated, before each evaluator's own `sample`, such as
    `{synthetic: 1%}`. Default: all."""

    late_after: Annotated[Duration, Field(gt=0)] = 900.0
    """How long after its answer a verdict still counts as news. A later one, of a backlog that is being worked off,
    goes to the series `ragmonitor_late_*` and into no alert."""

    weights: Mapping[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default={})
    """Weights by app at the judge, where more waits than it can take: with `{shop: 3}` the app shop gets three turns
    for each turn of another. Default: 1 for each app."""

    quotas: Mapping[str, Quota] = Field(default={})
    """Judgements that an app may have at most, by all judged evaluators together: `{search: {per_hour: 200}}`;
    `per_day` instead, or as well. `"*"` is for each app that is not named. Where a quota is nearly spent, cases are
    judged with a smaller probability, which is known and kept: the app's rates stay true, their intervals widen. The
    quota of all replicas that share a Kafka source; without one, that of this process. Default: none."""


class TrafficRules:
    """The settings at work. `salt` is that of the samplers of evaluators, whose draws do not depend on the one here."""

    def __init__(self, settings: TrafficSettings, salt: str, runtime: Runtime) -> None:
        self._settings = settings
        self._salt = f"{salt}/traffic"
        self._runtime = runtime
        self._announced: set[tuple[str, Traffic]] = set()

    def sort(self, reading: Reading) -> Reading | TraceOutcome:
        """The reading with its class, its probability as it is now; or where the request ends instead."""
        case = reading.case
        if self._dropped_by(case):
            return TraceOutcome.FILTERED
        traffic = self.class_of(case)
        rate = self._settings.rates.get(traffic, 1.0) if reading.status in EVALUABLE else 1.0
        if rate < 1 and not consistent_sampling.chosen(case.request_id, self._salt, rate):
            return TraceOutcome.SAMPLED_OUT
        if traffic is not Traffic.PRODUCTION:
            self._announce(case.app, traffic)
        return replace(reading, case=replace(case, traffic=traffic, probability=case.probability * rate))

    def left_out_by(self, case: Case) -> str:
        """The option because of which `sort` has ended the request, as it stands in the configuration."""
        option = self._dropped_by(case)
        return option or f"traffic.rates.{self.class_of(case).value}"

    def class_of(self, case: Case) -> Traffic:
        """What the case was made for."""
        said = slices.first_value(case, self._settings.class_attribute)
        return _CLASSES.get(said.strip().lower(), Traffic.PRODUCTION)

    def _announce(self, name: str, traffic: Traffic) -> None:
        app = self._runtime.metrics.app(name)
        if (app, traffic) not in self._announced:
            self._announced.add((app, traffic))
            self._runtime.events.info(
                Event.NON_PRODUCTION_TRAFFIC,
                "requests that are not production are counted apart (ragmonitor_non_production_*) and raise no alert",
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


def standing(case: Case, judged_at: float, late_after: float) -> RateScope:
    """Whether a verdict reached at `judged_at` counts. A case that does not say when it was answered is never late."""
    if case.traffic is not Traffic.PRODUCTION:
        return RateScope.NON_PRODUCTION
    late = case.answered_at > 0 and judged_at - case.answered_at > late_after
    return RateScope.LATE if late else RateScope.LIVE
