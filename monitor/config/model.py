"""The configuration as one frozen model. Everything has a default; an empty file runs.

Unknown keys, duplicate keys and wrong values are errors that name the place, the value and what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from monitor import registry
from monitor.alerts.notify import Notifier, read_notifiers
from monitor.alerts.policy import AlertPolicy, own_rules
from monitor.alerts.policy import check as check_policies
from monitor.config.digest import DigestSettings
from monitor.config.entries import check_judge, check_learning, check_severe, listed, read_evaluator, with_rules
from monitor.config.sections import (
    LimitSettings,
    LogSettings,
    ReloadSettings,
    SamplingSettings,
    ScoringSettings,
    Section,
    StorageSettings,
)
from monitor.errors import ConfigError
from monitor.errors.explanation import nearest
from monitor.extraction.feedback import FeedbackSettings
from monitor.extraction.feedback.rules import known_names
from monitor.extraction.settings import ExtractionSettings
from monitor.jobs.backfill import BackfillSettings
from monitor.jobs.canary import CanarySettings
from monitor.jobs.review.reviewers import ReviewSettings
from monitor.jobs.self_telemetry import TelemetrySettings
from monitor.judge.classifier import check_classifier
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import place_of
from monitor.model.outcome import DefectRule
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.pipeline.traffic import TrafficSettings
from monitor.privacy.redaction import RedactionSettings
from monitor.stages import Sink, Source, type_name
from monitor.storage import files
from monitor.web.settings import UiSettings

Slice: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-/]{0,127}$")]


class EvaluatorEntry(Section):
    """One entry of `evaluators`."""

    configured: ConfiguredEvaluator


DEFAULT_EVALUATORS: tuple[Mapping[str, Any], ...] = (
    {"type": "overlap_groundedness"},
    {"type": "groundedness", "sample": "10%"},
    {"type": "relevance", "sample": "10%"},
)
DEFAULT_SOURCES: tuple[Mapping[str, Any], ...] = ({"type": "otlp_grpc"}, {"type": "otlp_http"})
DEFAULT_SINKS: tuple[Mapping[str, Any], ...] = ({"type": "prometheus"},)
DEFAULT_ALERTS: tuple[Mapping[str, Any], ...] = (
    {"evaluator": "overlap_groundedness", "warning": "10%", "critical": "25%", "regression": True},
    {"evaluator": "groundedness", "warning": "5%", "critical": "15%", "regression": True},
    {"evaluator": "relevance", "warning": "10%", "critical": "25%", "regression": True},
)
CONTEXT_RATES: Mapping[str, Mapping[str, Any]] = {
    "retrieval_empty": {"warning": "10%", "critical": "30%", "regression": True},
    "context_not_recorded": {"warning": "10%", "regression": True},
}
"""The evaluators that `context_rates` adds, each with its alert."""
_OURS: Final = frozenset({"storage", "listeners"})
"""Names that the monitor itself uses beside those of sinks."""


class Config(Section):
    """The whole configuration file."""

    sources: Annotated[tuple[Source, ...], Field(validate_default=True)] = DEFAULT_SOURCES  # type: ignore[assignment]
    """Where traces come from. Default: OTLP over gRPC on 127.0.0.1:4317 and over HTTP on 127.0.0.1:4318."""

    limits: LimitSettings = LimitSettings()
    """How much memory the monitor may use."""

    sampling: SamplingSettings = SamplingSettings()
    """Head sampling: which traces to keep, decided before anything is decoded."""

    assembly: AssemblySettings = AssemblySettings()
    """When a trace is complete, and how much memory open traces may take."""

    extraction: ExtractionSettings = ExtractionSettings()
    """How to read traces of a service with its own prompts, attributes or spans."""

    scoring: ScoringSettings = ScoringSettings()
    """Where requests are read and scored locally: in worker processes, separate from the receivers."""

    judge: JudgeSettings = JudgeSettings()
    """The language model that scores answers. Without `model`, judged evaluators are off."""

    judges: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")], JudgeSettings] = Field(default={})
    """Further judges by name, each with the options of `judge`: for example a small model trained to check facts. An
    entry of `evaluators` selects one with `judge`."""

    evaluators: Annotated[tuple[EvaluatorEntry, ...], Field(validate_default=True)] = DEFAULT_EVALUATORS  # type: ignore[assignment]
    """What to evaluate. Each entry has `type`, the evaluator's own options, `sample` (share of kept cases; default:
    all), `defect` (`{below: x}`, `{at_least: x}` or `{label: z}`; default: the evaluator's own), `judge` (a name from
    `judges`; default: the section `judge`), `group` (evaluators with the same group and judge share one call per case)
    and `optional` (`true`: without its judge or extra package it is off; otherwise that is an error). The default
    evaluators are optional."""

    context_rates: bool = True
    """Whether a running monitor also measures how often retrievals find nothing (`retrieval_empty`) and how often their
    texts are missing (`context_not_recorded`), on every kept case, with an alert on each. An entry of `evaluators` or
    `alerts` for one of them replaces the one added here; with `alerts: []` there are no alerts."""

    feedback: FeedbackSettings = FeedbackSettings()
    """User feedback, and scores from external tools (docs/feedback.md)."""

    canary: CanarySettings = CanarySettings()
    """A fixed set of cases that the judge scores on a schedule, to detect when the judge itself changes."""

    alerts: Annotated[tuple[AlertPolicy, ...], Field(validate_default=True)] = DEFAULT_ALERTS  # type: ignore[assignment]
    """Defect rates to alert on. Each policy must name a configured evaluator. Several policies may name the same
    evaluator, each with its own `defect`."""

    runbooks_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """URL of the folder with your copy of docs/runbooks. Each alert then links to its runbook (`runbook_url`). Default:
    no link."""

    notify: Annotated[tuple[Notifier, ...], Field(validate_default=True)] = ()
    """Where to send alerts when they fire and resolve, in addition to the log."""

    digest: DigestSettings = DigestSettings()
    """A digest of the week, sent to people at a set time."""

    ui: UiSettings = UiSettings()
    """The built-in UI, served on the port of the sink `prometheus`."""

    review: ReviewSettings = ReviewSettings()
    """Labels that people give in the UI."""

    slices: Annotated[tuple[Slice, ...], Field(max_length=10)] = ()
    """Attributes to break rates down by, such as `[prompt.version, gen_ai.request.model, tenant]`. Each becomes a value
    of the label `slice` in `ragmonitor_slice_*`, with up to 20 values per app. Results store only these attributes. See
    docs/traffic.md."""

    traffic: TrafficSettings = TrafficSettings()
    """Which requests count in rates and alerts."""

    backfill: BackfillSettings = BackfillSettings()
    """Evaluating past answers: those missed while a judge was paused, and those that you request."""

    sinks: Annotated[tuple[Sink, ...], Field(validate_default=True)] = DEFAULT_SINKS  # type: ignore[assignment]
    """Where results go. Default: Prometheus metrics on 127.0.0.1:9464."""

    redaction: RedactionSettings = RedactionSettings()
    """Masking of personal data, before anything except the local evaluators sees it."""

    storage: StorageSettings = Field(default_factory=StorageSettings)
    """The folder on disk for traces, results and the request log."""

    reload: ReloadSettings = ReloadSettings()
    """Reloading this file while the monitor runs."""

    log: LogSettings = LogSettings()
    """The monitor's own log."""

    telemetry: TelemetrySettings = TelemetrySettings()
    """The monitor's own traces and logs, sent over OTLP. Off without `endpoint`."""

    @field_validator("slices", mode="after")
    @classmethod
    def _slices_differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for index, name in enumerate(value):
            if name in value[:index]:
                raise ConfigError(f"slices[{index}]: {name!r} is listed twice")
        return value

    @field_validator("sources", mode="before")
    @classmethod
    def _read_sources(cls, value: object) -> object:
        return tuple(registry.read("sources", entry, Source, place) for place, entry in listed("sources", value))

    @field_validator("sinks", mode="before")
    @classmethod
    def _read_sinks(cls, value: object) -> object:
        return tuple(registry.read("sinks", entry, Sink, place) for place, entry in listed("sinks", value))

    @field_validator("notify", mode="before")
    @classmethod
    def _read_notify(cls, value: object) -> object:
        return read_notifiers([entry for _, entry in listed("notify", value)])

    @field_validator("evaluators", mode="before")
    @classmethod
    def _read_evaluators(cls, value: object) -> object:
        return tuple(
            EvaluatorEntry(configured=read_evaluator(entry, place)) for place, entry in listed("evaluators", value)
        )

    @field_validator("alerts", mode="before")
    @classmethod
    def _read_alerts(cls, value: object, info: ValidationInfo) -> object:
        configured = [entry.configured for entry in info.data.get("evaluators", ())]
        return with_rules(value, configured, info.data.get("feedback", FeedbackSettings()))

    @field_validator("alerts", mode="after")
    @classmethod
    def _alerts_have_evaluators(cls, value: tuple[AlertPolicy, ...], info: ValidationInfo) -> tuple[AlertPolicy, ...]:
        names = [entry.configured.evaluator.name for entry in info.data.get("evaluators", ())]
        names += known_names(info.data.get("feedback", FeedbackSettings()), names)
        names += CONTEXT_RATES if info.data.get("context_rates") else ()
        if value == tuple(AlertPolicy.model_validate(one) for one in DEFAULT_ALERTS):
            return tuple(one for one in value if one.evaluator in names)
        check_policies(value, names)
        ranking = {
            entry.configured.evaluator.name for entry in info.data.get("evaluators", ()) if entry.configured.ranks
        }
        for index, policy in enumerate(value):
            if policy.evaluator in ranking:
                raise ConfigError(
                    f"alerts[{index}]: {policy.evaluator} only ranks answers: there is no rate to alert on"
                )
        return value

    @model_validator(mode="after")
    def _names_are_unique(self) -> Config:
        names = [entry.configured.evaluator.name for entry in self.evaluators]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ConfigError(
                    f"evaluators[{index}]: {name!r} is configured twice. For alerts at several levels, give each entry"
                    f" of `alerts` its own `defect`: {{evaluator: {name}, defect: ..., warning: 5%}}"
                )
            seen = self.evaluators[index].configured.sampler.sees
            if seen and seen not in names:
                message = f"uses {seen!r}, which is not a configured evaluator{nearest(seen, names)}"
                raise ConfigError(f"evaluators[{index}].sample: {message}")
        return self

    @model_validator(mode="after")
    def _sinks_can_follow(self) -> Config:
        taken = set(_OURS)
        for index, sink in enumerate(self.sinks):
            if sink.name is None and (kind := type_name(sink)) in _OURS:
                raise ConfigError(f"sinks[{index}].name: is required: the monitor itself uses the name {kind!r}")
            if sink.name is not None and sink.name in taken:
                raise ConfigError(f"sinks[{index}].name: {sink.name!r} is taken")
            taken.update([sink.name] if sink.name is not None else ())
            if sink.follows and getattr(sink, "include_texts", False) and self.storage.texts != "all":
                raise ConfigError(
                    f"sinks[{index}].include_texts: sinks send what the history stores, and `storage.texts` is"
                    f" `{self.storage.texts}`. Set `storage: {{texts: all}}`, or remove the option"
                )
        return self

    @model_validator(mode="after")
    def _sinks_have_files_of_their_own(self) -> Config:
        """Refuse two writers of one file: each would treat the other's lines as damage."""
        users = {os.path.realpath(self.storage.path / name): "the monitor itself" for name in files.DATABASES}
        for index, sink in enumerate(self.sinks):
            path = getattr(sink, "path", None)
            if isinstance(path, Path):
                user = users.setdefault(os.path.realpath(path), f"sinks[{index}]")
                if user != f"sinks[{index}]":
                    raise ConfigError(f"sinks[{index}].path: {user} writes to {path}; choose another file")
        return self

    @model_validator(mode="after")
    def _listeners_have_ports_of_their_own(self) -> Config:
        parts: dict[str, object] = {f"sources[{index}]": one for index, one in enumerate(self.sources)}
        parts |= {f"sinks[{index}]": one for index, one in enumerate(self.sinks)}
        users: dict[tuple[int, str], str] = {}
        for place, one in parts.items():
            address = getattr(one, "port", 0), getattr(one, "host", "")
            if address[0] and users.setdefault(address, place) != place:
                raise ConfigError(f"{place}.port: {users[address]} listens on port {address[0]}; choose another one")
        return self

    @model_validator(mode="after")
    def _review_shows_texts(self) -> Config:
        if self.review.enabled and self.storage.texts != "all":
            raise ConfigError(
                f"review.enabled: people label stored texts, but `storage.texts` is `{self.storage.texts}`."
                " Set `storage: {texts: all}`"
            )
        if self.review.enabled and not self.ui.enabled:
            raise ConfigError("review.enabled: answers are labelled in the UI, but `ui.enabled` is off. Set it to true")
        return self

    @model_validator(mode="after")
    def _digest_has_receivers(self) -> Config:
        self.digest.receivers(self.notify)
        return self

    @model_validator(mode="after")
    def _judges_are_known(self) -> Config:
        check_learning([entry.configured for entry in self.evaluators])
        for index, entry in enumerate(self.evaluators):
            check_judge(entry.configured, self.all_judges, f"evaluators[{index}]")
        return self

    @model_validator(mode="after")
    def _severe_cases_can_be_judged_again(self) -> Config:
        configured = {entry.configured.evaluator.name: entry.configured for entry in self.evaluators}
        for index, policy in enumerate(self.alerts):
            if policy.severe is not None:
                one = configured.get(policy.evaluator)
                check_severe(policy.evaluator, policy.severe, one, self.all_judges, f"alerts[{index}].severe")
        return self

    def as_run(self) -> Config:
        """Return the configuration that a monitor runs: with the evaluators and alerts that `context_rates` adds."""
        named = {entry.configured.evaluator.name for entry in self.evaluators}
        alerted = {policy.evaluator for policy in self.alerts}
        added = [name for name in CONTEXT_RATES if self.context_rates and name not in named]
        unwanted = not self.alerts and "alerts" in self.model_fields_set
        entries = (EvaluatorEntry(configured=read_evaluator({"type": name}, "context_rates")) for name in added)
        policies = (
            AlertPolicy.model_validate({"evaluator": name, **CONTEXT_RATES[name]})
            for name in added
            if name not in alerted and not unwanted
        )
        return self.model_copy(update={"evaluators": (*self.evaluators, *entries), "alerts": (*self.alerts, *policies)})

    @property
    def severe_rules(self) -> dict[str, DefectRule]:
        """The rule for severe answers, by evaluator, for those with an alert on single severe cases."""
        scales = {entry.configured.evaluator.name: entry.configured.evaluator.scale for entry in self.evaluators}
        return {
            one.evaluator: scales[one.evaluator].this_or_worse(one.severe.level or scales[one.evaluator].worst_level)
            for one in self.alerts
            if one.severe is not None
        }

    @model_validator(mode="after")
    def _all_can_work(self) -> Config:
        """Refuse configured entries that cannot work. Defaults that cannot work are merely off."""
        off = {one.evaluator.name: (one, self.why_off(one)) for one in self.configured_evaluators}
        if "evaluators" in self.model_fields_set:
            for index, (name, (one, why)) in enumerate(off.items()):
                if why and not one.optional:
                    ways = "Set it" if why.endswith("is not set") else "Do one of the two"
                    message = f"{ways}, remove the entry, or add `optional: true` to run without it"
                    raise ConfigError(f"evaluators[{index}]: {name} cannot work: {why}. {message}")
        for index, policy in enumerate(self.alerts if "alerts" in self.model_fields_set else ()):
            watched = off.get(policy.evaluator)
            if watched is None:
                continue
            one, why = watched
            if why and not policy.optional and not one.optional:
                message = "Set that up, remove the alert, or add `optional: true` to keep it silent"
                raise ConfigError(f"alerts[{index}]: {policy.evaluator} is off: {why}. {message}")
        return self

    @property
    def all_judges(self) -> dict[str, JudgeSettings]:
        """All judges by name, including the section `judge`."""
        return {DEFAULT_JUDGE: self.judge, **self.judges}

    @property
    def judges_with_models(self) -> dict[str, JudgeSettings]:
        """The judges that have a model, by name, without those asked only by evaluators that are off."""
        asking = [one for one in self.configured_evaluators if one.evaluator.cost == "judge"]
        idle = {one.judge for one in asking} - {one.judge for one in asking if self.works(one)}
        return {name: one for name, one in self.all_judges.items() if one.model is not None and name not in idle}

    def judge_of(self, configured: ConfiguredEvaluator) -> JudgeSettings:
        """Return the settings of the judge that an evaluator uses."""
        return self.judges.get(configured.judge, self.judge)

    def works(self, configured: ConfiguredEvaluator) -> bool:
        """Return whether an evaluator can run: a local one always, a judged one if its judge has what it needs."""
        return not self.why_off(configured)

    def why_off(self, configured: ConfiguredEvaluator) -> str:
        """Return why an evaluator cannot run, without a full stop; empty if it can."""
        if configured.evaluator.cost == "local":
            return ""
        settings, place = self.judge_of(configured), place_of(configured.judge)
        if settings.model is None:
            asks = "a classifier" if configured.evaluator.asks == "classifier" else "a language model"
            return f"it asks {asks}, and {place}.model is not set"
        if settings.is_classifier:
            try:
                check_classifier(settings, place)
            except ConfigError as error:
                return str(error)
        return ""

    @property
    def configured_evaluators(self) -> tuple[ConfiguredEvaluator, ...]:
        """All configured evaluators, judged ones included, whether or not there is a judge."""
        rules = own_rules(self.alerts)
        return tuple(
            replace(one, alert_rules=rules.get(one.evaluator.name, ()))
            for one in (entry.configured for entry in self.evaluators)
        )
