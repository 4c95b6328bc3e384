"""The configuration: one YAML file as one frozen model. Everything has a default; an empty file runs.

`${NAME}` in any text is replaced by the environment variable NAME. Unknown keys, duplicate keys and wrong values are
errors that name the place, the value and what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from monitor import registry
from monitor.alerts.notify import Notifier, read_notifiers
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.policy import check as check_policies
from monitor.assembly import AssemblySettings
from monitor.errors import ConfigError
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import DefectRule
from monitor.pipeline.evaluate import Assignment
from monitor.quantities import Duration, Rate, Size, parse_rate
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Sampler, Sink, Source

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Section(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)


class Sampling(Section):
    """Which traces are kept at all (head sampling)."""

    traces: Rate = 1.0
    """Share of traces kept, by a hash of the trace id: a number from 0 to 1, or a percentage. All replicas agree."""

    salt: str = "rag-monitor"
    """Key of the hash that chooses what evaluators judge. The same in all replicas; another one, another sample."""


def default_state_path() -> Path:
    """Where state lives unless configured: systemd's STATE_DIRECTORY, else the user's state folder."""
    given = os.environ.get("STATE_DIRECTORY")
    if given:
        return Path(given.split(":")[0])
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "rag-monitor"


class Storage(Section):
    """The folder on disk: the spool of traces that are not yet done, and the history of results."""

    path: Path = Field(default_factory=default_state_path)
    """The folder; made if missing, its files readable by their owner only. Default: `$STATE_DIRECTORY`, else
    `~/.local/state/rag-monitor`."""

    keep: Duration = 7 * 86400.0
    """How long results are kept, and how long a trace may wait before it is given up (and counted as `shed`)."""

    at_most: Size = 2 * 1024**3
    """Bytes that the spool may hold; beyond that the receivers answer "try again later"."""

    keep_texts: bool = False
    """Keep question, context and answer of judged cases beside their results, to show the worst ones and why."""


class Log(Section):
    """The monitor's own log, on standard error."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The lowest level that is written. Prompt text never appears, at any level."""

    style: Literal["json", "text"] = "json"
    """`json`: one object a line. `text`: readable lines."""


class EvaluatorEntry(Section):
    """One entry of `evaluators`: who evaluates, who is sampled for it, and what counts as a defect."""

    assignment: Assignment


DEFAULT_EVALUATORS: tuple[Mapping[str, Any], ...] = (
    {"type": "overlap_groundedness"},
    {"type": "groundedness", "sample": "10%"},
    {"type": "relevance", "sample": "10%"},
)
DEFAULT_SOURCES: tuple[Mapping[str, Any], ...] = ({"type": "otlp_grpc"}, {"type": "otlp_http"})
DEFAULT_SINKS: tuple[Mapping[str, Any], ...] = ({"type": "prometheus"},)
DEFAULT_ALERTS: tuple[Mapping[str, Any], ...] = (
    {"evaluator": "overlap_groundedness", "warning": "10%", "critical": "25%"},
    {"evaluator": "groundedness", "warning": "5%", "critical": "15%"},
    {"evaluator": "relevance", "warning": "10%", "critical": "25%"},
)


class Config(Section):
    """The whole file."""

    sources: Annotated[tuple[Source, ...], Field(validate_default=True)] = DEFAULT_SOURCES  # type: ignore[assignment]
    """Where traces come from. Default: OTLP over gRPC on 127.0.0.1:4317 and over HTTP on 127.0.0.1:4318."""

    sampling: Sampling = Sampling()
    """Head sampling, before anything is decoded."""

    assembly: AssemblySettings = AssemblySettings()
    """When a trace is complete, and how much memory open traces may take."""

    judge: JudgeSettings = JudgeSettings()
    """The language model that judges. Without `model` the judged evaluators are off."""

    evaluators: Annotated[tuple[EvaluatorEntry, ...], Field(validate_default=True)] = DEFAULT_EVALUATORS  # type: ignore[assignment]
    """Who evaluates. Each entry: `type`, its own options, `sample` (share of kept cases, default all) and `defect`
    (`{below: x}`, `{at_least: x}` or `{label: z}`; default: the evaluator's own)."""

    alerts: Annotated[tuple[AlertPolicy, ...], Field(validate_default=True)] = DEFAULT_ALERTS  # type: ignore[assignment]
    """Which defect rates are too high. A policy for an evaluator that is not configured is an error."""

    runbooks: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """Address of the folder that holds your copy of docs/runbooks: each alert then carries a link to its page,
    `runbook_url`. Default: no link."""

    notify: Annotated[tuple[Notifier, ...], Field(validate_default=True)] = ()
    """Who is told, besides the log, when an alert fires and when it resolves."""

    sinks: Annotated[tuple[Sink, ...], Field(validate_default=True)] = DEFAULT_SINKS  # type: ignore[assignment]
    """Where results go. Default: Prometheus metrics on 127.0.0.1:9464."""

    storage: Storage = Storage()
    """The folder on disk."""

    log: Log = Log()
    """The monitor's own log."""

    @field_validator("sources", mode="before")
    @classmethod
    def _read_sources(cls, value: object) -> object:
        return tuple(registry.read("sources", entry, Source, place) for place, entry in _entries("sources", value))

    @field_validator("sinks", mode="before")
    @classmethod
    def _read_sinks(cls, value: object) -> object:
        return tuple(registry.read("sinks", entry, Sink, place) for place, entry in _entries("sinks", value))

    @field_validator("notify", mode="before")
    @classmethod
    def _read_notify(cls, value: object) -> object:
        return read_notifiers([entry for _, entry in _entries("notify", value)])

    @field_validator("evaluators", mode="before")
    @classmethod
    def _read_evaluators(cls, value: object) -> object:
        return tuple(_evaluator_entry(entry, place) for place, entry in _entries("evaluators", value))

    @field_validator("alerts", mode="after")
    @classmethod
    def _alerts_have_evaluators(cls, value: tuple[AlertPolicy, ...], info: ValidationInfo) -> tuple[AlertPolicy, ...]:
        names = [entry.assignment.evaluator.name for entry in info.data.get("evaluators", ())]
        if value == tuple(AlertPolicy.model_validate(one) for one in DEFAULT_ALERTS):
            return tuple(one for one in value if one.evaluator in names)
        check_policies(value, names)
        return value

    @model_validator(mode="after")
    def _names_are_unique(self) -> Config:
        names = [entry.assignment.evaluator.name for entry in self.evaluators]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ConfigError(f"evaluators[{index}]: {name!r} is configured twice")
        return self

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """All configured evaluators, judged ones included, whether or not there is a judge."""
        return tuple(entry.assignment for entry in self.evaluators)


