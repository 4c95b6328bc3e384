"""Counts results in series: the three families from which PromQL computes every rate and both of its limits.

They hold live results only: production traffic, judged in time. Late results and non-production results have their own
families, so that no rule needs a selector. So do the slices of live results (`slices.py` says why).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from typing import Final, NamedTuple, Protocol

from prometheus_client import Counter, Gauge, Histogram

from monitor.clock import Clock, SystemClock
from monitor.model.case import Traffic, changed
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    DefectRule,
    EvaluationResult,
    RateScope,
    Scale,
    Score,
    Skipped,
    SkippedReason,
    UnscoredReason,
)
from monitor.pipeline.metrics.sessions import SessionMetrics
from monitor.pipeline.metrics.slices import SliceMetrics
from monitor.pipeline.service_versions import ServiceVersions
from monitor.statistics.session_products import SessionMemory
from monitor.telemetry.metrics import Metrics

_HALF: Final = 300.0  # seconds
_UNSCORED: Final = (UnscoredReason.ERROR, UnscoredReason.OUT_OF_RANGE)
_UNSCORED_BY_NO_CLASSIFIER: Final = (UnscoredReason.REFUSAL, UnscoredReason.TRUNCATED)
_SKIPPED: Final[Mapping[str, tuple[SkippedReason, ...]]] = {
    "context": (SkippedReason.NO_RETRIEVAL, SkippedReason.CONTEXT_NOT_RECORDED),
    "history": (SkippedReason.NO_HISTORY,),
    "reference": (SkippedReason.NO_REFERENCE,),
    "response": (SkippedReason.NO_RESPONSE,),
}
"""Skip reasons by what an evaluator needs. Reasons that only some evaluators use have a series once they occur."""


class _Cell(NamedTuple):
    """Number of scores, sum of their weights, sum of the squares."""

    number: Counter
    weight: Counter
    squares: Counter

    def add(self, result: EvaluationResult) -> None:
        exemplar = {"trace_id": result.case.trace_id[:64]}
        self.number.inc(1, exemplar)
        self.weight.inc(result.weight, exemplar)
        self.squares.inc(result.weight**2)


class _Apart(NamedTuple):
    """Counts of evaluations that are kept out of live rates: scores by whether they are defects, skipped, unscored."""

    scored: dict[bool, _Cell]
    skipped: Counter
    unscored: Counter

    @classmethod
    def of(cls, families: tuple[Counter, Counter, Counter], *labels: str) -> _Apart:
        """Create the series of `families` for `labels` and every outcome, at 0."""
        cells = {
            defect: _Cell(*(family.labels(*labels, "defect" if defect else "passed") for family in families))
            for defect in (False, True)
        }
        return cls(cells, families[0].labels(*labels, "skipped"), families[0].labels(*labels, "unscored"))

    def add(self, result: EvaluationResult) -> None:
        if isinstance(result.outcome, Score):
            self.scored[result.defect].add(result)
        elif isinstance(result.outcome, Skipped):
            self.skipped.inc()
        else:
            self.unscored.inc()


class Instrument(Protocol):
    """Anything that produces scores: one of our own evaluators, or an external one."""

    @property
    def name(self) -> str:
        """Its name in metrics."""

    @property
    def scale(self) -> Scale:
        """The scale of its scores."""

    @property
    def cost(self) -> str:
        """What producing a score costs: `local`, `judge`, or `none` for an external score."""

    @property
    def asks(self) -> str:
        """What a judged evaluator asks: a `model` or a `classifier`."""

    @property
    def needs(self) -> Collection[str]:
        """Parts that a case must have: `context`, `history`, `reference`, `response`."""

    @property
    def quotes(self) -> bool:
        """Whether its judge quotes the response."""


class _Declared(NamedTuple):
    evaluator: Instrument
    defect: DefectRule | None
    version: str
    prepared: bool
    scores: Histogram | None
    alert_rules: tuple[DefectRule, ...]


class _LargestWeight:
    """The largest weight in the current five minutes and the five before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._half = 0
        self._now = self._before = 0.0

    def add(self, weight: float) -> None:
        self._turn()
        self._now = max(self._now, weight)

    def value(self) -> float:
        self._turn()
        return max(self._now, self._before)

    def _turn(self) -> None:
        half = int(self._clock.monotonic() // _HALF)
        if half > self._half:
            self._before = self._now if half == self._half + 1 else 0.0
            self._now, self._half = 0.0, half


class _EvaluatorSeries(NamedTuple):
    selected: Counter
    pending: Gauge
    score: Histogram | None
    score_weighted: Counter
    cells: dict[tuple[str, bool], _Cell]
    rule_cells: dict[tuple[str, bool], _Cell]
    largest: _LargestWeight
    unscored: dict[UnscoredReason, Counter]
    skipped: dict[SkippedReason, Counter]
    contradictions: dict[bool, Counter]
    claims_not_found: Counter | None


def score_boundaries(scale: Scale) -> tuple[float, ...]:
    """Return bucket boundaries at the steps of a scale: every whole number, or tenths of a continuous scale."""
    if scale.whole:
        return tuple(float(step) for step in range(int(scale.lowest), int(scale.highest) + 1))
    width = scale.highest - scale.lowest
    return tuple(round(scale.lowest + width * tenth / 10, 6) for tenth in range(1, 11))


class ResultMetrics:
    """Counts selections and results per app and evaluator; the series of a pair exist, at 0, from its first use on.

    Series for other traffic classes than production, for late results, and for skip reasons that only some evaluators
    use exist once they occur. `slicing` and `generations` also count each live score. Without `memory`, each answer is
    a session of its own.
    """

    def __init__(
        self,
        metrics: Metrics,
        slicing: SliceMetrics | None = None,
        generations: ServiceVersions | None = None,
        memory: SessionMemory | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._metrics = metrics
        self._slicing = slicing
        self._sessions = SessionMetrics(metrics, memory)
        self._generations = generations
        self._aside: dict[tuple[str, str, str, Traffic], _Apart] = {}
        self._late: dict[tuple[str, str, str], _Apart] = {}
        self._series: dict[tuple[str, str], _EvaluatorSeries] = {}
        self._durations: dict[str, Histogram] = {}
        self._lags: dict[str, Histogram] = {}
        self._known: dict[str, _Declared] = {}
        self._clock = clock or SystemClock()

    def declare(
        self,
        evaluator: Instrument,
        defect: DefectRule | None,
        version: str,
        *,
        source: ScoreSource = ScoreSource.OWN,
        shown: str = "",
        prepared: bool = True,
        alert_rules: tuple[DefectRule, ...] = (),
    ) -> None:
        """Register the evaluator before its first case: its info series and its duration.

        `version` is its version in this process, as in its results. `defect` is None if scores of any level may be
        defects; `shown` then says in words which are. `prepared`: its series start with each app. `alert_rules` are the
        alerts' own defect rules.
        """
        ranks = defect is not None and defect.kind == "never"
        histogram = _scores(self._metrics, evaluator) if not ranks else None
        self._known[evaluator.name] = _Declared(evaluator, defect, version, prepared, histogram, alert_rules)
        self._metrics.evaluator_info.labels(evaluator.name).info(
            {
                "version": version,
                "lowest": f"{evaluator.scale.lowest:g}",
                "highest": f"{evaluator.scale.highest:g}",
                "better": evaluator.scale.better,
                "unit": evaluator.scale.unit,
                "cost": evaluator.cost,
                "defect": shown or (defect.words if defect is not None else ""),
                "source": source.value,
            }
        )
        self._durations[evaluator.name] = self._metrics.evaluation_duration.labels(evaluator.name)
        self._lags[evaluator.name] = self._metrics.evaluation_lag.labels(evaluator.name)

    def prepare(self, app: str) -> None:
        """Create all series of `app`, at 0, for every `prepared` evaluator."""
        for name, known in self._known.items():
            if known.prepared:
                self._of(app, name)

    def prepare_one(self, app: str, evaluator: str) -> None:
        """Create all series of `app` and one evaluator, at 0."""
        self._of(app, evaluator)

    def selected(self, app: str, evaluator: str) -> None:
        """Count the start of an evaluation: it is pending until `finished`."""
        series = self._of(app, evaluator)
        series.selected.inc()
        series.pending.inc()

    def handed_over(self, app: str, evaluator: str) -> None:
        """Count a pending evaluation as skipped, because another replica evaluates the case."""
        series = self._of(app, evaluator)
        series.pending.dec()
        self._skipped(app, evaluator, series, SkippedReason.HANDED_OVER).inc()

    def finished(self, result: EvaluationResult, seconds: float | None) -> EvaluationResult:
        """Count the outcome of a pending evaluation that took `seconds` of wall-clock time; None for an external score.

        Returns the result for listeners and sinks; a live score has its `session_products` set.
        """
        series = self._of(result.case.app, result.evaluator)
        series.pending.dec()
        outcome, timed = result.outcome, result.scope not in (RateScope.NON_PRODUCTION, RateScope.USER_DISLIKED)
        if seconds is not None:
            self._durations[result.evaluator].observe(seconds)
        if result.lag is not None and isinstance(outcome, Score) and timed and result.score_source is ScoreSource.OWN:
            self._lags[result.evaluator].observe(result.lag)
        if isinstance(outcome, Score) and outcome.contradicts:
            series.contradictions[result.defect].inc()
        if not isinstance(outcome, Skipped) and outcome.claims_not_found and series.claims_not_found is not None:
            series.claims_not_found.inc(outcome.claims_not_found)
        if self._counted_apart(result):
            return result
        if isinstance(outcome, Score):
            return self._count_live(result, outcome, series)
        if isinstance(outcome, Skipped):
            self._skipped(result.case.app, result.evaluator, series, outcome.reason).inc()
        else:
            self._unscored(result, series, outcome.reason).inc()
        return result

    def _counted_apart(self, result: EvaluationResult) -> bool:
        """Count a result whose scope keeps it out of live rates; return whether it has such a scope."""
        if result.scope is RateScope.RANKING and isinstance(result.outcome, Score):
            self._ranked(result).inc()
        elif result.scope is RateScope.NON_PRODUCTION:
            self._aside_of(result).add(result)
        elif result.scope is RateScope.USER_DISLIKED:
            self._count_disliked(result)
        elif result.scope is RateScope.LATE:
            self._late_of(result).add(result)
        else:
            return False
        return True

    def _skipped(self, app: str, evaluator: str, series: _EvaluatorSeries, reason: SkippedReason) -> Counter:
        if reason not in series.skipped:
            series.skipped[reason] = self._metrics.skipped.labels(self._metrics.app(app), evaluator, reason.value)
        return series.skipped[reason]

    def _unscored(self, result: EvaluationResult, series: _EvaluatorSeries, reason: UnscoredReason) -> Counter:
        if reason not in series.unscored:
            app = self._metrics.app(result.case.app)
            series.unscored[reason] = self._metrics.unscored.labels(app, result.evaluator, reason.value)
        return series.unscored[reason]

    def _count_live(self, result: EvaluationResult, outcome: Score, series: _EvaluatorSeries) -> EvaluationResult:
        series.cells[result.level, result.defect].add(result)
        for rule, defect in result.alert_defects.items():
            series.rule_cells[rule, defect].add(result)
        if series.score is not None:
            series.score.observe(outcome.value, {"trace_id": result.case.trace_id[:64]})
        lowest = self._known[result.evaluator].evaluator.scale.lowest
        series.score_weighted.inc(result.weight * (outcome.value - lowest))
        app = self._metrics.app(result.case.app)
        result = changed(result, session_products=self._sessions.count(app, result))
        if self._slicing is not None:
            self._slicing.count(app, result)
        local = self._known[result.evaluator].evaluator.cost == "local"
        known_model = local or result.cost.asked  # else no judge has reported its model
        if self._generations is not None and known_model and result.score_source is ScoreSource.OWN:
            self._generations.saw(app, result.evaluator, result.service_version, result.evaluated_at)
        series.largest.add(result.weight)
        return result

    def _ranked(self, result: EvaluationResult) -> Counter:
        key = (self._metrics.app(result.case.app), result.evaluator, self._known[result.evaluator].version)
        return self._metrics.ranking_evaluations.labels(*key)

    def _count_disliked(self, result: EvaluationResult) -> None:
        app = self._metrics.app(result.case.app)
        scored = "defect" if result.defect else "passed"
        outcome = scored if isinstance(result.outcome, Score) else result.outcome.kind
        self._metrics.user_disliked_evaluations.labels(app, result.evaluator, result.version, outcome).inc()

    def _aside_of(self, result: EvaluationResult) -> _Apart:
        app = self._metrics.app(result.case.app)
        key = (app, result.evaluator, self._known[result.evaluator].version, result.case.traffic)
        if key not in self._aside:
            metrics = self._metrics
            families = (
                metrics.non_production_evaluations,
                metrics.non_production_weight,
                metrics.non_production_weight_squares,
            )
            self._aside[key] = _Apart.of(families, *key)
        return self._aside[key]

    def _late_of(self, result: EvaluationResult) -> _Apart:
        key = (self._metrics.app(result.case.app), result.evaluator, self._known[result.evaluator].version)
        if key not in self._late:
            metrics = self._metrics
            families = (metrics.late_evaluations, metrics.late_weight, metrics.late_weight_squares)
            self._late[key] = _Apart.of(families, *key)
        return self._late[key]

    def _of(self, app: str, evaluator: str) -> _EvaluatorSeries:
        series = self._series.get((app, evaluator))
        if series is None:
            label = self._metrics.app(app)
            series = self._series.get((label, evaluator)) or self._create(label, evaluator)
            self._series[label, evaluator] = series
        return series

    def _create(self, app: str, name: str) -> _EvaluatorSeries:
        metrics, (evaluator, defect, version, _, scores, alert_rules) = self._metrics, self._known[name]
        ranks = defect is not None and defect.kind == "never"
        if ranks:
            metrics.ranking_evaluations.labels(app, name, version)
        else:
            self._sessions.prepare(app, name, version, tuple(rule.name for rule in alert_rules))
        if evaluator.cost != "none" and not ranks:  # user votes are compared with our own evaluators only
            for judge, user in product(("defect", "passed"), ("down", "up")):
                metrics.feedback_agreement.labels(app, name, judge, user)
        largest = _LargestWeight(self._clock)
        metrics.weight_max.labels(app, name).set_function(largest.value)
        cells = {}
        for level in () if ranks else evaluator.scale.levels:
            for is_defect in _possible(evaluator.scale, defect, level.start):
                labels = (app, name, version, level.name, str(is_defect).lower())
                cells[level.name, is_defect] = _Cell(
                    metrics.evaluations.labels(*labels),
                    metrics.evaluation_weight.labels(*labels),
                    metrics.evaluation_weight_squares.labels(*labels),
                )
        of_rules = (metrics.rule_evaluations, metrics.rule_weight, metrics.rule_weight_squares)
        return _EvaluatorSeries(
            metrics.selected.labels(app, name),
            metrics.evaluations_pending.labels(app, name),
            scores.labels(app, name, version) if scores is not None else None,
            metrics.evaluation_score_weighted.labels(app, name, version),
            cells,
            {
                (rule.name, bad): _Cell(
                    *(one.labels(app, name, version, rule.name, str(bad).lower()) for one in of_rules)
                )
                for rule in alert_rules
                for bad in (False, True)
            },
            largest,
            {reason: metrics.unscored.labels(app, name, reason.value) for reason in unscored_reasons(evaluator)},
            {
                reason: metrics.skipped.labels(app, name, reason.value)
                for need, reasons in _SKIPPED.items()
                if need in evaluator.needs
                for reason in reasons
            },
            {
                is_defect: metrics.contradictions.labels(app, name, "defect" if is_defect else "passed")
                for is_defect in (False, True)
                if evaluator.cost == "judge"
            },
            metrics.claims_not_found.labels(app, name) if evaluator.quotes else None,
        )


def unscored_reasons(evaluator: Instrument) -> tuple[UnscoredReason, ...]:
    """Return the reasons for which an evaluation by `evaluator` can end without a score.

    Each has a series, at 0, from the first use of an app on. When a judge fails, many evaluations fail before the next
    scrape, and `increase()` would miss them all in a series that starts with them.
    """
    if evaluator.cost != "judge":
        return _UNSCORED
    never = _UNSCORED_BY_NO_CLASSIFIER if evaluator.asks == "classifier" else ()
    return tuple(reason for reason in UnscoredReason if reason not in never)


def _scores(metrics: Metrics, evaluator: Instrument) -> Histogram | None:
    """Return the histogram of the scores; None for a scale below 0, since a sum that can decrease is not a counter."""
    return metrics.score(evaluator.name, score_boundaries(evaluator.scale)) if evaluator.scale.lowest >= 0 else None


def _possible(scale: Scale, defect: DefectRule | None, start: float) -> tuple[bool, ...]:
    """Return the values of `defect` that a level can have: both if the rule cuts the level or reads a label."""
    if defect is None or defect.kind == "label":
        return (False, True)
    starts = [one.start for one in scale.levels] + [scale.highest]
    end = starts[starts.index(start) + 1]
    if start < defect.threshold < end or (start < defect.threshold == end == scale.highest):
        return (False, True)
    at_or_above = start >= defect.threshold
    return (not at_or_above,) if defect.kind == "below" else (at_or_above,)
