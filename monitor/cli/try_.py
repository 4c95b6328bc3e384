"""`rag-monitor try`: one evaluator on one case, with the prompt as sent and the reply as received."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from monitor import config as configuration
from monitor.cli._options import ConfigPath, complete_evaluators
from monitor.cli.console.output import clean, clean_lines, echo_json, echo_lines, prompt_lines, report
from monitor.judge.provider import Exchange
from monitor.model.outcome import EvaluationResult, Score
from monitor.operations.event_loop import run_async
from monitor.operations.trial import TrialResult, find_case, try_evaluator
from monitor.quantities import dollars
from monitor.telemetry import logs


def try_(
    evaluator: Annotated[
        str,
        typer.Argument(
            autocompletion=complete_evaluators,
            metavar="EVALUATOR",
            help="The name of a configured evaluator, or the type of any other.",
        ),
    ],
    *,
    case: Annotated[
        str,
        typer.Option(
            "--case", metavar="FILE|TRACE_ID", help="Rows, a capture, or the id of a trace in the monitor's history."
        ),
    ],
    number: Annotated[
        int | None,
        typer.Option("--number", min=1, help="Which case of the file. Default: the first that can be evaluated."),
    ] = None,
    times: Annotated[int, typer.Option("--times", "-k", min=1, max=100, help="Number of evaluations.")] = 5,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, texts unchanged.")] = False,
) -> None:
    """Evaluate one case several times and show the prompt, the reply, the result, and how often it flips.

    Caches are bypassed, and metrics and budgets of a running monitor are not touched; the calls cost money. Exit status
    1 when there is no score.
    """
    loaded = configuration.load(config)
    logs.configure("ERROR", "text", sys.stderr)
    found = find_case(loaded, case, number, report=report)
    tried = run_async(functools.partial(try_evaluator, loaded, evaluator, found, times=times))
    if as_json:
        echo_json(_object(tried))
    else:
        echo_lines(lines(tried))
    if not tried.scored:
        raise typer.Exit(1)


def _object(tried: TrialResult) -> dict[str, Any]:
    return {
        "evaluator": tried.evaluator.evaluator.name,
        "version": tried.runs[0].result.version,
        "model": tried.settings.model if tried.settings is not None else None,
        "trace_id": tried.case.request_id,
        "together_with": tried.together,
        "times": [
            {**_result_object(run.result), "calls": [_call_object(tried, one) for one in run.exchanges]}
            for run in tried.runs
        ],
        "scored": len(tried.scored),
        "flips": tried.flips,
        "remedy": tried.remedy or None,
        "dollars": tried.dollars,
    }


def _result_object(result: EvaluationResult) -> dict[str, Any]:
    outcome = result.outcome
    score = outcome if isinstance(outcome, Score) else None
    return {
        "outcome": outcome.kind,
        "reason": None if isinstance(outcome, Score) else str(outcome.reason),
        "detail": getattr(outcome, "detail", None),
        "score": score.value if score else None,
        "label": score.label if score else None,
        "level": result.level if score else None,
        "defect": result.defect if score else None,
        "explanation": score.explanation if score else None,
        "evidence": [asdict(one) for one in score.evidence] if score else [],
        "spent": asdict(result.cost),
    }


def _call_object(tried: TrialResult, one: Exchange) -> dict[str, Any]:
    reply = one.reply
    return {
        "messages": one.call.messages,
        "max_tokens": one.call.max_tokens,
        "temperature": tried.temperature(one),
        "response_format": one.call.response_format,
        "logprobs": one.call.logprobs,
        "reply": asdict(reply) if reply is not None else None,
        "error": one.fault or None,
    }


def lines(tried: TrialResult) -> Iterator[str]:
    """Yield the calls and the result of the first evaluation, then a summary of all."""
    first = tried.runs[0]
    model = f", {tried.settings.model}" if tried.settings is not None else ""
    yield f"{tried.evaluator.evaluator.name} {first.result.version}{model}, on case {clean(tried.case.request_id)}"
    if tried.together:
        yield f"asked in one call together with {', '.join(tried.together)}, as in production"
    if tried.settings is None:
        yield "it uses no judge: there is no prompt, and the result is always the same"
    elif not first.exchanges:
        yield "no call was made"
    for number, one in enumerate(first.exchanges, 1):
        yield from _exchange(tried, one, number, len(first.exchanges))
    yield ""
    yield "--- result"
    yield from _result(first.result)
    yield ""
    yield from _summary(tried)


def _exchange(tried: TrialResult, one: Exchange, number: int, calls: int) -> Iterator[str]:
    yield ""
    yield f"--- prompt as sent{f', call {number} of {calls}' if calls > 1 else ''}"
    yield from prompt_lines(one)
    form = "none" if one.call.response_format is None else one.call.response_format.get("type", "given")
    yield f"[at most {one.call.max_tokens} tokens, temperature {tried.temperature(one)}, response format: {form}]"
    yield ""
    yield "--- reply as received"
    reply = one.reply
    if reply is None:
        yield f"none: {one.fault}"
        return
    yield from clean_lines(reply.text) if reply.text else ["(empty)"]
    ended = f"[finish reason: {clean(reply.finish) or 'none'}"
    spent = f", {reply.input_tokens} tokens in, {reply.output_tokens} out" if reply.input_tokens is not None else ""
    yield f"{ended}{spent}, {clean(reply.model)}{', refused' if reply.refused else ''}]"


def _result(judged: EvaluationResult) -> Iterator[str]:
    outcome = judged.outcome
    if not isinstance(outcome, Score):
        detail = getattr(outcome, "detail", "")
        yield f"{outcome.kind}: {outcome.reason}" + (f", {clean(detail)}" if detail else "")
        return
    label = f" ({clean(outcome.label)})" if outcome.label else ""
    yield f"score {outcome.value:g}{label}, level {judged.level}: {_defect(judged)}"
    if outcome.explanation:
        yield clean(outcome.explanation)
    for one in outcome.evidence:
        at = f" [{one.start}:{one.end}]" if one.place is not None else ""
        yield f"- {clean(one.verdict)}: {clean(one.claim)}{at}"


def _defect(judged: EvaluationResult) -> str:
    return "defect" if judged.defect else "no defect"


def _summary(tried: TrialResult) -> Iterator[str]:
    scored, number = tried.scored, len(tried.runs)
    yield f"--- {number} evaluation{'s' if number > 1 else ''}"
    if scored:
        scores = " ".join(f"{one.outcome.value:g}" for one in scored if isinstance(one.outcome, Score))
        counts = Counter(_defect(one) for one in scored)
        yield f"scores: {scores}"
        listed = ", ".join(f"{many} x {word}" for word, many in counts.most_common())
        yield f"results: {listed} ({tried.evaluator.defect} is a defect)"
        if number > 1:
            yield f"flips: {tried.flips} of {len(scored)}"
    without = Counter(
        f"{one.result.outcome.kind}: {one.result.outcome.reason}"
        for one in tried.runs
        if not isinstance(one.result.outcome, Score)
    )
    for why, many in without.most_common():
        yield f"no score in {many} of {number}: {why}"
    if tried.remedy:
        yield f"to fix it: {tried.remedy}"
    if tried.settings is not None:
        yield f"cost: {dollars(tried.dollars) if tried.dollars else 'nothing, or the price is unknown'}"
