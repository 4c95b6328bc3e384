"""What `rag-monitor gate` decides: checks of rates and of ratios, on sums from the history or from Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from monitor.errors import ConfigError
from monitor.quantities import format_duration, parse_duration, parse_rate
from monitor.statistics.gating import Answer, Base, Decision, at_most_times, below
from monitor.statistics.rates import Sums

EXIT_STATUS: Final[Mapping[Answer, int]] = {Answer.PASS: 0, Answer.FAIL: 1, Answer.NOT_ENOUGH_DATA: 3}
_MINUTE: Final = 60.0
_LEAST_BLOCK: Final = 300.0  # seconds: with a scrape a minute, shorter ones would show Prometheus nothing
_MOST_BLOCKS: Final = 5000  # Prometheus answers with 11,000 points at most


class Side(NamedTuple):
    """Whose answers: of one app or of all; of one value of a slice or of all."""

    app: str | None = None
    slice: str | None = None
    value: str = ""

    def __str__(self) -> str:
        """As it is asked for: `service.version=2.0`."""
        return f"{self.slice}={self.value}" if self.slice is not None else f"app={self.app}" if self.app else "all apps"


class Key(NamedTuple):
    """Verdicts that are added up: of one app by one version of an evaluator."""

    app: str
    version: str


class Began(NamedTuple):
    """When a service's newest generation began (wall-clock seconds), what is new in words, and what is odd about it."""

    at: float
    text: str = ""
    note: str = ""


class Source(Protocol):
    """Where the sums come from. Every method raises `ConfigError` where they cannot be had."""

    def blocks(self, side: Side, evaluator: str, start: float, end: float, length: float) -> Mapping[Key, list[Sums]]:
        """What was judged from `start` to `end` (wall-clock seconds), in stretches of `length` seconds."""

    def began(self, evaluator: str, app: str | None, since: float) -> Mapping[str, Began]:
        """By app the newest generation of those that were seen since `since`; none where there was only one ever."""


class Limit(NamedTuple):
    """One `--fail-on`: no rate stands for none but the comparison."""

    evaluator: str
    rate: float | None


class Question(NamedTuple):
    """What is asked for; times in seconds."""

    limits: Sequence[Limit]
    since: float
    against: str | None
    times: float
    baseline: float
    side: Side
    stable: Side | None


@dataclass(frozen=True, slots=True)
class Check:
    """One rate held against its limit, or one ratio (`kind`), with what it rests on."""

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
    """The strictest answer of all checks: one that fails is enough, and all must pass."""

    answer: Answer
    checks: Sequence[Check]
    notes: Sequence[str]


def question(
    *,
    fail_on: Sequence[str],
    since: str,
    against: str | None,
    times: float,
    baseline: str,
    app: str | None,
    canary: str | None,
    stable: str | None,
) -> Question:
    """What the options say. Raises `ConfigError` that names the option."""
    if not fail_on:
        raise ConfigError("--fail-on: name an evaluator and its highest defect rate, such as groundedness:5%")
    limits = [_limit(one, against) for one in fail_on]
    if (against == "stable") != (canary is not None and stable is not None) or (canary is None) != (stable is None):
        raise ConfigError("--canary, --stable: both belong to --against stable, such as service.version=2.0")
    side, other = Side(app), None
    if canary is not None and stable is not None:
        side, other = _side(canary, "--canary", app), _side(stable, "--stable", app)
        if side == other or side.slice != other.slice:
            raise ConfigError(f"--stable: {stable!r} must be another value of the same key as --canary {canary!r}")
    return Question(limits, _duration(since, "--since"), against, times, _duration(baseline, "--baseline"), side, other)


def _limit(text: str, against: str | None) -> Limit:
    name, _, rate = text.partition(":")
    try:
        found = Limit(name, parse_rate(rate) if rate else None)
    except ValueError as error:
        raise ConfigError(f"--fail-on: {text!r}: {error}") from None
    if not name or found.rate == 0 or (found.rate is None and against is None):
        raise ConfigError(f"--fail-on: {text!r} needs an evaluator and a rate above 0, such as groundedness:5%")
    return found


