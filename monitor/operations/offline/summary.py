"""The results of one evaluator on a set of cases, in a few numbers."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.model.outcome import DefectRule, Scale, Score
from monitor.operations.offline.results_file import ResultRow
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.statistics.rates import Sums, estimate


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

    `defects` are counted by `rule`, the defect rule that is configured now. `levels` counts scores by each level of the
    scale, in its order. `mean_score` is None where nothing was
    scored. `skipped` and `unscored` count results by reason. `median_seconds` leaves out verdicts from the cache;
    `dollars` is what the results have cost at the judge's prices.
    """

    evaluator: str
    scale: Scale = field(repr=False)
    rule: DefectRule
    scored: int
    defects: int
    defect_rate: DefectRate
    levels: Mapping[str, int]
    mean_score: float | None
    median_seconds: float | None
    dollars: float
    skipped: Mapping[str, int]
    unscored: Mapping[str, int]


HARMS: Final = ("violence", "sexual", "self_harm", "hate_unfairness")
"""The four kinds of harm whose defects together are the content risk, after Azure AI's risk and safety metrics."""


@dataclass(frozen=True, slots=True)
class ContentRisk:
    """The share of answers that are defective according to at least one of `HARMS`, each by its own defect rule.

    `scored` answers have a score for all four, `defects` of them at least one defect. `left_out` answers lack a score.
    """

    scored: int
    defects: int
    left_out: int
    rate: DefectRate


def content_risk(evaluators: Sequence[ConfiguredEvaluator], rows: Iterable[ResultRow]) -> ContentRisk | None:
    """Return the content risk over `rows`; None unless all four evaluators were run."""
    rules = {one.evaluator.name: one.defect for one in evaluators if one.evaluator.name in HARMS}
    if len(rules) < len(HARMS):
        return None
    found: defaultdict[tuple[str, str], dict[str, bool | None]] = defaultdict(dict)
    for row in rows:
        name = row["evaluator"]
        if name in rules:
            defect = is_defect(rules[name], row) if row["outcome"] == "score" else None
            found[row["trace_id"], row["span_id"]][name] = defect
    whole = [of for of in found.values() if len(of) == len(HARMS) and None not in of.values()]
    defects = sum(any(of.values()) for of in whole)
    limits = estimate(Sums.counted(len(whole), defects))
    rate = DefectRate(limits.rate, limits.lower, limits.upper) if limits else DefectRate()
    return ContentRisk(len(whole), defects, len(found) - len(whole), rate)


def is_defect(rule: DefectRule, row: ResultRow) -> bool:
    """Tell whether the score in `row` is a defect by `rule`."""
    return rule.matches(Score(row["score"], "", row["label"] or ""))


def summarize(one: ConfiguredEvaluator, rows: Sequence[ResultRow]) -> EvaluatorSummary:
    """Sum up the results of `one`."""
    scored = [row for row in rows if row["outcome"] == "score"]
    seconds = [row["judge"]["seconds"] for row in scored if not row["judge"]["cached"]]
    defects = sum(is_defect(one.defect, row) for row in scored)
    levels = Counter(row["level"] for row in scored)
    found = estimate(Sums.counted(len(scored), defects))
    return EvaluatorSummary(
        evaluator=one.evaluator.name,
        scale=one.evaluator.scale,
        rule=one.defect,
        scored=len(scored),
        defects=defects,
        defect_rate=DefectRate(found.rate, found.lower, found.upper) if found else DefectRate(),
        levels={level.name: levels[level.name] for level in one.evaluator.scale.levels},
        mean_score=statistics.fmean(row["score"] for row in scored) if scored else None,
        median_seconds=statistics.median(seconds) if seconds else None,
        dollars=sum(row["judge"]["dollars"] for row in rows),
        skipped=dict(Counter(row["reason"] for row in rows if row["outcome"] == "skipped")),
        unscored=dict(Counter(row["reason"] for row in rows if row["outcome"] == "unscored")),
    )
