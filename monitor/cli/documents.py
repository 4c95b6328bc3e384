"""`rag-monitor documents`: the documents behind bad answers, and those that are retrieved but never used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json, Results
from monitor.cli.console.output import clean, echo_json, echo_lines, exit_status_1, report_unread
from monitor.errors import MonitorError
from monitor.operations.documents import (
    LEAST_NEVER_USED,
    DocumentsReport,
    DocumentUse,
    as_csv,
    as_objects,
    find_documents,
    found_in,
    in_order,
)
from monitor.quantities import format_duration, number_of, parse_duration, percent
from monitor.statistics.rates import Estimate


class DocumentOrder(StrEnum):
    """What comes first."""

    WORST = "worst"
    UNUSED = "unused"
    RETRIEVED = "retrieved"
    RISE = "rise"


def documents(
    *,
    app: Annotated[str, typer.Option("--app", callback=_options.app, help="The service.")],
    evaluator: Annotated[
        str,
        typer.Option(
            "--evaluator",
            "-e",
            autocompletion=_options.complete_evaluators,
            help="The evaluator that says which answers are bad.",
        ),
    ],
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="The period. It is compared with the one before.")
    ] = "7d",
    order: Annotated[
        DocumentOrder,
        typer.Option("--order", help="What comes first: worst, unused, most often retrieved, or largest rise."),
    ] = DocumentOrder.WORST,
    search: Annotated[str, typer.Option("--search", help="Only documents with this in their address.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=5_000, help="Maximum number of documents.")] = 20,
    results: Results = None,
    config: ConfigPath = None,
    as_csv_file: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    as_json: Json = False,
) -> None:
    """List the documents behind bad answers, and those that are retrieved but never used.

    Reads the history in the storage folder, even while a monitor writes it, or files of results. Exit status 1 when
    there are no scored answers.
    """
    window = _options.read("--since", parse_duration, since)
    if window <= 0:
        raise typer.BadParameter("must be more than 0", param_hint="--since")
    if as_csv_file and as_json:
        raise typer.BadParameter("choose one of --csv and --json", param_hint="--csv")
    settings = configuration.load(config)
    with exit_status_1():
        found = find_documents(settings, app=app, evaluator=evaluator, window=window, results=results or ())
        if not found.answers:
            raise MonitorError(f"{app}: no answers with a score of {evaluator}")
    report_unread(found.unread)
    shown = in_order(found_in(found.documents, search), order.value)[:limit]
    if as_json:
        echo_json(list(as_objects(found, shown)))
    elif as_csv_file:
        typer.echo(as_csv(as_objects(found, shown)), nl=False)
    else:
        echo_lines(lines(found, shown, window))


def lines(report: DocumentsReport, documents: Sequence[DocumentUse], window: float) -> Iterator[str]:
    """Yield documents as plain lines, for a person."""
    subject = f"{clean(report.evaluator)} of {clean(report.app)}"
    read = f"{'the newest ' if report.cut else ''}{number_of(report.answers, 'answer')}"
    yield f"{subject}, last {format_duration(window)}: {read}, {report.without:,} of them without documents."
    if report.other_versions:
        yield f"Not counted: {number_of(report.other_versions, 'answer')} judged by another version of the evaluator."
    if report.rate is not None:
        yield f"Bad: {_rate(report.rate)}."
    for one in documents:
        yield ""
        yield from _document_lines(one)
    if not documents:
        yield "No documents."
    if report.left_out:
        yield ""
        yield f"{report.left_out:,} more documents, retrieved less often, are not listed."


def _document_lines(one: DocumentUse) -> Iterator[str]:
    yield clean(one.address)
    verdict = "significantly worse than the rest" if one.surely_worse else ""
    if one.beside:
        verdict = f"worse only together with {clean(one.beside)}"
    verdict = f"; {verdict}" if verdict else ""
    yield f"   {one.bad:,} of {number_of(one.answers, 'answer')} bad: {_rate(one.rate)}{verdict}."
    if one.before is not None:
        trend = {"rise": ": significantly more now", "fall": ": significantly fewer now"}.get(one.change, "")
        yield f"   Before: {_rate(one.before)}{trend}."
    if one.never_used:
        yield f"   Never used in {number_of(one.known_use, 'answer')}."
    elif one.used is not None:
        few = "" if one.known_use >= LEAST_NEVER_USED else f" of {number_of(one.known_use, 'answer')}"
        yield f"   Used: {_rate(one.used)}{few}."
    if one.example:
        yield f"   Example: {clean(one.example)}"


def _rate(one: Estimate) -> str:
    return f"{percent(one.rate)} ({percent(one.lower)} to {percent(one.upper)})"
