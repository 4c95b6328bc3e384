"""`rag-monitor doctor`: check everything that the monitor needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import orjson
import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.output import echo_lines
from monitor.cli.console.text import clean
from monitor.errors import ConfigError
from monitor.operations.doctor import Finding, Level, examine, failed, ok
from monitor.operations.event_loop import run_async
from monitor.telemetry import logs


def doctor(
    config: ConfigPath = None,
    *,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Do not call judges: costs nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Check everything that the monitor needs: disk, ports, certificates, brokers, receivers, clock and judges.

    Each judge gets about ten short calls, at their price. A running monitor is not disturbed. Exit status 1 when a
    check failed.
    """
    logs.configure("CRITICAL", "text", sys.stderr)
    findings: list[Finding] = []
    try:
        loaded = configuration.load(config)
    except ConfigError as error:
        findings.append(failed("configuration", str(error), "`rag-monitor reference config` lists all options"))
    else:
        findings.append(ok("configuration", f"{config or 'the defaults'}: valid"))

        async def collect() -> None:
            findings.extend([one async for one in examine(loaded, call_judges=not no_judge)])

        run_async(collect)
    if as_json:
        typer.echo(to_json(findings))
    else:
        echo_lines(lines(findings))
    if _count(findings, "failed"):
        raise typer.Exit(1)


def to_json(findings: Sequence[Finding]) -> str:
    """Return one JSON object."""
    whole = {
        "findings": [asdict(one) for one in findings],
        "failed": _count(findings, "failed"),
        "warnings": _count(findings, "warning"),
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding, and a summary."""
    widest = max((len(one.place) for one in findings), default=0)
    for one in findings:
        fix = f": {one.fix}" if one.fix else ""
        yield f"{one.level:7}  {one.place:{widest}}  {clean(one.message)}{clean(fix)}"
    yield ""
    yield f"{_count(findings, 'failed')} failed, {_count(findings, 'warning')} warnings"


def _count(findings: Sequence[Finding], level: Level) -> int:
    return sum(one.level == level for one in findings)
