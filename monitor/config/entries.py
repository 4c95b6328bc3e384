"""The entries of the configuration's lists: who evaluates, whom for, and what counts as a defect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor import registry
from monitor.errors import ConfigError
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import DefectRule
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.quantities import parse_rate
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Sampler


def listed(section: str, value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each entry of a list, with its place (`sources[0]`) for messages. Raises `ConfigError`."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{section}: must be a list of entries with a `type`, not {registry.shown(value)}")
    for index, entry in enumerate(value):
        place = f"{section}[{index}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{place}: must be a mapping with a `type`, not {registry.shown(entry)}")
        yield place, entry


def assignment(entry: Mapping[str, Any], place: str) -> ConfiguredEvaluator:
    """What an entry of `evaluators` describes. Raises `ConfigError`."""
    options = dict(entry)
    sample, rule = options.pop("sample", None), options.pop("defect", None)
    judge, group = options.pop("judge", DEFAULT_JUDGE), options.pop("group", "")
    for name, given in (("judge", judge), ("group", group)):
        if not isinstance(given, str):
            raise ConfigError(f"{place}.{name}: must be a name, not {registry.shown(given)}")
    evaluator = registry.read("evaluators", options, Evaluator, place)
    return ConfiguredEvaluator(
        evaluator=evaluator,
        sampler=_sampler(sample, f"{place}.sample"),
        defect=evaluator.default_defect if rule is None else _defect(rule, evaluator, f"{place}.defect"),
        judge=judge,
        group=group,
    )


def check_judge(one: ConfiguredEvaluator, judges: Mapping[str, JudgeSettings], place: str) -> None:
    """Raise `ConfigError` unless the judge that an evaluator names is in `judges` and is of the kind that it asks."""
    evaluator = one.evaluator
    if evaluator.cost == "local":
        if one.judge or one.group:
            raise ConfigError(f"{place}: {evaluator.name} uses no judge, so remove `judge` and `group`")
        return
    if one.judge not in judges:
        known = ", ".join(sorted(name for name in judges if name)) or "none"
        raise ConfigError(f"{place}.judge: {one.judge!r} is not in `judges`; known: {known}")
    settings = judges[one.judge]
    if settings.model is not None and settings.is_classifier != (evaluator.asks == "classifier"):
        name = "`classifier/NAME`" if evaluator.asks == "classifier" else "a language model"
        raise ConfigError(f"{place}: {evaluator.name} needs {name}, but the model of its judge is {settings.model!r}")


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
        raise ConfigError(f"{place}: on {evaluator.name} {scale.better} is better, so use `{bad_end}`, not {kind!r}")
    levels = {level.name: level.start for level in scale.levels}
    threshold = levels.get(str(value), value)
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise ConfigError(f"{place}.{kind}: {value!r} is neither a number nor one of the levels {', '.join(levels)}")
    if not scale.lowest <= threshold <= scale.highest:
        raise ConfigError(
            f"{place}.{kind}: {value!r} is not on the scale of {evaluator.name}, {scale.lowest:g} to {scale.highest:g}"
        )
    return DefectRule("below" if kind == "below" else "at_least", float(threshold))
