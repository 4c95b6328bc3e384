"""The configuration as one frozen model. Everything has a default; an empty file runs.

Unknown keys, duplicate keys and wrong values are errors that name the place, the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from monitor import registry
from monitor.alerts.notify import Notifier, read_notifiers
from monitor.alerts.policy import AlertPolicy, SevereSettings, own_rules
from monitor.alerts.policy import check as check_policies
from monitor.config.sections import LogSettings, SamplingSettings, ScoringSettings, Section, StorageSettings
from monitor.errors import ConfigError
from monitor.errors.explanation import nearest, shown
from monitor.extraction.feedback import FeedbackSettings
from monitor.extraction.feedback.rules import known_names, label_name, ruling
from monitor.extraction.settings import ExtractionSettings
from monitor.jobs.backfill import BackfillSettings
from monitor.jobs.canary import CanarySettings
from monitor.jobs.self_telemetry import TelemetrySettings
from monitor.judge.classifier import check_classifier
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import place_of
from monitor.model.external import USER_FEEDBACK
from monitor.model.outcome import DefectRule, Scale
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.pipeline.traffic import TrafficSettings
from monitor.privacy.redaction import RedactionSettings
from monitor.quantities import parse_rate
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Sampler, Sink, Source
from monitor.web.settings import UiSettings


def listed(section: str, value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry of a list, with its place (`sources[0]`) for messages. Raises `ConfigError`."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{section}: must be a list of entries with a `type`, not {shown(value)}")
    for index, entry in enumerate(value):
        place = f"{section}[{index}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{place}: must be a mapping with a `type`, not {shown(entry)}")
        yield place, entry


BESIDE: Final = ("sample", "defect", "judge", "group", "optional")
"""Keys of an entry of `evaluators` besides `type` and the evaluator's own options."""

_AS_A_RULE: Final = (
    *("threshold", "limit", "cutoff", "minimum", "maximum", "min", "max", "min_score", "max_score", "pass_threshold"),
    *("below", "above", "at_least", "at_most", "severity", "fail_below", "fail_above"),
)
_AS_A_SHARE: Final = (
    "rate",
    "share",
    "sampling",
    "sample_rate",
    "sampling_rate",
    "fraction",
    "percentage",
    "probability",
)


def _meant(evaluator: type[Evaluator]) -> dict[str, str]:
    """What people call the keys of an entry that are not the evaluator's own, and what each is here."""
    own = str(evaluator.default_defect).split(" ", 1) if hasattr(evaluator, "default_defect") else ["below", "3"]
    rule = f"`defect`, such as `defect: {{{own[0].replace('at', 'at_least')}: {own[-1].removeprefix('least ')}}}`"
    meant = {**dict.fromkeys(_AS_A_RULE, rule), **dict.fromkeys(_AS_A_SHARE, "`sample`, such as `sample: 10%`")}
    meant["model"] = "`judge`, the name of an entry of `judges`, which has a `model`"
    return {name: hint for name, hint in meant.items() if name not in evaluator.model_fields}


def read_evaluator(entry: Mapping[str, Any], place: str) -> ConfiguredEvaluator:
    """Read an entry of `evaluators`. Raises `ConfigError`."""
    options = dict(entry)
    sample, rule = options.pop("sample", None), options.pop("defect", None)
    judge, group = options.pop("judge", DEFAULT_JUDGE), options.pop("group", "")
    optional = options.pop("optional", False)
    if not isinstance(optional, bool):
        raise ConfigError(f"{place}.optional: must be true or false, not {shown(optional)}")
    for name, given in (("judge", judge), ("group", group)):
        if not isinstance(given, str):
            raise ConfigError(f"{place}.{name}: must be a name, not {shown(given)}")
    evaluator = registry.read("evaluators", options, Evaluator, place, also=BESIDE, meant=_meant)
    return ConfiguredEvaluator(
        evaluator=evaluator,
        sampler=_sampler(sample, f"{place}.sample"),
        defect=_evaluator_defect(rule, evaluator, f"{place}.defect").on(evaluator.scale),
        judge=judge,
        group=group,
        optional=optional,
    )


