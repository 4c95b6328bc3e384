"""`rag-monitor coverage`: of how many requests question, context and answer came, and how to send what is missing."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from prometheus_client.parser import text_string_to_metric_families

from monitor import compose, registry
from monitor import coverage as told
from monitor.cli.captures import Files
from monitor.cli.cases import reading_settings
from monitor.coverage import FIELDS, Coverage
from monitor.errors import ConfigError

_SECONDS = 5.0
_ADVISED = ("question", "context", "answer", "model")
_OPTIONAL = ("session",)


def coverage(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH...]", help="Captures or rows, as for `cases`. Default: ask a running monitor."),
    ] = None,
    url: Annotated[str, typer.Option(help="The metrics of a running monitor.")] = "http://127.0.0.1:9464/metrics",
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A configuration, for its `reading`.")] = None,
) -> None:
    """Print by app and dialect which share of its requests came with question, context, answer and the rest.

    Below the table stands, for what is missing, the smallest change of the service's instrumentation. Exit status 1
    when nothing could be read.
    """
    try:
        found = _of_files(paths, config) if paths else _of_monitor(url)
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if not found:
        typer.echo("no request was read yet", err=True)
        raise typer.Exit(1)
    for line in lines(found):
        typer.echo(line)


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
    lacking = [name for name in _ADVISED if one.missing(name)]
    lacking += [name for name in _OPTIONAL if one.missing(name) == one.requests]
    for name in lacking:
        text = told.advice(convention, name)
        yield ""
        yield f"{app or 'unknown'} ({convention}): no {name} in {one.missing(name)} of {one.requests} requests"
        yield from (f"  {line}".rstrip() for line in text.splitlines())


def _of_files(paths: list[Path], config: Path | None) -> Mapping[tuple[str, str], Coverage]:
    read = partial(compose.read, conventions=registry.conventions(), settings=reading_settings(config))
    return told.collect(Files(paths, sys.stderr).readings(read))


def _of_monitor(url: str) -> Mapping[tuple[str, str], Coverage]:
    """What a running monitor has counted. Raises `ConfigError` where it cannot be asked."""
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url: {url!r} is not an address such as http://127.0.0.1:9464/metrics")
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the scheme is checked above
            text = answer.read().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{url}: no monitor answers: {error}") from None
    found: dict[tuple[str, str], Coverage] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.labels.get("app", ""), sample.labels.get("convention", ""))
            if sample.name == "ragmonitor_readings_total" and sample.value:
                found.setdefault(key, Coverage()).requests = int(sample.value)
            elif sample.name == "ragmonitor_reading_fields_total" and sample.value:
                found.setdefault(key, Coverage()).came[sample.labels["field"]] = int(sample.value)
    return found
