"""Measuring evaluators for `rag-monitor benchmark`: score a labelled file, compute, show."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from monitor import compose, registry
from monitor.cli import labelled_rows, offline
from monitor.cli.console.progress import Bars
from monitor.cli.console.table import align, without_empty
from monitor.cli.console.text import clean, dollars, percent, timing
from monitor.config import Config
from monitor.model.outcome import DefectRule, Judged, Score
from monitor.operations.event_loop import run_async
from monitor.pipeline.assignment import Assignment
from monitor.statistics.quality.bootstrap import Interval
from monitor.statistics.quality.plot import Curve
from monitor.statistics.quality.quality import Labelled, Quality, Spread, Tested, measure, spread
from monitor.statistics.quality.threshold import Confusion


@dataclass(frozen=True, slots=True)
class Measured:
    """One evaluator on one file. `lost` counts what was not scored, by outcome and reason."""

    assignment: Assignment
    quality: Quality
    lost: Counter[tuple[str, str]]
    seconds: Spread | None
    dollars: Spread | None
    cost: float


@dataclass(frozen=True, slots=True)
class OfFile:
    """All evaluators on one file."""

    path: Path
    rows: int
    defective: int
    groups: int
    unreadable: int
    without_answer: int
    paid: float
    measured: tuple[Measured, ...]


def run(config: Config, assignments: Sequence[Assignment], path: Path, limit: int | None) -> OfFile:
    """Score every labelled row of a file with every evaluator, and measure. Raises `OSError`."""
    read_trace = partial(compose.read, conventions=registry.conventions(), settings=config.extraction)
    with Bars().reading([path]) as advance:
        labels = labelled_rows.read(path, read_trace, sys.stderr, advance)
    chosen = labelled_rows.sample(labels.cases, limit)
    # Numbers for ids: two rows of a file may well have the same, and still both are labelled.
    cases = [replace(one.case, request_id=str(number)) for number, one in enumerate(chosen)]
    judged: list[Judged] = []
    runtime = offline.runtime()

    async def deliver(one: Judged) -> None:
        judged.append(one)

    async def main() -> None:
        with Bars().steps(len(cases), path.name) as scored:
            await offline.score(
                config,
                assignments,
                cases,
                runtime=runtime,
                deliver=deliver,
                delivered=offline.Nothing(),
                scored=scored,
            )

    run_async(main)
    judged.sort(key=lambda one: int(one.case.request_id))  # judges answer in any order, the draws must not
    return OfFile(
        path,
        rows=len(chosen),
        defective=sum(one.defective for one in chosen),
        groups=len({one.group for one in chosen}),
        unreadable=labels.unreadable,
        without_answer=labels.without_answer,
        paid=offline.paid(runtime),
        measured=tuple(
            _measured(one, [result for result in judged if result.evaluator == one.evaluator.name], chosen)
            for one in assignments
        ),
    )


def _measured(one: Assignment, results: Sequence[Judged], rows: Sequence[labelled_rows.LabelledCase]) -> Measured:
    answers: list[Labelled] = []
    lost: Counter[tuple[str, str]] = Counter()
    for result in results:
        row = rows[int(result.case.request_id)]
        if isinstance(result.outcome, Score):
            answers.append(Labelled(row.group, row.defective, result.outcome.value, result.defect))
        else:
            lost[type(result.outcome).__name__.lower(), str(result.outcome.reason)] += 1
    paid = [result.spending for result in results if isinstance(result.outcome, Score) and not result.spending.cached]
    return Measured(
        one,
        measure(answers, one.evaluator.scale.better, random.Random(0)),
        lost,
        spread([spent.seconds for spent in paid]),
        spread([spent.dollars for spent in paid]),
        sum(result.spending.dollars for result in results),
    )


def lines(found: OfFile) -> Iterator[str]:
    """What was measured, a column for each evaluator."""
    share = percent(found.defective / found.rows if found.rows else None)
    answers = f"{found.rows} labelled answers in {found.groups} groups"
    yield f"{clean(found.path.name)}: {answers}, {found.defective} ({share}) are defective"
    if found.without_answer:
        yield f"{found.without_answer} rows more have no answer, or documents without texts"
    yield ""
    reasons = sorted({reason for one in found.measured for reason in one.lost})
    table = [_column(one, reasons) for one in found.measured]
    names = ["", "scored", *(f"{outcome}: {reason}" for outcome, reason in reasons)]
    names += ["AUROC", "average precision"]
    names += ["configured rule", "  caught, false alarms", "  F1, balanced accuracy"]
    names += ["threshold for F1", "  F1", "threshold for balance", "  balanced accuracy"]
    names += ["calibration error", "  by chance alone"]
    names += ["time a case, median, p95", "cost a case, median, p95", "cost of verdicts"]
    yield from align(without_empty(zip(names, *table, strict=True)))
    if found.paid:
        yield f"paid: {dollars(found.paid)}, calls that came to no verdict included"


def _column(one: Measured, reasons: Sequence[tuple[str, str]]) -> list[str]:
    quality, rule = one.quality, one.quality.by_rule
    f1, balanced = quality.best_f1, quality.best_balanced
    return [
        one.assignment.evaluator.name,
        str(quality.answers),
        *(str(one.lost[reason]) if one.lost[reason] else "-" for reason in reasons),
        _with_interval(quality.auroc, quality.auroc_interval),
        _with_interval(quality.average_precision, quality.average_precision_interval),
        str(one.assignment.defect),
        f"{percent(rule.recall)}, {percent(rule.alarms)}" if quality.answers else "-",
        f"{rule.f1:.3f}, {rule.balanced_accuracy:.3f}" if quality.answers else "-",
        _rule(one, f1),
        f"{f1.confusion.f1:.3f}" if f1 else "-",
        _rule(one, balanced),
        f"{balanced.confusion.balanced_accuracy:.3f}" if balanced else "-",
        _number(quality.calibration_error),
        _number(quality.calibration_by_chance),
        f"{timing(one.seconds.median)}, {timing(one.seconds.p95)}" if one.seconds else "-",
        f"{dollars(one.dollars.median)}, {dollars(one.dollars.p95)}" if one.cost and one.dollars else "-",
        dollars(one.cost),
    ]


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" ({interval.lower:.3f} to {interval.upper:.3f})" if interval else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _threshold(one: Measured, tested: Tested) -> DefectRule | None:
    """A threshold in the words of the configuration; None where every answer is called defective."""
    if tested.score is None:
        return None
    return DefectRule("below" if one.assignment.evaluator.scale.better == "higher" else "at_least", tested.score)


def _rule(one: Measured, tested: Tested | None) -> str:
    if tested is None:
        return "-"
    rule = _threshold(one, tested)
    return f"{rule.kind.replace('_', ' ')} {rule.threshold:.3g}" if rule else "all are defective"


def as_json(found: Sequence[OfFile]) -> str:
    """Everything that the tables show, and the bins of the reliability diagram. Null where nothing can be told."""
    files = [
        {
            "file": str(one.path),
            "rows": one.rows,
            "defective": one.defective,
            "groups": one.groups,
            "unreadable": one.unreadable,
            "without_answer": one.without_answer,
            "dollars_paid": one.paid,
            "evaluators": [_object(measured) for measured in one.measured],
        }
        for one in found
    ]
    return json.dumps({"files": files}, indent=1)


def _object(one: Measured) -> dict[str, Any]:
    quality = one.quality
    lost = [
        {"outcome": outcome, "reason": reason, "count": count} for (outcome, reason), count in sorted(one.lost.items())
    ]
    return {
        "evaluator": one.assignment.evaluator.name,
        "version": one.assignment.evaluator.version,
        "scored": quality.answers,
        "defective": quality.defective,
        "not_scored": lost,
        "auroc": quality.auroc,
        "auroc_interval": quality.auroc_interval,
        "average_precision": quality.average_precision,
        "average_precision_interval": quality.average_precision_interval,
        "configured_rule": {"rule": str(one.assignment.defect), **_confusion(quality.by_rule)},
        "best_f1": _chosen(one, quality.best_f1),
        "best_balanced_accuracy": _chosen(one, quality.best_balanced),
        "calibration_error": quality.calibration_error,
        "calibration_error_by_chance": quality.calibration_by_chance,
        "reliability": [bin_._asdict() for bin_ in quality.bins],
        "seconds": one.seconds._asdict() if one.seconds else None,
        "dollars": one.dollars._asdict() if one.dollars else None,
        "dollars_of_verdicts": one.cost,
    }


def _chosen(one: Measured, tested: Tested | None) -> dict[str, Any] | None:
    if tested is None:
        return None
    rule = _threshold(one, tested)
    return {"rule": {rule.kind: rule.threshold} if rule else "all", **_confusion(tested.confusion)}


def _confusion(counts: Confusion) -> dict[str, float]:
    derived = {name: getattr(counts, name) for name in ("recall", "alarms", "f1", "balanced_accuracy")}
    return {**counts._asdict(), **derived}


def curves(found: Sequence[OfFile]) -> list[Curve]:
    """What is drawn: a curve for each evaluator and file that can be drawn."""
    several = len(found) > 1
    return [
        Curve(
            f"{measured.assignment.evaluator.name}{f', {clean(one.path.stem)}' if several else ''}",
            measured.quality.roc,
            measured.quality.auroc,
            tuple((bin_.predicted, bin_.observed, bin_.number) for bin_ in measured.quality.bins),
        )
        for one in found
        for measured in one.measured
        if measured.quality.auroc is not None
    ]
