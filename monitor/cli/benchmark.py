"""`rag-monitor benchmark`: how good evaluators are, measured on labelled answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from monitor import config as configuration
from monitor.cli import _options
from monitor.cli.console.output import (
    clean,
    echo_json,
    echo_lines,
    fit,
    line_width,
    report,
    without_empty,
    wrap,
    writing,
)
from monitor.cli.console.progress import Bars
from monitor.operations.benchmark import EvaluatorBenchmark, FileBenchmark, benchmark_file, draw_plot
from monitor.operations.event_loop import run_async
from monitor.operations.offline.scoring import choose_evaluators
from monitor.quantities import dollars, percent, timing
from monitor.statistics.quality.bootstrap import Interval
from monitor.statistics.quality.quality import Tested
from monitor.statistics.quality.ranking import Confusion


def benchmark(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="LABELLED",
            help="Rows of any shape, each with `label`: 1 defective, 0 good. As .jsonl, .json or .csv.",
        ),
    ],
    *,
    evaluators: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            autocompletion=_options.complete_evaluators,
            help="Evaluators to measure. Default: those of the configuration.",
        ),
    ] = None,
    config: _options.ConfigPath = None,
    prompt: _options.Prompt = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Score only this many rows of each file, chosen by a hash of their ids.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw ROC curves and a reliability diagram into this file.")
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Measure on labelled answers how well evaluators tell defective ones from good ones, and at what cost.

    Prints one table per file. If an evaluator learns, such as `learned_groundedness`, it learns from the labels of one
    half of the groups, and all evaluators are measured on the other half. Exit status 1: a file or row could not be
    read; the others are still measured.
    """
    loaded = _options.with_prompt(configuration.load(config), prompt)
    chosen = choose_evaluators(loaded, _options.comma_list(evaluators), report=report)
    if plot is not None:  # before any judge is paid
        with writing("--plot", plot):
            plot.open("a").close()
    unreadable = 0
    found = []
    for path in paths:
        measure = partial(benchmark_file, loaded, chosen, path, limit=limit, report=report, progress=Bars())
        try:
            one = run_async(measure)
        except OSError as error:
            unreadable += 1
            report(f"{path}: cannot be read: {error.strerror}")
            continue
        unreadable += one.unreadable
        found.append(one)
        if not as_json:
            echo_lines([*_lines(one), ""])
    if as_json:
        echo_json({"files": [_file_object(one) for one in found]})
    if plot is not None:
        plot.write_text(draw_plot(found), encoding="utf-8")
        report(f"wrote {plot}")
    if unreadable:
        raise typer.Exit(1)


def _lines(found: FileBenchmark) -> Iterator[str]:
    share = percent(found.defective / found.rows if found.rows else None)
    answers = f"{found.rows} labelled answers in {found.groups} groups"
    yield f"{clean(found.path.name)}: {answers}, {found.defective} ({share}) are defective"
    if found.trained is not None:
        yield f"learned from {found.trained} of them, half of the groups; all evaluators are measured on the other half"
    if found.without_answer:
        yield f"{found.without_answer} more rows have no answer, or documents without text"
    for header, line in _TABLES:
        columns = without_empty(zip(header, *map(line, found.evaluators), strict=True))
        if len(columns) > 1:
            yield ""
            yield from fit(list(zip(*columns, strict=True)), line_width())
    yield from _without_score(found.evaluators)
    if found.paid:
        yield ""
        yield f"paid: {dollars(found.paid)}, including calls without a result"


def _without_score(found: Sequence[EvaluatorBenchmark]) -> Iterator[str]:
    """Yield, for each reason, how many answers evaluators have not scored."""
    evaluators: dict[tuple[str, str, int], list[str]] = {}
    for one in found:
        for (outcome, reason), number in one.not_scored.items():
            evaluators.setdefault((outcome, reason, -number), []).append(one.name)
    if not evaluators:
        return
    yield ""
    yield "answers without a score"
    named = {f"{outcome}: {reason} {-number}": who for (outcome, reason, number), who in sorted(evaluators.items())}
    for name, who in named.items():
        yield from wrap(name, who, line_width(), indent=max(map(len, named)) + 2)


def _scores(one: EvaluatorBenchmark) -> list[str]:
    quality = one.quality
    return [
        one.name,
        str(quality.answers),
        _with_interval(quality.auroc, quality.auroc_interval),
        _with_interval(quality.average_precision, quality.average_precision_interval),
    ]


