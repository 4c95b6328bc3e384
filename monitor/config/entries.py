"""Reads the entries of `evaluators` and `alerts`: components with their options, samplers, defect rules, judges.

Raises `ConfigError` that names the place, the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from monitor import registry
from monitor.alerts.policy import SevereSettings
from monitor.errors import ConfigError
from monitor.errors.explanation import nearest, shown
from monitor.extraction.feedback import FeedbackSettings
from monitor.extraction.feedback.rules import label_name, ruling
from monitor.judge.settings import JudgeSettings
from monitor.model.external import USER_FEEDBACK
from monitor.model.outcome import DefectRule, Scale
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.pipeline.learned import can_teach
from monitor.quantities import parse_rate
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Sampler


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
    """Return the names people guess for keys that are not the evaluator's own, mapped to what each is called here."""
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
    """Raise `ConfigError` unless the judge that an evaluator names is in `judges` and of the kind it needs."""
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


def check_learning(configured: Sequence[ConfiguredEvaluator]) -> None:
    """Raise `ConfigError` unless each evaluator that rescores has the evaluator it rescores and a suitable teacher."""
    names = [one.evaluator.name for one in configured]
    for index, one in enumerate(configured):
        evaluator, place = one.evaluator, f"evaluators[{index}]"
        if not evaluator.rescores:
            continue
        if evaluator.rescores not in names:
            hint = f"add `- type: {evaluator.rescores}`"
            raise ConfigError(
                f"{place}: {evaluator.name} starts from {evaluator.rescores!r}, which is not configured; {hint}"
            )
        named = getattr(evaluator, "learns_from", None)
        teachers = [other.evaluator.name for other in configured if can_teach(one, other)]
        if named is not None and named not in teachers:
            known = ", ".join(teachers) or "none"
            raise ConfigError(
                f"{place}.learns_from: {named!r} is not a configured evaluator that asks a judge about"
                f" {evaluator.measures}{nearest(named, teachers)}; these are: {known}"
            )


def check_severe(
    name: str,
    severe: SevereSettings,
    one: ConfiguredEvaluator | None,
    judges: Mapping[str, JudgeSettings],
    place: str,
) -> None:
    """Raise `ConfigError` unless the evaluator has the level, and its answers can be judged a second time."""
    if one is None or one.evaluator.cost != "judge":
        raise ConfigError(f"{place}: {name} asks no judge of this monitor, so it cannot judge an answer again")
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
    if given is not None and evaluator.default_defect.kind == "never":
        raise ConfigError(f"{place}: {evaluator.name} only ranks answers, and no score of it is a defect; remove it")
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


def with_rules(alerts: object, evaluators: Sequence[ConfiguredEvaluator], feedback: FeedbackSettings) -> object:
    """Return the entries of `alerts`, with each `defect` turned into a rule on the scale of its evaluator.

    A rule that equals the evaluator's own is left out: it needs no separate sums.
    """
    own = {one.evaluator.name: (one.evaluator.scale, one.defect) for one in evaluators}
    external = {label_name(name, own): ruling(name, feedback).scale for name in (USER_FEEDBACK, *feedback.evaluators)}
    if not isinstance(alerts, (list, tuple)):
        return alerts
    found = []
    for index, entry in enumerate(alerts):
        name = entry.get("evaluator") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or entry.get("defect") is None or name not in {**own, **external}:
            found.append(entry)  # an unknown name gets its own message
            continue
        scale, usual = own.get(name) or (external[name], None)
        rule = _defect(entry["defect"], name, scale, f"alerts[{index}].defect").on(scale)
        found.append({**entry, "defect": None if rule == usual else rule})
    return found
