"""Measures on labelled answers how well evaluators tell defective answers from good ones, and at what cost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from monitor.config import Config
from monitor.model.outcome import DefectRule, EvaluationResult, Score
from monitor.operations.event_loop import unwrap_errors
from monitor.operations.offline.labelled import LabelledCase, hashed, in_first_half, read_labelled, sample
from monitor.operations.offline.scoring import score
from monitor.operations.progress import NO_PROGRESS, Progress, Report, ignore
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.learned import LearnedOrder
from monitor.stages import Runtime
from monitor.statistics.quality import plot
from monitor.statistics.quality.quality import Labelled, Quality, Spread, Tested, measure, spread
from monitor.telemetry.metrics import total


@dataclass(frozen=True, slots=True)
class EvaluatorBenchmark:
    """One evaluator on one file.

    `not_scored` counts results by outcome and reason. `seconds` and `dollars` are per scored answer, without answers
    from the cache; None if there are none. `cost` is the cost of all its results, in US dollars.
    """

    configured: ConfiguredEvaluator
    quality: Quality
    not_scored: Mapping[tuple[str, str], int]
    seconds: Spread | None
    dollars: Spread | None
    cost: float

    @property
    def name(self) -> str:
        """The evaluator's name."""
        return self.configured.evaluator.name

    def rule(self, tested: Tested) -> DefectRule | None:
        """Return a threshold as a defect rule for the configuration; None if it calls every answer defective."""
        if tested.score is None:
            return None
        better = self.configured.evaluator.scale.better
        return DefectRule("below" if better == "higher" else "at_least", tested.score)


@dataclass(frozen=True, slots=True)
class FileBenchmark:
    """All evaluators on one file. `paid` is the cost of all calls in US dollars, including those without a result.

    `trained` is the number of rows that an evaluator has learned from; then all are measured on the other rows only. It
    is None if no evaluator learns.
    """

    path: Path
    rows: int
    defective: int
    groups: int
    unreadable: int
    without_answer: int
    paid: float
    trained: int | None
    evaluators: tuple[EvaluatorBenchmark, ...]


async def benchmark_file(
    config: Config,
    evaluators: Sequence[ConfiguredEvaluator],
    path: Path,
    *,
    limit: int | None = None,
    report: Report = ignore,
    progress: Progress = NO_PROGRESS,
) -> FileBenchmark:
    """Score every labelled row of a file with every evaluator, and measure each against the labels.

    The file has rows of any shape as JSON Lines, each with `label`: 1 defective, 0 good. With `limit`, only that many
    rows are scored, chosen by a hash of their ids. `report` gets messages about unreadable rows. An evaluator that
    learns is taught with the labels of half of the groups, chosen by a hash; then every evaluator is measured on the
    other half. Raises `ConfigError` if a judge cannot work, and `OSError` if the file cannot be read.
    """
    with progress.reading([path]) as advance:
        labelled = read_labelled(path, config.extraction, report=report, advance=advance)
    chosen = sample(labelled.cases, limit)
    # Numbers as ids: two rows of a file may have the same id, and both are labelled.
    cases = [replace(one.case, request_id=str(number)) for number, one in enumerate(chosen)]
    results: list[EvaluationResult] = []
    runtime = Runtime.standalone()

    async def deliver(one: EvaluationResult) -> None:
        results.append(one)

    with progress.steps(len(cases), path.name) as scored, unwrap_errors():
        await score(config, evaluators, cases, runtime=runtime, deliver=deliver, scored=scored)
    results.sort(key=lambda one: int(one.case.request_id))  # judges answer in any order, but draws must be reproducible
    learns = [one for one in evaluators if one.evaluator.rescores]
    taught = {number for number, one in enumerate(chosen) if learns and in_first_half(one.group)}
    for one in learns:
        _teach(one, results, chosen, taught)
    results = [one for one in results if int(one.case.request_id) not in taught]
    return FileBenchmark(
        path,
        rows=len(chosen),
        defective=sum(one.defective for one in chosen),
        groups=len({one.group for one in chosen}),
        unreadable=labelled.unreadable,
        without_answer=labelled.without_answer,
        paid=total(runtime.metrics.judge_cost),
        trained=len(taught) if learns else None,
        evaluators=tuple(
            _measure(one, [result for result in results if result.evaluator == one.evaluator.name], chosen)
            for one in evaluators
        ),
    )


def _teach(
    one: ConfiguredEvaluator, results: list[EvaluationResult], rows: Sequence[LabelledCase], taught: set[int]
) -> None:
    """Teach an evaluator the labels of the rows with these numbers, and replace its first scores by the learned ones.

    The file is one app. Files are often sorted, so it learns in the order of a hash.
    """
    order = LearnedOrder(measured_by=one.evaluator.rescores)
    own = {
        int(result.case.request_id): at for at, result in enumerate(results) if result.evaluator == one.evaluator.name
    }
    for number in sorted(taught & own.keys(), key=lambda number: hashed(str(number))):
        order.label_of("", results[own[number]].outcome, defect=rows[number].defective)
    for at in own.values():
        results[at] = replace(results[at], outcome=order.rescored("", results[at].outcome, one))


def draw_plot(found: Sequence[FileBenchmark]) -> str:
    """Draw the ROC curves and the reliability diagram as SVG, a curve for each evaluator and file that has one."""
    several = len(found) > 1
    return plot.draw(
        [
            plot.Curve(
                f"{one.name}{f', {_printable(file.path.stem)}' if several else ''}",
                one.quality.roc,
                one.quality.auroc,
                tuple((bin_.predicted, bin_.observed, bin_.number) for bin_ in one.quality.bins),
            )
            for file in found
            for one in file.evaluators
            if one.quality.auroc is not None
        ]
    )


def _printable(name: str) -> str:
    """Replace characters that an SVG may not contain, such as control characters."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in name)


def _measure(
    one: ConfiguredEvaluator, results: Sequence[EvaluationResult], rows: Sequence[LabelledCase]
) -> EvaluatorBenchmark:
    answers: list[Labelled] = []
    not_scored: Counter[tuple[str, str]] = Counter()
    for result in results:
        row = rows[int(result.case.request_id)]
        if isinstance(result.outcome, Score):
            answers.append(Labelled(row.group, row.defective, result.outcome.value, result.defect))
        else:
            not_scored[result.outcome.kind, str(result.outcome.reason)] += 1
    paid = [result.cost for result in results if isinstance(result.outcome, Score) and not result.cost.cached]
    return EvaluatorBenchmark(
        one,
        measure(answers, one.evaluator.scale.better, random.Random(0)),
        not_scored,
        spread([spent.seconds for spent in paid]),
        spread([spent.dollars for spent in paid]),
        sum(result.cost.dollars for result in results),
    )