def check_judge(one: ConfiguredEvaluator, judges: Mapping[str, JudgeSettings], place: str) -> None:
    """Raise `ConfigError` unless the judge that an evaluator names is in `judges` and is of the kind that it asks."""
    evaluator = one.evaluator
    if evaluator.cost == "local":
        if one.judge or one.group:
            key = "judge" if one.judge else "group"
            raise ConfigError(f"{place}.{key}: {evaluator.name} uses no judge, so remove it")
        return
    if one.judge not in judges:
        known = ", ".join(sorted(name for name in judges if name)) or "none"
        hint = nearest(one.judge, filter(None, judges))
        raise ConfigError(f"{place}.judge: {one.judge!r} is not in `judges`{hint}; known: {known}")
    settings = judges[one.judge]
    if settings.model is not None and settings.is_classifier != (evaluator.asks == "classifier"):
        name = "`classifier/NAME`" if evaluator.asks == "classifier" else "a language model"
        raise ConfigError(f"{place}: {evaluator.name} needs {name}, but the model of its judge is {settings.model!r}")


def _check_severe(
    name: str,
    severe: SevereSettings,
    one: ConfiguredEvaluator | None,
    judges: Mapping[str, JudgeSettings],
    place: str,
) -> None:
    """Raise `ConfigError` unless the evaluator has such a level and its answers can be judged a second time."""
    if one is None or one.evaluator.cost != "judge":
        raise ConfigError(f"{place}: {name} asks no judge of this monitor, so no answer can be judged by it again")
    scale = one.evaluator.scale
    if severe.level:
        try:
            scale.this_or_worse(severe.level)
        except (KeyError, ValueError):
            best = scale.levels[-1 if scale.better == "higher" else 0].name
            allowed = ", ".join(level.name for level in scale.levels if level.name != best)
            raise ConfigError(
                f"{place}.level: {severe.level!r} is not a level of {name} that can be severe; these are: {allowed}"
            ) from None
    if severe.judge is not None:
        check_judge(replace(one, judge=severe.judge), judges, place)
        if judges[severe.judge].model is None:
            raise ConfigError(f"{place}.judge: the judge {severe.judge!r} has no model")
    if severe.judge in (None, one.judge) and not hasattr(one.evaluator, "rubric"):
        raise ConfigError(
            f"{place}.judge: {name} cannot be asked in other words: name another judge from `judges`, for the second"
            " judgement"
        )


def _sampler(given: object, place: str) -> Sampler:
    if given is None:
        return Uniform(rate=1.0)
    if isinstance(given, Mapping):
        short = {"type": "boosted" if "boost" in given else "budget"}  # {per_hour: 500, boost: overlap_groundedness}
        return registry.read("samplers", {**short, **given}, Sampler, place)
    try:
        return Uniform(rate=parse_rate(given))
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _evaluator_defect(given: object, evaluator: Evaluator, place: str) -> DefectRule:
    return evaluator.default_defect if given is None else _defect(given, evaluator.name, evaluator.scale, place)


_KINDS: Final = ("below", "at_least", "label")