def load(path: Path | None) -> Config:
    """The configuration in the file at `path`; the defaults where that is None. Raises `ConfigError`."""
    if path is None:
        return parse({})
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return parse_text(text, str(path), path.parent)


def parse_text(text: str, place: str = "configuration", folder: Path | None = None) -> Config:
    """The configuration in a YAML text; rubric files are looked for from `folder`, that of the file.

    Raises `ConfigError` whose lines begin with `place`.
    """
    try:
        data = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{place}: not valid YAML: {' '.join(str(error).split())}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: must be a mapping of sections, such as `sources:`, not {type(data).__name__}")
    try:
        return parse(_with_rubrics_from(folder, data) if folder is not None else data)
    except ConfigError as error:
        raise ConfigError("\n".join(f"{place}: {line}" for line in str(error).splitlines())) from None


def parse(data: Mapping[str, Any]) -> Config:
    """The configuration in a plain mapping. Raises `ConfigError`."""
    resolved = _with_environment(data, "")
    try:
        return Config.model_validate(resolved)
    except ValidationError as error:
        raise ConfigError(registry.explain(error, "configuration", tuple(Config.model_fields))) from None


def _entries(section: str, value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{section}: must be a list of entries with a `type`, not {registry.shown(value)}")
    for index, entry in enumerate(value):
        place = f"{section}[{index}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{place}: must be a mapping with a `type`, not {registry.shown(entry)}")
        yield place, entry


def _evaluator_entry(entry: Mapping[str, Any], place: str) -> EvaluatorEntry:
    options = dict(entry)
    sample, rule = options.pop("sample", None), options.pop("defect", None)
    evaluator = registry.read("evaluators", options, Evaluator, place)
    return EvaluatorEntry(
        assignment=Assignment(
            evaluator=evaluator,
            sampler=_sampler(sample, f"{place}.sample"),
            defect=evaluator.default_defect if rule is None else _defect(rule, evaluator, f"{place}.defect"),
        )
    )


def _sampler(given: object, place: str) -> Sampler:
    if given is None:
        return Uniform(rate=1.0)
    if isinstance(given, Mapping):
        return registry.read("samplers", given, Sampler, place)
    try:
        return Uniform(rate=parse_rate(given))
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _defect(given: object, evaluator: Evaluator, place: str) -> DefectRule:
    """A defect rule from `{below: x}`, `{at_least: x or level}` or `{label: z}`, held against the scale's direction."""
    allowed = "one of `{below: x}`, `{at_least: x}`, `{label: name}`"
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ConfigError(f"{place}: {given!r:.80} is not {allowed}")
    kind, value = next(iter(given.items()))
    if kind == "label":
        return DefectRule("label", label=str(value))
    if kind not in ("below", "at_least"):
        raise ConfigError(f"{place}: unknown key {kind!r}; allowed: {allowed}")
    scale = evaluator.scale
    bad_end = "at_least" if scale.better == "lower" else "below"
    if kind != bad_end:
        raise ConfigError(
            f"{place}: on {evaluator.name} {scale.better} is better, so a defect is `{bad_end}` something, not {kind!r}"
        )
    levels = {level.name: level.start for level in scale.levels}
    threshold = levels.get(str(value), value)
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise ConfigError(f"{place}.{kind}: {value!r} is neither a number nor one of the levels {', '.join(levels)}")
    if not scale.lowest <= threshold <= scale.highest:
        raise ConfigError(
            f"{place}.{kind}: {value!r} is not on the scale of {evaluator.name}, {scale.lowest:g} to {scale.highest:g}"
        )
    return DefectRule("below" if kind == "below" else "at_least", float(threshold))


def _with_rubrics_from(folder: Path, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same data with each evaluator's `file` made relative to `folder`, wherever the process was started."""
    entries = data.get("evaluators")
    if not isinstance(entries, list):
        return data
    moved = [
        {**entry, "file": str(folder / entry["file"])}
        if isinstance(entry, dict) and isinstance(entry.get("file"), str)
        else entry
        for entry in entries
    ]
    return {**data, "evaluators": moved}


def _with_environment(value: Any, place: str) -> Any:
    """The same data with every `${NAME}` replaced."""
    if isinstance(value, Mapping):
        return {key: _with_environment(one, f"{place}.{key}" if place else str(key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_environment(one, f"{place}[{index}]") for index, one in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"{place}: the environment variable {match[1]} is not set")
        return found

    return _VARIABLE.sub(replace, value)


class _StrictLoader(yaml.SafeLoader):
    """YAML without silent loss: a key that stands twice is an error."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} stands twice, line {key_node.start_mark.line + 1}", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
