"""Who is judged: each case's probability for each evaluator, drawn once, kept, counted, and learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from prometheus_client import Counter

from monitor.clock import Clock
from monitor.model.case import Case, Traffic
from monitor.model.outcome import Judged, Score, result_id
from monitor.pipeline.assignment import Assignment
from monitor.samplers import _consistent
from monitor.stages import Drawn, Runtime
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics

_HALF = 300.0  # seconds


class Draws(Protocol):
    """The probabilities that cases had first, across restarts. A case that comes again keeps them."""

    def drawn(self, key: str) -> tuple[float, float] | None:
        """Probability and target share of the draw with this id, if there was one."""
        ...

    def keep_draw(self, key: str, probability: float, target: float) -> None:
        """Keep them. Does not wait for the disk, but is there before any result that follows from it."""
        ...


class Drawing:
    """The samplers at work.

    Args:
        versions: by evaluator; another version is another instrument, whose cases are drawn anew.
        draws: None where no case can come again.
        salt: key of the hash that draws: the same for all evaluators, so that what is judged at 1 % is among what is
            judged at 10 %, and in all replicas.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        *,
        versions: Mapping[str, str],
        draws: Draws | None,
        runtime: Runtime,
        salt: str,
    ) -> None:
        self._versions = versions
        self._draws = draws
        self._runtime = runtime
        self._salt = salt
        self._samplings = {one.evaluator.name: one.sampler.open(one.evaluator.name, runtime) for one in assignments}
        self._series: dict[tuple[str, str], _Series] = {}

    def prepare(self, app: str) -> None:
        """Create the series of `app`, at 0, for every sampler that adapts."""
        for name, sampling in self._samplings.items():
            if sampling.adaptive:
                self._of(app, name)

    def draw(self, assignment: Assignment, case: Case, local: Mapping[str, Score], *, applies: bool) -> Drawn | None:
        """With which probability the evaluator has chosen `case`, where it has.

        A case to which the evaluator does not apply takes no part of a budget.
        """
        name = assignment.evaluator.name
        sampling = self._samplings[name]
        if not sampling.adaptive:
            drawn = sampling.draw(case, local)
        elif not applies:
            return None
        else:
            key = result_id(case.request_id, case.span_id, name, self._versions[name])
            kept = self._draws.drawn(key) if self._draws is not None else None
            if kept is not None:
                drawn = Drawn(*kept)
            else:
                drawn = sampling.draw(case, local)
                if self._draws is not None:
                    self._draws.keep_draw(key, drawn.probability, drawn.target)
                self._of(case.app, name).add(drawn)
        return drawn if _consistent.chosen(case.request_id, self._salt, drawn.probability) else None

    def judged(self, drawn: Drawn, case: Case, judged: Judged) -> None:
        """What came of a case that was drawn. Only verdicts on production traffic teach."""
        sampling = self._samplings[judged.evaluator]
        if not sampling.adaptive:
            return
        counts = isinstance(judged.outcome, Score) and case.traffic is Traffic.PRODUCTION
        sampling.learn(case, drawn, defect=judged.defect if counts else None, dollars=judged.spending.dollars)
        if counts:
            series = self._of(case.app, judged.evaluator)
            series.largest.add(judged.weight)
            if drawn.inputs:
                series.learned.inc()

    def _of(self, app: str, evaluator: str) -> _Series:
        label = self._runtime.metrics.app(app or UNKNOWN_APP)
        series = self._series.get((label, evaluator))
        if series is None:
            series = self._series[label, evaluator] = _create(self._runtime, label, evaluator)
        return series


class _Series(NamedTuple):
    cases: Counter
    expected: Counter
    target: Counter
    boosted: Counter
    thinned: Counter
    defects: Counter
    learned: Counter
    largest: _Largest

    def add(self, drawn: Drawn) -> None:
        self.cases.inc()
        self.expected.inc(drawn.probability)
        self.target.inc(drawn.target)
        self.boosted.inc(max(drawn.probability - drawn.target, 0.0))
        self.thinned.inc(drawn.thinned)
        self.defects.inc(drawn.risk or 0.0)


def _create(runtime: Runtime, app: str, evaluator: str) -> _Series:
    metrics: Metrics = runtime.metrics
    largest = _Largest(runtime.clock)
    metrics.weight_max.labels(app, evaluator).set_function(largest.value)
    return _Series(
        metrics.sampling_cases.labels(app, evaluator),
        metrics.sampling_expected.labels(app, evaluator),
        metrics.sampling_target.labels(app, evaluator),
        metrics.sampling_boosted.labels(app, evaluator),
        metrics.sampling_thinned.labels(app, evaluator),
        metrics.sampling_expected_defects.labels(app, evaluator),
        metrics.sampling_learned.labels(app, evaluator),
        largest,
    )


class _Largest:
    """The largest weight of the current five minutes and of the five before."""

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
