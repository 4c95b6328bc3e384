"""The release gate: decides by the defect rates since a release whether it may proceed.

    report = decide(Criteria([Limit("groundedness", 0.05)]), sums.HistorySums(path), now=time.time())
    report.answer  # pass, fail or not_enough_data

Defect rates are compared with limits, and with the rates of another version of the service.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from monitor.errors import ConfigError
from monitor.model.case import app_name
from monitor.quantities import format_duration, parse_rate, percent
from monitor.statistics.change import DAY
from monitor.statistics.gating import MOST_MORE, Base, Decision, GateDecision, at_most_times, below
from monitor.statistics.rates import Sums

_MINUTE: Final = 60.0
_LEAST_BLOCK: Final = 300.0  # seconds: with one scrape a minute, Prometheus has too few points in shorter ones
_MAX_BLOCKS: Final = 5000  # a response of Prometheus has 11,000 points at most


class ResultKey(NamedTuple):
    """The key for adding up results: results of different versions of an evaluator are never added."""

    app: str
    version: str


class Release(NamedTuple):
    """The newest version of a service: its start (wall-clock seconds), what changed, and an optional note."""

    at: float
    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A selection of answers: of one app or of all, with one value of a slice or with any."""

    app: str | None = None
    slice: str | None = None
    value: str = ""

    @classmethod
    def of(cls, text: str) -> Side:
        """Read `KEY=VALUE`, where KEY is a slice or `app`. Raises `ConfigError`."""
        key, sign, value = text.partition("=")
        if not key or not sign or not value:
            raise ConfigError(f"{text!r} is not KEY=VALUE, such as service.version=2.0 or app=shop-canary")
        return cls(app_name(value)) if key == "app" else cls(None, key, value)

    def __str__(self) -> str:
        return f"{self.slice}={self.value}" if self.slice is not None else f"app={self.app}" if self.app else "all apps"


class SumsSource(Protocol):
    """A source of sums. Both methods raise `ConfigError` if the data are not available."""

    def blocks(
        self, side: Side, evaluator: str, start: float, end: float, length: float
    ) -> Mapping[ResultKey, list[Sums]]:
        """Return the sums from `start` to `end` (wall-clock seconds), in blocks of `length` seconds."""

    def releases(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Release]:
        """Return, by app, the newest version that had results since `since`; no entry if only one version is known."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The highest defect rate allowed for an evaluator, 0 < rate <= 1; None: only compare with the other side.

    Raises `ConfigError`.
    """

    evaluator: str
    rate: float | None

    def __post_init__(self) -> None:
        if not self.evaluator or (self.rate is not None and not 0 < self.rate <= 1):
            raise ConfigError(f"{self} needs an evaluator and a rate above 0, such as groundedness:5%")

    @classmethod
    def of(cls, text: str) -> Limit:
        """Read `EVALUATOR:RATE` or `EVALUATOR`. Raises `ConfigError`."""
        name, _, rate = text.partition(":")
        try:
            return cls(name, parse_rate(rate) if rate else None)
        except ValueError as error:
            raise ConfigError(f"{text!r}: {error}") from None

    def __str__(self) -> str:
        return self.evaluator if self.rate is None else f"{self.evaluator}:{self.rate:.3%}"


