"""What a configuration would do with the requests whose ways a monitor has recorded: by their ids, without any text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Case, Traffic
from monitor.model.trail import Choice, Trail
from monitor.operations.diagnosis import BUDGETS, FILE
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.ledger import Fate
from monitor.samplers.by_attribute import ByAttribute
from monitor.samplers.uniform import Uniform
from monitor.stages import FixedSampler, Sampler
from monitor.statistics import consistent_sampling
from monitor.storage.request_log import Reader

FACTORS: Final = (1 / 3, 1.0, 3.0)
"""The rates that are looked at: a third of the configured one, that one, and three times that."""

LISTED: Final = 20
"""Requests that are named, at most."""

_MOST: Final = 20_000
"""Trails that are looked at, the newest: they are held in memory, and say enough of the others."""

_MINUTE: Final = 60.0
_JUDGEABLE: Final = (Fate.EVALUATED, Fate.NO_CONTEXT)
_AT_THE_DOOR: Final = (Fate.INVALID, Fate.OWN_TELEMETRY, Fate.EXPIRED, Fate.FORGOTTEN)
"""Where requests end of which, mostly, there is no trail, and which no rate changes."""

_BY_CLASS: Final = "traffic.rates."
_HARDLY: Final = 0.001
_NOTICEABLE: Final = 1.01
_DUST: Final = 1e-6


@dataclass(slots=True)
class Choosing:
    """What one evaluator would do, in requests. `room` says why its probabilities cannot be foretold, empty where they
    can; `assumed` that it was not at work then, so that what it does not apply to is partly a guess; `unknown` are
    requests of which nothing says how probable they would be.
    """

    applies: float = 0.0
    chosen: float = 0.0
    unknown: float = 0.0
    assumed: bool = False
    room: str = ""


@dataclass(slots=True)
class Together:
    """The same of evaluators that are asked in one call; `shares` are expected by factor, those of `unknown` included
    where something is known of others.
    """

    members: tuple[Assignment, ...]
    applies: float = 0.0
    chosen: float = 0.0
    unknown: float = 0.0
    shares: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))


@dataclass(slots=True)
class Trailed:
    """The answer, in requests of the last `span` seconds, those behind the trails included.

    `kept_then` are those that head sampling kept when they came. `listed` are the newest that would be judged by a
    language model, with those who judge them; `judged` is how many these are in all.
    """

    came: float
    kept_then: float
    span: float
    outcomes: dict[str, float] = field(default_factory=dict)
    evaluators: dict[str, Choosing] = field(default_factory=dict)
    units: list[Together] = field(default_factory=list)
    judged: float = 0.0
    listed: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def together(config: Config) -> list[tuple[Assignment, ...]]:
    """The judged evaluators that have a judge, those of one group and judge together."""
    found: dict[tuple[str, str], list[Assignment]] = {}
    for one in config.assignments:
        if one.evaluator.cost == "judge" and config.works(one):
            found.setdefault((one.judge, one.group or f"\0{one.evaluator.name}"), []).append(one)
    return [tuple(members) for members in found.values()]


def of_trails(config: Config, since: float, now: float) -> Trailed | None:
    """The requests that ended in the last `since` seconds; None where none is recorded.

    Raises `ConfigError` where the trails cannot be read.
    """
    reader = Reader(config.storage.path / FILE)
    if not reader.path.exists():
        return None
    begin = (now - since) // _MINUTE * _MINUTE
    try:
        recorded = reader.span()
        sums = reader.sums(begin, now)
        trails = reader.between(begin, now, _MOST)
    except MonitorError as error:
        raise ConfigError(f"--since: {error}") from None
    then: Counter[str] = Counter()
    for step, number, _, _ in sums:
        if not step.evaluator:
            then[step.step] += number
    if recorded is None or not then:
        return None
    first, last = max(recorded[0], begin), min(recorded[1], now)
    return _foretold(config, then, [one for one in trails if one.outcome not in _AT_THE_DOOR], max(last - first, 0.0))


def _foretold(config: Config, then: Mapping[str, int], trails: Sequence[Trail], span: float) -> Trailed:
    came = sum(then.values())
    door = {outcome: number for outcome, number in then.items() if outcome in _AT_THE_DOOR}
    further = sum(number for outcome, number in then.items() if outcome != Fate.SAMPLED_OUT) - sum(door.values())
    by_class = sum(one.outcome == Fate.SAMPLED_OUT for one in trails)
    known = len(trails) - by_class
    stands = max(further / known, 1.0) if known else 1.0
    left_out = max(then.get(Fate.SAMPLED_OUT, 0) - by_class * stands, 0.0)
    done = Trailed(came, came - left_out, span, outcomes={outcome: float(number) for outcome, number in door.items()})
    if not trails:
        done.outcomes = {outcome: float(number) for outcome, number in then.items()}
        done.notes.append(
            "no request of that time has a trail (storage.request_log says how long they are kept): the figures are "
            "those of"
            " then, and who would choose what cannot be told"
        )
        return done
    if stands > _NOTICEABLE:
        done.notes.append(
            f"{len(trails):,} trails are at hand, the newest (storage.request_log, storage.request_log_max_size;"
            f" {_MOST:,} are looked at): each stands for {stands:.3g} requests"
        )
    weights = _weights(
        trails, config.sampling.traces, stands, came - sum(door.values()), done.notes, none_left_out=left_out < 1
    )
    if then.get(Fate.FILTERED) or config.traffic.drop:
        done.notes.append(
            "what traffic.drop and traffic.health_checks leave out is as it was: trails hold no attributes"
        )
    done.units = [Together(members) for members in together(config)]
    working = [one for one in config.assignments if config.works(one)]
    done.evaluators = {one.evaluator.name: Choosing() for one in working}
    for trail, weight in zip(trails, weights, strict=True):
        if weight > 0:
            outcome = _sorted(config, trail)
            done.outcomes[outcome] = done.outcomes.get(outcome, 0.0) + weight
            if outcome == "kept":
                _choose(config, done, working, trail, weight)
    for unit in done.units:
        if 0 < unit.unknown < unit.applies:
            unit.shares = [share * unit.applies / (unit.applies - unit.unknown) for share in unit.shares]
    missing = came - sum(done.outcomes.values())
    if missing > _DUST:
        done.outcomes[Fate.SAMPLED_OUT] = done.outcomes.get(Fate.SAMPLED_OUT, 0.0) + missing
    return done


def _weights(
    trails: Sequence[Trail], rate: float, stands: float, came: float, notes: list[str], *, none_left_out: bool
) -> list[float]:
    """For how many requests each would stand with head sampling at `rate`; 0 where that leaves it out.

    `stands`: for how many it stands as it is. At most the rate of then the hash of the ids decides; of what was left
    out then no id is known, so at a higher one the kept are scaled, to as many as `came`.
    """
    # So many kept and none left out, with these probabilities: they are those of a sampler in front of this monitor.
    upstream = none_left_out and sum(math.log(max(one.probability, 1e-9)) for one in trails) < math.log(_HARDLY)
    rates = [1.0 if upstream else max(one.probability, 1e-9) for one in trails]
    to_all = came / sum(stands / one for one in rates)
    found = []
    scaled = 0
    for trail, then in zip(trails, rates, strict=True):
        if math.isclose(rate, then):
            found.append(stands)
        elif rate > then:
            scaled += 1
            found.append(stands * to_all * rate / then)
        else:
            ahead = trail.probability if upstream else 1.0
            kept, _ = consistent_sampling.keep(consistent_sampling.sampling_id(trail.request_id), "", rate * ahead)
            found.append(stands if kept else 0.0)
    if scaled:
        mean = sum(rates) / len(rates)
        notes.append(
            f"head sampling kept {mean:.3g} then, and {rate:.3g} is asked about: of what it left out no id is recorded,"
            " so the kept requests are scaled up by the sums"
        )
    return found


def _sorted(config: Config, trail: Trail) -> str:
    """Where a request would end that head sampling keeps; `kept` where it would come to the evaluators."""
    left_out = trail.outcome == Fate.SAMPLED_OUT
    if trail.outcome not in _JUDGEABLE and not (left_out and trail.detail.startswith(_BY_CLASS)):
        return trail.outcome
    named = trail.detail.removeprefix(_BY_CLASS) if left_out else trail.traffic
    traffic = next((one for one in Traffic if one == named), Traffic.PRODUCTION)
    rate = config.traffic.rates.get(traffic, 1.0)
    kept = consistent_sampling.chosen(trail.request_id, f"{config.sampling.salt}/traffic", rate)
    return "kept" if kept else Fate.SAMPLED_OUT.value


def _choose(config: Config, done: Trailed, working: Sequence[Assignment], trail: Trail, weight: float) -> None:
    """Let each evaluator draw."""
    choices = {one.evaluator: one for one in trail.choices}
    probable: dict[str, float | None] = {}
    chosen: set[str] = set()
    for one in working:
        name = one.evaluator.name
        choosing, choice = done.evaluators[name], choices.get(name)
        choosing.assumed = choosing.assumed or choice is None
        if _does_not_apply(one, trail, choice):
            continue
        choosing.applies += weight
        probability = probable[name] = _probability(config, one, trail, choice, choosing)
        if probability is None:
            choosing.unknown += weight
        elif consistent_sampling.chosen(trail.request_id, config.sampling.salt, probability):
            choosing.chosen += weight
            chosen.add(name)
    asked = [name for unit in done.units for name in _ask(unit, probable, chosen, weight)]
    if asked:
        done.judged += weight
        if len(done.listed) < LISTED:
            done.listed.append((trail.request_id, tuple(asked)))


def _ask(unit: Together, probable: Mapping[str, float | None], chosen: Collection[str], weight: float) -> list[str]:
    """Count a case for those who are asked together; which of them have chosen it."""
    applying = [one.evaluator.name for one in unit.members if one.evaluator.name in probable]
    if not applying:
        return []
    unit.applies += weight
    known = [one for one in map(probable.get, applying) if one is not None]
    if not known:
        unit.unknown += weight
    highest = max(known, default=0.0)
    for number, factor in enumerate(FACTORS):
        unit.shares[number] += weight * min(highest * factor, 1.0)
    mine = [name for name in applying if name in chosen]
    unit.chosen += weight if mine else 0.0
    return mine


def _does_not_apply(one: Assignment, trail: Trail, choice: Choice | None) -> bool:
    if choice is not None:
        return bool(choice.missing) or choice.repeated
    return trail.outcome == Fate.NO_CONTEXT and "context" in one.evaluator.needs


def _probability(
    config: Config, one: Assignment, trail: Trail, choice: Choice | None, choosing: Choosing
) -> float | None:
    """With which the evaluator would choose; that of then where its own goes by what no trail says; None: unknown."""
    sampler = one.sampler
    recorded = choice.probability if choice is not None else None
    if one.evaluator.cost == "judge" and config.traffic.quotas:
        choosing.room = "traffic.quotas thin it, by what has been spent"
        return recorded
    of_app = isinstance(sampler, ByAttribute) and sampler.attribute == "app"
    if isinstance(sampler, FixedSampler) and (isinstance(sampler, Uniform) or of_app):
        return sampler.probability(Case(request_id=trail.request_id, app=trail.app))
    adapts = not isinstance(sampler, FixedSampler)
    choosing.room = (
        f"its sampler adapts to the traffic{_budget(sampler)}" if adapts else "it goes by what no trail holds"
    )
    return recorded


def _budget(sampler: Sampler) -> str:
    """The cap that it keeps to, where it has one."""
    caps = (f" ({name}: {cap:g})" for name in BUDGETS if (cap := getattr(sampler, name, None)) is not None)
    return "".join(caps)
