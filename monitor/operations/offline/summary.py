"""The results of one evaluator on a set of cases, in a few numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.model.outcome import DefectRule, Scale, Score
from monitor.operations.offline.results_file import ResultRow
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.statistics.rates import Sums, interval_95


@dataclass(frozen=True, slots=True)
class DefectRate:
    """The share of defective answers with its 95 % interval, 0 <= lower <= rate <= upper <= 1.

    Where nothing was scored `rate` is None and the interval is 0 to 1.
    """

    rate: float | None = None
    lower: float = 0.0
    upper: float = 1.0


@dataclass(frozen=True, slots=True)
class EvaluatorSummary:
    """The results of one evaluator on all cases. Nothing is sampled, so all weigh the same.

    `defects` are counted by `rule`, the defect rule that is configured now. `mean_score` is None where nothing was
    scored. `skipped` and `unscored` count results by reason. `median_seconds` leaves out verdicts from the cache;
    `dollars` is what the results have cost at the judge's prices.
    """

    evaluator: str
    scale: Scale = field(repr=False)
    rule: DefectRule
    scored: int
    defects: int
    defect_rate: DefectRate
    mean_score: float | None
    median_seconds: float | None
    dollars: float
    skipped: Mapping[str, int]
    unscored: Mapping[str, int]


def summarize(one: ConfiguredEvaluator, rows: Sequence[ResultRow]) -> EvaluatorSummary:
    """Sum up the results of `one`."""
    scored = [row for row in rows if row["outcome"] == "score"]
    seconds = [row["judge"]["seconds"] for row in scored if not row["judge"]["cached"]]
    defects = sum(one.defect.matches(Score(row["score"], "", row["label"] or "")) for row in scored)
    found = interval_95(Sums(len(scored), defects, len(scored), defects, defects, len(scored) - defects))
    return EvaluatorSummary(
        evaluator=one.evaluator.name,
        scale=one.evaluator.scale,
        rule=one.defect,
        scored=len(scored),
        defects=defects,
        defect_rate=DefectRate(found.rate, found.lower, found.upper) if found else DefectRate(),
        mean_score=statistics.fmean(row["score"] for row in scored) if scored else None,
        median_seconds=statistics.median(seconds) if seconds else None,
        dollars=sum(row["judge"]["dollars"] for row in rows),
        skipped=dict(Counter(row["reason"] for row in rows if row["outcome"] == "skipped")),
        unscored=dict(Counter(row["reason"] for row in rows if row["outcome"] == "unscored")),
    )
