"""The gain of boosted sampling, and how well it keeps its budget, simulated with the product's own learner and pacer.

    python -m benchmarks.simulation [--quick] [LABELLED.jsonl ...]

`--quick` takes seconds instead of minutes. Each file holds one answer a line: `question`, `contexts`, `response`,
`label` (1: defective), and `group`, which keeps answers of one conversation on one side of a split.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, geometric_mean, stdev
from typing import Final, NamedTuple

from benchmarks.answers import Mix, Row, binormal, distance, labelled, mixed
from monitor.statistics.budget_pacer import CAP, FLOOR, BudgetPacer, deviation
from monitor.statistics.defect_model import INPUTS, DefectModel
from monitor.statistics.rates import Sums

CHECKPOINTS: Final = (200, 1000, 5000)
SLOPE: Final = 1.2
_DELAY = 50  # verdicts still pending while the next cases are drawn
_SHARE = 0.05
_SMALL_DAY: Final = {"per_day": 1000, "per_minute": 2.8, "minutes": 1440}  # a quarter of its cases are judged
DEFECTS: Final = 13_000
"""Answers to judge for a standard error of the bias below one percent."""


# -- gain, exactly, at some numbers of verdicts


def efficiency(mix: Mix, risks: Sequence[float]) -> float:
    """Return the judgements that an even draw needs for the same variance of the rate, divided by those made."""
    chances = _chances(mix, risks)
    rate = math.fsum(often * row.defect for row, often in zip(*mix, strict=True))
    spent = math.fsum(often * chance for often, chance in zip(mix.often, chances, strict=True))
    variance = math.fsum(
        often * (row.defect - rate) ** 2 / chance for row, often, chance in zip(*mix, chances, strict=True)
    )
    return rate * (1 - rate) / (spent * variance)


def _chances(mix: Mix, risks: Sequence[float]) -> list[float]:
    mean = math.fsum(often * risk for often, risk in zip(mix.often, risks, strict=True))
    raw = [deviation(risk, mean) for risk in risks]
    average = math.fsum(often * one for often, one in zip(mix.often, raw, strict=True))
    wanted = [one / average for one in raw]
    chances, scale = [_SHARE for _ in wanted], _SHARE
    for _ in range(20):
        chances = [min(max(scale * one, _SHARE * FLOOR), 1.0) for one in wanted]
        scale *= _SHARE / math.fsum(often * chance for often, chance in zip(mix.often, chances, strict=True))
    return chances


def oracle(auroc: float, rate: float, rng: random.Random, size: int = 20_000) -> float:
    """Return the gain with the true risk of each answer of `binormal` known."""
    shift = distance(auroc)
    mix = mixed(binormal(auroc, size, rng), rate)
    odds = rate / (1 - rate)
    shifted = [odds * math.exp(shift * row.seen[0] - shift**2 / 2) for row in mix.rows]
    return efficiency(mix, [one / (1 + one) for one in shifted])


class Stream(NamedTuple):
    """A source of verdicts, some cases at a time, and the cases on which the gain is measured."""

    seen: Callable[[], Mix]
    held: Mix


def synthetic(auroc: float, rate: float, rng: random.Random) -> Stream:
    """Return new answers of `binormal` each time."""
    return Stream(lambda: mixed(binormal(auroc, 1000, rng), rate), mixed(binormal(auroc, 8000, rng), rate))


def halved(rows: Sequence[Row], rate: float, rng: random.Random) -> Stream:
    """Take verdicts repeatedly from one half of the groups, and measure the gain on the other half."""
    groups = sorted({row.group for row in rows})
    rng.shuffle(groups)
    first = set(groups[: len(groups) // 2])
    seen = mixed([row for row in rows if row.group in first], rate)
    return Stream(lambda: seen, mixed([row for row in rows if row.group not in first], rate))


def learned(stream: Stream, rng: random.Random, checkpoints: Sequence[int] = CHECKPOINTS) -> list[float]:
    """Return the gain before any verdict, and after each of these numbers of verdicts."""
    learner = DefectModel((SLOPE, *(0.0 for _ in INPUTS[1:])))
    found = [_gain_of(learner, stream.held)]
    for before, until in pairwise((0, *checkpoints)):
        for _ in range(before, until, _DELAY):
            seen = stream.seen()
            chances = _chances(seen, [learner.probability(row.seen) for row in seen.rows])
            drawn = [often * chance for often, chance in zip(seen.often, chances, strict=True)]
            for number in rng.choices(range(len(drawn)), drawn, k=_DELAY):
                row = seen.rows[number]
                learner.learn(row.seen, _SHARE / chances[number], defect=row.defect)
        found.append(_gain_of(learner, stream.held))
    return found


def learned_mean(
    make: Callable[[random.Random], Stream], *, streams: int, checkpoints: Sequence[int] = CHECKPOINTS
) -> list[float]:
    """Return the geometric mean of `learned` over some streams: before any verdict, then at each checkpoint."""
    rngs = [random.Random(seed) for seed in range(streams)]
    runs = [learned(make(rng), rng, checkpoints) for rng in rngs]
    return [geometric_mean(column) for column in zip(*runs, strict=True)]


def _gain_of(learner: DefectModel, held: Mix) -> float:
    return efficiency(held, [learner.probability(row.seen) for row in held.rows])


# -- the whole loop, by the clock


def steady(minute: int) -> float:  # noqa: ARG001 - a load like the others
    """A constant load: always its mean."""
    return 1.0


def cycle(minute: int) -> float:
    """A load by the minute, 1 on average: busiest and quietest hour differ by a factor of four."""
    return 1 - 0.6 * math.cos(2 * math.pi * minute / 1440)


def bursts(minutes: int) -> Callable[[int], float]:
    """Like `cycle`, but with ten times the load for some minutes, three times a day."""

    def load(minute: int) -> float:
        at = minute % 1440
        return cycle(minute) * (10.0 if any(start <= at < start + minutes for start in (300, 720, 1140)) else 1.0)

    return load


@dataclass(slots=True)
class Looped:
    """The result of a run: the estimates from the sample, the true values, and the spending."""

    sums: Sums = field(default_factory=Sums)
    cases: int = 0
    defects: int = 0
    expected: float = 0.0
    by_hour: list[float] = field(default_factory=list)
    residual: float = 0.0
    """The estimating function: the sum of weight x (defect - true rate), 0 on average without bias."""

    @property
    def rate(self) -> float:
        """The rate estimated from the sample."""
        return self.sums.defect_weight / self.sums.weight

    def busiest(self) -> float:
        """The largest expected spending in any sixty minutes."""
        return max(math.fsum(self.by_hour[at : at + 60]) for at in range(max(1, len(self.by_hour) - 59)))


def closed_loop(
    rows: Sequence[Row],
    *,
    per_day: float,
    per_minute: float,
    minutes: int,
    rng: random.Random,
    rate: float = 0.02,
    rate_in_burst: float | None = None,
    load: Callable[[int], float] = cycle,
    boost: bool = True,
    delay: int = 5,
    cap: float = CAP,
) -> Looped:
    """Run a stream of answers drawn from `rows` and judged `delay` minutes later, from a cold start."""
    good, bad = [row for row in rows if not row.defect], [row for row in rows if row.defect]
    learner = DefectModel((SLOPE, *(0.0 for _ in INPUTS[1:])))
    pacer = BudgetPacer(per_day, cap * per_day / 24, now=0.0)
    run, under_way = Looped(), deque[tuple[int, Row, float, float]]()
    for minute in range(minutes):
        while under_way and under_way[0][0] <= minute:
            _, row, chance, target = under_way.popleft()
            learner.learn(row.seen, target / chance, defect=row.defect)
        busy = load(minute)
        now_rate = rate_in_burst if rate_in_burst is not None and busy > 2 * cycle(minute) else rate
        spent, came = 0.0, _poisson(per_minute * busy, rng)
        for number in range(came):
            row = rng.choice(bad if rng.random() < now_rate else good)
            risk = learner.probability(row.seen) if boost else None
            paced = pacer.draw(risk, (minute + number / came) * 60.0)
            spent += paced.probability
            run.cases += 1
            run.defects += row.defect
            if rng.random() < paced.probability:
                weight = 1 / paced.probability
                run.sums += Sums.of(weight, defect=row.defect)
                run.residual += weight * (row.defect - now_rate)
                under_way.append((minute + delay, row, paced.probability, paced.target))
        run.by_hour.append(spent)
        run.expected += spent
    return run


def _poisson(mean: float, rng: random.Random) -> int:
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    count, left = 0, math.exp(-mean)
    product = rng.random()
    while product > left:
        count, product = count + 1, product * rng.random()
    return count


# -- the tables


def gains(*, streams: int, checkpoints: Sequence[int] = CHECKPOINTS, rate: float = 0.02) -> Iterator[str]:
    """The gain with the truth known, with the prior, and after some verdicts, by AUROC of the first input."""
    yield f"gain over even sampling at a defect rate of {rate:.1%}, geometric mean of {streams} streams"
    yield _line("AUROC", "oracle", "prior", *(f"{number} results" for number in checkpoints))
    for auroc in (0.5, 0.8, 0.9, 0.95):
        found = learned_mean(partial(synthetic, auroc, rate), streams=streams, checkpoints=checkpoints)
        yield _line(auroc, oracle(auroc, rate, random.Random(0)), *found)


def gains_on(paths: Sequence[Path], *, streams: int, checkpoints: Sequence[int] = CHECKPOINTS) -> Iterator[str]:
    """The same on labelled answers, at three defect rates."""
    yield _line("set", "rate", "prior", *(f"{number} results" for number in checkpoints))
    for path in paths:
        rows = labelled(path)
        for rate in (0.005, 0.02, 0.10):
            found = learned_mean(partial(halved, rows, rate), streams=streams, checkpoints=checkpoints)
            yield _line(path.stem[:16], f"{rate:.1%}", *found)


def budgets(*, days: int, per_day: float = 2400.0) -> Iterator[str]:
    """The share of the budget spent on the first and on the last day, and in the busiest hour, by load."""
    yield f"budget of {per_day:g} a day, cap of four mean hours ({CAP * per_day / 24:g}), {days} days, AUROC .9"
    yield _line("load", "first day", "last day", "max hour", "of the cap")
    rows = binormal(0.9, 2000, random.Random(0))
    for name, load in (
        ("steady", steady),
        *((f"cycle from {hour}:00", _from(hour)) for hour in (0, 8, 16, 20)),
        ("bursts 10", bursts(10)),
        ("bursts 40", bursts(40)),
    ):
        run = closed_loop(
            rows,
            per_day=per_day,
            per_minute=33,
            minutes=days * 1440,
            rng=random.Random(1),
            load=load,
            rate_in_burst=0.06,
        )
        first, last = (math.fsum(one) / per_day for one in (run.by_hour[:1440], run.by_hour[-1440:]))
        busiest = run.busiest()
        yield _line(name, first, last, f"{busiest:.0f}", busiest / (CAP * per_day / 24))


def _from(hour: int) -> Callable[[int], float]:
    """Return `cycle`, starting at an hour of the day."""
    return lambda minute: cycle(minute + 60 * hour)


def biases(rows: Sequence[Row], name: str, *, defects: int, rates: Sequence[float] = (0.02, 0.1)) -> Iterator[str]:
    """Whether rates stay unbiased while the model learns: mean and error of both designs, as shares of the true rate.

    Simulates a day from a cold start with 1,000 judged, repeated until an even draw has judged this many `defects`: the
    error is about 1 / sqrt(defects).
    """
    yield f"{name}: days of 1,000 scored, cold start; bias of the sum of w(y-t) and of the rate, as a share of the rate"
    yield _line("rate", "sampling", "days", "sum", "+-", "of the rate", "+-", "variance")
    for rate in rates:
        for boost in (False, True):
            days = max(round(defects / 1000 / rate), 2)
            found = [
                closed_loop(rows, rate=rate, boost=boost, rng=random.Random(seed), **_SMALL_DAY) for seed in range(days)
            ]
            sums = [run.residual / run.cases / rate for run in found]
            off = [run.rate / rate - 1 for run in found]
            figures = [fmean(sums), _error(sums), fmean(off), _error(off), fmean(one * one for one in off)]
            yield _line(f"{rate:.0%}", "boosted" if boost else "even", days, *figures)


def _error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values))


def _line(first: object, *rest: object) -> str:
    cells = (f"{one:>14.3f}" if isinstance(one, float) else f"{one:>14}" for one in rest)
    return f"{first!s:<17}" + "".join(cells)


def main() -> None:
    """Print all tables."""
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("files", nargs="*", type=Path, metavar="LABELLED.jsonl")
    reading.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    options = reading.parse_args()
    quick = options.quick
    tables: list[Iterator[str]] = [
        gains(streams=2 if quick else 10, checkpoints=CHECKPOINTS[:2] if quick else CHECKPOINTS),
        budgets(days=1 if quick else 3),
        biases(binormal(0.9, 2000, random.Random(0)), "AUROC .9", defects=200 if quick else DEFECTS),
    ]
    if options.files:
        tables.append(gains_on(options.files, streams=2 if quick else 10))
    for table in tables:
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
