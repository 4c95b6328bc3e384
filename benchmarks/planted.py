"""Answers of a service whose rate of bad answers rises, with or without a planted cause.

A world has tenants, locales, routes, documents in folders, topics and indexes, and words, each with its own constant
risk; languages that mostly follow the locale, users of tenants, and models. Its mix drifts between the days before and
the hours after the onset. All of it is determined by one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
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
"""The share of a cause's cases that are bad."""
HIGHEST: Final = 0.7
"""The highest risk of any other case."""

_TENANTS, _TOPICS, _INDEXES, _WORDS_OF_TOPIC, _COMMON = 20, 40, 3, 80, 1600
_LOCALES, _ROUTES, _MODELS, _USERS_OF_TENANT, _FOLDER = 4, 4, 2, 60, 25
_ACTUALLY: Final = 0.9  # share of questions whose language is recorded and is the locale's; same for the topic


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Properties of the traffic, and what happens at the onset.

    `cases`: judged since the onset. `explained`: the part of the rise due to `cause`; the rest affects all cases.
    `noise`: the share of wrong verdicts. `weights`: of cases drawn with unequal probabilities: `boosted` by risk, or
    `heavy`, from 2 to 100 by chance. `session`: answers in a session, which share the first one's fate. `slow`: the
    window has 48 hours, not 6, and the rise 40 of them, not 5: so the hour of the day is a factor, and it has its own
    traffic and its own standing risk.
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
    slow: bool = False

    @property
    def search(self) -> float:
        """The time from which the rise is searched."""
        return NOW - 96 * HOUR if self.slow else SEARCH

    @property
    def onset(self) -> float:
        """The time when the rate rises."""
        return NOW - 40 * HOUR if self.slow else SINCE


class Planted(NamedTuple):
    """The cases of one alert, and the factors that correctly name each of its causes."""

    cases: list[JudgedCase]
    causes: tuple[frozenset[Factor], ...]
    coarse: frozenset[Factor]
    """Wider factors that contain the first cause."""
    bystanders: frozenset[Factor]
    """Factors that only accompany it."""
    explained: float
    """The share of the rise due to the first cause, by the risks that the verdicts were drawn with."""
    onset: float


@cache
def slice_of(name: str, value: str, *, pairs: bool = False, outcome: bool = False) -> Factor:
    """Return a slice with this value."""
    return Factor("slice", name, value, pairs, outcome)


@cache
def document(number: int) -> Factor:
    """One document."""
    return Factor("document", "document", f"kb/{number // _FOLDER}/d{number}")


@cache
def _folder(number: int) -> Factor:
    return Factor("document", "folder", f"kb/{number // _FOLDER}")


@cache
def _word(word: str) -> Factor:
    return Factor("word", "word", word)


@dataclass
class _Drawn:
    """A request before its verdict."""

    time: float
    late: bool
    tenant: int
    locale: int
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
    user: int = 0