def _configured(one: EvaluatorBenchmark) -> list[str]:
    rule = one.quality.by_rule
    figures = [percent(rule.recall), percent(rule.alarms), f"{rule.f1:.3f}", f"{rule.balanced_accuracy:.3f}"]
    known = one.quality.answers and not one.configured.ranks
    return [one.name, str(one.configured.defect), *(figures if known else ["-"] * len(figures))]


def _best(one: EvaluatorBenchmark) -> list[str]:
    f1, balanced = one.quality.best_f1, one.quality.best_balanced
    return [
        one.name,
        _rule(one, f1),
        f"{f1.confusion.f1:.3f}" if f1 else "-",
        _rule(one, balanced),
        f"{balanced.confusion.balanced_accuracy:.3f}" if balanced else "-",
    ]


def _costs(one: EvaluatorBenchmark) -> list[str]:
    return [
        one.name,
        _with_interval(one.quality.calibration_error, None),
        _with_interval(one.quality.calibration_by_chance, None),
        f"{timing(one.seconds.median)}, {timing(one.seconds.p95)}" if one.seconds else "-",
        f"{dollars(one.dollars.median)}, {dollars(one.dollars.p95)}" if one.cost and one.dollars else "-",
        dollars(one.cost),
    ]


_TABLES: Final = (
    (("evaluator", "scored", "AUROC", "average precision"), _scores),
    (("evaluator", "configured rule", "recall", "false alarms", "F1", "balanced accuracy"), _configured),
    (("evaluator", "best threshold by F1", "F1", "by balanced accuracy", "balanced accuracy"), _best),
    (("evaluator", "calibration error", "by chance", "time a case, p50, p95", "cost a case, p50, p95", "cost"), _costs),
)
"""Tables with a line for each evaluator: the header, and the function that makes a line."""


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" ({interval.lower:.3f} to {interval.upper:.3f})" if interval else "")


def _rule(one: EvaluatorBenchmark, tested: Tested | None) -> str:
    if tested is None:
        return "-"
    rule = one.rule(tested)
    return f"{rule.kind.replace('_', ' ')} {rule.threshold:.3g}" if rule else "all are defective"


def _file_object(found: FileBenchmark) -> dict[str, Any]:
    """Return everything the table shows, and the bins of the reliability diagram; null if unknown."""
    return {
        "file": str(found.path),
        "rows": found.rows,
        "defective": found.defective,
        "groups": found.groups,
        "unreadable": found.unreadable,
        "without_answer": found.without_answer,
        "dollars_paid": found.paid,
        "trained_on": found.trained,
        "evaluators": [_evaluator_object(one) for one in found.evaluators],
    }


def _evaluator_object(one: EvaluatorBenchmark) -> dict[str, Any]:
    quality = one.quality
    return {
        "evaluator": one.name,
        "version": one.configured.evaluator.version,
        "scored": quality.answers,
        "defective": quality.defective,
        "not_scored": [
            {"outcome": outcome, "reason": reason, "count": count}
            for (outcome, reason), count in sorted(one.not_scored.items())
        ],
        "auroc": quality.auroc,
        "auroc_interval": quality.auroc_interval,
        "average_precision": quality.average_precision,
        "average_precision_interval": quality.average_precision_interval,
        "configured_rule": {"rule": str(one.configured.defect), **_confusion(quality.by_rule)},
        "best_f1": _tested(one, quality.best_f1),
        "best_balanced_accuracy": _tested(one, quality.best_balanced),
        "calibration_error": quality.calibration_error,
        "calibration_error_by_chance": quality.calibration_by_chance,
        "reliability": [bin_._asdict() for bin_ in quality.bins],
        "seconds": one.seconds._asdict() if one.seconds else None,
        "dollars": one.dollars._asdict() if one.dollars else None,
        "dollars_of_results": one.cost,
    }


def _tested(one: EvaluatorBenchmark, tested: Tested | None) -> dict[str, Any] | None:
    if tested is None:
        return None
    rule = one.rule(tested)
    return {"rule": {rule.kind: rule.threshold} if rule else "all", **_confusion(tested.confusion)}


def _confusion(counts: Confusion) -> dict[str, float]:
    derived = {name: getattr(counts, name) for name in ("recall", "alarms", "f1", "balanced_accuracy")}
    return {**counts._asdict(), **derived}