def _defect(given: object, name: str, scale: Scale, place: str) -> DefectRule:
    """Read a defect rule from `{below: x}`, `{at_least: x or level}` or `{label: z}`. It must fit the scale."""
    allowed = "one of `{below: x}`, `{at_least: x}`, `{label: name}`"
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ConfigError(f"{place}: {given!r:.80} is not {allowed}")
    kind, value = next(iter(given.items()))
    if kind == "label":
        return DefectRule("label", label=str(value))
    if kind not in ("below", "at_least"):
        raise ConfigError(f"{place}: unknown key {kind!r}{nearest(str(kind), _KINDS)}; allowed: {allowed}")
    bad_end = "at_least" if scale.better == "lower" else "below"
    if kind != bad_end:
        raise ConfigError(f"{place}: on {name} {scale.better} is better, so use `{bad_end}`, not {kind!r}")
    levels = {level.name: level.start for level in scale.levels}
    threshold = levels.get(str(value), value)
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        hint = nearest(str(value), levels)
        known = ", ".join(levels)
        raise ConfigError(f"{place}.{kind}: {value!r} is neither a number nor one of the levels {known}{hint}")
    if not scale.lowest <= threshold <= scale.highest:
        raise ConfigError(
            f"{place}.{kind}: {value!r} is not on the scale of {name}, {scale.lowest:g} to {scale.highest:g}"
        )
    return DefectRule("below" if kind == "below" else "at_least", float(threshold))


def _with_rules(alerts: object, evaluators: Sequence[ConfiguredEvaluator], feedback: FeedbackSettings) -> object:
    """The entries of `alerts`, in which a `defect` is a rule on the scale of their evaluator.

    A rule that is the evaluator's own is left out: it needs no sums of its own.
    """
    own = {one.evaluator.name: (one.evaluator.scale, one.defect) for one in evaluators}
    external = {label_name(told, own): ruling(told, feedback).scale for told in (USER_FEEDBACK, *feedback.evaluators)}
    if not isinstance(alerts, (list, tuple)):
        return alerts
    found = []
    for index, entry in enumerate(alerts):
        name = entry.get("evaluator") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or entry.get("defect") is None or name not in {**own, **external}:
            found.append(entry)  # a name that is not known has its own message
            continue
        scale, usual = own.get(name) or (external[name], None)
        rule = _defect(entry["defect"], name, scale, f"alerts[{index}].defect").on(scale)
        found.append({**entry, "defect": None if rule == usual else rule})
    return found


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


