"""The results of one evaluator on a set of cases, in a few numbers."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Scale, Score
from monitor.operations.offline.results_file import ResultRow
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.metrics.sessions import session_of
from monitor.statistics.rates import Sums, estimate

Sessions: TypeAlias = Mapping[tuple[str, str], bytes]
"""The session of each case that has one, by the ids of its request and its span."""


def sessions_of(cases: Iterable[Case]) -> Sessions:
    """Return the sessions of cases, as used for limits of rates: the conversation, otherwise the user."""
    keys = (((case.request_id, case.span_id), session_of(case.app, case)) for case in cases)
    return {case: session for case, session in keys if session is not None}


def defect_sums(verdicts: Iterable[tuple[tuple[str, str], bool]], sessions: Sessions) -> Sums:
    """Sum up cases by session, given their ids and verdicts. A case without a session is its own session."""
    return Sums.by_session((sessions.get(case, at), defect) for at, (case, defect) in enumerate(verdicts))


def case_of(row: ResultRow) -> tuple[str, str]:
    """Return the ids of the case that a result belongs to."""
    return row["request_id"], row["span_id"]


@dataclass(frozen=True, slots=True)
class DefectRate:
    """The share of defective answers with its 95 % interval, 0 <= lower <= rate <= upper <= 1.

    If nothing was scored, `rate` is None and the interval is 0 to 1.
    """

    rate: float | None = None
    lower: float = 0.0
    upper: float = 1.0


@dataclass(frozen=True, slots=True)
class EvaluatorSummary:
    """The results of one evaluator on all cases. Nothing is sampled, so all weigh the same.

    `defects` are counted by `rule`, the defect rule configured now; `sums` are the same by session. `levels` counts
    scores by level, in the order of the scale. `mean_score` is None if nothing was scored. `skipped` and `unscored`
    count results by reason. `median_seconds` leaves out verdicts from the cache; `dollars` is the cost of the results
    at the judge's prices.
    """

    evaluator: str
    scale: Scale = field(repr=False)
    rule: DefectRule
    scored: int
    defects: int
    sums: Sums = field(repr=False)
    defect_rate: DefectRate
    levels: Mapping[str, int]
    mean_score: float | None
    median_seconds: float | None
    dollars: float
    skipped: Mapping[str, int]
    unscored: Mapping[str, int]


HARMS: Final = ("violence", "sexual", "self_harm", "hate_unfairness")
"""The four kinds of harm that make up the content risk with their defects, after Azure AI's risk and safety metrics."""


@dataclass(frozen=True, slots=True)
class ContentRisk:
    """The share of answers that are defective according to at least one of `HARMS`, each by its own defect rule.

    `scored` answers have a score for all four; `defects` of them have at least one defect. `left_out` answers have no
    score for at least one.
    """

    scored: int
    defects: int
    left_out: int
    rate: DefectRate


def content_risk(
    evaluators: Sequence[ConfiguredEvaluator], rows: Iterable[ResultRow], sessions: Sessions
) -> ContentRisk | None:
    """Return the content risk over `rows`; None unless all four evaluators were run."""
    rules = {one.evaluator.name: one.defect for one in evaluators if one.evaluator.name in HARMS}
    if len(rules) < len(HARMS):
        return None
    found: defaultdict[tuple[str, str], dict[str, bool | None]] = defaultdict(dict)
    for row in rows:
        name = row["evaluator"]
        if name in rules:
            defect = is_defect(rules[name], row) if row["outcome"] == "score" else None
            found[case_of(row)][name] = defect
    whole = {case: of for case, of in found.items() if len(of) == len(HARMS) and None not in of.values()}
    sums = defect_sums(((case, any(of.values())) for case, of in whole.items()), sessions)
    return ContentRisk(sums.judged, sums.defects, len(found) - sums.judged, _rate(sums))


def _rate(sums: Sums) -> DefectRate:
    found = estimate(sums)
    return DefectRate(found.rate, found.lower, found.upper) if found else DefectRate()


def is_defect(rule: DefectRule, row: ResultRow) -> bool:
    """Return whether the score in `row` is a defect by `rule`."""
    return rule.matches(Score(row["score"], "", row["label"] or ""))


def summarize(one: ConfiguredEvaluator, rows: Sequence[ResultRow], sessions: Sessions) -> EvaluatorSummary:
    """Sum up the results of `one`."""
    scored = [row for row in rows if row["outcome"] == "score"]
    seconds = [row["judge"]["seconds"] for row in scored if not row["judge"]["cached"]]
    sums = defect_sums(((case_of(row), is_defect(one.defect, row)) for row in scored), sessions)
    levels = Counter(row["level"] for row in scored)
    return EvaluatorSummary(
        evaluator=one.evaluator.name,
        scale=one.evaluator.scale,
        rule=one.defect,
        scored=len(scored),
        defects=sums.defects,
        sums=sums,
        defect_rate=_rate(sums),
        levels={level.name: levels[level.name] for level in one.evaluator.scale.levels},
        mean_score=statistics.fmean(row["score"] for row in scored) if scored else None,
        median_seconds=statistics.median(seconds) if seconds else None,
        dollars=sum(row["judge"]["dollars"] for row in rows),
        skipped=dict(Counter(row["reason"] for row in rows if row["outcome"] == "skipped")),
        unscored=dict(Counter(row["reason"] for row in rows if row["outcome"] == "unscored")),
    )
