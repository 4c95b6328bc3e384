"""`rag-monitor preview`: what a configuration would do with recorded traffic, and what a month would cost."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli._options import ConfigPath
from monitor.cli.console.output import align, clean, echo_lines, prompt_lines, report
from monitor.clock import SystemClock
from monitor.operations.event_loop import run_async
from monitor.operations.preview.predict import RATE, WORSE, CostEstimate, GroupCost, Preview, estimate, predict
from monitor.operations.preview.request_log import FACTORS, LoggedTraffic
from monitor.operations.preview.traffic import from_files, from_history
from monitor.quantities import dollars, parse_duration, percent
from monitor.telemetry import logs

_EXCERPT: Final = 60


def preview(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders.")
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DURATION", help="Instead of files: traffic recorded in this period, such as 6h."
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(
            "--traffic", metavar="N/day", help="Requests a day. Default: from the times of the recorded requests."
        ),
    ] = None,
    tokens_out: Annotated[int, typer.Option("--tokens-out", min=0, help="Assumed output tokens per judge call.")] = 200,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the prompt of the first selected case.")] = False,
    config: ConfigPath = None,
) -> None:
    """Show which recorded requests a configuration would keep and evaluate, and what a month would cost.

    No judge is called. Exit status 1 when a file or row could not be read.
    """
    if (since is None) == (not paths):
        raise typer.BadParameter("give files, or --since", param_hint="FILE")
    loaded = configuration.load(config)
    logs.configure("ERROR", "text", sys.stderr)
    requests_per_day = _options.read("--traffic", per_day, traffic) if traffic is not None else None
    if since is None:
        recorded = from_files(loaded, paths or [], report=report)
    else:
        recorded = from_history(loaded, _options.read("--since", parse_duration, since), SystemClock().now())
    found = run_async(functools.partial(predict, loaded, recorded))
    echo_lines(lines(found, prompt=prompt))
    if found.groups:
        typer.echo()
        cost = estimate(loaded, found, requests_per_day=requests_per_day, output_tokens=tokens_out)
        echo_lines(cost_lines(found, cost, tokens_out))
    if recorded.unreadable:
        raise typer.Exit(1)


def per_day(text: str) -> float:
    """Read a number of requests a day. Raises `ValueError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/day)?", text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{text!r} is not a number of requests, such as 20000/day")
    return float(found[1])


def lines(found: Preview, *, prompt: bool) -> Iterator[str]:
    """Yield what would happen to the requests, and those that would be evaluated by a judge."""
    traffic = found.traffic
    if traffic.logged is not None:
        yield from _logged(traffic.logged)
    else:
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in traffic.outcomes.most_common()) or "none"
        yield f"{traffic.outcomes.total()} requests: {outcomes}"
    yield from traffic.notes
    yield f"{found.judged:,.0f} of them would be evaluated by a judge"
    for case, by in found.listed:
        query = clean(case.request.query)
        shown = query if len(query) <= _EXCERPT else f"{query[: _EXCERPT - 1]}…"
        if traffic.logged is not None and not case.response:
            shown = "(no text stored)"
        yield f"  {clean(case.request_id)}  {', '.join(by)}  {shown}"
    if found.judged > len(found.listed):
        yield f"  and {found.judged - len(found.listed):,.0f} more"
    if prompt and found.first is not None:
        yield ""
        yield f"--- prompt for {clean(found.first[0])}{'' if found.judged else ', which is not selected'}"
        yield from prompt_lines(found.first[1])
    elif prompt:
        without = traffic.logged is not None and not traffic.cases and bool(found.groups)
        yield f"there is no prompt: {'no text is stored' if without else 'no judge would be asked about any case'}"
    if not found.groups:
        yield "no judged evaluator has a model: set `judge.model`"


def _logged(logged: LoggedTraffic) -> Iterator[str]:
    yield f"{logged.received:,.0f} requests were received; head sampling kept {logged.kept_then:,.0f}"
    by_number = sorted(logged.outcomes.items(), key=lambda one: -one[1])
    outcomes = ", ".join(f"{number:,.0f} {outcome}" for outcome, number in by_number if round(number))
    yield f"with this configuration: {outcomes}"
    for name, one in logged.evaluators.items():
        line = f"{name} would select {one.selected:,.0f} of {one.applies:,.0f} requests that it applies to"
        if one.unpredictable and one.unknown >= one.applies:
            line = f"{name} applies to {one.applies:,.0f}; its selection cannot be predicted: {one.unpredictable}"
        elif one.unpredictable:
            line += f", by the recorded probabilities: {one.unpredictable}, which cannot be predicted"
            line += f"; {one.unknown:,.0f} of them have no recorded probability" if one.unknown else ""
        if one.assumed:
            line += "; it was not configured at the time, so whether it applies is partly assumed"
        yield line


def cost_lines(found: Preview, cost: CostEstimate | None, tokens_out: int) -> Iterator[str]:
    """Yield the cost of a month as a table, and the sampling rate at which a change would be noticed."""
    if cost is None:
        yield "the number of requests a day is unknown: give --traffic"
        return
    if cost.span is not None:
        yield f"{cost.requests_per_day:,.0f} requests a day, from {cost.span / 3600:.1f} hours of recorded traffic"
    else:
        yield f"{cost.requests_per_day:,.0f} requests a day, as given"
    how = (
        "counted by litellm" if found.counted else "estimated, and probably too high, because litellm cannot count them"
    )
    yield f"prompt tokens are {how}; {tokens_out} tokens per reply are assumed; follow-up calls are not included"
    for one in found.groups:
        if one.tokens_from == "evaluations":
            yield f"{one.name}: no text is stored; prompt tokens are the average of its recorded evaluations"
        elif one.tokens_from == "instructions":
            yield f"{one.name}: no text is stored, no evaluation recorded; prompt tokens are a lower bound"
    yield ""
    rows: list[Sequence[str]] = [("", "selected", "selected", "tokens", "dollars a month at", "", "")]
    rows.append(("", "here", "per day", "per prompt", "a third", "this rate", "three times"))
    rows += [_row(one) for one in cost.groups]
    yield from align(rows)
    if found.traffic.logged is None and any(one.adaptive for one in found.groups):
        yield "budgets, boosts and quotas start from scratch here and do not adapt: real shares will differ"
    yield ""
    for group in cost.groups:
        yield _needed(group)


def _row(one: GroupCost) -> Sequence[str]:
    tokens = f"{one.tokens_per_prompt:,.0f}"
    if one.selected_per_day is None or one.dollars_per_month is None:
        return (one.group.name, "?", "?", tokens, *("?" for _ in FACTORS))
    amounts = ("no price" if amount is None else dollars(amount) for amount in one.dollars_per_month)
    return (one.group.name, f"{one.group.selected:,.0f}", f"{one.selected_per_day:,.0f}", tokens, *amounts)


def _needed(one: GroupCost) -> str:
    """Return the sampling rate at which a doubled defect rate is noticed within six hours."""
    needed = one.needed
    line = (
        f"{one.group.name}: to notice within six hours that the defect rate has risen from {percent(RATE)} to"
        f" {percent(WORSE)} (threshold {percent(needed.threshold)}, 9 times in 10),"
        f" score {needed.scored_per_hour:,.0f} answers per hour:"
    )
    if needed.share is None:
        return f"{line} more answers than there are"
    cost = f", {dollars(needed.dollars_per_month)} a month" if needed.dollars_per_month else ""
    return f"{line} a sampling rate of {percent(needed.share)}{cost}"