class Config(Section):
    """The whole configuration file."""

    sources: Annotated[tuple[Source, ...], Field(validate_default=True)] = DEFAULT_SOURCES  # type: ignore[assignment]
    """Where traces come from. Default: OTLP over gRPC on 127.0.0.1:4317 and over HTTP on 127.0.0.1:4318."""

    sampling: SamplingSettings = SamplingSettings()
    """Head sampling: which traces to keep, decided before anything is decoded."""

    assembly: AssemblySettings = AssemblySettings()
    """When a trace is complete, and how much memory open traces may take."""

    extraction: ExtractionSettings = ExtractionSettings()
    """How to read traces of a service with its own prompts, attributes or spans."""

    scoring: ScoringSettings = ScoringSettings()
    """Where requests are read and scored locally: in worker processes, beside the receivers."""

    judge: JudgeSettings = JudgeSettings()
    """The language model that scores answers. Without `model`, judged evaluators are off."""

    judges: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")], JudgeSettings] = Field(default={})
    """Further judges by name, each with the options of `judge`: for example a small model trained to check facts. An
    entry of `evaluators` selects one with `judge`."""

    evaluators: Annotated[tuple[EvaluatorEntry, ...], Field(validate_default=True)] = DEFAULT_EVALUATORS  # type: ignore[assignment]
    """What to evaluate. Each entry has `type`, the evaluator's own options, `sample` (share of kept cases; default:
    all), `defect` (`{below: x}`, `{at_least: x}` or `{label: z}`; default: the evaluator's own), `judge` (a name from
    `judges`; default: the section `judge`), `group` (evaluators with the same group and judge share one call per case)
    and `optional` (`true`: without its judge or extra package it is off; otherwise that is an error). Those of the
    default are optional."""

    context_rates: bool = True
    """Whether a running monitor also measures how often retrievals find nothing (`retrieval_empty`) and how often their
    texts are missing (`context_not_recorded`), on every kept case, with an alert on each. An entry of `evaluators` or
    `alerts` for one of them replaces what is added; with `alerts: []` there are no alerts."""

    feedback: FeedbackSettings = FeedbackSettings()
    """User feedback, and scores from external tools (docs/feedback.md)."""

    canary: CanarySettings = CanarySettings()
    """A fixed set of cases that the judge scores on a schedule, to detect when the judge itself changes."""

    alerts: Annotated[tuple[AlertPolicy, ...], Field(validate_default=True)] = DEFAULT_ALERTS  # type: ignore[assignment]
    """Defect rates to alert on. Each policy must name a configured evaluator. Several policies may name the same one,
    each with its own `defect`."""

    runbooks_url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """URL of the folder with your copy of docs/runbooks. Each alert then links to its runbook (`runbook_url`). Default:
    no link."""

    notify: Annotated[tuple[Notifier, ...], Field(validate_default=True)] = ()
    """Where to send alerts when they fire and resolve, in addition to the log."""

    ui: UiSettings = UiSettings()
    """The built-in UI, served on the port of the sink `prometheus`."""

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
    """Masking of personal data before anything but the local evaluators sees it."""

    storage: StorageSettings = StorageSettings()
    """The folder on disk for traces, results and the request log."""

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
        return _with_rules(value, configured, info.data.get("feedback", FeedbackSettings()))

    @field_validator("alerts", mode="after")
    @classmethod
    def _alerts_have_evaluators(cls, value: tuple[AlertPolicy, ...], info: ValidationInfo) -> tuple[AlertPolicy, ...]:
        names = [entry.configured.evaluator.name for entry in info.data.get("evaluators", ())]
        names += known_names(info.data.get("feedback", FeedbackSettings()), names)
        names += CONTEXT_RATES if info.data.get("context_rates") else ()
        if value == tuple(AlertPolicy.model_validate(one) for one in DEFAULT_ALERTS):
            return tuple(one for one in value if one.evaluator in names)
        check_policies(value, names)
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
    def _judges_are_known(self) -> Config:
        for index, entry in enumerate(self.evaluators):
            check_judge(entry.configured, self.all_judges, f"evaluators[{index}]")
        return self

    @model_validator(mode="after")
    def _severe_cases_can_be_judged_again(self) -> Config:
        configured = {entry.configured.evaluator.name: entry.configured for entry in self.evaluators}
        for index, policy in enumerate(self.alerts):
            if policy.severe is not None:
                one = configured.get(policy.evaluator)
                _check_severe(policy.evaluator, policy.severe, one, self.all_judges, f"alerts[{index}].severe")
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
        """What is severe by evaluator, for those with an alert on single severe cases."""
        scales = {entry.configured.evaluator.name: entry.configured.evaluator.scale for entry in self.evaluators}
        return {
            one.evaluator: scales[one.evaluator].this_or_worse(one.severe.level or scales[one.evaluator].worst_level)
            for one in self.alerts
            if one.severe is not None
        }

    @model_validator(mode="after")
    def _all_can_work(self) -> Config:
        """Refuse what was written by hand and cannot work. What the defaults lack is only off."""
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
        """The judges that have a model, by name, without those that only evaluators would ask that are off."""
        asking = [one for one in self.configured_evaluators if one.evaluator.cost == "judge"]
        idle = {one.judge for one in asking} - {one.judge for one in asking if self.works(one)}
        return {name: one for name, one in self.all_judges.items() if one.model is not None and name not in idle}

    def judge_of(self, configured: ConfiguredEvaluator) -> JudgeSettings:
        """Return the settings of the judge that an evaluator uses."""
        return self.judges.get(configured.judge, self.judge)

    def works(self, configured: ConfiguredEvaluator) -> bool:
        """Return whether an evaluator can run: a local one always, a judged one if there is what its judge needs."""
        return not self.why_off(configured)

    def why_off(self, configured: ConfiguredEvaluator) -> str:
        """Return why an evaluator cannot run, without a full stop; empty where it can."""
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
