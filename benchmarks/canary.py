"""How often `RagJudgeDrifted` is wrong, and how soon it is right: the table of docs/statistics.md.

    python -m benchmarks.canary [--quick]

Simulated with the product's own reference and limit, with fixed seeds: 24 cases, three runs a day. Noise is the share
of verdicts on a case that are not the judge's usual one. `even`: all cases waver alike. `coins`: some are decided by
a coin toss, the others never waver. `mixed`: from hardly ever to now and then. `days`: all cases alike, but a verdict
stays the same for three runs. The last columns: how often it is noticed within a day if the verdict of so many cases
changes for good, those that wavered least.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.rates import table
from monitor.statistics.reference import AT_LEAST, RUNS, Reference, surely_moved

CASES: Final = 24
RUNS_A_DAY: Final = 3
DAYS: Final = 30
FLOOR: Final = 0.05  # `canary.tolerance` by default
MOVED: Final = (3, 4, 5, 8)
NOISE: Final = (
    ("none", 0.0),
    *((kind, noise) for kind in ("even", "coins", "mixed") for noise in (0.02, 0.05, 0.1)),
    ("days", 0.02),
    ("days", 0.05),
)


def chances(kind: str, noise: float, rng: random.Random) -> list[float]:
    """Return for each case the probability of an unusual verdict."""
    if kind == "coins":
        return [0.5 if rng.random() < 2 * noise else 0.0 for _ in range(CASES)]
    if kind == "mixed":
        return [min(rng.betavariate(0.3, 0.3 * (1 - noise) / noise), 0.5) for _ in range(CASES)]
    return [noise] * CASES


def runs(kind: str, chance: Sequence[float], rng: random.Random) -> Iterator[list[bool]]:
    """Yield the verdicts of successive runs of an unchanged judge: for each case, whether it is the unusual one."""
    verdicts: list[bool] = []
    number = 0
    while True:
        if kind != "days" or number % RUNS_A_DAY == 0:
            verdicts = [rng.random() < one for one in chance]
        yield verdicts
        number += 1


def learned(verdicts: Iterator[list[bool]]) -> Reference:
    """Return the reference from the first runs."""
    reference = Reference()
    while not reference.complete:
        reference = reference.with_run({str(case): defect for case, defect in enumerate(next(verdicts))})
    return reference


def looks(reference: Reference, verdicts: Iterator[list[bool]], number: int) -> Iterator[bool]:
    """Yield for each of `number` runs whether, after it, the last day shows that the judge has moved."""
    usual = [reference.verdict(str(case)) for case in range(CASES)]
    tolerance = reference.noise + FLOOR
    seen: list[tuple[int, int]] = []
    for _ in range(number):
        known = [(now, was) for now, was in zip(next(verdicts), usual, strict=True) if was is not None]
        seen = [*seen, (sum(now != was for now, was in known), len(known))][-RUNS_A_DAY:]
        moved, judged = (sum(one) for one in zip(*seen, strict=True))
        yield len(seen) >= AT_LEAST and surely_moved(moved, judged) > tolerance


def alarms(kind: str, noise: float, rng: random.Random) -> int:
    """Return how often the alert begins in a month in which nothing is wrong."""
    verdicts = runs(kind, chances(kind, noise, rng), rng)
    firing = list(looks(learned(verdicts), verdicts, DAYS * RUNS_A_DAY))
    return sum(now and not before for before, now in zip([False, *firing], firing, strict=False))


def noticed(kind: str, noise: float, moving: int, rng: random.Random) -> bool:
    """Return whether it fires within a day after `moving` cases have begun to get the other verdict."""
    chance = chances(kind, noise, rng)
    verdicts = runs(kind, chance, rng)
    steady = sorted(range(CASES), key=lambda case: (chance[case], rng.random()))[:moving]

    def moved() -> Iterator[list[bool]]:
        for number, one in enumerate(verdicts):
            turned = steady if number >= RUNS_A_DAY else []
            yield [not defect if case in turned else defect for case, defect in enumerate(one)]

    reference = learned(verdicts)
    return any(list(looks(reference, moved(), 2 * RUNS_A_DAY))[RUNS_A_DAY:])


def rows(months: int, moves: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of noise."""
    for kind, noise in NOISE:
        rng = random.Random(f"{kind} {noise}")
        false = sum(alarms(kind, noise, rng) for _ in range(months)) / months
        shares = [sum(noticed(kind, noise, many, rng) for _ in range(moves)) / moves for many in MOVED]
        yield f"{kind}, {noise:.0%}" if noise else kind, f"{false:.3f}", *(f"{share:.0%}" for share in shares)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="False alarms and delay of RagJudgeDrifted.")
    parser.add_argument("--quick", action="store_true")
    months, moves = (200, 200) if parser.parse_args().quick else (4000, 2000)
    table(
        f"{CASES} cases, {RUNS_A_DAY} runs a day, reference of {RUNS} runs, `canary.tolerance` {FLOOR:.0%}",
        (
            "judge noise",
            "false alarms in 30 days",
            f"{MOVED[0]} of {CASES} move",
            *(f"{many} move" for many in MOVED[1:]),
        ),
        rows(months, moves),
    )


if __name__ == "__main__":
    main()
