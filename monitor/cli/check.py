"""`rag-monitor check`: validates a configuration and says in words what it will do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.run import ConfigPath
from monitor.errors import ConfigError
from monitor.quantities import format_duration
from monitor.stages import type_name

if TYPE_CHECKING:
    from monitor.config import Config
    from monitor.pipeline.assignment import Assignment


def check(
    config: ConfigPath = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: one JSON object, also when it is wrong.")
    ] = False,
) -> None:
    """Validate a configuration and say what it will do. Exit status 2 when it is wrong."""
    from monitor import config as configuration  # noqa: PLC0415

    name = str(config or "the defaults")
    try:
        loaded = configuration.load(config)
        told = list(describe(loaded))
    except ConfigError as error:
        if not as_json:
            raise
        typer.echo(json.dumps({"config": name, "valid": False, "error": str(error)}, indent=2))
        raise typer.Exit(2) from None
    if as_json:
        evaluators = [_object(loaded, one) for one in loaded.assignments]
        typer.echo(json.dumps({"config": name, "valid": True, "does": told, "evaluators": evaluators}, indent=2))
        return
    typer.echo(f"{name}: valid")
    for line in told:
        typer.echo(line)


def _object(config: Config, one: Assignment) -> dict[str, object]:
    """An evaluator for machines. `sample` is null where the share is not fixed."""
    judged = one.evaluator.cost == "judge"
    return {
        "name": one.evaluator.name,
        "works": config.works(one),
        "judge": config.judge_of(one).model if judged else None,
        "sample": getattr(one.sampler, "rate", None),
        "defect": str(one.defect),
    }


def describe(config: Config) -> Iterator[str]:
    """The configuration in sentences, in the order of the data's way."""
    for source in config.sources:
        host, port = getattr(source, "host", None), getattr(source, "port", None)
        topics, brokers = getattr(source, "topics", None), getattr(source, "brokers", ())
        where = f" on {host}:{port}" if host else f" from {', '.join(topics)} at {', '.join(brokers)}" if topics else ""
        yield f"Receives traces by {type_name(source)}{where}."
    yield (
        f"Keeps {config.sampling.traces:.4g} of all traces, by a hash of the trace id."
        if config.sampling.traces < 1
        else "Keeps every trace."
    )
    yield (
        "A trace is complete when its root has ended and nothing came for "
        f"{format_duration(config.assembly.grace_period)}; "
        f"without a root after {format_duration(config.assembly.idle_timeout)}."
    )
    yield from _reading(config)
    yield from _traffic(config)
    yield from _evaluators(config)
    yield from _canary(config)
    yield from _alerts(config)
    for sink in config.sinks:
        host, port = getattr(sink, "host", None), getattr(sink, "port", None)
        yield f"Results go to {type_name(sink)}" + (f" on http://{host}:{port}/metrics." if host else ".")
        if host and type_name(sink) == "prometheus" and config.ui.enabled:
            kept = config.storage.texts == "all"
            texts = "questions, contexts and answers" if kept else "no texts of the traffic"
            yield f"The page on http://{host}:{port}/ shows rates, alerts and verdicts, and {texts}."
    yield (
        f"State is kept in {config.storage.path} for {format_duration(config.storage.retention)}, "
        f"at most {config.storage.max_size / 1024**2:,.0f} MiB of waiting traces."
    )
    yield from _privacy(config)
    own = config.telemetry
    if own.endpoint is not None:
        logs = " and its log" if own.logs else ""
        yield f"Sends {own.traces * 100:.3g} % of its own traces{logs} to {own.endpoint}, which are judged nowhere."


def _privacy(config: Config) -> Iterator[str]:
    storage = config.storage
    kept = {
        "all": "Questions, contexts and answers are kept with their verdicts",
        "verdicts": "Verdicts are kept with their reasons, which may quote an answer",
        "none": "Verdicts and numbers are kept, and no text",
    }[storage.texts]
    yield kept + (f", texts for {format_duration(storage.texts_retention)}." if storage.texts_retention else ".")
    if config.redaction.enabled:
        types = ", ".join(config.redaction.types)
        yield f"Personal data is masked before judges, sinks and the page see it: {types}."


