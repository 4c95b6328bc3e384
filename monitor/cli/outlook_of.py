"""How `rag-monitor preview` says what it has found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import typer

from monitor.cli.console.prompt import prompt_lines
from monitor.cli.console.table import align
from monitor.cli.console.text import clean
from monitor.cli.console.text import dollars as in_dollars
from monitor.cli.previewed import MONTH, Previewed, Unit, dollars
from monitor.cli.trailed import FACTORS, Trailed
from monitor.config import Config
from monitor.operations import plan as planned
from monitor.quantities import percent

_EXCERPT = 60
_DAY = 86_400.0
_SIX_HOURS = 21_600.0
_NOW, _WORSE = 0.02, 0.04


def a_day(text: str | None) -> float | None:
    """`20000` or `20000/day`. Raises `typer.BadParameter`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/day)?", text.strip())
    if found is None or float(found[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is not a number of requests, such as 20000/day", param_hint="--traffic")
    return float(found[1])


def lines(config: Config, found: Previewed, traffic: float | None, tokens_out: int, *, prompt: bool) -> Iterator[str]:
    """The answer in words."""
    recorded = found.recorded
    if recorded.trailed is not None:
        yield from _trailed(recorded.trailed)
    else:
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in recorded.outcomes.most_common()) or "none"
        yield f"{recorded.outcomes.total()} requests: {outcomes}"
    yield from recorded.notes
    yield f"{found.judged:,.0f} of them would be judged by a language model"
    for case, by in found.listed:
        query = clean(case.request.query)
        shown = query if len(query) <= _EXCERPT else f"{query[: _EXCERPT - 1]}…"
        if recorded.trailed is not None and not case.response:
            shown = "(no text is kept)"
        yield f"  {clean(case.request_id)}  {', '.join(by)}  {shown}"
    if found.judged > len(found.listed):
        yield f"  and {found.judged - len(found.listed):,.0f} more"
    if prompt and found.first is not None:
        yield ""
        yield f"--- what would be sent for {clean(found.first[0])}{'' if found.judged else ', were it chosen'}"
        yield from prompt_lines(found.first[1])
    elif prompt:
        without = recorded.trailed is not None and not recorded.cases and bool(found.units)
        why = "no text is kept that it could be made of" if without else "no case would be sent to a judge"
        yield f"there is no prompt: {why}"
    if not found.units:
        yield "no judged evaluator has a model: set `judge.model`"
        return
    yield ""
    yield from _money(config, found, traffic, tokens_out)


def _trailed(trailed: Trailed) -> Iterator[str]:
    """What the trails of a running monitor say, counted for all that came."""
    yield f"{trailed.came:,.0f} requests came, of which head sampling kept {trailed.kept_then:,.0f} then"
    by_number = sorted(trailed.outcomes.items(), key=lambda one: -one[1])
    outcomes = ", ".join(f"{number:,.0f} {outcome}" for outcome, number in by_number if round(number))
    yield f"under this configuration: {outcomes}"
    for name, one in trailed.evaluators.items():
        said = f"{name} would choose {one.chosen:,.0f} of {one.applies:,.0f} that it applies to"
        if one.room and one.unknown >= one.applies:
            said = f"{name} applies to {one.applies:,.0f}; how many it would choose cannot be foretold: {one.room}"
        elif one.room:
            said += f", by the probabilities of then: {one.room}, which cannot be foretold"
            said += f"; of {one.unknown:,.0f} none is known" if one.unknown else ""
        if one.assumed:
            said += "; it was not at work then: whether it applies is partly assumed"
        yield said


def _money(config: Config, found: Previewed, traffic: float | None, tokens_out: int) -> Iterator[str]:
    recorded = found.recorded
    if traffic is None and recorded.span > 0:
        traffic = recorded.total / recorded.span * _DAY
        yield f"{traffic:,.0f} requests a day, by the {recorded.span / 3600:.1f} hours of what is recorded"
    elif traffic is not None:
        yield f"{traffic:,.0f} requests a day, as given"
    if traffic is None or not recorded.total:
        yield "nothing says how many requests there are a day: give --traffic"
        return
    times = traffic / recorded.total
    how = "counted by litellm" if found.counted else "estimated, rather too high: litellm cannot count them"
    yield f"tokens of prompts are {how}; {tokens_out} of each answer are assumed; only first calls are known"
    for unit in found.units:
        if unit.known_by == "judgements":
            yield f"{unit.name}: no text is kept; tokens are those that its judgements took, on average, all calls"
        elif unit.known_by == "nothing":
            yield f"{unit.name}: no text is kept, no judgement known; tokens are those of the instructions: at least"
    yield ""
    rows: list[Sequence[str]] = [("", "judged", "judged", "tokens", "dollars a month at", "", "")]
    rows.append(("", "here", "a day", "a prompt", "a third", "this rate", "three times"))
    rows += [_row(config, unit, times, tokens_out) for unit in found.units]
    yield from align(rows)
    if recorded.trailed is None and any(unit.adaptive for unit in found.units):
        yield "budgets, boosts and quotas begin from nothing here, and learn nothing: the real shares will differ"
    yield ""
    for unit in found.units:
        yield from _needed(config, unit, times, tokens_out)


def _row(config: Config, unit: Unit, times: float, tokens_out: int) -> Sequence[str]:
    months = [dollars(config, unit, tokens_out, number) for number in range(len(FACTORS))]
    each = unit.tokens[1] / unit.shares[1] if unit.shares[1] else unit.each
    if unit.unforetold:
        return (unit.name, "?", "?", f"{each:,.0f}", *("?" for _ in FACTORS))
    money = ["no price" if one is None else in_dollars(one * times * MONTH) for one in months]
    return (unit.name, f"{unit.chosen:,.0f}", f"{unit.shares[1] * times:,.0f}", f"{each:,.0f}", *money)


def _needed(config: Config, unit: Unit, times: float, tokens_out: int) -> Iterator[str]:
    """The rate at which a doubled defect rate is noticed within six hours."""
    asked = planned.question_for(config, _NOW, _WORSE)
    window = min((one for one in asked.windows if one[0] <= _SIX_HOURS), key=lambda one: -one[0])
    only = planned.PlanQuestion(asked.rate, asked.worse, asked.threshold, (window,), asked.family)
    price = dollars(config, unit, tokens_out, 1)
    each = planned.EvaluationPrice(price / unit.shares[1] if price is not None and unit.shares[1] else None, "")
    (needed,) = planned.needed(only, each)
    there = unit.asked * times
    an_hour = needed.scored_per_hour
    said = f"{unit.name}: to notice within six hours that {percent(_NOW)} have become {percent(_WORSE)} "
    said += f"(threshold {percent(asked.threshold)}, 9 times in 10), {an_hour:,.0f} must be judged an hour: "
    if an_hour * 24 > there:
        yield f"{said}more than there are"
        return
    cost = f", {in_dollars(needed.dollars_per_day * MONTH)} a month" if needed.dollars_per_day else ""
    yield f"{said}a rate of {percent(an_hour * 24 / there)}{cost}"