def _side(text: str, option: str, app: str | None) -> Side:
    key, sign, value = text.partition("=")
    if not key or not sign or not value:
        raise ConfigError(f"{option}: {text!r} is not KEY=VALUE, such as service.version=2.0 or app=shop-canary")
    if key == "app":
        if app is not None:
            raise ConfigError(f"--app: {option} {text} says already which app it is")
        return Side(value)
    return Side(app, key, value)


def _duration(text: str, option: str) -> float:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None
    if found < _MINUTE:
        raise ConfigError(f"{option}: {text!r} must be a minute at least")
    return found


def decide(asked: Question, source: Source, now: float) -> Report:
    """Look once, at the wall-clock second `now`. Raises `ConfigError` where the data cannot be had."""
    checks: list[Check] = []
    notes: list[str] = []
    for limit in asked.limits:
        if asked.against == "previous":
            checks += _previous(limit, asked, source, now, notes)
        else:
            checks += _side_by_side(limit, asked, source, now)
    answers = {one.decision.answer for one in checks}
    if Answer.FAIL in answers:
        return Report(Answer.FAIL, checks, notes)
    return Report(Answer.PASS if answers == {Answer.PASS} else Answer.NOT_ENOUGH_DATA, checks, notes)


def _side_by_side(limit: Limit, asked: Question, source: Source, now: float) -> Iterator[Check]:
    start = now - asked.since
    found = _summed(source.blocks(asked.side, limit.evaluator, start, now, asked.since))
    # Where nothing was judged the check stands all the same, and says so.
    for key, sums in (found or {Key(asked.side.app or "", ""): Sums()}).items():
        if limit.rate is not None:
            yield _rate(limit, key, sums, limit.rate)
    if asked.stable is None:
        return
    other = _summed(source.blocks(asked.stable, limit.evaluator, start, now, asked.since))
    by_app = asked.side.slice is None
    for key, sums in (found or {Key(asked.side.app or "", ""): Sums()}).items():
        base = other.get(Key(asked.stable.app or "", key.version) if by_app else key, Sums())
        yield _ratio(limit, key, sums, Base(base), times=asked.times, against=str(asked.stable))


def _previous(limit: Limit, asked: Question, source: Source, now: float, notes: list[str]) -> Iterator[Check]:
    since = now - asked.since
    generations = source.began(limit.evaluator, asked.side.app, since)
    apps: list[str | None] = [*sorted(generations)] or [asked.side.app]
    for app in apps:
        began = generations.get(app) if app is not None else None
        start = max(since, began.at) if began else since
        length = max(now - start, 1.0)
        side = Side(app)
        found = _summed(source.blocks(side, limit.evaluator, start, now, length))
        base: Mapping[Key, list[Sums]] = {}
        if began:
            length = min(max(length, _LEAST_BLOCK, asked.baseline / _MOST_BLOCKS), asked.baseline)
            base = source.blocks(side, limit.evaluator, began.at - asked.baseline, began.at, length)
            notes += [f"{app}: {text}" for text in (began.note,) if text]
        else:
            notes.append(f"{app or limit.evaluator}: no previous generation is known to compare with")
        text = f"the {format_duration(asked.baseline)} before {began.text or 'the change'}" if began else "none"
        for key, sums in (found or {Key(app or "", ""): Sums()}).items():
            if limit.rate is not None:
                yield _rate(limit, key, sums, limit.rate)
            yield _ratio(limit, key, sums, Base.of(base.get(key, [])), times=asked.times, against=text)


def _rate(limit: Limit, key: Key, sums: Sums, rate: float) -> Check:
    return Check("rate", key.app, limit.evaluator, key.version, rate, below(sums, rate), sums)


def _ratio(limit: Limit, key: Key, sums: Sums, base: Base, *, times: float, against: str) -> Check:
    decision = at_most_times(sums, base, times)
    return Check("ratio", key.app, limit.evaluator, key.version, times, decision, sums, base.sums, against)


def _summed(blocks: Mapping[Key, list[Sums]]) -> dict[Key, Sums]:
    """What was judged at all, by app and version."""
    found = {key: sum(parts, Sums()) for key, parts in sorted(blocks.items())}
    return {key: sums for key, sums in found.items() if sums.judged}
