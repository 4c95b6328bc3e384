"""The figures of `rag-monitor plan`, and how they are said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import orjson
import typer

from monitor.alerts.engine import Z_OVER
from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy, policy_for
from monitor.cli.console.table import align
from monitor.cli.console.text import dollars
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.judge.prices import tariff
from monitor.quantities import format_duration, parse_rate, percent
from monitor.statistics.change import FAMILIES, HOUR
from monitor.statistics.power import High, Noticed, counted, high_delay, regression_delay
from monitor.statistics.rates import interval_95, judged_to_tell

_RUNS, _DAYS, _SEED = 100, 7, 1
_DAY = 24
_MOST = 100_000.0


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be noticed, and by which rules: windows are (seconds, z), the shortest first."""

    rate: float
    worse: float
    threshold: float
    windows: tuple[tuple[float, float], ...]
    family: str


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for one judgement, None where nothing is known, and where that comes from."""

    dollars: float | None
    source: str

    def a_day(self, an_hour: float) -> float | None:
        """What so many judgements an hour cost a day."""
        return None if self.dollars is None else an_hour * _DAY * self.dollars


@dataclass(frozen=True, slots=True)
class Needed:
    """How many must be judged within one window to notice, 9 times in 10."""

    window: str
    judged: int
    judged_per_hour: float
    dollars_per_day: float | None


@dataclass(frozen=True, slots=True)
class Volume:
    """What one number of judged answers brings. `high` is None where the worse rate is not above the threshold."""

    judged_per_hour: float
    dollars_per_day: float | None
    day_lower: float
    day_upper: float
    high: Noticed | None
    regression: Noticed


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    question: Question
    price: Price
    needed: tuple[Needed, ...]
    volumes: tuple[Volume, ...]


def question(config: Config, rate: str, worse: str, threshold: str | None, evaluator: str | None) -> Question:
    """What the options ask. Raises `typer.BadParameter`, and `ConfigError` for an evaluator without a policy."""
    now, then = _rate(rate, "--rate"), _rate(worse, "--worse")
    if not 0 < now < then < 1:
        raise typer.BadParameter(f"must be above --rate ({rate}) and below 100%", param_hint="--worse")
    policy = None
    if evaluator is not None:
        policy = policy_for(config.alerts, "", evaluator)
        if policy is None:
            known = ", ".join(sorted({one.evaluator for one in config.alerts if one.app is None})) or "none"
            raise ConfigError(f"--evaluator: no alert policy is for {evaluator!r} in every app; there are: {known}")
    limit = _rate(threshold, "--threshold") if threshold is not None else _lowest(policy, (now + then) / 2)
    if not now < limit < 1:
        raise typer.BadParameter(
            f"{percent(limit)} is not above --rate ({rate}): the alert would fire already", param_hint="--threshold"
        )
    windows = policy.by_length if policy is not None else DEFAULT_WINDOWS
    family = policy.regression if policy is not None and policy.regression is not None else "default"
    return Question(now, then, limit, tuple((one.window, one.z) for one in windows), str(family))


def volumes(text: str) -> list[float]:
    """The numbers of judged answers an hour. Raises `typer.BadParameter`."""
    try:
        found = sorted({float(one) for one in text.split(",")})
    except ValueError:
        found = []
    if not found or not 0 < found[0] <= found[-1] <= _MOST:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers above 0 and up to {_MOST:,.0f}, such as 10,100",
            param_hint="--judged-per-hour",
        )
    return found


def price(config: Config, evaluator: str | None, tokens: str) -> Price:
    """What one judgement costs by the price of the evaluator's judge, or of the default one."""
    given = tokens.split(",")
    if len(given) != 2 or not all(one.strip().isdecimal() for one in given):  # noqa: PLR2004 - in and out
        raise typer.BadParameter(f"{tokens!r} is not two whole numbers, such as 2000,200", param_hint="--tokens")
    ours = [one for one in config.assignments if one.evaluator.name == evaluator]
    if ours and ours[0].evaluator.cost == "local":
        return Price(0.0, f"{evaluator} asks no judge")
    settings = config.judge_of(ours[0]) if ours else config.judge
    if settings.model is None:
        return Price(None, "unknown: give --price-per-judgement, or a configuration with a judge")
    known = tariff(settings)
    if known is None:
        return Price(None, f"unknown: nobody knows the price of {settings.model}")
    of = f"{settings.model}, {int(given[0]):,} tokens in and {int(given[1]):,} out"
    return Price(known.dollars(int(given[0]), int(given[1])), of)


