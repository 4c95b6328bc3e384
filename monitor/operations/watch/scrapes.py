"""What the counters of a running monitor say: since it started, and over the time that it has been watched."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from monitor.operations.monitor_client import Samples
from monitor.statistics.rates import Sums

WINDOW: Final = 300.0
"""The longest window for rates, in seconds."""

SHORTEST: Final = 30.0
"""The shortest window for a rate, in seconds."""

STEP, STEPS = 10.0, 12
"""Length of one step of a trend in seconds, and the number of steps."""

_COUNTED: Final = "ragmonitor_evaluations_total"
_WEIGHT: Final = "ragmonitor_evaluation_weight_total"
_SQUARES: Final = "ragmonitor_evaluation_weight_squares_total"
_PRODUCTS: Final = "ragmonitor_evaluation_session_products_total"
_LARGEST: Final = "ragmonitor_evaluation_weight_max"
_RULE_COUNTED: Final = "ragmonitor_rule_evaluations_total"
_RULE_WEIGHT: Final = "ragmonitor_rule_evaluation_weight_total"
_RULE_SQUARES: Final = "ragmonitor_rule_evaluation_weight_squares_total"
_RULE_PRODUCTS: Final = "ragmonitor_rule_evaluation_session_products_total"
_CONTEXTS: Final = "ragmonitor_context_weight_total"
NAMES: Final = frozenset(
    {
        _COUNTED,
        _WEIGHT,
        _SQUARES,
        _PRODUCTS,
        _LARGEST,
        _RULE_COUNTED,
        _RULE_WEIGHT,
        _RULE_SQUARES,
        _RULE_PRODUCTS,
        "ragmonitor_unscored_total",
        "ragmonitor_skipped_total",
        "ragmonitor_evaluations_pending",
        "ragmonitor_evaluator_state",
        "ragmonitor_traces_received_total",
        "ragmonitor_traces_total",
        "ragmonitor_requests_total",
        "ragmonitor_traces_pending",
        _CONTEXTS,
        "ragmonitor_alert_threshold_ratio",
        "ragmonitor_rule_alert_threshold_ratio",
        "ragmonitor_judge_requests_total",
        "ragmonitor_judge_tokens_total",
        "ragmonitor_judge_cost_dollars_total",
        "ragmonitor_oldest_pending_timestamp_seconds",
        "ragmonitor_consumer_lag_messages",
        "process_start_time_seconds",
        "ragmonitor_build_info",
    }
)
"""The series that are read."""


class RateKey(NamedTuple):
    """The subject of a rate. Results of different versions of an evaluator are never added.

    `defect_rule` names a rule defined in an alert; empty: the evaluator's own rule.
    """

    app: str
    evaluator: str
    version: str
    defect_rule: str = ""


@dataclass(slots=True)
class JudgeUsage:
    """Calls to one judge model since start, their tokens, and their cost in US dollars; `failed` got no verdict."""

    requests: int = 0
    failed: int = 0
    tokens: int = 0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape. `at`, `started` and `oldest` are wall-clock seconds.

    `thresholds` are by app, evaluator and defect rule, `unscored` and `pending` by app and evaluator, `skipped` also by
    reason, `states` by evaluator, `contexts` the weights of answers by app and context status. `oldest` is when the
    oldest pending trace arrived, 0 if none is pending; `lag` is None without Kafka.
    """

    at: float
    version: str
    started: float
    rates: Mapping[RateKey, Sums]
    thresholds: Mapping[tuple[str, str, str], Mapping[str, float]]
    unscored: Mapping[tuple[str, str], int]
    skipped: Mapping[tuple[str, str, str], int]
    pending: Mapping[tuple[str, str], int]
    ledger: Mapping[str, int]
    judges: Mapping[str, JudgeUsage]
    oldest: float
    lag: int | None
    states: Mapping[str, str] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def received(self) -> int:
        """Traces received since the monitor started."""
        return self.ledger["received"]

    @property
    def scored(self) -> int:
        """Results with a score since the monitor started."""
        return sum(sums.judged for key, sums in self.rates.items() if not key.defect_rule)


