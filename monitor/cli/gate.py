"""`rag-monitor gate`: decide whether a release may go on."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final
from xml.etree import ElementTree as ET

import typer

from monitor import config as configuration
from monitor.alerts.prometheus import release_gate
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.output import echo_json, echo_lines, writing
from monitor.clock import SystemClock
from monitor.errors import ConfigError
from monitor.operations import gate as operation
from monitor.operations.gate import Check, Criteria, Limit, Previous, Report, Side, SumsSource
from monitor.operations.gate.sums import HistorySums, PrometheusSums
from monitor.quantities import parse_duration, percent
from monitor.statistics.gating import MOST_MORE, GateDecision
from monitor.storage import files

TOKEN: Final = "RAG_MONITOR_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable
EXIT_STATUS: Final = {GateDecision.PASS: 0, GateDecision.FAIL: 1, GateDecision.NOT_ENOUGH_DATA: 3}
_WORDS: Final = {GateDecision.PASS: "pass", GateDecision.FAIL: "FAIL", GateDecision.NOT_ENOUGH_DATA: "not enough data"}


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
        float, typer.Option("--times", min=1.0, help="With --against: how many times as high the rate may be.")
    ] = 2.0,
    baseline: Annotated[
        str,
        typer.Option("--baseline", metavar="DURATION", help="With --against previous: time before the release to use."),
    ] = "24h",
    app: Annotated[str | None, typer.Option("--app", help="The service. Default: every service with answers.")] = None,
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
    """Decide whether a release may go on: pass, fail, or not enough data.

    The limits of each rate's 95 % interval decide. Exit status 0: every rate is below its limit, and with --against
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
        source = HistorySums(configuration.load(config).storage.path / files.HISTORY)
    report = operation.decide(criteria, source, SystemClock().now())
    if junit is not None:
        write_junit(report, junit)
    if as_json:
        echo_json(_object(report))
    else:
        echo_lines(lines(report))
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


def lines(report: Report) -> Iterator[str]:
    """Yield one line for each check, then the notes, then the answer."""
    for one in report.checks:
        yield f"{_WORDS[one.decision.answer]}: {_title(one)}: {_result(one)}"
    for note in report.notes:
        yield f"note: {note}"
    yield f"gate: {_WORDS[report.answer]}"


def _object(report: Report) -> dict[str, Any]:
    """Rates are shares, null where nothing is known or the limit is infinite."""
    return {
        "answer": report.answer.value,
        "exit_status": EXIT_STATUS[report.answer],
        "checks": [_check_object(one) for one in report.checks],
        "notes": list(report.notes),
    }


def write_junit(report: Report, path: Path) -> None:
    """Write one test case for each check: a failure where it fails, an error where there is not enough data."""
    answers = [one.decision.answer for one in report.checks]
    counts = {"failures": answers.count(GateDecision.FAIL), "errors": answers.count(GateDecision.NOT_ENOUGH_DATA)}
    attributes = {"name": "rag-monitor gate", "tests": str(len(answers)), **{k: str(v) for k, v in counts.items()}}
    suite = ET.Element("testsuite", attributes)
    for one in report.checks:
        case = ET.SubElement(suite, "testcase", {"classname": f"rag-monitor.gate.{one.kind}", "name": _title(one)})
        if one.decision.answer is not GateDecision.PASS:
            tag = "failure" if one.decision.answer is GateDecision.FAIL else "error"
            ET.SubElement(case, tag, {"type": one.decision.answer.value, "message": _result(one)})
        ET.SubElement(case, "system-out").text = _result(one)
    with writing("--junit", path):
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _title(one: Check) -> str:
    version = f" {one.version}" if one.version else ""
    limit = f"below {percent(one.limit)}" if one.kind == "rate" else f"less than {one.limit:g} times as high"
    return _printable(f"{one.app or 'all apps'}, {one.evaluator}{version}: {limit}")


def _result(one: Check) -> str:
    decision = one.decision
    scored = f"{one.now.judged} scored, {one.now.defects} defective"
    if one.base is not None:
        scored += f"; {one.against}: {one.base.judged} scored, {one.base.defects} defective"
    if decision.value is None or decision.lower is None or decision.upper is None:
        return _printable(f"{scored}; {_needed(one)}")
    value, lower, upper = (_shown(one, value) for value in (decision.value, decision.lower, decision.upper))
    name = "rate" if one.kind == "rate" else "ratio"
    more = f"; {_needed(one)}" if decision.answer is GateDecision.NOT_ENOUGH_DATA else ""
    return _printable(f"{name} {value} ({lower} to {upper}); {scored}{more}")


def _needed(one: Check) -> str:
    if one.decision.more is not None:
        condition = "if all are good" if not one.now.judged else "if they are like these"
        return f"{one.decision.more} more scored answers would decide, {condition}"
    if one.base is not None and not one.base.judged:
        return "nothing to compare with"
    if one.base is not None and not one.base.defects:
        return "the other side has no defect, so the ratio has no upper limit"
    return f"even {MOST_MORE:,} more like these would not decide"


def _shown(one: Check, value: float) -> str:
    if one.kind == "rate":
        return percent(value)
    return "unlimited" if math.isinf(value) else f"{value:.2f}"


def _check_object(one: Check) -> dict[str, Any]:
    decision, base = one.decision, one.base
    limits = {"value": decision.value, "lower": decision.lower, "upper": decision.upper}
    return {
        "kind": one.kind,
        "app": one.app,
        "evaluator": one.evaluator,
        "version": one.version,
        "answer": decision.answer.value,
        "limit": one.limit,
        **{name: None if value is None or math.isinf(value) else value for name, value in limits.items()},
        "more": decision.more,
        "evaluated": one.now.judged,
        "defects": one.now.defects,
        "base": None if base is None else {"evaluated": base.judged, "defects": base.defects, "of": one.against},
    }


def _printable(text: str) -> str:
    """`text` without control characters, which neither XML nor a terminal takes well: names come from outside."""
    return "".join(one if one.isprintable() else "?" for one in text)
