"""Predicts from the request log what a configuration would do, from the ids of requests and without any text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Case, ContextStatus, Traffic
from monitor.model.request_log import EvaluatorDecision, RequestRecord
from monitor.operations.diagnosis import BUDGETS
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.ledger import RequestOutcome, TraceOutcome
from monitor.samplers.by_attribute import ByAttribute
from monitor.samplers.uniform import Uniform
from monitor.stages import FixedSampler
from monitor.statistics import consistent_sampling
from monitor.storage import files
from monitor.storage.request_log import RequestLogReader

FACTORS: Final = (1 / 3, 1.0, 3.0)
"""The sampling rates to compare: a third of the configured rate, that rate, and three times it."""

LISTED: Final = 20
"""The maximum number of requests to list."""

_MAX_RECORDS: Final = 20_000  # the newest: they are kept in memory, and are enough to represent the others

_MINUTE: Final = 60.0
_NO_CONTEXT: Final = (ContextStatus.NO_RETRIEVAL, ContextStatus.NOT_RECORDED)
_AT_INGEST: Final = (TraceOutcome.INVALID, TraceOutcome.OWN_TELEMETRY, TraceOutcome.EXPIRED, TraceOutcome.FORGOTTEN)
"""Outcomes that do not depend on a rate, and that mostly leave no record in the request log."""

_BY_CLASS: Final = "traffic.rates."
_UNLIKELY: Final = 0.001
_NOTICEABLE: Final = 1.01
_ROUNDING: Final = 1e-6


@dataclass(slots=True)
class EvaluatorSelection:
    """What one evaluator would select, in requests.

    `unknown` are requests without a known probability. `assumed`: it was not configured at the time, so whether it
    applies is partly assumed. `unpredictable` says why its probabilities cannot be predicted; empty if they can.
    """

    applies: float = 0.0
    selected: float = 0.0
    unknown: float = 0.0
    assumed: bool = False
    unpredictable: str = ""


@dataclass(slots=True)
class GroupSelection:
    """What evaluators that share a call would select, in requests.

    `shares` are the expected numbers by `FACTORS`; they include those of `unknown` if other probabilities are known.
    """

    members: tuple[ConfiguredEvaluator, ...]
    applies: float = 0.0
    selected: float = 0.0
    unknown: float = 0.0
    shares: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))


@dataclass(slots=True)
class LoggedTraffic:
    """The prediction, in requests received within `span` seconds, including those without a record.

    `kept_then` is how many head sampling kept when they were received. `judged` is the number of requests that judges
    would be asked about; `listed` are the newest of them, each with its evaluators.
    """

    received: float
    kept_then: float
    span: float
    outcomes: dict[str, float] = field(default_factory=dict)
    evaluators: dict[str, EvaluatorSelection] = field(default_factory=dict)
    groups: list[GroupSelection] = field(default_factory=list)
    judged: float = 0.0
    listed: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def call_groups(config: Config) -> list[tuple[ConfiguredEvaluator, ...]]:
    """Return the evaluators that have a judge; those that share a call (same group and judge) are together."""
    found: dict[tuple[str, str], list[ConfiguredEvaluator]] = {}
    for one in config.configured_evaluators:
        if one.evaluator.cost == "judge" and config.works(one):
            found.setdefault((one.judge, one.group or f"\0{one.evaluator.name}"), []).append(one)
    return [tuple(members) for members in found.values()]


def predict_from_log(config: Config, since: float, now: float) -> LoggedTraffic | None:
    """Predict for the requests that ended in the last `since` seconds; None if none is recorded.

    Raises `ConfigError` if the request log cannot be read.
    """
    reader = RequestLogReader(config.storage.path / files.REQUEST_LOG)
    if not reader.path.exists():
        return None
    begin = (now - since) // _MINUTE * _MINUTE
    try:
        recorded = reader.span()
        sums = reader.sums(begin, now)
        records = reader.between(begin, now, _MAX_RECORDS)
    except MonitorError as error:
        raise ConfigError(f"since: {error}") from None
    then: Counter[str] = Counter()
    for step, number, _, _ in sums:
        if not step.evaluator:
            then[step.step] += number
    if recorded is None or not then:
        return None
    first, last = max(recorded[0], begin), min(recorded[1], now)
    return _predict(config, then, [one for one in records if one.outcome not in _AT_INGEST], max(last - first, 0.0))


def _predict(config: Config, then: Mapping[str, int], records: Sequence[RequestRecord], span: float) -> LoggedTraffic:
    received = sum(then.values())
    at_ingest = {outcome: number for outcome, number in then.items() if outcome in _AT_INGEST}
    further = sum(number for outcome, number in then.items() if outcome != TraceOutcome.SAMPLED_OUT) - sum(
        at_ingest.values()
    )
    by_class = sum(one.outcome == TraceOutcome.SAMPLED_OUT for one in records)
    known = len(records) - by_class
    stands = max(further / known, 1.0) if known else 1.0
    left_out = max(then.get(TraceOutcome.SAMPLED_OUT, 0) - by_class * stands, 0.0)
    done = LoggedTraffic(
        received, received - left_out, span, outcomes={outcome: float(number) for outcome, number in at_ingest.items()}
    )
    if not records:
        done.outcomes = {outcome: float(number) for outcome, number in then.items()}
        done.notes.append(
            "the request log has no record of this period (storage.request_log sets how long records are kept):"
            " outcomes are those recorded, and what evaluators would select is unknown"
        )
        return done
    if stands > _NOTICEABLE:
        done.notes.append(
            f"the newest {len(records):,} records of the request log are used (storage.request_log,"
            f" storage.request_log_max_size; at most {_MAX_RECORDS:,}): each represents {stands:.3g} requests"
        )
    weights = _weights(
        records,
        config.sampling.traces,
        stands,
        received - sum(at_ingest.values()),
        done.notes,
        none_left_out=left_out < 1,
    )
    if then.get(TraceOutcome.FILTERED) or config.traffic.drop:
        done.notes.append(
            "traffic.drop and traffic.health_checks are applied as recorded: the request log has no attributes"
        )
    done.groups = [GroupSelection(members) for members in call_groups(config)]
    working = [one for one in config.configured_evaluators if config.works(one)]
    done.evaluators = {one.evaluator.name: EvaluatorSelection() for one in working}
    for record, weight in zip(records, weights, strict=True):
        if weight > 0:
            outcome = _sorted(config, record)
            done.outcomes[outcome] = done.outcomes.get(outcome, 0.0) + weight
            if outcome == "kept":
                _select(config, done, working, record, weight)
    for group in done.groups:
        if 0 < group.unknown < group.applies:
            group.shares = [share * group.applies / (group.applies - group.unknown) for share in group.shares]
    missing = received - sum(done.outcomes.values())
    if missing > _ROUNDING:
        done.outcomes[TraceOutcome.SAMPLED_OUT] = done.outcomes.get(TraceOutcome.SAMPLED_OUT, 0.0) + missing
    return done


def _weights(
    records: Sequence[RequestRecord],
    rate: float,
    stands: float,
    received: float,
    notes: list[str],
    *,
    none_left_out: bool,
) -> list[float]:
    """Return how many requests each record would represent with head sampling at `rate`; 0 if that drops it.

    `stands`: how many each represents as recorded. At a lower rate than the recorded one, the hash of the ids decides;
    at a higher one, the kept requests are scaled to `received`, because the ids of those left out are not recorded.
    """
    # This many kept and none left out: the probabilities are those of a sampler in front of this monitor.
    upstream = none_left_out and sum(math.log(max(one.probability, 1e-9)) for one in records) < math.log(_UNLIKELY)
    rates = [1.0 if upstream else max(one.probability, 1e-9) for one in records]
    to_all = received / sum(stands / one for one in rates)
    found = []
    scaled = 0
    for record, then in zip(records, rates, strict=True):
        if math.isclose(rate, then):
            found.append(stands)
        elif rate > then:
            scaled += 1
            found.append(stands * to_all * rate / then)
        else:
            ahead = record.probability if upstream else 1.0
            sampling_id = consistent_sampling.sampling_id(record.part_of or record.request_id)
            kept, _ = consistent_sampling.keep(sampling_id, "", rate * ahead)
            found.append(stands if kept else 0.0)
    if scaled:
        mean = sum(rates) / len(rates)
        notes.append(
            f"head sampling kept {mean:.3g} at the time, this configuration keeps {rate:.3g}: the ids of requests that"
            " were left out are not recorded, so the kept ones are scaled up"
        )
    return found


def _sorted(config: Config, record: RequestRecord) -> str:
    """Return the outcome of a request that head sampling keeps; `kept` if it would reach the evaluators."""
    left_out = record.outcome == TraceOutcome.SAMPLED_OUT
    if record.outcome != RequestOutcome.EVALUATED and not (left_out and record.detail.startswith(_BY_CLASS)):
        return record.outcome
    named = record.detail.removeprefix(_BY_CLASS) if left_out else record.traffic
    traffic = next((one for one in Traffic if one == named), Traffic.PRODUCTION)
    rate = config.traffic.rates.get(traffic, 1.0)
    kept = consistent_sampling.chosen(record.request_id, f"{config.sampling.salt}/traffic", rate)
    return "kept" if kept else TraceOutcome.SAMPLED_OUT.value


def _select(
    config: Config, done: LoggedTraffic, working: Sequence[ConfiguredEvaluator], record: RequestRecord, weight: float
) -> None:
    """Count the selection of each evaluator."""
    decisions = {one.evaluator: one for one in record.decisions}
    probable: dict[str, float | None] = {}
    selected: set[str] = set()
    for one in working:
        name = one.evaluator.name
        selection, decision = done.evaluators[name], decisions.get(name)
        selection.assumed = selection.assumed or decision is None
        if _does_not_apply(one, record, decision):
            continue
        selection.applies += weight
        probability = probable[name] = _probability(config, one, record, decision, selection)
        if probability is None:
            selection.unknown += weight
        elif consistent_sampling.chosen(record.request_id, config.sampling.salt, probability):
            selection.selected += weight
            selected.add(name)
    asked = [name for group in done.groups for name in _count(group, probable, selected, weight)]
    if asked:
        done.judged += weight
        if len(done.listed) < LISTED:
            done.listed.append((record.request_id, tuple(asked)))


def _count(
    group: GroupSelection, probable: Mapping[str, float | None], selected: Collection[str], weight: float
) -> list[str]:
    """Count a case for the evaluators of a group; return those that selected it."""
    applying = [one.evaluator.name for one in group.members if one.evaluator.name in probable]
    if not applying:
        return []
    group.applies += weight
    known = [one for one in map(probable.get, applying) if one is not None]
    if not known:
        group.unknown += weight
    highest = max(known, default=0.0)
    for number, factor in enumerate(FACTORS):
        group.shares[number] += weight * min(highest * factor, 1.0)
    mine = [name for name in applying if name in selected]
    group.selected += weight if mine else 0.0
    return mine


def _does_not_apply(one: ConfiguredEvaluator, record: RequestRecord, decision: EvaluatorDecision | None) -> bool:
    if decision is not None:
        return bool(decision.missing) or decision.repeated
    return record.context in _NO_CONTEXT and "context" in one.evaluator.needs


def _probability(
    config: Config,
    one: ConfiguredEvaluator,
    record: RequestRecord,
    decision: EvaluatorDecision | None,
    selection: EvaluatorSelection,
) -> float | None:
    """Return the probability of selection, or the recorded one if it cannot be computed; None if unknown."""
    sampler = one.sampler
    recorded = decision.probability if decision is not None else None
    if one.evaluator.cost == "judge" and config.traffic.quotas:
        selection.unpredictable = "traffic.quotas reduce it by what has been spent"
        return recorded
    of_app = isinstance(sampler, ByAttribute) and sampler.attribute == "app"
    if isinstance(sampler, FixedSampler) and (isinstance(sampler, Uniform) or of_app):
        return sampler.probability(Case(request_id=record.request_id, app=record.app))
    adapts = not isinstance(sampler, FixedSampler)
    selection.unpredictable = "it depends on what the request log does not record"
    if adapts:
        caps = (f" ({name}: {cap:g})" for name in BUDGETS if (cap := getattr(sampler, name, None)) is not None)
        selection.unpredictable = f"its sampler adapts to the traffic{''.join(caps)}"
    return recorded