def read(samples: Samples, at: float) -> Scrape:
    """Return the content of a scrape taken at the wall-clock second `at`."""
    lag = samples.of("ragmonitor_consumer_lag_messages")
    versions = [labels.get("version", "") for labels, _ in samples.of("ragmonitor_build_info")]
    return Scrape(
        at=at,
        version=next(iter(versions), ""),
        started=samples.total("process_start_time_seconds"),
        rates=dict(sorted(_rates(samples).items())),
        thresholds=_thresholds(samples),
        unscored=_by_pair(samples, "ragmonitor_unscored_total"),
        skipped=_skipped(samples),
        pending=_by_pair(samples, "ragmonitor_evaluations_pending"),
        ledger=_ledger(samples),
        judges=_judges(samples),
        oldest=samples.total("ragmonitor_oldest_pending_timestamp_seconds"),
        lag=int(sum(value for _, value in lag)) if lag else None,
        states={one["evaluator"]: one["state"] for one, is_it in samples.of("ragmonitor_evaluator_state") if is_it},
        contexts=_contexts(samples),
    )


@dataclass(slots=True)
class Scrapes:
    """The scrapes of the last minutes from one process: after a restart they start over."""

    _scrapes: deque[Scrape] = field(default_factory=deque)

    def add(self, scrape: Scrape) -> None:
        """Add the newest scrape."""
        kept = self._scrapes
        if kept and (kept[-1].started != scrape.started or kept[-1].received > scrape.received):
            kept.clear()
        while len(kept) > 1 and kept[1].at <= scrape.at - WINDOW:
            kept.popleft()
        kept.append(scrape)

    @property
    def newest(self) -> Scrape:
        """The newest scrape. There must be one."""
        return self._scrapes[-1]

    @property
    def seconds(self) -> float:
        """Seconds between the first and the last scrape: little more than `WINDOW`, 0 after the first scrape."""
        return self._scrapes[-1].at - self._scrapes[0].at

    @property
    def long_enough(self) -> bool:
        """Whether `seconds` is long enough for a rate."""
        return self.seconds >= SHORTEST

    def window(self, key: RateKey) -> Sums:
        """Return what was scored between the first and the last scrape."""
        return _between(self._scrapes[0], self._scrapes[-1], key)

    def per_second(self) -> tuple[float, float] | None:
        """Return traces received and answers scored per second, over about 30 s; None after one scrape."""
        since = next((one for one in self._scrapes if one.at >= self.newest.at - 30.0), self.newest)
        seconds = self.newest.at - since.at
        if seconds <= 0:
            return None
        received = (self.newest.received - since.received) / seconds
        return received, (self.newest.scored - since.scored) / seconds

    def dollars_per_hour(self, model: str) -> float | None:
        """Return the cost of the judge per hour at the current pace; None after one scrape."""
        if self.seconds <= 0:
            return None
        before = self._scrapes[0].judges.get(model, JudgeUsage()).dollars
        return max(self.newest.judges[model].dollars - before, 0.0) / self.seconds * 3600

    def trend(self, key: RateKey) -> list[float | None]:
        """Return the defect rates of consecutive steps up to now, oldest first; None for steps without scores."""
        found = []
        for first, last in self._steps():
            sums = _between(first, last, key)
            found.append(min(sums.defect_weight / sums.weight, 1.0) if sums.judged and sums.weight > 0 else None)
        return found

    def _steps(self) -> Iterator[tuple[Scrape, Scrape]]:
        """Yield the first and the last scrape of each step."""
        ends = [self.newest.at - STEP * step for step in range(min(STEPS, int(self.seconds // STEP)), -1, -1)]
        marks = [min(self._scrapes, key=lambda one: abs(one.at - end)) for end in ends]
        yield from pairwise(marks)


def _between(first: Scrape, last: Scrape, key: RateKey) -> Sums:
    before, after = first.rates.get(key, Sums()), last.rates.get(key, Sums())
    if first is last or after.judged <= before.judged:
        return Sums()
    defects = after.defects - before.defects
    return Sums(
        after.judged - before.judged,
        defects,
        # These are differences of large sums: rounding must not leave a weight if there is no defect.
        max(after.weight - before.weight, 0.0),
        max(after.defect_weight - before.defect_weight, 0.0) if defects else 0.0,
        max(after.defect_weight_squares - before.defect_weight_squares, 0.0) if defects else 0.0,
        max(after.good_weight_squares - before.good_weight_squares, 0.0),
        after.top,
        max(after.defect_products - before.defect_products, 0.0) if defects else 0.0,
        max(after.every_products - before.every_products, 0.0),
        max(after.both_products - before.both_products, 0.0) if defects else 0.0,
    )


def _rates(samples: Samples) -> dict[RateKey, Sums]:
    found: defaultdict[RateKey, Sums] = defaultdict(Sums)
    for labels, value in [*samples.of(_COUNTED), *samples.of(_RULE_COUNTED)]:
        key, defect = _rate_key(labels)
        number = int(value)
        found[key] += Sums(judged=number, defects=number if defect else 0)
    for labels, value in [*samples.of(_WEIGHT), *samples.of(_RULE_WEIGHT)]:
        key, defect = _rate_key(labels)
        found[key] += Sums(weight=value, defect_weight=value if defect else 0.0)
    for labels, value in [*samples.of(_SQUARES), *samples.of(_RULE_SQUARES)]:
        key, defect = _rate_key(labels)
        found[key] += Sums(defect_weight_squares=value) if defect else Sums(good_weight_squares=value)
    for labels, value in [*samples.of(_PRODUCTS), *samples.of(_RULE_PRODUCTS)]:
        key, of = _rate_key(labels)[0], labels.get("of")
        found[key] += Sums(
            defect_products=value if of == "defects" else 0.0,
            every_products=value if of == "all" else 0.0,
            both_products=value if of == "both" else 0.0,
        )
    largest = {(labels.get("app"), labels.get("evaluator")): value for labels, value in samples.of(_LARGEST)}
    return {key: sums + Sums(top=largest.get(key[:2], 0.0)) for key, sums in found.items()}


def _rate_key(labels: Mapping[str, str]) -> tuple[RateKey, bool]:
    names = (labels.get(name, "") for name in RateKey._fields)
    return RateKey(*names), labels.get("defect") == "true"


def _thresholds(samples: Samples) -> dict[tuple[str, str, str], Mapping[str, float]]:
    found: defaultdict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    by_rule = samples.of("ragmonitor_rule_alert_threshold_ratio")
    for labels, value in [*samples.of("ragmonitor_alert_threshold_ratio"), *by_rule]:
        key = (labels.get("app", ""), labels.get("evaluator", ""), labels.get("defect_rule", ""))
        found[key][labels.get("severity", "")] = value
    return dict(found)


def _by_pair(samples: Samples, name: str) -> dict[tuple[str, str], int]:
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for labels, value in samples.of(name):
        found[labels.get("app", ""), labels.get("evaluator", "")] += int(value)
    return dict(found)


def _skipped(samples: Samples) -> dict[tuple[str, str, str], int]:
    return {
        (labels.get("app", ""), labels.get("evaluator", ""), labels.get("reason", "")): int(value)
        for labels, value in samples.of("ragmonitor_skipped_total")
        if value
    }


def _ledger(samples: Samples) -> dict[str, int]:
    found = {"received": int(samples.total("ragmonitor_traces_received_total"))}
    for labels, value in [*samples.of("ragmonitor_requests_total"), *samples.of("ragmonitor_traces_total")]:
        if labels["outcome"] != "read":  # these are counted by their requests
            found[labels["outcome"]] = found.get(labels["outcome"], 0) + int(value)
    return {**found, "pending": int(samples.total("ragmonitor_traces_pending"))}


def _contexts(samples: Samples) -> dict[str, dict[str, float]]:
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for labels, weight in samples.of(_CONTEXTS):
        statuses = found[labels.get("app", "")]
        status = labels.get("status", "")
        statuses[status] = statuses.get(status, 0.0) + weight
    return dict(sorted(found.items()))


def _judges(samples: Samples) -> dict[str, JudgeUsage]:
    found: defaultdict[str, JudgeUsage] = defaultdict(JudgeUsage)
    for labels, value in samples.of("ragmonitor_judge_requests_total"):
        judge = found[labels["model"]]
        judge.requests += int(value)
        judge.failed += int(value) if labels["outcome"] not in ("ok", "cached") else 0
    for labels, value in samples.of("ragmonitor_judge_tokens_total"):
        found[labels["model"]].tokens += int(value)
    for labels, value in samples.of("ragmonitor_judge_cost_dollars_total"):
        found[labels["model"]].dollars += value
    return dict(sorted(found.items()))
