"""`rag-monitor coverage`: how complete the telemetry of services is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli._options import CaFile, ConfigPath, Json, MetricsUrl, Token, TokenFile, client_of
from monitor.cli.console.output import align, echo_json, echo_lines, exit_status_1, report
from monitor.extraction.coverage import FIELDS
from monitor.operations.instrumentation import AppCoverage, of_files, of_monitor
from monitor.operations.monitor_client import DEFAULT_URL


def coverage(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH...]", help="Captures or rows, as for `cases`. Default: ask a running monitor."),
    ] = None,
    url: MetricsUrl = DEFAULT_URL,
    *,
    token: Token = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """Print by app and dialect the share of requests that have a question, context, answer, model, session, tokens.

    Below the table, for each missing field, is the smallest change to the service's instrumentation that adds it. Exit
    status 1 when nothing could be read.
    """
    with exit_status_1():
        if paths:
            found = of_files(paths, configuration.load(config).extraction, report=report)
        else:
            found = of_monitor(client_of(url, token, token_file, ca_file))
    if not found:
        report("no request has been read yet")
        raise typer.Exit(1)
    if as_json:
        echo_json({"apps": [asdict(one) for one in found]})
    else:
        echo_lines(lines(found))


def lines(found: Sequence[AppCoverage]) -> Iterator[str]:
    """Yield a table, then the advice."""
    rows: list[Sequence[str]] = [("app", "dialect", "requests", *FIELDS)]
    for one in found:
        shares = [one.fields[name] / one.requests for name in FIELDS]
        texts = (f"{share:.0%}" if share in (0, 1) else f"{share:.1%}" for share in shares)
        rows.append((one.app, one.dialect, str(one.requests), *texts))
    yield from align(rows, left=2)
    for one in found:
        for field, advice in one.advice.items():
            yield ""
            yield f"{one.app} ({one.dialect}): no {field} in {one.missing(field)} of {one.requests} requests"
            yield from (f"  {line}".rstrip() for line in advice.splitlines())
