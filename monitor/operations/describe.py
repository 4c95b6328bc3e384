"""Describes in plain sentences what a configuration will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from monitor import config as configuration
from monitor import registry
from monitor.alerts.policy import AlertPolicy, SevereSettings
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.jobs.canary import load
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.quantities import format_duration, precise_percent
from monitor.stages import type_name


@dataclass(frozen=True, slots=True)
class EvaluatorDescription:
    """An evaluator as configured. `works` is false if its judge has no model; `sample` is None if it is adaptive.

    `judge` is the judge's model, or None for a local evaluator; `defect` is the defect rule in words.
    """

    name: str
    works: bool
    judge: str | None
    sample: float | None
    defect: str


def evaluators(config: Config) -> list[EvaluatorDescription]:
    """Return a summary of each evaluator that runs, in the order of the configuration."""
    config = config.as_run()
    return [
        EvaluatorDescription(
            name=one.evaluator.name,
            works=config.works(one),
            judge=config.judge_of(one).model if one.evaluator.cost == "judge" else None,
            sample=getattr(one.sampler, "rate", None),
            defect=one.defect.words,
        )
        for one in config.configured_evaluators
    ]


def evaluator_names(path: Path | None) -> list[str]:
    """Return the names of the evaluators in a configuration, then all other evaluator types.

    If the configuration cannot be read, only the types are returned.
    """
    configured: list[str] = []
    if path is not None:
        with suppress(ConfigError):
            configured = [one.name for one in evaluators(configuration.load(path))]
    return list(dict.fromkeys([*configured, *registry.types("evaluators")]))


def describe(config: Config) -> Iterator[str]:
    """Yield the sentences in the order in which data passes through the monitor."""
    config = config.as_run()
    yield from _sources(config)
    yield from _extraction(config)
    yield from _traffic(config)
    for one in config.configured_evaluators:
        yield _evaluator(config, one)
    yield from _canary(config)
    yield from _alerts(config)
    yield from _sinks(config)
    yield (
        f"Keeps its state in {config.storage.path} for {format_duration(config.storage.retention)}, "
        f"with at most {config.storage.max_size / 1024**2:,.0f} MiB of waiting traces."
    )
    yield from _privacy(config)
    own = config.telemetry
    if own.endpoint is not None:
        logs = " and its log" if own.logs else ""
        yield f"Sends {precise_percent(own.traces)} of its own traces{logs} to {own.endpoint}; none is evaluated."


def _sources(config: Config) -> Iterator[str]:
    for source in config.sources:
        host, port = getattr(source, "host", None), getattr(source, "port", None)
        topics, brokers = getattr(source, "topics", None), getattr(source, "brokers", ())
        where = f" on {host}:{port}" if host else f" from {', '.join(topics)} at {', '.join(brokers)}" if topics else ""
        yield f"Receives traces by {type_name(source)}{where}."
    rate = config.sampling.traces
    yield (
        f"Keeps {precise_percent(rate)} of all traces, by a hash of the trace id." if rate < 1 else "Keeps every trace."
    )
    yield (
        "A trace is complete when its root span has ended and no span has arrived for "
        f"{format_duration(config.assembly.grace_period)}; "
        f"without a root span, when none has arrived for {format_duration(config.assembly.idle_timeout)}."
    )


def _extraction(config: Config) -> Iterator[str]:
    extraction = config.extraction
    mapped = [name for name, keys in extraction.attributes if keys]
    if mapped:
        yield f"Reads the service's own attributes: {', '.join(mapped)}."
    if extraction.prompt_templates:
        number = len(extraction.prompt_templates)
        yield f"Splits prompts by {number} template{'s' if number > 1 else ''} of the service."
    if extraction.orphans_are_roots:
        yield "Treats orphan spans as root spans."


def _traffic(config: Config) -> Iterator[str]:
    traffic = config.traffic
    dropped = [f"{one.attribute} is {one.matches}" for one in traffic.drop]
    if not traffic.health_checks:
        dropped.insert(0, "health checks")
    if dropped:
        yield f"Ignores requests: {', '.join(dropped)}."
    shares = "".join(f"; evaluates {rate:.4g} of {name.value}" for name, rate in sorted(traffic.rates.items()))
    yield f"Counts non-production traffic separately, by the attribute {traffic.class_attribute[0]}{shares}."
    late = format_duration(traffic.late_after)
    yield f"A result later than {late} after its answer counts as late and fires no alert."
    for app, quota in traffic.quotas.items():
        who = "Each app without its own quota" if app == "*" else f"The app {app}"
        bounds = {"an hour": quota.per_hour, "a day": quota.per_day}
        limits = " and ".join(f"{number:g} times {per}" for per, number in bounds.items() if number)
        yield f"{who} is evaluated by a judge at most {limits}."
    if config.slices:
        yield f"Slices rates by {', '.join(config.slices)}."


def _evaluator(config: Config, one: ConfiguredEvaluator) -> str:
    evaluator, rate, scale = one.evaluator, getattr(one.sampler, "rate", None), one.evaluator.scale
    why = config.why_off(one)
    if why:
        return f"{evaluator.name} is off: {why}."
    share = "a sample of the" if rate is None else f"{rate:.3g} of the" if rate < 1 else "all"
    how = "locally" if evaluator.cost == "local" else f"by {config.judge_of(one).model}"
    how += f", in one call with the group {one.group}" if one.group else ""
    defect = (
        f"{one.defect.words} is a defect" if one.defect.kind != "never" else "it only ranks them and has no defect rate"
    )
    return (
        f"{evaluator.name} scores {share} kept cases {how}, from {scale.lowest:g} to {scale.highest:g} "
        f"({scale.better} is better); {defect}."
    )


def _canary(config: Config) -> Iterator[str]:
    judged = [
        one.evaluator.name
        for one in config.configured_evaluators
        if one.evaluator.cost == "judge" and config.works(one)
    ]
    canary = config.canary
    if canary.interval is None or not judged:
        return
    cases = len(load(canary.cases))
    a_day = 86400 / canary.interval * cases * len(judged)
    yield (
        f"Evaluates {cases} canary cases every {format_duration(canary.interval)}, by {', '.join(judged)}: "
        f"up to {a_day:.0f} evaluations a day."
    )


def _alerts(config: Config) -> Iterator[str]:
    active = {one.evaluator.name for one in config.configured_evaluators if config.works(one)}
    defects = {one.evaluator.name: one.defect.words for one in config.configured_evaluators}
    for policy in config.alerts:
        levels = [
            f"{severity} above {precise_percent(threshold)}"
            for severity, threshold in (("warning", policy.warning), ("critical", policy.critical))
            if threshold is not None
        ]
        windows = ", ".join(format_duration(window.window) for window in policy.windows)
        words = policy.defect.words if policy.defect is not None else defects.get(policy.evaluator, "")
        rate = f"the defect rate of {policy.evaluator}" + (f" in {policy.app}" if policy.app is not None else "")
        rate += f", a defect being {words}" if words else ""
        state = "" if policy.evaluator in active else " (silent while the evaluator is off)"
        if levels:
            yield (f"Alerts on {rate}: {', '.join(levels)}, by the lower limit of its interval over {windows}{state}.")
        if policy.regression is not None:
            yield (
                f"Alerts on {rate}: {policy.regression_severity} when it has clearly "
                f"risen above the week before ({policy.regression}), after three days of data{state}."
            )
        if policy.severe is not None:
            yield _severe(config, policy, policy.severe) + f"{state}."
    yield f"Sends alerts to: {', '.join(type(one).__name__.lower() for one in config.notify)}."
    if config.digest.every is not None:
        when = f"{config.digest.every} ({config.digest.timezone})"
        yield f"Sends a digest, {when}, to: {', '.join(config.digest.to)}."


def _severe(config: Config, policy: AlertPolicy, severe: SevereSettings) -> str:
    one = next(one for one in config.configured_evaluators if one.evaluator.name == policy.evaluator)
    by = "by the same judge in other words" if severe.judge in (None, one.judge) else f"by the judge {severe.judge}"
    page = (
        "every session with such an answer pages"
        if severe.page == "each"
        else f"{severe.max_false_pages:g} false pages in 30 days are accepted"
    )
    share = getattr(one.sampler, "rate", None)
    seen = "" if share in (None, 1) else f"; only {precise_percent(share)} of the cases are judged and can page"
    words = config.severe_rules[policy.evaluator].words
    return (
        f"Pages when an answer is severe according to {policy.evaluator}, {words}, and a second judgement {by} agrees:"
        f" {page}{seen}"
    )


def _sinks(config: Config) -> Iterator[str]:
    for sink in config.sinks:
        host, port = getattr(sink, "host", None), getattr(sink, "port", None)
        yield f"Writes results to {type_name(sink)}" + (f" on http://{host}:{port}/metrics." if host else ".")
        if host and type_name(sink) == "prometheus" and config.ui.enabled:
            texts = "questions, contexts and answers" if config.storage.texts == "all" else "no texts of the traffic"
            yield f"The UI on http://{host}:{port}/ shows rates, alerts and results, and {texts}."
            if config.review.enabled:
                when = "after their own" if config.review.blind else "at once"
                yield f"Reviewers label answers on http://{host}:{port}/review; they see the judge's verdict {when}."


def _privacy(config: Config) -> Iterator[str]:
    storage = config.storage
    stored = {
        "all": "Stores questions, contexts and answers with their results",
        "explanations": "Stores results with their explanations, which may quote an answer",
        "none": "Stores results without any text",
    }[storage.texts]
    yield stored + (f"; texts for {format_duration(storage.texts_retention)}." if storage.texts_retention else ".")
    if config.redaction.enabled:
        types = ", ".join(config.redaction.types)
        yield f"Masks personal data before judges, sinks and the UI see it: {types}."
