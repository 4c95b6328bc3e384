"""The release gate: whether a release of a service may go on, by the defect rates since.

    report = decide(Criteria([Limit("groundedness", 0.05)]), sums.HistorySums(path), now=time.time())
    report.answer  # pass, fail or not_enough_data

Defect rates are compared with limits, and with the rates of another version of the service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from monitor.errors import ConfigError
from monitor.quantities import format_duration, parse_rate
from monitor.statistics.gating import Base, Decision, GateDecision, at_most_times, below
from monitor.statistics.rates import Sums

_MINUTE: Final = 60.0
_LEAST_BLOCK: Final = 300.0  # seconds: with one scrape a minute, Prometheus has too few points in shorter ones
_MAX_BLOCKS: Final = 5000  # a response of Prometheus has 11,000 points at most


class ResultKey(NamedTuple):
    """What results are added up by: results of two versions of an evaluator are never added."""

    app: str
    version: str


class Release(NamedTuple):
    """The newest version of a service: its start (wall-clock seconds), what changed, and a remark or nothing."""

    at: float
    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """Which answers: those of one app or of all; those with one value of a slice or all."""

    app: str | None = None
    slice: str | None = None
    value: str = ""

    @classmethod
    def of(cls, text: str) -> Side:
        """Read `KEY=VALUE`, where KEY is a slice or `app`. Raises `ConfigError`."""
        key, sign, value = text.partition("=")
        if not key or not sign or not value:
            raise ConfigError(f"{text!r} is not KEY=VALUE, such as service.version=2.0 or app=shop-canary")
        return cls(value) if key == "app" else cls(None, key, value)

    def __str__(self) -> str:
        return f"{self.slice}={self.value}" if self.slice is not None else f"app={self.app}" if self.app else "all apps"


class SumsSource(Protocol):
    """Where the sums come from. Both methods raise `ConfigError` when the data are not available."""

    def blocks(
        self, side: Side, evaluator: str, start: float, end: float, length: float
    ) -> Mapping[ResultKey, list[Sums]]:
        """Return the sums from `start` to `end` (wall-clock seconds), in blocks of `length` seconds."""

    def releases(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Release]:
        """Return by app the newest version that had results since `since`; no entry where only one is known."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The highest defect rate that an evaluator may show, 0 < rate <= 1; None: only compare with the other side.

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
        since: seconds up to now whose answers count; 60 at least.
        side: the answers of the release.
        against: what its rates are compared with: the previous version, or another side at the same time.
        times: how many times as high as that its rates may be; 1 at least.
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
    """One rate compared with its limit, or one ratio of rates (`kind`: `rate`, `ratio`), and the sums it rests on."""

    kind: str
    app: str
    evaluator: str
    version: str
    limit: float
    decision: Decision
    now: Sums
    base: Sums | None = None
    against: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The answer: fail when one check fails, pass when all pass."""

    answer: GateDecision
    checks: Sequence[Check]
    notes: Sequence[str]


def decide(criteria: Criteria, source: SumsSource, now: float) -> Report:
    """Decide at the wall-clock second `now`. Raises `ConfigError` when the data are not available."""
    checks: list[Check] = []
    notes: list[str] = []
    for limit in criteria.limits:
        if isinstance(criteria.against, Previous):
            checks += _with_previous(limit, criteria, criteria.against, source, now, notes=notes)
        else:
            checks += _side_by_side(limit, criteria, criteria.against, source, now)
    answers = {one.decision.answer for one in checks}
    if GateDecision.FAIL in answers:
        return Report(GateDecision.FAIL, checks, notes)
    return Report(GateDecision.PASS if answers == {GateDecision.PASS} else GateDecision.NOT_ENOUGH_DATA, checks, notes)


def _side_by_side(
    limit: Limit, criteria: Criteria, stable: Side | None, source: SumsSource, now: float
) -> Iterator[Check]:
    start, side = now - criteria.since, criteria.side
    found = _summed(source.blocks(side, limit.evaluator, start, now, criteria.since))
    # Without results there still is a check: it says that there are none.
    found = found or {ResultKey(side.app or "", ""): Sums()}
    for key, sums in found.items():
        if limit.rate is not None:
            yield _rate(limit, key, sums, limit.rate)
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
    since = now - criteria.since
    releases = source.releases(limit.evaluator, criteria.side.app, since)
    apps: list[str | None] = [*sorted(releases)]
    for app in apps or [criteria.side.app]:
        release = releases.get(app or "")
        start = max(since, release.at) if release else since
        length = max(now - start, 1.0)
        side = Side(app)
        found = _summed(source.blocks(side, limit.evaluator, start, now, length))
        base: Mapping[ResultKey, list[Sums]] = {}
        if release:
            length = min(max(length, _LEAST_BLOCK, previous.baseline / _MAX_BLOCKS), previous.baseline)
            base = source.blocks(side, limit.evaluator, release.at - previous.baseline, release.at, length)
            notes += [f"{app}: {text}" for text in (release.note,) if text]
        else:
            notes.append(f"{app or limit.evaluator}: no previous version is known to compare with")
        before = (
            f"the {format_duration(previous.baseline)} before {release.text or 'the change'}" if release else "none"
        )
        for key, sums in (found or {ResultKey(app or "", ""): Sums()}).items():
            if limit.rate is not None:
                yield _rate(limit, key, sums, limit.rate)
            yield _ratio(limit, key, sums, Base.of(base.get(key, [])), times=criteria.times, against=before)


def _rate(limit: Limit, key: ResultKey, sums: Sums, rate: float) -> Check:
    return Check("rate", key.app, limit.evaluator, key.version, rate, below(sums, rate), sums)


def _ratio(limit: Limit, key: ResultKey, sums: Sums, base: Base, *, times: float, against: str) -> Check:
    decision = at_most_times(sums, base, times)
    return Check("ratio", key.app, limit.evaluator, key.version, times, decision, sums, base.sums, against)


def _summed(blocks: Mapping[ResultKey, list[Sums]]) -> dict[ResultKey, Sums]:
    """Add up all blocks by app and version, leaving out those without scores."""
    found = {key: sum(parts, Sums()) for key, parts in sorted(blocks.items())}
    return {key: sums for key, sums in found.items() if sums.judged}