def plan(asked: Question, *, volumes: Sequence[float], price: Price, done: Callable[[], object] = lambda: None) -> Plan:
    """Work it out: the same figures for the same question. `done` is called after each volume."""
    needed = []
    for seconds, z in asked.windows if asked.worse > asked.threshold else ():
        judged = judged_to_tell(asked.threshold, asked.worse, z)
        an_hour = judged / (seconds / HOUR)
        needed.append(Needed(format_duration(seconds), judged, an_hour, price.a_day(an_hour)))
    found = []
    for one in volumes:
        found.append(_volume(asked, one, price))
        done()
    return Plan(asked, price, tuple(needed), tuple(found))


def _volume(asked: Question, an_hour: float, price: Price) -> Volume:
    rng = random.Random(_SEED)
    rule = High(asked.windows, asked.threshold, Z_OVER)
    high = None
    if asked.worse > asked.threshold:
        high = high_delay(rule, asked.rate, asked.worse, an_hour, runs=_RUNS, days=_DAYS, rng=rng)
    regression = regression_delay(FAMILIES[asked.family], asked.rate, asked.worse, an_hour, runs=_RUNS, rng=rng)
    judged = max(round(an_hour * _DAY), 1)
    shown = interval_95(counted(judged, round(judged * asked.rate)))
    assert shown is not None  # noqa: S101 - at least one is judged
    return Volume(an_hour, price.a_day(an_hour), shown.lower, shown.upper, high, regression)


def as_json(found: Plan) -> str:
    """One JSON object: delays in hours, null where most runs did not notice in time."""
    return orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2).decode()


def lines(found: Plan) -> Iterator[str]:
    """The answer in words."""
    asked, free = found.question, not found.price.dollars
    now, then, limit = (percent(one) for one in (asked.rate, asked.worse, asked.threshold))
    yield f"Now {now} of the answers are defective. How soon would it be noticed that {then} are, from some moment on?"
    yield f"One judgement costs {dollars(found.price.dollars or 0)} ({found.price.source})."
    yield ""
    heads: list[Sequence[str]] = [
        (
            "judged",
            "costs",
            f"a day's {now}",
            f"RagDefectRateHigh, {limit}:",
            "noticed",
            "RagDefectRateRegression:",
            "noticed",
        ),
        ("an hour", "a day", "shows as", "half the time within", "in a day", "half the time within", "in a day"),
    ]
    rows = [
        (
            f"{one.judged_per_hour:,g}",
            dollars(one.dollars_per_day or 0),
            f"{percent(one.day_lower)} to {percent(one.day_upper)}",
            "never: not above it" if one.high is None else _delay(one.high, f"longer than {_DAYS} d"),
            "-" if one.high is None else f"{one.high.within_a_day:.0%}",
            _delay(one.regression, "longer than a day"),
            f"{one.regression.within_a_day:.0%}",
        )
        for one in found.volumes
    ]
    table = [*heads, *rows]
    yield from align([[cell for at, cell in enumerate(row) if at != 1 or not free] for row in table])
    if not found.needed:
        return
    yield ""
    yield f"To show nine times in ten that {then} is surely above {limit}, as many must be judged:"
    yield ""
    rows_needed: list[Sequence[str]] = [("within", "judged", "an hour", "a day")]
    rows_needed += [
        (one.window, f"{one.judged:,}", f"{one.judged_per_hour:,.0f}", dollars(one.dollars_per_day or 0))
        for one in found.needed
    ]
    yield from align([row[:3] if free else row for row in rows_needed])


def _delay(noticed: Noticed, longer: str) -> str:
    if noticed.median is None:
        return longer
    if noticed.median < 1:
        return f"{noticed.median * 60:.0f} min"
    return f"{noticed.median:.1f} h" if noticed.median < 2 * _DAY else f"{noticed.median / _DAY:.1f} d"


def _lowest(policy: AlertPolicy | None, otherwise: float) -> float:
    return min(policy.thresholds.values(), default=otherwise) if policy is not None else otherwise


def _rate(text: str, option: str) -> float:
    try:
        return parse_rate(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
