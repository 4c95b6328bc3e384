"""`rag-monitor plan`: how many answers to score, at what cost, to notice a worse defect rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer

from monitor import config as configuration
from monitor.cli import _options, _plan_traffic
from monitor.cli._options import ConfigPath, Json
from monitor.cli.console.output import align, echo_json, echo_lines
from monitor.cli.console.progress import Bars
from monitor.operations import plan as operation
from monitor.operations.capacity import Assumptions
from monitor.operations.plan import DAYS, REPEATED, EvaluationPrice, Plan, SeverePlan
from monitor.quantities import dollars, human_number, parse_rate, percent
from monitor.statistics.power import Noticed


def plan(
    *,
    rate: Annotated[str, typer.Option("--rate", help="The defect rate now: 0.02 or 2%.")] = "2%",
    worse: Annotated[str, typer.Option("--worse", help="The defect rate to notice.")] = "4%",
    threshold: Annotated[
        str | None,
        typer.Option("--threshold", help="The alert threshold. Default: the evaluator's; else halfway between."),
    ] = None,
    scored_per_hour: Annotated[
        str | None,
        typer.Option(
            "--scored-per-hour",
            metavar="N,N",
            help="Numbers of scored answers to compare. Default: 10,30,100,300,1000.",
        ),
    ] = None,
    requests_per_second: Annotated[
        str | None,
        typer.Option(
            "--requests-per-second",
            metavar="N,N",
            help="Instead: what that much traffic takes with your configuration (average over a day).",
        ),
    ] = None,
    services: Annotated[
        int, typer.Option("--services", metavar="N", help="With --requests-per-second: how many services send it.")
    ] = 1,
    spans: Annotated[
        int, typer.Option("--spans", metavar="N", help="With --requests-per-second: spans per request.")
    ] = 6,
    answers_per_session: Annotated[
        int,
        typer.Option(
            "--answers-per-session",
            metavar="N",
            help="Scored answers per conversation, which are bad or good together. 1: independent answers.",
        ),
    ] = 1,
    price: Annotated[
        float | None,
        typer.Option("--price-per-evaluation", min=0, help="US dollars. Default: from the price of the judge."),
    ] = None,
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="IN,OUT", help="Tokens per evaluation, to estimate cost.")
    ] = "2000,200",
    evaluator: Annotated[
        str | None,
        typer.Option(
            "--evaluator",
            autocompletion=_options.complete_evaluators,
            help="Use the alert policy and the judge of this evaluator.",
        ),
    ] = None,
    defect_rule: Annotated[
        str | None,
        typer.Option("--defect-rule", help="With several alerts on the evaluator: the `defect` rule, such as `high`."),
    ] = None,
    severe_error: Annotated[
        str,
        typer.Option(
            "--severe-error",
            help="For alerts on severe cases: share of harmless answers that one judgement calls severe.",
        ),
    ] = "0.1%",
    config: ConfigPath = None,
    as_json: Json = False,
) -> None:
    """Estimate how soon a worse defect rate raises an alert, by the number of scored answers, and what they cost.

    Simulates both alert rules a hundred times for each number, on answers of equal weight.

    With --requests-per-second: cores, replicas, memory, disk, judge calls, dollars and series for your configuration.
    """
    loaded = configuration.load(config)
    tokens_in, tokens_out = _options.read("--tokens", _two_numbers, tokens)
    now, then = (_options.read(*one) for one in (("--rate", parse_rate, rate), ("--worse", parse_rate, worse)))
    if requests_per_second is not None:
        if scored_per_hour is not None:
            raise typer.BadParameter(
                "follows from --requests-per-second: give one of them", param_hint="--scored-per-hour"
            )
        sizes = _options.read("--requests-per-second", _numbers, requests_per_second)
        assumed = Assumptions(now, then, services, spans, price, (tokens_in, tokens_out))
        _plan_traffic.show(loaded, sizes, assumed, as_json=as_json)
        return
    question = operation.question_for(
        loaded,
        now,
        then,
        threshold=_options.read("--threshold", parse_rate, threshold) if threshold is not None else None,
        evaluator=evaluator,
        defect_rule=defect_rule,
        per_session=answers_per_session,
    )
    volumes = _options.read("--scored-per-hour", _numbers, scored_per_hour or "10,30,100,300,1000")
    cost = EvaluationPrice(price, "as given")
    if price is None:
        cost = operation.price_for(loaded, evaluator, input_tokens=tokens_in, output_tokens=tokens_out)
    error = _options.read("--severe-error", parse_rate, severe_error)
    severe = operation.severe_plans(loaded, volumes, evaluator=evaluator, error=error)
    found = replace(operation.simulate(question, volumes, cost, progress=Bars()), severe=severe)
    if as_json:
        echo_json(asdict(found))
    else:
        echo_lines(lines(found))


def _numbers(text: str) -> list[float]:
    try:
        return sorted({float(one) for one in text.split(",")})
    except ValueError:
        raise ValueError(f"{text!r} is not a list of numbers, such as 10,100") from None


def _two_numbers(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(one.strip().isdecimal() for one in parts):  # noqa: PLR2004 - in and out
        raise ValueError(f"{text!r} is not two whole numbers, such as 2000,200")
    return int(parts[0]), int(parts[1])


def lines(found: Plan) -> Iterator[str]:
    """Yield the plan in words and tables."""
    question, free = found.question, not found.price.dollars
    now, then, limit = (percent(one) for one in (question.rate, question.worse, question.threshold))
    yield f"Time to notice that the defect rate has risen from {now} to {then}"
    yield f"One evaluation costs {dollars(found.price.dollars or 0)} ({found.price.source})."
    if question.per_session > 1:
        yield f"Answers come in sessions of {question.per_session} that are bad or good together."
    yield ""
    rules = (f"RagDefectRateHigh, {limit}:", "noticed", "false alarms", "RagDefectRateRegression:", "noticed")
    delays = ("half the time within", "in a day")
    heads: list[Sequence[str]] = [
        ("scored", "cost", f"a day's {now}", *rules),
        ("per hour", "per day", "measured as", *delays, "in 30 days", *delays),
    ]
    rows = [
        (
            human_number(one.scored_per_hour),
            dollars(one.dollars_per_day or 0),
            f"{percent(one.day_lower)} to {percent(one.day_upper)}",
            "never: not above it" if one.high is None else _delay(one.high, f"longer than {DAYS} d"),
            "-" if one.high is None else f"{one.high.within_a_day:.0%}",
            f"{one.false_alarms:.2f}",
            _delay(one.regression, "longer than a day"),
            f"{one.regression.within_a_day:.0%}",
        )
        for one in found.volumes
    ]
    table = [*heads, *rows]
    yield from align([[cell for at, cell in enumerate(row) if at != 1 or not free] for row in table])
    yield from _needed(found, then=then, limit=limit, free=free)
    for severe in found.severe:
        yield ""
        yield from _severe_lines(severe)


def _severe_lines(one: SeverePlan) -> Iterator[str]:
    """Yield the false pages of an alert on single severe cases."""
    yield f"RagSevereCase, {one.evaluator}, {one.defect}: false pages in 30 days"
    pages = f"No more than {one.accepted:g} are to be expected at any volume"
    if one.accepted == math.inf:
        pages = "Every session with a confirmed case pages"
    yield (
        f"{pages}. A judgement calls {percent(one.error)} of harmless answers severe (assumed); a second one repeats"
        " 20, 50 or 80 % of these."
    )
    if one.judged is not None and one.judged < 1:
        yield f"Only judged cases can page: {percent(one.judged)} are, one severe case in {1 / one.judged:,.0f}."
    yield ""
    shares = [f"{share:.0%}" for share in REPEATED]
    rows = [["scored", *(f"confirmed, {share}" for share in shares), *(f"false pages, {share}" for share in shares)]]
    rows.append(["per hour", *["" for _ in range(2 * len(shares))]])
    rows += [
        [human_number(of.scored_per_hour), *(human_number(count) for count in (*of.confirmed, *of.pages))]
        for of in one.volumes
    ]
    yield from align(rows)


def _needed(found: Plan, *, then: str, limit: str, free: bool) -> Iterator[str]:
    if not found.needed:
        return
    yield ""
    yield f"Answers to score so that a rate of {then} fires the alert above {limit} 9 times in 10:"
    yield ""
    rows_needed: list[Sequence[str]] = [("within", "scored", "per hour", "per day")]
    rows_needed += [
        (one.window, f"{one.scored:,}", f"{one.scored_per_hour:,.0f}", dollars(one.dollars_per_day or 0))
        for one in found.needed
    ]
    yield from align([row[:3] if free else row for row in rows_needed])


def _delay(noticed: Noticed, longer: str) -> str:
    if noticed.median is None:
        return longer
    if noticed.median < 1:
        return f"{noticed.median * 60:.0f} min"
    return f"{noticed.median:.1f} h" if noticed.median < 48 else f"{noticed.median / 24:.1f} d"  # noqa: PLR2004 - two days
