"""`rag-monitor gate`: decide whether a release may proceed."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor import config as configuration
from monitor.alerts.prometheus import release_gate
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.gate_report import EXIT_STATUS, as_object, write_junit
from monitor.cli.console.output import echo_json, echo_lines
from monitor.cli.console.output import report as report_problem
from monitor.clock import SystemClock
from monitor.errors import ConfigError
from monitor.operations import gate as operation
from monitor.operations.gate import Criteria, Limit, Previous, Side, SumsSource
from monitor.operations.gate.sums import HistorySums, PrometheusSums
from monitor.quantities import parse_duration
from monitor.storage import files

TOKEN: Final = "RAG_MONITOR_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable


class Against(StrEnum):
    """What a release is compared with."""

    PREVIOUS = "previous"
    STABLE = "stable"


class GateTemplate(StrEnum):
    """The rollout controller that a template is for."""

    ARGO_ROLLOUTS = "argo-rollouts"
    FLAGGER = "flagger"


def gate(
    *,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            autocompletion=_options.complete_evaluators,
            metavar="EVALUATOR[:RATE]",
            help="The highest defect rate allowed, such as groundedness:5%. May be repeated.",
        ),
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Look-back window.")] = "30m",
    against: Annotated[
        Against | None,
        typer.Option("--against", help="Also compare with the previous version, or with --stable at the same time."),
    ] = None,
    times: Annotated[
        float, typer.Option("--times", min=1.0, help="With --against: how many times as high the rate may become.")
    ] = 2.0,
    baseline: Annotated[
        str,
        typer.Option("--baseline", metavar="DURATION", help="With --against previous: how long before the release."),
    ] = "24h",
    app: Annotated[
        str | None,
        typer.Option("--app", callback=_options.app, help="The service. Default: every service with answers."),
    ] = None,
    canary: Annotated[
        str | None,
        typer.Option("--canary", metavar="KEY=VALUE", help="With --against stable: service.version=2.0, or app=A."),
    ] = None,
    stable: Annotated[
        str | None,
        typer.Option("--stable", metavar="KEY=VALUE", help="With --against stable: service.version=1.9, or app=B."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="Query Prometheus. Default: the history in `storage`."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help=f"With --prometheus: a file with the bearer token. Default: ${TOKEN}."
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="With --prometheus: CA certificates that verify it, PEM."),
    ] = None,
    config: ConfigPath = None,
    as_json: Json = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="Also write a JUnit report.")
    ] = None,
    template: Annotated[
        GateTemplate | None, typer.Option("--template", help="Print a template for a rollout controller and exit.")
    ] = None,
) -> None:
    """Decide whether a release may proceed: pass, fail, or not enough data.

    The bounds of each rate's 95 % interval decide. Exit status 0: every rate is below its limit, and with --against
    less than --times as high. 1: a rate is above its limit. 2: wrong option, or data not available. 3: not enough data
    yet; the output says how much more is needed.
    """
    if template is not None:
        written = {GateTemplate.ARGO_ROLLOUTS: release_gate.argo_rollouts, GateTemplate.FLAGGER: release_gate.flagger}
        typer.echo(written[template](), nl=False)
        return
    if not fail_on:
        raise typer.BadParameter(
            "name an evaluator and its highest defect rate, such as groundedness:5%", param_hint="--fail-on"
        )
    side, other = _sides(against, app, canary, stable, baseline)
    criteria = Criteria(
        limits=[_limit(one, needs_rate=against is None) for one in fail_on],
        since=_options.read("--since", parse_duration, since),
        side=side,
        against=other,
        times=times,
    )
    if prometheus is not None:
        source: SumsSource = _options.read(
            "--prometheus", partial(PrometheusSums, token=token_of(token_file), ca_file=ca_file), prometheus
        )
    elif token_file is not None or ca_file is not None:
        raise ConfigError("--token-file and --ca-file need --prometheus")
    else:
        settings = configuration.load(config)
        history = HistorySums(settings.storage.path / files.HISTORY)
        known = {one.evaluator.name for one in settings.configured_evaluators} | history.evaluators()
        for name in (one.evaluator for one in criteria.limits if one.evaluator not in known):
            report_problem(f"no evaluator named {name} is configured, and the history has no scores of one")
        source = history
    report = operation.decide(criteria, source, SystemClock().now())
    if junit is not None:
        write_junit(report, junit)
    if as_json:
        echo_json(as_object(report))
    else:
        echo_lines(report.lines)
    raise typer.Exit(EXIT_STATUS[report.answer])


def _limit(text: str, *, needs_rate: bool) -> Limit:
    limit = _options.read("--fail-on", Limit.of, text)
    if needs_rate and limit.rate is None:
        raise typer.BadParameter(f"{text!r} needs a rate, such as {text}:5%", param_hint="--fail-on")
    return limit


def _sides(
    against: Against | None, app: str | None, canary: str | None, stable: str | None, baseline: str
) -> tuple[Side, Side | Previous | None]:
    """Return the answers of the release, and what they are compared with."""
    if (canary is None) != (stable is None) or (against is Against.STABLE) != (stable is not None):
        raise ConfigError("--canary and --stable belong to --against stable: give all three or none")
    if canary is not None and stable is not None:
        side, other = (_side(option, text, app) for option, text in (("--canary", canary), ("--stable", stable)))
        if side == other or side.slice != other.slice:
            raise typer.BadParameter(
                f"{stable!r} must be another value of the same key as --canary {canary}", param_hint="--stable"
            )
        return side, other
    if against is Against.PREVIOUS:
        return Side(app), Previous(_options.read("--baseline", parse_duration, baseline))
    return Side(app), None


def _side(option: str, text: str, app: str | None) -> Side:
    side = _options.read(option, Side.of, text)
    if app is None:
        return side
    if side.app is not None:
        raise typer.BadParameter(f"{text} names the app already: leave out --app", param_hint=option)
    return replace(side, app=app)


def token_of(file: Path | None) -> str:
    """Return the token in `file`, or in the variable `RAG_MONITOR_PROMETHEUS_TOKEN`, or "". Raises `ConfigError`."""
    if file is None:
        return os.environ.get(TOKEN, "").strip()
    try:
        found = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file: cannot read {file}: {error}") from None
    if not found:
        raise ConfigError(f"--token-file: {file} is empty")
    return found