class _World:
    """Constant risks and popularity, from one seed."""

    def __init__(self, situation: Situation, rng: random.Random) -> None:
        self.of, self.rng = situation, rng
        risk = situation.risks
        self.tenant_risk = [math.exp(rng.gauss(0, risk)) for _ in range(_TENANTS)]
        self.locale_risk = [math.exp(rng.gauss(0, risk / 2)) for _ in range(_LOCALES)]
        self.topic_risk = [math.exp(rng.gauss(0, risk / 2)) for _ in range(_TOPICS)]
        self.document_risk = [math.exp(rng.gauss(0, risk)) for _ in range(situation.documents)]
        self.popular = {
            late: {
                "tenant": self._popularity(_TENANTS, late=late),
                "locale": self._popularity(_LOCALES, late=late),
                "route": self._popularity(_ROUTES, late=late),
                "topic": self._popularity(_TOPICS, late=late, steep=0.6),
            }
            for late in (False, True)
        }
        self.of_topic = situation.documents // _TOPICS
        # Before, a cause was as good as the others. A factor that was always worse is a bystander, or is "more of it".
        for cause in (situation.cause, situation.second):
            if cause == "tenant":
                self.tenant_risk[_TENANT] = 1.0
            elif cause == "document":
                self.document_risk[_STALE] = 1.0
            elif cause == "pair":
                self.tenant_risk[_PAIR[0]] = self.locale_risk[_PAIR[1]] = 1.0
            elif cause == "topic":
                self.topic_risk[_TOPIC] = 1.0
        self.rollout_at = rng.uniform(situation.search, NOW)
        self.hour_risk = [
            math.exp(rng.gauss(0, risk / 2)) * (1 + 0.4 * math.cos(hour * math.tau / 24)) if situation.slow else 1.0
            for hour in range(24)
        ]

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
            self.pick("locale", late=late),
            self.pick("route", late=late),
            topic,
            self.documents(topic),
            self.words(topic),
            rng.gauss(0, 1),
            rng.gauss(0, 1),
        )
        if rng.random() < 0.02:
            one.documents = []
        one.user = int(_USERS_OF_TENANT * rng.random() ** 2)
        return one

    def times(self, begin: float, end: float, number: int) -> list[float]:
        """Return this many times in order, distributed like the traffic over the hours of the day."""
        rng, found = self.rng, list[float]()
        while len(found) < number:
            time = rng.uniform(begin, end)
            busy = 1 - 0.7 * math.cos(hour_of(time) * math.tau / 24)
            if not self.of.slow or rng.random() * 1.7 < busy:
                found.append(time)
        return sorted(found)

    def documents(self, topic: int) -> list[int]:
        base, size, rng = topic * self.of_topic, self.of_topic, self.rng
        number = 5 if rng.random() < 0.8 else rng.randint(1, 4)
        return list(dict.fromkeys(base + int(size * rng.random() ** 2) for _ in range(number)))

    def words(self, topic: int) -> list[str]:
        rng = self.rng
        own = [f"t{topic}w{int(_WORDS_OF_TOPIC * rng.random() ** 3)}" for _ in range(4)]
        return list(dict.fromkeys(own + [f"c{int(_COMMON * rng.random() ** 2)}" for _ in range(4)]))

    def standing(self, one: _Drawn) -> float:
        """Return how much riskier than usual a request is, apart from the planted cause."""
        risk = self.tenant_risk[one.tenant] * self.locale_risk[one.locale] * self.topic_risk[one.topic]
        risk *= self.hour_risk[hour_of(one.time)]
        if not one.documents:
            return math.inf if self.of.cause == "empty" else 14.0  # as bad before the onset, or much worse than others
        return risk * self.document_risk[one.documents[0]]


