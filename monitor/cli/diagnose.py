"""`rag-monitor diagnose`: when a rate rose, and what its bad answers have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath, Json, Results
from monitor.cli.console.output import clean, echo_json, echo_lines, exit_status_1, unread_line
from monitor.errors import MonitorError
from monitor.operations.diagnose import (
    ExampleAnswer,
    RateDiagnosis,
    as_object,
    diagnose_alert,
    diagnose_rate,
    diagnose_results,
    in_words,
)
from monitor.quantities import format_duration, number_of, parse_duration, percent
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.diagnosis.onset import Onset
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor
from monitor.statistics.diagnosis.search import FACTORS_AT_MOST, LEAST_BAD_BEFORE
from monitor.statistics.rates import Estimate


def diagnose(
    *,
    app: Annotated[str, typer.Option("--app", callback=_options.app, help="The service.")] = "",
    evaluator: Annotated[
        str,
        typer.Option(
            "--evaluator", "-e", autocompletion=_options.complete_evaluators, help="The evaluator with the risen rate."
        ),
    ] = "",
    alert: Annotated[
        str,
        typer.Option(
            "--alert",
            metavar="ID",
            help="Diagnose the rate of an alert, by its incident (annotation `incident`). Replaces the other three.",
        ),
    ] = "",
    since: Annotated[
        str,
        typer.Option("--since", metavar="DURATION", help="The window of the alert. The search covers twice as long."),
    ] = "6h",
    results: Results = None,
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """Say when a defect rate rose, and what its bad answers have in common.

    Reads the history in the storage folder, even while a monitor writes it. Names at most three factors, and none if
    none stands out. Exit status 1 when there are no scored answers.
    """
    window = _options.read("--since", parse_duration, since)
    if window <= 0:
        raise typer.BadParameter("must be more than 0", param_hint="--since")
    if alert and (app or evaluator or results):
        raise typer.BadParameter("names the app and the evaluator itself, in the history", param_hint="--alert")
    if not alert and not (app and evaluator):
        raise typer.BadParameter("give both, or --alert", param_hint="--app, --evaluator")
    settings = configuration.load(config)
    with exit_status_1():
        if alert:
            found = diagnose_alert(settings, alert)
        elif results:
            found = diagnose_results(results, app=app, evaluator=evaluator, window=window, slices=settings.slices)
        else:
            found = diagnose_rate(settings, app=app, evaluator=evaluator, window=window)
        if not found.answers:
            raise MonitorError(f"{found.app}: no answers with a score of {found.evaluator}")
    if as_json:
        echo_json(dict(as_object(found)))
    else:
        echo_lines(lines(found))


def _read(one: RateDiagnosis) -> str:
    read = f"{number_of(one.answers, 'answer')} {'was' if one.answers == 1 else 'were'} read."
    return " ".join([read, *_left_out(one)])


def _left_out(one: RateDiagnosis) -> Iterator[str]:
    if one.other_versions:
        yield f"Left out: {number_of(one.other_versions, 'answer')} judged by other versions of the evaluator."


def lines(one: RateDiagnosis) -> Iterator[str]:
    """Yield a diagnosis as plain lines, for a person on call."""
    found, subject = one.found, f"{clean(one.evaluator)} of {clean(one.app)}"
    if found.state == "too_few_before":
        yield f"{subject}: too few bad answers to compare with: a diagnosis needs {LEAST_BAD_BEFORE} from before"
        yield f"the last {format_duration(2 * one.window)}. {_read(one)}"
        return
    if found.onset is None or found.rate_since is None or found.rate_before is None:
        yield f"{subject}: no rise in the last {format_duration(2 * one.window)}. {_read(one)}"
        return
    yield f"{subject} rose {_since(found.onset)}."
    yield f"Bad before: {_rate(found.rate_before)}. Since then: {_rate(found.rate_since)}."
    yield f"Since then {found.judged:,} answers were judged, {found.bad:,} of them bad."
    yield from _left_out(one)
    if found.awaits_first_look:
        yield f"They are too few to name a cause: {found.next_look:,} more are needed."
        return
    if found.looked is not None and found.next_look is not None:
        yield f"Last looked at {_time(found.looked)}; the next look needs {found.next_look:,} more bad answers."
    for change in one.changes:
        yield f"At {_time(change.at)} the service or the judge changed: {clean(change.text)}."
    for number, (factor, examples) in enumerate(zip(found.factors, one.examples, strict=True), start=1):
        yield ""
        yield from _factor_lines(number, factor, examples, one.questions)
    if not found.factors:
        yield ""
        yield f"Nothing stands out. {_visible(found)}"
    if found.switched:
        yield ""
        yield f"Since then everything has: {', '.join(map(_named, found.switched))}."
        yield "This may be the cause or a coincidence."
    if one.unread:
        yield ""
        yield unread_line(one.unread)


def _factor_lines(
    number: int, one: FoundFactor, examples: Sequence[ExampleAnswer], questions: Mapping[str, str]
) -> Iterator[str]:
    name = " and ".join(map(_named, one.parts))
    yield f"{number}. {'More of: ' if one.how == 'more' else ''}{name}"
    frequency = f"{percent(one.part_now)} of the answers have it, {percent(one.part_before)} before"
    yield f"   {frequency}; it was always bad." if one.how == "more" else f"   {frequency}."
    if one.inside is not None and one.outside is not None:
        yield f"   Bad with it: {_rate(one.inside)}; without it: {_rate(one.outside)}."
        yield f"   Bad with it before: {percent(one.before)}."
    at_least = "at least " if one.factor.kind == "word" else ""
    limits = f"{_share(one.share.lower)} to {_share(one.share.upper)}"
    yield f"   Explains {at_least}{_share(one.share.value)} of the rise ({limits})."
    if one.onset is not None and one.how == "worse":
        yield f"   With it, the rate rose {_since(one.onset)}."
    if one.likewise:
        yield f"   Most of these bad answers also have: {', '.join(map(_named, one.likewise[:FACTORS_AT_MOST]))}."
    for example in examples:
        yield f"   Example: {clean(example.request_id)}, {_time(example.at)}, score {example.score:.3g}"
        if question := questions.get(example.request_id):
            yield f"      {clean(question)}"


def _named(factor: Factor) -> str:
    return clean(in_words(factor))


def _visible(found: Diagnosis) -> str:
    if found.visible is None:
        return f"With {found.bad:,} bad answers, no single cause could have been found."
    return (
        f"With {found.bad:,} bad answers, a cause that explains {percent(found.visible)} of the rise or more"
        " would have been found 4 times in 5."
    )


def _rate(one: Estimate) -> str:
    return f"{percent(one.rate)} ({percent(one.lower)} to {percent(one.upper)})"


def _share(value: float) -> str:
    return percent(round(min(max(value, 0.0), 1.0), 2))


def _since(onset: Onset) -> str:
    return f"at {_time(onset.at)} (between {_time(onset.earliest)} and {_time(onset.latest)})"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
