"""Answers of a service with a rising rate of bad ones, with a planted cause or without one.

A world has tenants, languages, routes, documents in topics and indexes, and words, each with its own standing risk. Its
mix drifts between the days before and the hours since. All of it follows from one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import fmean
from typing import Final, NamedTuple

from monitor.statistics.diagnosis.cases import Factor, JudgedCase

HOUR: Final = 3600.0
WINDOW: Final = 6 * HOUR
NOW: Final = 1_000_000_000.0
SINCE: Final = NOW - 5 * HOUR
SEARCH: Final = NOW - 2 * WINDOW
BASELINE_DAYS: Final = 7
HIGH: Final = 0.7
"""How many of a cause's cases are bad."""

_TENANTS, _TOPICS, _INDEXES, _WORDS_OF_TOPIC, _COMMON = 20, 40, 3, 80, 1600
_LANGUAGES, _ROUTES, _CHANNELS = 4, 4, 3
_PARTS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the traffic is like, and what happens at the onset.

    `cases`: judged since the onset. `explained`: the part of the rise that `cause` explains; the others rise in common.
    `noise`: the share of wrong verdicts. `weights`: of cases drawn with unequal probabilities: `boosted` by risk, or
    `heavy`, from 2 to 100 by chance. `session`: answers in a session, which share the first one's fate.
    """

    cases: int = 300
    before: float = 0.05
    since: float = 0.2
    cause: str = ""
    explained: float = 0.0
    second: str = ""
    second_explained: float = 0.0
    baseline: int = 2000
    documents: int = 2000
    risks: float = 0.5
    drift: float = 0.3
    noise: float = 0.0
    added: bool = False
    session: int = 1
    weights: str = ""
    rollout: bool = False
    full_rollout: bool = False
    decoy: bool = False
    twin: bool = False


class Planted(NamedTuple):
    """The cases of one alert, and the factors by which each of its causes is rightly named."""

    cases: list[JudgedCase]
    causes: tuple[frozenset[Factor], ...]
    coarse: frozenset[Factor]
    """Factors that hold the first cause among others."""
    bystanders: frozenset[Factor]
    """Factors that only go with it."""
    explained: float
    """The part of the rise that the first cause makes, by the risks that the verdicts were drawn with."""


def slice_of(name: str, value: str, *, pairs: bool = False, outcome: bool = False) -> Factor:
    """A slice with this value."""
    return Factor("slice", name, value, pairs, outcome)


def document(number: int) -> Factor:
    """One document."""
    return Factor("document", "doc_uri", f"d{number}")


@dataclass
class _Drawn:
    """One request before its verdict."""

    time: float
    late: bool
    tenant: int
    language: int
    route: int
    topic: int
    documents: list[int]
    words: list[str]
    score: float
    length: float
    marks: set[str] = field(default_factory=set)
    unit: int = 0
    standing: float = 1.0
    usual: float = 0.0
    risk: float = 0.0
    version: int = 1


class _World:
    """Standing risks and popularity, by one seed."""

    def __init__(self, situation: Situation, rng: random.Random) -> None:
        self.of, self.rng = situation, rng
        risk = situation.risks
        self.tenant_risk = [math.exp(rng.gauss(0, risk)) for _ in range(_TENANTS)]
        self.language_risk = [math.exp(rng.gauss(0, risk / 2)) for _ in range(_LANGUAGES)]
        self.topic_risk = [math.exp(rng.gauss(0, risk / 2)) for _ in range(_TOPICS)]
        self.document_risk = [math.exp(rng.gauss(0, risk)) for _ in range(situation.documents)]
        self.popular = {
            late: {
                "tenant": self._popularity(_TENANTS, late=late),
                "language": self._popularity(_LANGUAGES, late=late),
                "route": self._popularity(_ROUTES, late=late),
                "topic": self._popularity(_TOPICS, late=late, steep=0.6),
            }
            for late in (False, True)
        }
        self.of_topic = situation.documents // _TOPICS
        # A cause was as good as the others before. What was worse all along is a bystander, or is "more of it".
        for cause in (situation.cause, situation.second):
            if cause == "tenant":
                self.tenant_risk[_TENANT] = 1.0
            elif cause == "document":
                self.document_risk[_STALE] = 1.0
            elif cause == "pair":
                self.tenant_risk[_PAIR[0]] = self.language_risk[_PAIR[1]] = 1.0
            elif cause == "topic":
                self.topic_risk[_TOPIC] = 1.0
        self.rollout_at = rng.uniform(SEARCH, NOW)

    def _popularity(self, number: int, *, late: bool, steep: float = 0.8) -> list[float]:
        drift = self.of.drift if late else 0.0
        return list(
            accumulate(
                (one + 1) ** -steep * math.exp(self.rng.gauss(0, drift) if drift else 0) for one in range(number)
            )
        )

    def pick(self, what: str, *, late: bool) -> int:
        cumulative = self.popular[late][what]
        return self.rng.choices(range(len(cumulative)), cum_weights=cumulative)[0]

    def draw(self, time: float, *, late: bool) -> _Drawn:
        rng = self.rng
        topic = self.pick("topic", late=late)
        one = _Drawn(
            time,
            late,
            self.pick("tenant", late=late),
            self.pick("language", late=late),
            self.pick("route", late=late),
            topic,
            self.documents(topic),
            self.words(topic),
            rng.gauss(0, 1),
            rng.gauss(0, 1),
        )
        if rng.random() < 0.02:
            one.documents = []
        return one

    def documents(self, topic: int) -> list[int]:
        base, size, rng = topic * self.of_topic, self.of_topic, self.rng
        number = 5 if rng.random() < 0.8 else rng.randint(1, 4)
        return list(dict.fromkeys(base + int(size * rng.random() ** 2) for _ in range(number)))

    def words(self, topic: int) -> list[str]:
        rng = self.rng
        own = [f"t{topic}w{int(_WORDS_OF_TOPIC * rng.random() ** 3)}" for _ in range(4)]
        return list(dict.fromkeys(own + [f"c{int(_COMMON * rng.random() ** 2)}" for _ in range(4)]))

    def standing(self, one: _Drawn) -> float:
        """How much riskier than usual a request is, no matter what happens."""
        risk = self.tenant_risk[one.tenant] * self.language_risk[one.language] * self.topic_risk[one.topic]
        if not one.documents:
            return math.inf if self.of.cause == "empty" else 14.0  # as bad before as since, or much worse than others
        return risk * self.document_risk[one.documents[0]]


_STALE, _TWIN, _TENANT, _TOPIC = 3, 4, 5, 7
_PAIR: Final = (0, 1)


def planted(situation: Situation, seed: str) -> Planted:
    """Make the cases of one alert."""
    rng = random.Random(seed)
    world = _World(situation, rng)
    drawn = _requests(world, situation)
    causes = [
        one
        for one in ((situation.cause, situation.explained), (situation.second, situation.second_explained))
        if one[0]
    ]
    for one in drawn:
        one.standing = world.standing(one)
    for cause, explained in causes:
        part = explained * (situation.since - situation.before) / (HIGH - situation.before)
        for one in drawn:
            _plant(world, one, cause, part)
    verdicts = _verdicts(world, drawn, causes)
    cases = _cases(world, drawn, verdicts)
    found = tuple(_factors_of(cause) for cause, _ in causes)
    bystanders = {slice_of("tenant", f"n{_TENANT}", pairs=True)} if situation.decoy else set[Factor]()
    bystanders |= {document(_TWIN)} if situation.twin else set()
    coarse = {slice_of("topic_index", f"i{_TOPIC % _INDEXES}")} if situation.cause == "topic" else set[Factor]()
    if situation.cause == "pair":
        coarse = {slice_of("tenant", f"n{_PAIR[0]}", pairs=True), slice_of("language", f"l{_PAIR[1]}", pairs=True)}
    late = [one for one in drawn if one.time >= SINCE]
    rise = sum(one.risk - one.usual for one in late)
    own = sum(one.risk - one.usual for one in late if causes and causes[0][0] in one.marks)
    return Planted(cases, found, frozenset(coarse), frozenset(bystanders), own / rise)


def _requests(world: _World, situation: Situation) -> list[_Drawn]:
    """Requests by time: over the days of the baseline, over the hours of the search before the onset, and since."""
    rng = world.rng
    per_second = situation.cases / (NOW - SINCE)
    earlier = round(per_second * (SINCE - SEARCH))
    spans = (
        (SEARCH - BASELINE_DAYS * 24 * HOUR, SEARCH, situation.baseline, False),
        (SEARCH, SINCE, earlier, True),
        (SINCE, NOW, situation.cases, True),
    )
    found: list[_Drawn] = []
    for begin, end, number, late in spans:
        for time in sorted(rng.uniform(begin, end) for _ in range(number // situation.session)):
            first = world.draw(time, late=late)
            first.unit = len(found)
            found.append(first)
            for turn in range(1, situation.session):
                other = world.draw(min(time + 60.0 * turn, end - 0.001), late=late)
                other.tenant, other.language, other.unit = first.tenant, first.language, first.unit
                found.append(other)
    return found


def _plant(world: _World, one: _Drawn, cause: str, part: float) -> None:  # noqa: C901 - a branch a cause
    """Give a request what the cause needs, in this part of all requests, before the onset and since."""
    rng, situation = world.rng, world.of
    since = one.time >= SINCE
    chosen = rng.random() < part
    if cause == "document":
        one.documents = [number for number in one.documents if number not in (_STALE, _TWIN)]
        if chosen:
            one.documents[:0] = [_STALE]
            one.marks.add(cause)
        if situation.twin and rng.random() < (0.8 if chosen else 0.02):
            one.documents.append(_TWIN)
        if situation.decoy:
            one.tenant = _TENANT if chosen and rng.random() < 0.7 else one.tenant
    elif cause == "tenant":
        one.tenant = _TENANT if chosen else one.tenant if one.tenant != _TENANT else 0
        one.marks.update({cause} if chosen else ())
    elif cause == "version" and since and chosen:
        one.version = 2
        one.marks.add(cause)
    elif cause == "topic":
        if chosen or one.topic == _TOPIC:
            one.topic = _TOPIC if chosen else _TOPIC + 1
            one.documents, one.words = world.documents(one.topic), world.words(one.topic)
        one.marks.update({cause} if chosen else ())
    elif cause == "pair":
        tenant, language = _PAIR
        if chosen:
            one.tenant, one.language = tenant, language
            one.marks.add(cause)
        elif (one.tenant, one.language) == _PAIR:
            one.language = 2
    elif cause == "empty" and since and chosen:
        one.documents = []
        one.marks.add(cause)


def _factors_of(cause: str) -> frozenset[Factor]:
    """What names a cause."""
    tenant, language = _PAIR
    named = {
        "document": {document(_STALE)},
        "tenant": {slice_of("tenant", f"n{_TENANT}", pairs=True)},
        "version": {slice_of("prompt.version", "v2")},
        "pair": {Factor("pair", "language and tenant", f"l{language} and n{tenant}")},
        "empty": {slice_of("documents", "0"), slice_of("context", "retrieved_nothing")},
        "topic": {
            *(Factor("word", "word", f"t{_TOPIC}w{one}") for one in range(_WORDS_OF_TOPIC)),
            slice_of("topic", str(_TOPIC)),
            *(document(one) for one in range(_TOPIC * 50, _TOPIC * 50 + 50)),
        },
    }
    return frozenset(named[cause])


def _verdicts(world: _World, drawn: Sequence[_Drawn], causes: Sequence[tuple[str, float]]) -> list[bool]:
    rng, situation = world.rng, world.of
    standing = [world.standing(one) for one in drawn]
    before = _scaled([s for s, one in zip(standing, drawn, strict=True) if not one.late], situation.before)
    since = [(s, one) for s, one in zip(standing, drawn, strict=True) if one.time >= SINCE]
    left = [(s, one) for s, one in since if not _is_bad_by_cause(one)]
    # The causes make their part of the rise; what is left of it, all other answers have in common.
    rise = (situation.since - situation.before) * (1 - sum(one for _, one in causes))
    wanted = situation.before + max(rise, 0.0) * len(since) / max(len(left), 1)
    if situation.added:
        base = fmean(_capped(before * s) for s, _ in left)
        more = max(wanted - base, 0.0)
        of_late: Callable[[float], float] = lambda s: min(_capped(before * s) + more, 0.95)  # noqa: E731
    else:
        scale = _scaled([s for s, _ in left], wanted)
        of_late = lambda s: _capped(scale * s)  # noqa: E731
    found: list[bool] = []
    fate: dict[int, bool] = {}
    for s, one in zip(standing, drawn, strict=True):
        if one.time < SINCE:
            risk = _capped(before * s)
        elif _is_bad_by_cause(one):
            risk = HIGH
        else:
            risk = of_late(s)
        bad = fate.setdefault(one.unit, rng.random() < risk) if situation.session > 1 else rng.random() < risk
        one.risk, one.usual = risk, _capped(before * one.standing)
        if situation.noise and rng.random() < situation.noise:
            bad = not bad
        found.append(bad)
    return found


def _is_bad_by_cause(one: _Drawn) -> bool:
    return one.time >= SINCE and bool(one.marks)


def _capped(risk: float) -> float:
    return min(risk, 0.7)


def _scaled(standing: Sequence[float], rate: float) -> float:
    """The factor at which these risks have this mean."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fmean(_capped(middle * s) for s in standing) < rate else (low, middle)
    return high


