"""`rag-monitor coverage`: of how many requests question, context and answer came, and how to send what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer

from monitor import coverage as told
from monitor.cli._options import CaFile, MetricsUrl, Token, TokenFile, client_of
from monitor.cli.cases import reading_settings
from monitor.cli.console.output import report
from monitor.coverage import FIELDS, Coverage
from monitor.errors import MonitorError
from monitor.operations.monitor_client import DEFAULT_URL, MonitorClient
from monitor.operations.offline.files import CaseFiles

_READINGS, _CAME = "ragmonitor_extracted_requests_total", "ragmonitor_extracted_fields_total"
_ADVISED = ("question", "context", "answer", "model")
_OPTIONAL = ("session",)


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
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A configuration, for its `extraction`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of a table.")] = False,
) -> None:
    """Print by app and dialect which share of its requests came with question, context, answer and the rest.

    Below the table stands, for what is missing, the smallest change of the service's instrumentation. Exit status 1
    when nothing could be read.
    """
    try:
        found = _of_files(paths, config) if paths else _of_monitor(client_of(url, token, token_file, ca_file))
    except MonitorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if not found:
        typer.echo("no request was read yet", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(_as_json(found))
        return
    for line in lines(found):
        typer.echo(line)


def _as_json(found: Mapping[tuple[str, str], Coverage]) -> str:
    """One JSON object: by app and dialect the requests, and of how many of them each field came."""
    told_of = [
        {
            "app": app or "unknown",
            "dialect": convention,
            "requests": one.requests,
            "came": {name: one.came[name] for name in FIELDS},
            "advice": {name: told.advice(convention, name) for name in _lacking(one)},
        }
        for (app, convention), one in sorted(found.items())
    ]
    return orjson.dumps({"apps": told_of}, option=orjson.OPT_INDENT_2).decode()


def _lacking(one: Coverage) -> list[str]:
    """What is worth a change of the instrumentation."""
    lacking = [name for name in _ADVISED if one.missing(name)]
    return lacking + [name for name in _OPTIONAL if one.missing(name) == one.requests]


def lines(found: Mapping[tuple[str, str], Coverage]) -> Iterator[str]:
    """The table, then what to change."""
    rows: list[Sequence[str]] = [("app", "dialect", "requests", *FIELDS)]
    for (app, convention), one in sorted(found.items()):
        shares = (
            f"{share:.0%}" if (share := one.came[name] / one.requests) in (0, 1) else f"{share:.1%}" for name in FIELDS
        )
        rows.append((app or "unknown", convention, str(one.requests), *shares))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        names = (text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True))
        numbers = (text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True))
        yield "  ".join((*names, *numbers)).rstrip()
    for (app, convention), one in sorted(found.items()):
        yield from _advice(app, convention, one)


def _advice(app: str, convention: str, one: Coverage) -> Iterator[str]:
    for name in _lacking(one):
        text = told.advice(convention, name)
        yield ""
        yield f"{app or 'unknown'} ({convention}): no {name} in {one.missing(name)} of {one.requests} requests"
        yield from (f"  {line}".rstrip() for line in text.splitlines())


def _of_files(paths: list[Path], config: Path | None) -> Mapping[tuple[str, str], Coverage]:
    return told.collect(CaseFiles(paths, reading_settings(config), report=report).readings())


def _of_monitor(client: MonitorClient) -> Mapping[tuple[str, str], Coverage]:
    """What a running monitor has counted. Raises `MonitorError` where it cannot be asked."""
    samples = client.samples({_READINGS, _CAME})
    found: dict[tuple[str, str], Coverage] = {}
    for name in (_READINGS, _CAME):
        for labels, value in samples.of(name):
            if not value:
                continue
            one = found.setdefault((labels.get("app", ""), labels.get("convention", "")), Coverage())
            if name == _READINGS:
                one.requests = int(value)
            else:
                one.came[labels["field"]] = int(value)
    return found
