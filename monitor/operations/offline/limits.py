"""Limits on defect rates, checked on an evaluation: pass, fail, not enough data, or not judged.

As at the release gate, the interval decides, not the rate: see `statistics.gating`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from monitor.errors import ConfigError
from monitor.errors.explanation import nearest
from monitor.model.outcome import DefectRule, Scale
from monitor.operations.gate import Check, Limit, Report
from monitor.operations.offline.results_file import ResultRow
from monitor.operations.offline.summary import EvaluatorSummary, Sessions, case_of, defect_sums, is_defect
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.statistics.gating import Decision, GateDecision, below


@dataclass(frozen=True, slots=True)
class DefectLimit:
    """The highest defect rate allowed for an evaluator, 0 < rate <= 1.

    The evaluator's own rule says what a defect is; with a `level`, a score of this level or a worse one is a defect.
    """

    evaluator: str
    rate: float
    level: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """Split `EVALUATOR:RATE` or `EVALUATOR:LEVEL:RATE`, such as `violence:high:0.1%`. Raises `ConfigError`."""
        evaluator, _, rest = text.partition(":")
        level, colon, rate = rest.rpartition(":")
        if not rate or (colon and not level):
            raise ConfigError(f"{text!r} needs an evaluator and a rate, such as groundedness:5% or violence:high:0.1%")
        found = Limit.of(f"{evaluator}:{rate}").rate
        assert found is not None  # noqa: S101 - there is a rate
        return cls(evaluator, found, level)

    @classmethod
    def read(cls, text: str, scales: Mapping[str, Scale]) -> Self:
        """Read a limit on one of the evaluators that are run; `scales` are their scales by name.

        Raises `ConfigError`, also for a level that the scale does not have.
        """
        limit = cls.of(text)
        if limit.evaluator not in scales:
            hint = nearest(limit.evaluator, scales)
            raise ConfigError(f"{limit.evaluator!r} is not run{hint}; these are: {', '.join(scales)}")
        limit.rule(scales[limit.evaluator])
        return limit

    def rule(self, scale: Scale) -> DefectRule | None:
        """Return the defect rule of the level on `scale`; None without a level. Raises `ConfigError`."""
        if not self.level:
            return None
        names = [one.name for one in scale.levels]
        best = names[-1] if scale.better == "higher" else names[0]
        worse = [name for name in names if name != best]
        if self.level == best:
            raise ConfigError(f"{self.level!r} is the best level of {self.evaluator}: every answer is that or worse")
        if self.level not in worse:
            hint = nearest(self.level, worse)
            raise ConfigError(
                f"{self.evaluator} has no level {self.level!r}{hint}; a limit may name: {', '.join(worse)}"
            )
        if scale.better == "lower":
            return DefectRule("at_least", scale.start_of(self.level)).on(scale)
        return DefectRule("below", scale.levels[names.index(self.level) + 1].start).on(scale)


def check_limits(
    limits: Sequence[DefectLimit],
    summaries: Iterable[EvaluatorSummary],
    rows: Sequence[ResultRow],
    sessions: Sessions,
    *,
    of: str = "",
) -> Report:
    """Check `limits` on the results `rows` of the summarised evaluators; `of` names the set, if it has a name."""
    by_name = {one.evaluator: one for one in summaries}
    checks = [_check(limit, by_name[limit.evaluator], rows, sessions, of) for limit in limits]
    notes = [note for name in dict.fromkeys(one.evaluator for one in limits) if (note := _note(by_name[name]))]
    return Report.of(checks, notes)


def without_judgement(evaluators: Iterable[ConfiguredEvaluator], summaries: Iterable[EvaluatorSummary]) -> str:
    """Explain why nothing could be judged, such as a wrong key; empty if something was judged or nothing was due.

    Judged evaluators decide; local ones only if no others are run.
    """
    costs = {one.evaluator.name: one.evaluator.cost for one in evaluators}
    listed = list(summaries)
    asked = [one for one in listed if costs[one.evaluator] == "judge"] or listed
    reasons = sum((Counter(one.unscored) for one in asked), Counter[str]())
    if not reasons or any(one.scored for one in asked):
        return ""
    return f"nothing could be judged: all {reasons.total()} judgements are unscored ({_listed(reasons)})"


def _check(
    limit: DefectLimit, summary: EvaluatorSummary, rows: Sequence[ResultRow], sessions: Sessions, of: str
) -> Check:
    rule, sums = limit.rule(summary.scale), summary.sums
    if rule is not None:
        scored = (row for row in rows if row["evaluator"] == summary.evaluator and row["outcome"] == "score")
        sums = defect_sums(((case_of(row), is_defect(rule, row)) for row in scored), sessions)
    decision = below(sums, limit.rate)
    if not summary.scored and summary.unscored:
        decision = Decision(GateDecision.NOT_JUDGED, None, None, None, None)
    words = rule.words if rule is not None else ""
    return Check("rate", of, limit.evaluator, "", limit.rate, decision, sums, rule=words)


def _note(summary: EvaluatorSummary) -> str:
    """Return a note about how many answers the rate does not cover."""
    counts = {"unscored": summary.unscored, "skipped": summary.skipped}
    parts = [f"{sum(found.values())} {outcome} ({_listed(found)})" for outcome, found in counts.items() if found]
    return f"{summary.evaluator} says nothing about {' and '.join(parts)}" if parts else ""


def _listed(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {number}" for reason, number in sorted(reasons.items(), key=lambda one: -one[1]))
