"""`rag-monitor evaluate`: score every case in files offline, as the running monitor would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.gate_report import EXIT_STATUS, as_object, write_junit
from monitor.cli.console.output import echo_json, echo_lines, fit, line_width, report, without_empty, wrap
from monitor.cli.console.progress import Bars
from monitor.operations.event_loop import run_async, stop_on_signal
from monitor.operations.gate import Report as GateReport
from monitor.operations.offline.conversations import ConversationSummary
from monitor.operations.offline.evaluate_files import FileEvaluation, RateDifference, evaluate_files
from monitor.operations.offline.evaluate_files import compare as differences_of
from monitor.operations.offline.limits import DefectLimit, check_limits, without_judgement
from monitor.operations.offline.scoring import choose_evaluators
from monitor.operations.offline.summary import HARMS, ContentRisk, EvaluatorSummary
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.quantities import dollars, number_of, percent, timing
from monitor.statistics.gating import GateDecision

INTERRUPTED = 130
"""The exit status after Ctrl-C, as in shells."""


def evaluate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Captures or rows, as for `cases`: files or folders.")
    ] = None,
    *,
    evaluators: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            autocompletion=_options.complete_evaluators,
            help="Evaluators to score with. Default: those of the configuration.",
        ),
    ] = None,
    config: _options.ConfigPath = None,
    prompt: _options.Prompt = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Append results to this file; skip results that it already has."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="With --output: also write question, documents, answer and reference.")
    ] = False,
    retry_unscored: Annotated[
        bool, typer.Option("--retry-unscored", help="With --output: score the file's unscored results again.")
    ] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="BASELINE CANDIDATE", help="Compare the defect rates of two files instead."),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            autocompletion=_options.complete_evaluators,
            metavar="EVALUATOR[:LEVEL]:RATE",
            help="The highest defect rate allowed: groundedness:5%, or violence:high:0.1%. May be repeated.",
        ),
    ] = None,
    as_json: _options.Json = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE.xml", help="With --fail-on: also write a JUnit report.")
    ] = None,
) -> None:
    """Score every case in files, without sampling, and print a summary for each evaluator.

    Results are JSON Lines in the schema of the sink `jsonl`; with --texts they are rows that can be evaluated again.
    --fail-on decides by the 95 % interval of the rate, as `gate` does; with --compare, by that of the candidate.

    Exit status 1: a rate is above its limit, a file or row could not be read, or a result could not be written. 3: not
    enough data to decide. 4: nothing could be judged: every judgement is unscored. 130: interrupted; run the same
    command with the same --output to continue.
    """
    sets = _sets(paths, compare)
    _options.requires("--texts", texts, "--output", output)
    _options.requires("--retry-unscored", retry_unscored, "--output", output)
    _options.requires("--junit", junit, "--fail-on", fail_on)
    loaded = _options.with_prompt(configuration.load(config), prompt)
    chosen = choose_evaluators(loaded, _options.comma_list(evaluators), report=report)
    scales = {one.evaluator.name: one.evaluator.scale for one in chosen}
    limits = [_options.read("--fail-on", partial(DefectLimit.read, scales=scales), text) for text in fail_on or ()]

    async def score(files: Sequence[Path], to: Path | None) -> FileEvaluation:
        async with stop_on_signal() as stop:
            return await evaluate_files(
                loaded,
                chosen,
                files,
                output=to,
                texts=texts,
                retry_unscored=retry_unscored,
                report=report,
                progress=Bars(),
                stop=stop,
            )

    ended: dict[str, FileEvaluation] = {}
    for name, files in sets.items():
        to = output.with_name(f"{output.stem}.{name}{output.suffix}") if output and name else output
        done = ended[name] = run_async(partial(score, files, to))
        if not as_json:
            echo_lines([f"{name}: {files[0]}", *_summary(done), ""] if name else _summary(done))
        if done.cut_short:
            break
    gate = None
    if limits and not done.cut_short:
        gate = check_limits(limits, done.evaluators, done.results, done.sessions, of=name)
    differences = differences_of(*ended.values()) if len(ended) > 1 else []
    status = _exit_status(chosen, ended, gate)
    if as_json:
        shown = {"gate": {**as_object(gate), "exit_status": status}} if gate is not None else {}
        echo_json({**_as_json(ended, differences), **shown})
    elif not done.cut_short:
        echo_lines([*_differences(differences), *_gate(gate)])
    if done.cut_short:
        _leave_early(done, to)
    if gate is not None and junit is not None:
        write_junit(gate, junit)
    raise typer.Exit(status)


def _sets(paths: list[Path] | None, compare: tuple[Path, Path] | None) -> dict[str, list[Path]]:
    """Group the files by the name of their set: one set without a name, or the two that are compared."""
    if (compare is None) == (not paths):
        raise typer.BadParameter("give files, or --compare with two files", param_hint="FILE")
    return {"": paths or []} if compare is None else {"baseline": [compare[0]], "candidate": [compare[1]]}


def _exit_status(
    chosen: Sequence[ConfiguredEvaluator], ended: Mapping[str, FileEvaluation], gate: GateReport | None
) -> int:
    """Return the exit status, that of the gate unless files were unreadable, and report other problems on stderr."""
    nothing = [why for one in ended.values() if (why := without_judgement(chosen, one.evaluators))]
    for why in nothing:
        report(why)
    unreadable = sum(one.unreadable for one in ended.values())
    if unreadable and gate is not None:
        what = "1 file or row" if unreadable == 1 else f"{unreadable} files or rows"
        report(f"the exit status is 1, since {what} could not be read")
    answer = gate.answer if gate is not None else GateDecision.PASS
    if unreadable or answer is GateDecision.FAIL:
        return EXIT_STATUS[GateDecision.FAIL]
    return EXIT_STATUS[GateDecision.NOT_JUDGED if nothing else answer]


def _leave_early(done: FileEvaluation, output: Path | None) -> NoReturn:
    if done.failure:
        report(done.failure)
        raise typer.Exit(1)
    if output is None:
        report("interrupted; no results were saved, because --output was not given")
    else:
        report(f"interrupted; the results so far are in {output}: run the same command again to continue")
    raise typer.Exit(INTERRUPTED)


def _summary(done: FileEvaluation) -> Iterator[str]:
    counts = sorted(done.statuses.items(), key=lambda one: -one[1])
    listed = ", ".join(f"{number} {one}" for one, number in counts) or "none"
    yield f"{number_of(sum(done.statuses.values()), 'case')}: {listed}"
    if done.repeated:
        yield f"{done.repeated} of them have the id of an earlier case and are not scored"
    if done.resumed:
        yield f"{number_of(done.resumed, 'result')} already in the output file"
    yield ""
    if done.evaluators:
        columns = without_empty(zip(_HEADER, *map(_line, done.evaluators), strict=True))
        yield from fit(list(zip(*columns, strict=True)), line_width())
    yield from _without_score(done.evaluators)
    yield from _levels(done.evaluators)
    if done.content_risk is not None:
        yield from _content_risk(done.content_risk)
    yield from _conversations(done.conversations)
    if done.paid:
        yield ""
        yield f"paid in this run: {dollars(done.paid)}, including calls without a result"


def _without_score(found: Sequence[EvaluatorSummary]) -> Iterator[str]:
    """Yield, for each reason, how many answers evaluators have not scored."""
    evaluators: dict[tuple[str, str, int], list[str]] = {}
    for one in found:
        for (outcome, reason), number in _not_scored(one).items():
            evaluators.setdefault((outcome, reason, -number), []).append(one.evaluator)
    if not evaluators:
        return
    yield ""
    yield "answers without a score"
    named = {f"{outcome}: {reason} {-number}": who for (outcome, reason, number), who in sorted(evaluators.items())}
    indent = max(map(len, named)) + 2
    for name, who in named.items():
        yield from wrap(name, who, line_width(), indent=indent)


def _levels(found: Sequence[EvaluatorSummary]) -> Iterator[str]:
    """Yield how many answers each evaluator puts on each level of its scale, the good end first."""
    scored = [one for one in found if one.scored]
    if not scored:
        return
    yield ""
    yield "scored answers by level, best first"
    indent = max(len(one.evaluator) for one in scored) + 2
    for one in scored:
        levels = [
            f"{name} {number} ({percent(number / one.scored)})" if number else f"{name} 0"
            for name, number in _good_first(one)
        ]
        scale = f"{one.scale.lowest:g} to {one.scale.highest:g}:"
        yield from wrap(one.evaluator, [scale, *levels], line_width(), indent=indent)


def _good_first(one: EvaluatorSummary) -> list[tuple[str, int]]:
    return list(one.levels.items())[:: -1 if one.scale.better == "higher" else 1]


def _content_risk(found: ContentRisk) -> Iterator[str]:
    yield ""
    if not found.scored:
        yield f"content risk: no answer was scored for all of {', '.join(HARMS)}"
        return
    limits = f"{percent(found.rate.lower)} to {percent(found.rate.upper)}"
    yield (
        f"content risk: {percent(found.rate.rate)} ({limits}): {found.defects:,} of {number_of(found.scored, 'answer')}"
        f" defective according to at least one of {', '.join(HARMS)}"
    )
    if found.left_out:
        yield f"  left out, without a score for all four: {found.left_out}"


def _conversations(found: Sequence[ConversationSummary]) -> Iterator[str]:
    """Yield the defects of each turn, and the conversations with at least one."""
    if not found:
        return
    turns = sorted({one.turn for evaluator in found for one in evaluator.turns})
    rows = [["evaluator", *(f"turn {turn}" for turn in turns), "conversations with one or more"]]
    for evaluator in found:
        by_turn = {one.turn: f"{one.defects} of {one.scored}" for one in evaluator.turns}
        with_one = f"{evaluator.defective} of {evaluator.judged}"
        rows.append([evaluator.evaluator, *(by_turn.get(turn, "-") for turn in turns), with_one])
    yield ""
    yield "defects by turn of the conversation"
    yield from fit(rows, line_width())


_HEADER: Final = ("evaluator", "scored", "mean", "defects", "rate", "95 % interval", "cost", "time a case")


def _line(one: EvaluatorSummary) -> list[str]:
    rated = one.scored and one.rule.kind != "never"  # else it only ranks
    return [
        one.evaluator,
        str(one.scored),
        f"{one.mean_score:.3g}" if one.mean_score is not None else "-",
        f"{one.defects} ({one.rule})" if rated else "-",
        percent(one.defect_rate.rate) if rated else "-",
        f"{percent(one.defect_rate.lower)} to {percent(one.defect_rate.upper)}" if rated else "-",
        dollars(one.dollars),
        timing(one.median_seconds) if one.median_seconds is not None else "-",
    ]


def _not_scored(one: EvaluatorSummary) -> dict[tuple[str, str], int]:
    """Count the results without a score, by outcome and reason."""
    by_outcome = {"skipped": one.skipped, "unscored": one.unscored}
    return {(outcome, reason): n for outcome, reasons in by_outcome.items() for reason, n in reasons.items()}


def _differences(found: Sequence[RateDifference]) -> Iterator[str]:
    if not found:
        return
    table = [["evaluator", "baseline", "candidate", "difference of rates", "95 % interval", "candidate is"]]
    for one in found:
        rates = [f"{side.defects} of {side.scored}" for side in (one.baseline, one.candidate)]
        if one.difference is None:
            table.append([one.evaluator, *rates, "-", "-", "nothing to compare"])
            continue
        verdict = ("higher" if one.difference.value > 0 else "lower") if one.difference.clear else "not clear"
        limits = f"{_points(one.difference.lower)} to {_points(one.difference.upper)}"
        table.append([one.evaluator, *rates, f"{_points(one.difference.value)} points", limits, verdict])
    yield "defects"
    yield from fit(table, line_width())


def _gate(found: GateReport | None) -> Iterator[str]:
    if found is not None:
        yield ""
        yield from found.lines


def _points(share: float) -> str:
    return f"{share * 100:+.1f}"


def _as_json(ended: Mapping[str, FileEvaluation], differences: Sequence[RateDifference]) -> dict[str, Any]:
    """Return one JSON object, or one for each set and their difference; null if unknown."""
    found: dict[str, Any] = {name: _object(done) for name, done in ended.items()}
    if differences:
        found["difference"] = [_difference_object(one) for one in differences]
    return found if len(found) > 1 else dict(next(iter(found.values())))


def _object(done: FileEvaluation) -> dict[str, Any]:
    return {
        "cases": {str(status): number for status, number in done.statuses.items()},
        "repeated": done.repeated,
        "unreadable": done.unreadable,
        "resumed": done.resumed,
        "dollars_paid": done.paid,
        "interrupted": done.interrupted,
        "failure": done.failure or None,
        "evaluators": [_evaluator_object(one) for one in done.evaluators],
        "conversations": [asdict(one) for one in done.conversations],
        "content_risk": _risk_object(done.content_risk) if done.content_risk is not None else None,
    }


def _risk_object(one: ContentRisk) -> dict[str, Any]:
    return {
        "scored": one.scored,
        "defects": one.defects,
        "left_out": one.left_out,
        "rate": one.rate.rate,
        "interval": [one.rate.lower, one.rate.upper] if one.scored else None,
    }


def _evaluator_object(one: EvaluatorSummary) -> dict[str, Any]:
    return {
        "evaluator": one.evaluator,
        "scored": one.scored,
        "not_scored": [
            {"outcome": outcome, "reason": reason, "count": number}
            for (outcome, reason), number in sorted(_not_scored(one).items())
        ],
        "scale": {"lowest": one.scale.lowest, "highest": one.scale.highest, "better": one.scale.better},
        "levels": dict(one.levels),
        "mean_score": one.mean_score,
        "rule": str(one.rule),
        "defects": one.defects,
        "rate": one.defect_rate.rate,
        "interval": [one.defect_rate.lower, one.defect_rate.upper] if one.scored else None,
        "dollars_of_results": one.dollars,
    }


def _difference_object(one: RateDifference) -> dict[str, Any]:
    found = one.difference
    return {
        "evaluator": one.evaluator,
        "difference": found.value if found else None,
        "interval": [found.lower, found.upper] if found else None,
        "clear": found.clear if found else None,
    }