def hour_of(time: float) -> int:
    """Return the hour of the day (UTC)."""
    return int(time // HOUR % 24)


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
    coarse = set[Factor]().union(*(_coarse(cause) for cause, _ in causes))
    late = [one for one in drawn if one.time >= situation.onset]
    rise = sum(one.risk - one.usual for one in late)
    own = sum(one.risk - one.usual for one in late if causes and causes[0][0] in one.marks)
    return Planted(cases, found, frozenset(coarse), frozenset(bystanders), own / rise, situation.onset)


def _coarse(cause: str) -> set[Factor]:
    """Return the wider factors that contain a cause."""
    tenant, locale = _PAIR
    if cause == "topic":
        return {slice_of("topic_index", f"i{_TOPIC % _INDEXES}")}
    if cause == "pair":
        return {
            slice_of("tenant", f"n{tenant}", pairs=True),
            slice_of("locale", f"l{locale}", pairs=True),
            slice_of("language", f"l{locale}"),
        }
    return {_folder(_STALE)} if cause == "document" else set()


def _requests(world: _World, situation: Situation) -> list[_Drawn]:
    """Return requests by time: in the baseline's days, in the searched hours before the onset, and after it."""
    since, search = situation.onset, situation.search
    per_second = situation.cases / (NOW - since)
    earlier = round(per_second * (since - search))
    spans = (
        (search - BASELINE_DAYS * 24 * HOUR, search, situation.baseline, False),
        (search, since, earlier, True),
        (since, NOW, situation.cases, True),
    )
    found: list[_Drawn] = []
    for begin, end, number, late in spans:
        for time in world.times(begin, end, number // situation.session):
            first = world.draw(time, late=late)
            first.unit = len(found)
            found.append(first)
            for turn in range(1, situation.session):
                other = world.draw(min(time + 60.0 * turn, end - 0.001), late=late)
                other.tenant, other.locale, other.unit, other.user = first.tenant, first.locale, first.unit, first.user
                found.append(other)
    return found


def _plant(world: _World, one: _Drawn, cause: str, part: float) -> None:  # noqa: C901 - a branch a cause
    """Give a request the property of the cause, in this share of all requests, before and after the onset."""
    rng, situation = world.rng, world.of
    since = one.time >= situation.onset
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
        tenant, locale = _PAIR
        if chosen:
            one.tenant, one.locale = tenant, locale
            one.marks.add(cause)
        elif (one.tenant, one.locale) == _PAIR:
            one.locale = 2
    elif cause == "empty" and since and chosen:
        one.documents = []
        one.marks.add(cause)


def _factors_of(cause: str) -> frozenset[Factor]:
    """Return the factors that name a cause."""
    tenant, locale = _PAIR
    named = {
        "document": {document(_STALE)},
        "tenant": {slice_of("tenant", f"n{_TENANT}", pairs=True)},
        "version": {slice_of("prompt.version", "v2")},
        "pair": {Factor("pair", "locale and tenant", f"l{locale} and n{tenant}")},
        "empty": {slice_of("documents", "0"), slice_of("context", "retrieved nothing")},
        "topic": {
            *(_word(f"t{_TOPIC}w{one}") for one in range(_WORDS_OF_TOPIC)),
            slice_of("topic", str(_TOPIC)),
            *(document(one) for one in range(_TOPIC * 50, _TOPIC * 50 + 50)),
            *(_folder(one) for one in range(_TOPIC * 50, _TOPIC * 50 + 50, _FOLDER)),
        },
    }
    return frozenset(named[cause])


def _verdicts(world: _World, drawn: Sequence[_Drawn], causes: Sequence[tuple[str, float]]) -> list[bool]:
    rng, situation = world.rng, world.of
    standing = [world.standing(one) for one in drawn]
    before = _scaled([s for s, one in zip(standing, drawn, strict=True) if not one.late], situation.before)
    since = [(s, one) for s, one in zip(standing, drawn, strict=True) if one.time >= situation.onset]
    left = [(s, one) for s, one in since if not one.marks]
    # The causes explain their share of the rise; the rest affects all other answers alike.
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
        if one.time < situation.onset:
            risk = _capped(before * s)
        elif one.marks:
            risk = HIGH
        else:
            risk = of_late(s)
        bad = fate.setdefault(one.unit, rng.random() < risk) if situation.session > 1 else rng.random() < risk
        one.risk, one.usual = risk, _capped(before * one.standing)
        if situation.noise and rng.random() < situation.noise:
            bad = not bad
        found.append(bad)
    return found


def _capped(risk: float) -> float:
    return min(risk, HIGHEST)


def _scaled(standing: Sequence[float], rate: float) -> float:
    """Return the factor at which these risks have this mean. `rate` is below that of a capped risk."""
    ordered = sorted(standing)
    sums = list(accumulate(ordered, initial=0.0))
    found = 0.0
    for capped in range(len(ordered)):  # of the highest risks
        rest = len(ordered) - capped
        found = (rate * len(ordered) - HIGHEST * capped) / sums[rest] if sums[rest] else 1.0
        if found * ordered[rest - 1] <= HIGHEST:
            return found
    return found


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
        if situation.full_rollout and one.time >= situation.onset:
            version = 2
        language = f"l{one.locale}" if rng.random() < _ACTUALLY else "other"
        topic = str(one.topic if rng.random() < _ACTUALLY else rng.randrange(_TOPICS))
        factors = (
            slice_of("tenant", f"n{one.tenant}", pairs=True),
            slice_of("locale", f"l{one.locale}", pairs=True),
            slice_of("route", f"r{one.route}", pairs=True),
            slice_of("topic_index", f"i{one.topic % _INDEXES}"),
            slice_of("prompt.version", f"v{version}"),
            slice_of("model", f"m{rng.randrange(_MODELS)}"),
            slice_of("language", language),
            slice_of("topic", topic),
            slice_of("user", f"n{one.tenant}u{one.user}"),
            *([] if one.documents else [slice_of("context", "retrieved nothing")]),
            *([slice_of("hour of the day (UTC)", str(hour_of(one.time)))] if situation.slow else []),
            slice_of("documents", _number_of(len(one.documents))),
            slice_of("score", str(_part(one.score))),
            slice_of("question.length", str(_part(one.length))),
            slice_of("answer.length", str(_part(long)), outcome=True),
            slice_of("refusal", str(refused), outcome=True),
            *map(document, one.documents),
            *map(_folder, dict.fromkeys(number // _FOLDER * _FOLDER for number in one.documents)),
            *map(_word, one.words),
        )
        found.append(JudgedCase(one.time, bad, str(one.unit), factors, weight))
    return found


def _number_of(documents: int) -> str:
    return "0" if not documents else "1-2" if documents < 3 else "3-4" if documents < 5 else "5"


def _part(value: float) -> int:
    """Return one of five classes, divided at the quantiles of a standard normal."""
    return sum(value > one for one in (-0.8416, -0.2533, 0.2533, 0.8416))