@dataclass(frozen=True, slots=True)
class Previous:
    """Compare with the version of the service that ran before, over `baseline` seconds before the release."""

    baseline: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a release must meet. Raises `ConfigError` that names the field.

    Args:
        limits: one for each evaluator; at least one.
        since: length in seconds of the period up to now whose answers count; at least 60.
        side: the answers of the release.
        against: what its rates are compared with: the previous version, or another side at the same time.
        times: how many times as high its rates may be; at least 1.
    """

    limits: Sequence[Limit]
    since: float = 1800.0
    side: Side = Side()
    against: Previous | Side | None = None
    times: float = 2.0

    def __post_init__(self) -> None:
        if not self.limits:
            raise ConfigError("limits: name at least one evaluator and its highest defect rate")
        baseline = self.against.baseline if isinstance(self.against, Previous) else _MINUTE
        without = next((one.evaluator for one in self.limits if one.rate is None), None)
        if without is not None and self.against is None:
            raise ConfigError(f"limits: {without} needs a rate, such as {without}:5%, unless `against` is given")
        for name, seconds in (("since", self.since), ("baseline", baseline)):
            if seconds < _MINUTE:
                raise ConfigError(f"{name}: {format_duration(seconds)} is shorter than a minute")
        if self.times < 1:
            raise ConfigError(f"times: {self.times:g} is below 1")
        if isinstance(self.against, Side) and (self.side == self.against or self.side.slice != self.against.slice):
            raise ConfigError(f"against: {self.against} must be another value of the same key as {self.side}")


@dataclass(frozen=True, slots=True)
class Check:
    """One rate compared with its limit, or one ratio of rates (`kind`: `rate`, `ratio`), and the sums behind it."""

    kind: str
    app: str
    evaluator: str
    version: str
    limit: float
    decision: Decision
    now: Sums
    base: Sums | None = None
    against: str = ""
    rule: str = ""
    """What counts as a defect, in words; empty for the evaluator's own rule."""

    @property
    def title(self) -> str:
        """The condition and its subject: `shop, groundedness 2: below 5.0 %`."""
        version = f" {self.version}" if self.version else ""
        rule = f", {self.rule}" if self.rule else ""
        limit = f"below {percent(self.limit)}" if self.kind == "rate" else f"less than {self.limit:g} times as high"
        return _printable(f"{f'{self.app}, ' if self.app else ''}{self.evaluator}{version}{rule}: {limit}")

    @property
    def result(self) -> str:
        """What was found: `rate 13 % (8.8 % to 18 %); 240 scored, 31 defective`."""
        decision = self.decision
        scored = f"{self.now.judged} scored, {self.now.defects} defective"
        if self.base is not None:
            scored += f"; {self.against}: {self.base.judged} scored, {self.base.defects} defective"
        if decision.answer is GateDecision.NOT_JUDGED:
            return _printable(scored)
        if decision.value is None or decision.lower is None or decision.upper is None:
            return _printable(f"{scored}; {self._needed()}")
        value, lower, upper = map(self._shown, (decision.value, decision.lower, decision.upper))
        name = "rate" if self.kind == "rate" else "ratio"
        more = f"; {self._needed()}" if decision.answer is GateDecision.NOT_ENOUGH_DATA else ""
        return _printable(f"{name} {value} ({lower} to {upper}); {scored}{more}")

    def _needed(self) -> str:
        if self.decision.more is not None:
            condition = "if all are good" if not self.now.judged else "if they are like these"
            return f"{self.decision.more} more scored answers would decide, {condition}"
        if self.base is not None and not self.base.judged:
            return "nothing to compare with"
        if self.base is not None and not self.base.defects:
            return "the other side has no defect, so the ratio has no upper limit"
        return f"even {MOST_MORE:,} more like these would not decide"

    def _shown(self, value: float) -> str:
        if self.kind == "rate":
            return percent(value)
        return "unlimited" if math.isinf(value) else f"{value:.2f}"


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of a gate, the checks behind it, and notes. As text: a line for each, then the answer."""

    answer: GateDecision
    checks: Sequence[Check]
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, checks: Sequence[Check], notes: Sequence[str] = ()) -> Report:
        """Make a report that fails if one check fails, and passes if all pass."""
        answers = {one.decision.answer for one in checks}
        for decisive in (GateDecision.FAIL, GateDecision.NOT_JUDGED):
            if decisive in answers:
                return cls(decisive, checks, notes)
        answer = GateDecision.PASS if answers == {GateDecision.PASS} else GateDecision.NOT_ENOUGH_DATA
        return cls(answer, checks, notes)

    @property
    def lines(self) -> Iterator[str]:
        """Yield one line for each check, then the notes, then the answer."""
        for one in self.checks:
            yield f"{WORDS[one.decision.answer]}: {one.title}: {one.result}"
        for note in self.notes:
            yield f"note: {_printable(note)}"
        yield f"gate: {WORDS[self.answer]}"

    def __str__(self) -> str:
        return "\n".join(self.lines)


WORDS: Final = {
    GateDecision.PASS: "pass",
    GateDecision.FAIL: "FAIL",
    GateDecision.NOT_ENOUGH_DATA: "not enough data",
    GateDecision.NOT_JUDGED: "not judged",
}
"""The answers in words."""


def _printable(text: str) -> str:
    """Replace control characters, which harm XML and terminals: names come from outside."""
    return "".join(one if one.isprintable() else "?" for one in text)


def decide(criteria: Criteria, source: SumsSource, now: float) -> Report:
    """Decide at the wall-clock second `now`. Raises `ConfigError` if the data are not available."""
    checks: list[Check] = []
    notes: list[str] = []
    for limit in criteria.limits:
        if isinstance(criteria.against, Previous):
            checks += _with_previous(limit, criteria, criteria.against, source, now, notes=notes)
        else:
            checks += _side_by_side(limit, criteria, criteria.against, source, now)
    return Report.of(checks, notes)


def _side_by_side(
    limit: Limit, criteria: Criteria, stable: Side | None, source: SumsSource, now: float
) -> Iterator[Check]:
    start, side = now - criteria.since, criteria.side
    found = _summed(source.blocks(side, limit.evaluator, start, now, criteria.since))
    # Without results there is still a check, which reports that there are none.
    found = found or {ResultKey(side.app or "", ""): Sums()}
    usual = _usual(source, limit.evaluator, side.app, now)
    for key, sums in found.items():
        if limit.rate is not None:
            yield _rate(limit, key, sums, limit.rate, usual)
    if stable is None:
        return
    other = _summed(source.blocks(stable, limit.evaluator, start, now, criteria.since))
    by_app = side.slice is None
    for key, sums in found.items():
        base = other.get(ResultKey(stable.app or "", key.version) if by_app else key, Sums())
        yield _ratio(limit, key, sums, Base(base), times=criteria.times, against=str(stable))


def _with_previous(
    limit: Limit, criteria: Criteria, previous: Previous, source: SumsSource, now: float, *, notes: list[str]
) -> Iterator[Check]:
    since, wanted = now - criteria.since, criteria.side.app
    releases = source.releases(limit.evaluator, wanted, since)
    for app, release in sorted(releases.items()):
        start = max(since, release.at)
        length = max(now - start, 1.0)
        side = Side(app)
        found = _summed(source.blocks(side, limit.evaluator, start, now, length))
        length = min(max(length, _LEAST_BLOCK, previous.baseline / _MAX_BLOCKS), previous.baseline)
        base = source.blocks(side, limit.evaluator, release.at - previous.baseline, release.at, length)
        notes += [f"{app}: {text}" for text in (release.note,) if text]
        before = f"the {format_duration(previous.baseline)} before {release.text or 'the change'}"
        usual = _usual(source, limit.evaluator, app, now)
        for key, sums in (found or {ResultKey(app, ""): Sums()}).items():
            if limit.rate is not None:
                yield _rate(limit, key, sums, limit.rate, usual)
            yield _ratio(limit, key, sums, Base.of(base.get(key, [])), times=criteria.times, against=before)
    if wanted not in releases:
        yield from _without_previous(limit, criteria, source, now, others=releases, notes=notes)


def _without_previous(
    limit: Limit, criteria: Criteria, source: SumsSource, now: float, *, others: Collection[str], notes: list[str]
) -> Iterator[Check]:
    """Check the apps of which only one version is known: all but the `others`. Nothing passes as compared."""
    start, wanted = now - criteria.since, criteria.side.app
    every = _summed(source.blocks(Side(wanted), limit.evaluator, start, now, criteria.since))
    found = {key: sums for key, sums in every.items() if key.app not in others}
    if not found and not others:
        found = {ResultKey(wanted or "", ""): Sums()}
    usual = _usual(source, limit.evaluator, wanted, now) if found else {}
    apps = sorted({key.app for key in found})
    notes += [f"{app or limit.evaluator}: no previous version is known to compare with" for app in apps]
    for key, sums in found.items():
        if limit.rate is not None:
            yield _rate(limit, key, sums, limit.rate, usual)
        yield _ratio(limit, key, sums, Base(Sums()), times=criteria.times, against="none")


def _usual(source: SumsSource, evaluator: str, app: str | None, now: float) -> Mapping[ResultKey, float]:
    """Return the typical weight of the last day, by app and version: see `rates.estimate`."""
    found = _summed(source.blocks(Side(app), evaluator, now - DAY, now, DAY))
    return {key: sums.typical_weight for key, sums in found.items()}


def _rate(limit: Limit, key: ResultKey, sums: Sums, rate: float, usual: Mapping[ResultKey, float]) -> Check:
    decision = below(sums, rate, usual=usual.get(key, 0.0))
    return Check("rate", key.app, limit.evaluator, key.version, rate, decision, sums)


def _ratio(limit: Limit, key: ResultKey, sums: Sums, base: Base, *, times: float, against: str) -> Check:
    decision = at_most_times(sums, base, times)
    return Check("ratio", key.app, limit.evaluator, key.version, times, decision, sums, base.sums, against)


def _summed(blocks: Mapping[ResultKey, list[Sums]]) -> dict[ResultKey, Sums]:
    """Add up all blocks by app and version, leaving out those without scores."""
    found = {key: sum(parts, Sums()) for key, parts in sorted(blocks.items())}
    return {key: sums for key, sums in found.items() if sums.judged}