def _reading(config: Config) -> Iterator[str]:
    extraction = config.extraction
    mapped = [name for name, keys in extraction.attributes if keys]
    if mapped:
        yield f"Reads attributes of the service's own: {', '.join(mapped)}."
    if extraction.prompt_templates:
        number = len(extraction.prompt_templates)
        yield f"Takes prompts apart by {number} template{'s' if number > 1 else ''} of the service's own."
    if extraction.orphans_are_roots:
        yield "Takes a span whose parent never came for the top of its request."


def _traffic(config: Config) -> Iterator[str]:
    traffic = config.traffic
    dropped = [f"{one.attribute} is {one.matches}" for one in traffic.drop]
    if not traffic.health_checks:
        dropped.insert(0, "health checks")
    if dropped:
        yield f"Leaves out requests: {', '.join(dropped)}."
    shares = "".join(f"; {name.value}: {rate:.4g} of it" for name, rate in sorted(traffic.rates.items()))
    yield f"Counts traffic that is not production apart, as {traffic.class_attribute[0]} says{shares}."
    yield f"A verdict counts as late {format_duration(traffic.late_after)} after its answer, and raises no alert."
    for app, quota in traffic.quotas.items():
        who = "An app without a quota of its own" if app == "*" else f"The app {app}"
        bounds = {"an hour": quota.per_hour, "a day": quota.per_day}
        yield f"{who} is judged at most {' and '.join(f'{n:g} times {per}' for per, n in bounds.items() if n)}."
    if config.slices:
        yield f"Slices rates by {', '.join(config.slices)}."


def _evaluators(config: Config) -> Iterator[str]:
    for one in config.assignments:
        evaluator, rate = one.evaluator, getattr(one.sampler, "rate", None)
        share = "a sample of" if rate is None else f"{rate:.3g} of" if rate < 1 else "all"
        if not config.works(one):
            yield f"{evaluator.name} is off: it needs `judge.model`, and none is configured."
            continue
        who = "locally" if evaluator.cost == "local" else f"by {config.judge_of(one).model}"
        who += f", in one call with the group {one.group}" if one.group else ""
        scale = evaluator.scale
        yield (
            f"{evaluator.name} scores {share} kept cases {who}, from {scale.lowest:g} to {scale.highest:g} "
            f"({scale.better} is better); {one.defect} is a defect."
        )


def _canary(config: Config) -> Iterator[str]:
    from monitor.canary.cases import load  # noqa: PLC0415

    judged = [one.evaluator.name for one in config.assignments if one.evaluator.cost == "judge" and config.works(one)]
    canary = config.canary
    if canary.interval is None or not judged:
        return
    cases = len(load(canary.cases))
    a_day = 86400 / canary.interval * cases * len(judged)
    yield (
        f"Judges {cases} canary cases every {format_duration(canary.interval)}, by {', '.join(judged)}: "
        f"up to {a_day:.0f} evaluations a day."
    )


def _alerts(config: Config) -> Iterator[str]:
    active = {one.evaluator.name for one in config.assignments if config.works(one)}
    for policy in config.alerts:
        levels = [
            f"{severity} when it is surely above {threshold * 100:.3g} %"
            for severity, threshold in (("warning", policy.warning), ("critical", policy.critical))
            if threshold is not None
        ]
        windows = ", ".join(format_duration(window.window) for window in policy.windows)
        state = "" if policy.evaluator in active else " (silent while the evaluator is off)"
        if levels:
            yield (
                f"Alerts on the defect rate of {policy.evaluator}: {', '.join(levels)}, "
                f"by the lower limit of its interval over {windows}{state}."
            )
        if policy.regression is not None:
            yield (
                f"Alerts on the defect rate of {policy.evaluator}: {policy.regression_severity} when it has clearly "
                f"risen against the week before ({policy.regression}), once three days are known{state}."
            )
    receivers = ", ".join(type(one).__name__.lower() for one in config.notify)
    yield f"Alerts are told to: {receivers}."
