"""The figures of a running monitor out of its counters: since it was started, and over the time that it is watched."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from monitor.cli.scrape import Samples
from monitor.statistics.rates import Sums

WINDOW: Final = 300.0
"""Seconds that rates are taken over, once it is watched for so long."""

SHORTEST: Final = 30.0
"""Seconds of the shortest window that a rate is taken over."""

STEP, STEPS = 10.0, 12
"""Seconds of one step of a trend, and how many there are."""

_COUNTED: Final = "ragmonitor_evaluations_total"
_WEIGHT: Final = "ragmonitor_evaluation_weight_total"
_SQUARES: Final = "ragmonitor_evaluation_weight_squares_total"
NAMES: Final = frozenset(
    {
        _COUNTED,
        _WEIGHT,
        _SQUARES,
        "ragmonitor_unscored_total",
        "ragmonitor_evaluations_pending",
        "ragmonitor_evaluator_state",
        "ragmonitor_traces_received_total",
        "ragmonitor_traces_total",
        "ragmonitor_traces_pending",
        "ragmonitor_alert_threshold_ratio",
        "ragmonitor_judge_requests_total",
        "ragmonitor_judge_tokens_total",
        "ragmonitor_judge_cost_dollars_total",
        "ragmonitor_oldest_pending_timestamp_seconds",
        "ragmonitor_consumer_lag_messages",
        "process_start_time_seconds",
        "ragmonitor_build_info",
    }
)
"""The series that are looked at."""


class Rated(NamedTuple):
    """Whose rate it is. A process has one version of an evaluator; verdicts of two are never added up."""

    app: str
    evaluator: str
    version: str


@dataclass(slots=True)
class Judge:
    """What a judge's model was asked and what that cost, in US dollars; `failed` are calls without a verdict."""

    requests: int = 0
    failed: int = 0
    tokens: int = 0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape in the words of this command. `at` is its wall-clock second, as are `started` and `oldest`.

    `states` are those of evaluators. `oldest` is when the oldest trace that is not done yet arrived, 0 where there is
    none; `lag` None without Kafka.
    """

    at: float
    version: str
    started: float
    rates: Mapping[Rated, Sums]
    thresholds: Mapping[tuple[str, str], Mapping[str, float]]
    unscored: Mapping[tuple[str, str], int]
    pending: Mapping[tuple[str, str], int]
    ledger: Mapping[str, int]
    judges: Mapping[str, Judge]
    oldest: float
    lag: int | None
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def received(self) -> int:
        """Traces since the monitor was started."""
        return self.ledger["received"]

    @property
    def judged(self) -> int:
        """Verdicts since then."""
        return sum(sums.judged for sums in self.rates.values())


def read(samples: Samples, at: float) -> Reading:
    """What a scrape says that was taken at the wall-clock second `at`."""
    lag = samples.of("ragmonitor_consumer_lag_messages")
    versions = [labels.get("version", "") for labels, _ in samples.of("ragmonitor_build_info")]
    return Reading(
        at=at,
        version=next(iter(versions), ""),
        started=samples.total("process_start_time_seconds"),
        rates=dict(sorted(_rates(samples).items())),
        thresholds=_thresholds(samples),
        unscored=_by_pair(samples, "ragmonitor_unscored_total"),
        pending=_by_pair(samples, "ragmonitor_evaluations_pending"),
        ledger=_ledger(samples),
        judges=_judges(samples),
        oldest=samples.total("ragmonitor_oldest_pending_timestamp_seconds"),
        lag=int(sum(value for _, value in lag)) if lag else None,
        states={one["evaluator"]: one["state"] for one, is_it in samples.of("ragmonitor_evaluator_state") if is_it},
    )


@dataclass(slots=True)
class Watched:
    """The readings of the last minutes, of one process: after a restart it begins anew."""

    _readings: deque[Reading] = field(default_factory=deque)

    def add(self, reading: Reading) -> None:
        """The newest reading."""
        kept = self._readings
        if kept and (kept[-1].started != reading.started or kept[-1].received > reading.received):
            kept.clear()
        while len(kept) > 1 and kept[1].at <= reading.at - WINDOW:
            kept.popleft()
        kept.append(reading)

    @property
    def newest(self) -> Reading:
        """The newest reading. There must be one."""
        return self._readings[-1]

    @property
    def seconds(self) -> float:
        """How long it is watched, `WINDOW` at most and a little; 0 after the first reading."""
        return self._readings[-1].at - self._readings[0].at

    @property
    def long_enough(self) -> bool:
        """Whether it is watched for long enough that a rate over that time makes sense."""
        return self.seconds >= SHORTEST

    def window(self, rated: Rated) -> Sums:
        """What was judged while it was watched."""
        return _between(self._readings[0], self._readings[-1], rated)

    def per_second(self) -> tuple[float, float] | None:
        """Traces received and verdicts reached a second, over the last half minute or so; None after one reading."""
        since = next((one for one in self._readings if one.at >= self.newest.at - 30.0), self.newest)
        seconds = self.newest.at - since.at
        if seconds <= 0:
            return None
        received = (self.newest.received - since.received) / seconds
        return received, (self.newest.judged - since.judged) / seconds

    def dollars_per_hour(self, model: str) -> float | None:
        """What the judge costs an hour, as it goes now; None after one reading."""
        if self.seconds <= 0:
            return None
        before = self._readings[0].judges.get(model, Judge()).dollars
        return max(self.newest.judges[model].dollars - before, 0.0) / self.seconds * 3600

    def trend(self, rated: Rated) -> list[float | None]:
        """The defect rates of consecutive steps up to now, the oldest first; None where nothing was judged."""
        found = []
        for first, last in self._steps():
            sums = _between(first, last, rated)
            found.append(min(sums.defect_weight / sums.weight, 1.0) if sums.judged and sums.weight > 0 else None)
        return found

    def _steps(self) -> Iterator[tuple[Reading, Reading]]:
        """The first and the last reading of each step."""
        ends = [self.newest.at - STEP * step for step in range(min(STEPS, int(self.seconds // STEP)), -1, -1)]
        marks = [min(self._readings, key=lambda one: abs(one.at - end)) for end in ends]
        yield from pairwise(marks)


def as_object(sums: Sums, estimate: Any) -> dict[str, Any] | None:
    """A rate for machines."""
    if estimate is None:
        return None
    limits = {"rate": estimate.rate, "lower": estimate.lower, "upper": estimate.upper}
    return {**limits, "judged": sums.judged, "defects": sums.defects}


def _between(first: Reading, last: Reading, rated: Rated) -> Sums:
    before, after = first.rates.get(rated, Sums()), last.rates.get(rated, Sums())
    if first is last or after.judged <= before.judged:
        return Sums()
    defects = after.defects - before.defects
    return Sums(
        after.judged - before.judged,
        defects,
        # Differences of long sums: rounding must not leave a weight where there is no defect.
        max(after.weight - before.weight, 0.0),
        max(after.defect_weight - before.defect_weight, 0.0) if defects else 0.0,
        max(after.defect_weight_squares - before.defect_weight_squares, 0.0) if defects else 0.0,
        max(after.good_weight_squares - before.good_weight_squares, 0.0),
    )


def _rates(samples: Samples) -> dict[Rated, Sums]:
    found: defaultdict[Rated, Sums] = defaultdict(Sums)
    for labels, value in samples.of(_COUNTED):
        rated, defect = _rated(labels)
        number = int(value)
        found[rated] += Sums(judged=number, defects=number if defect else 0)
    for labels, value in samples.of(_WEIGHT):
        rated, defect = _rated(labels)
        found[rated] += Sums(weight=value, defect_weight=value if defect else 0.0)
    for labels, value in samples.of(_SQUARES):
        rated, defect = _rated(labels)
        found[rated] += Sums(defect_weight_squares=value) if defect else Sums(good_weight_squares=value)
    return dict(found)


def _rated(labels: Mapping[str, str]) -> tuple[Rated, bool]:
    names = (labels.get(name, "") for name in Rated._fields)
    return Rated(*names), labels.get("defect") == "true"


def _thresholds(samples: Samples) -> dict[tuple[str, str], Mapping[str, float]]:
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for labels, value in samples.of("ragmonitor_alert_threshold_ratio"):
        found[labels.get("app", ""), labels.get("evaluator", "")][labels.get("severity", "")] = value
    return dict(found)


def _by_pair(samples: Samples, name: str) -> dict[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for labels, value in samples.of(name):
        found[labels.get("app", ""), labels.get("evaluator", "")] += int(value)
    return dict(found)


def _ledger(samples: Samples) -> dict[str, int]:
    found = {"received": int(samples.total("ragmonitor_traces_received_total"))}
    for labels, value in samples.of("ragmonitor_traces_total"):
        found[labels["fate"]] = found.get(labels["fate"], 0) + int(value)
    return {**found, "pending": int(samples.total("ragmonitor_traces_pending"))}


def _judges(samples: Samples) -> dict[str, Judge]:
    found: defaultdict[str, Judge] = defaultdict(Judge)
    for labels, value in samples.of("ragmonitor_judge_requests_total"):
        judge = found[labels["model"]]
        judge.requests += int(value)
        judge.failed += int(value) if labels["outcome"] not in ("ok", "cached") else 0
    for labels, value in samples.of("ragmonitor_judge_tokens_total"):
        found[labels["model"]].tokens += int(value)
    for labels, value in samples.of("ragmonitor_judge_cost_dollars_total"):
        found[labels["model"]].dollars += value
    return dict(sorted(found.items()))
