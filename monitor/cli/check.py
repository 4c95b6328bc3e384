"""`rag-monitor check`: validates a configuration and says in words what it will do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from monitor.cli.run import ConfigPath
from monitor.quantities import format_duration
from monitor.stages import type_name

if TYPE_CHECKING:
    from monitor.config import Config


def check(config: ConfigPath = None) -> None:
    """Validate a configuration and say what it will do. Exit status 2 when it is wrong."""
    from monitor import config as configuration  # noqa: PLC0415

    loaded = configuration.load(config)
    typer.echo(f"{config or 'the defaults'}: valid")
    for line in describe(loaded):
        typer.echo(line)


def describe(config: Config) -> Iterator[str]:
    """The configuration in sentences, in the order of the data's way."""
    for source in config.sources:
        host, port = getattr(source, "host", None), getattr(source, "port", None)
        yield f"Receives traces by {type_name(source)}" + (f" on {host}:{port}." if host else ".")
    yield (
        f"Keeps {config.sampling.traces:.4g} of all traces, by a hash of the trace id."
        if config.sampling.traces < 1
        else "Keeps every trace."
    )
    yield (
        f"A trace is complete when its root has ended and nothing came for {format_duration(config.assembly.quiet)}; "
        f"without a root after {format_duration(config.assembly.idle)}."
    )
    yield from _reading(config)
    yield from _traffic(config)
    yield from _evaluators(config)
    yield from _alerts(config)
    for sink in config.sinks:
        host, port = getattr(sink, "host", None), getattr(sink, "port", None)
        yield f"Results go to {type_name(sink)}" + (f" on http://{host}:{port}/metrics." if host else ".")
    yield (
        f"State is kept in {config.storage.path} for {format_duration(config.storage.keep)}, "
        f"at most {config.storage.at_most / 1024**2:,.0f} MiB of waiting traces."
    )


def _reading(config: Config) -> Iterator[str]:
    reading = config.reading
    mapped = [name for name, keys in reading.attributes if keys]
    if mapped:
        yield f"Reads attributes of the service's own: {', '.join(mapped)}."
    if reading.prompt_templates:
        number = len(reading.prompt_templates)
        yield f"Takes prompts apart by {number} template{'s' if number > 1 else ''} of the service's own."
    if reading.foreign_parents:
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
