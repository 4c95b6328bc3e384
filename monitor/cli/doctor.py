"""`rag-monitor doctor`: what stands in the way of a monitor with this configuration, and how to mend it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli._options import ConfigPath

if TYPE_CHECKING:
    from monitor.cli.findings import Finding
    from monitor.config import Config


def doctor(
    config: ConfigPath = None,
    *,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Ask no judge: spends nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of lines.")] = False,
) -> None:
    """Look at everything that the monitor needs: disk, ports, certificates, brokers, receivers, clock and judges.

    Each judge gets some ten short calls, which cost what they cost. A running monitor is left alone. Exit status 1 when
    something failed.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import findings  # noqa: PLC0415
    from monitor.errors import ConfigError  # noqa: PLC0415
    from monitor.telemetry import logs  # noqa: PLC0415

    logs.configure("CRITICAL", "text", sys.stderr)
    try:
        loaded = configuration.load(config)
    except ConfigError as error:
        found = [findings.failed("configuration", str(error), "`rag-monitor reference config` has all options")]
    else:
        found = [findings.ok("configuration", f"{config or 'the defaults'}: valid"), *_all(loaded, asking=not no_judge)]
    if as_json:
        typer.echo(findings.as_json(found))
    else:
        for line in findings.lines(found):
            typer.echo(line)
    if findings.count(found, "failed"):
        raise typer.Exit(1)


def _all(config: Config, *, asking: bool) -> list[Finding]:
    from monitor.cli import examined, examined_judge, examined_kafka  # noqa: PLC0415
    from monitor.clock import SystemClock  # noqa: PLC0415
    from monitor.operations.event_loop import run_async  # noqa: PLC0415

    found = [*examined.local(config, SystemClock()), *examined_kafka.brokers(config)]

    async def ask() -> None:
        found.extend([one async for one in examined_judge.judges(config)])

    if asking:
        run_async(ask)
    else:
        found += examined_judge.keys(config)
    return found
