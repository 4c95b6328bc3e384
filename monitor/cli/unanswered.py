"""`rag-monitor unanswered`: questions that the service does not answer, by topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json, Results
from monitor.cli.console.output import clean, echo_json, echo_lines, exit_status_1, report_unread
from monitor.errors import MonitorError
from monitor.operations.documents import (
    UnansweredReport,
    UnansweredTopic,
    as_object,
    find_unanswered,
    is_readable,
    topic_words,
)
from monitor.quantities import format_duration, number_of, parse_duration, percent
from monitor.statistics.rates import Estimate
from monitor.statistics.topics import OTHER


def unanswered(
    *,
    app: Annotated[str, typer.Option("--app", callback=_options.app, help="The service.")],
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="The period. It is compared with the one before.")
    ] = "7d",
    results: Results = None,
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """List questions that the service does not answer, by topic: nothing was retrieved, or the answer refuses.

    Reads the history in the storage folder, even while a monitor writes it, or files of results. Exit status 1 when
    there are no questions.
    """
    window = _options.read("--since", parse_duration, since)
    if window <= 0:
        raise typer.BadParameter("must be more than 0", param_hint="--since")
    settings = configuration.load(config)
    with exit_status_1():
        found = find_unanswered(settings, app=app, window=window, results=results or ())
        if not found.questions:
            raise MonitorError(f"{app}: no questions evaluated by retrieval_empty or refusal_pattern")
    report_unread(found.unread)
    if as_json:
        echo_json(dict(as_object(found)))
    else:
        echo_lines(lines(found, window))


def lines(report: UnansweredReport, window: float) -> Iterator[str]:
    """Yield the unanswered questions as plain lines, for a person."""
    read = f"{'the newest ' if report.cut else ''}{number_of(report.questions, 'question')}"
    yield f"{clean(report.app)}, last {format_duration(window)}: {read} evaluated."
    if report.rate is not None:
        yield f"Unanswered: {_rate(report.rate)}, about {number_of(report.requests, 'request')}.{_before(report)}"
    for one in report.topics:
        yield ""
        yield from _topic_lines(one)
    if not is_readable(report):
        yield ""
        yield "Topics have no readable names: set storage.texts to all to keep the words of questions."


def _topic_lines(one: UnansweredTopic) -> Iterator[str]:
    name = "Other questions" if one.name == OTHER else clean(topic_words(one.name))
    more = "; significantly more often than other topics" if one.surely_more else ""
    yield f"{name}: about {number_of(one.requests, 'request')}, {percent(one.share)} of the unanswered"
    yield f"   {one.unanswered:,} of {one.asked:,} unanswered: {_rate(one.rate)}{more}.{_before(one)}"
    yield f"   Nothing found: {one.nothing_found:,}. Refused: {one.refused:,}."
    for example in one.examples:
        yield f"   Example: {clean(example.request_id)}{f' {clean(example.text)}' if example.text else ''}"


def _before(one: UnansweredReport | UnansweredTopic) -> str:
    if one.before is None:
        return ""
    trend = {"rise": ": significantly more now", "fall": ": significantly fewer now"}.get(one.change, "")
    return f" Before: {_rate(one.before)}{trend}."


def _rate(one: Estimate) -> str:
    return f"{percent(one.rate)} ({percent(one.lower)} to {percent(one.upper)})"