def _cases(world: _World, drawn: Sequence[_Drawn], verdicts: Sequence[bool]) -> list[JudgedCase]:
    rng, situation = world.rng, world.of
    found = []
    for one, bad in zip(drawn, verdicts, strict=True):
        weight = 1.0
        if situation.weights == "heavy":
            weight = rng.choice((2.0, 10.0, 50.0, 100.0))
        elif situation.weights == "boosted":
            probability = min(0.5, max(0.05, (0.5 if bad else 0.1) * math.exp(rng.gauss(0, 0.5))))
            if rng.random() >= probability * 2:
                continue
            weight = 1 / probability
        refused = rng.random() < (0.3 if bad else 0.02)
        long = rng.gauss(0.5 if bad else 0.0, 1)
        version = one.version
        if situation.rollout and one.time >= world.rollout_at:
            version = 3
        if situation.full_rollout and one.time >= SINCE:
            version = 2
        factors = (
            slice_of("tenant", f"n{one.tenant}", pairs=True),
            slice_of("language", f"l{one.language}", pairs=True),
            slice_of("route", f"r{one.route}", pairs=True),
            slice_of("topic_index", f"i{one.topic % _INDEXES}"),
            slice_of("prompt.version", f"v{version}"),
            slice_of("documents", _number_of(len(one.documents))),
            slice_of("score", str(_part(one.score))),
            slice_of("question.length", str(_part(one.length))),
            slice_of("answer.length", str(_part(long)), outcome=True),
            slice_of("refusal", str(refused), outcome=True),
            *(document(number) for number in one.documents),
            *(Factor("word", "word", word) for word in one.words),
        )
        found.append(JudgedCase(one.time, bad, str(one.unit), factors, weight))
    return found


def _number_of(documents: int) -> str:
    return "0" if not documents else "1-2" if documents < 3 else "3-4" if documents < 5 else "5"


def _part(value: float) -> int:
    """One of five parts at the quantiles of a standard normal."""
    return sum(value > one for one in (-0.8416, -0.2533, 0.2533, 0.8416))
