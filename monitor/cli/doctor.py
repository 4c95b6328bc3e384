"""`rag-monitor doctor`: check everything that the monitor needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.output import clean, echo_json, echo_lines
from monitor.errors import ConfigError
from monitor.operations.doctor import Finding, examine, failed, ok
from monitor.operations.event_loop import run_async
from monitor.quantities import number_of
from monitor.telemetry import logs


def doctor(
    config: ConfigPath = None,
    *,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Do not call judges, at no cost.")] = False,
    as_json: Json = False,
) -> None:
    """Check everything that the monitor needs: disk, ports, certificates, brokers, receivers, clock and judges.

    Each judge gets about ten short calls, which cost money. A running monitor is not disturbed. Exit status 1 when a
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
    failures, warnings = (sum(one.level == level for one in findings) for level in ("failed", "warning"))
    if as_json:
        echo_json({"findings": [asdict(one) for one in findings], "failed": failures, "warnings": warnings})
    else:
        echo_lines([*_lines(findings), "", f"{failures} failed, {number_of(warnings, 'warning')}"])
    if failures:
        raise typer.Exit(1)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    widest = max((len(one.place) for one in findings), default=0)
    for one in findings:
        fix = f": {one.fix}" if one.fix else ""
        yield f"{one.level:7}  {one.place:{widest}}  {clean(one.message)}{clean(fix)}"
