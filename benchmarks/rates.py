"""Whether rates and alerts keep their promises, with the product's own functions: the tables of docs/statistics.md.

    python -m benchmarks.rates [--quick] [--only TABLE,TABLE] [--months N] [--labelled FILE ...]

Coverage and bias of a uniform sample, and the numbers needed, are exact, by the binomial distribution. All else is
simulated, with fixed seeds: the same tables in every run of the same version.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, TypeAlias

from benchmarks import samplers, sessions, severe, simulation
from benchmarks.answers import binormal
from benchmarks.comparison import METHODS
from benchmarks.intervals import Boosted, boosted_coverage, corrected, power, uniform_coverage
from benchmarks.scenarios import MONTH, SCENARIOS, SETTLED_DAYS, Month, delay, month
from monitor.alerts.policy import DEFAULT_WINDOWS
from monitor.alerts.threshold import Z_OVER
from monitor.statistics.power import High, Noticed, high_alarms, high_delay
from monitor.statistics.rates import judged_to_tell

AUROCS = (0.8, 0.95)
RATES, JUDGED, VOLUMES = (0.005, 0.02, 0.05, 0.1), (100, 300, 1000, 2000), (10, 100, 1000)
BASE, THRESHOLD, STEPS = 0.02, 0.03, (0.04, 0.10)
_WORKERS = 2

Run: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of the simulations."""

    samples: int
    months: int
    regression_months: int
    delays: int
    bases: tuple[float, ...]
    labelled: tuple[Path, ...] = ()


FULL = Size(samples=12_000, months=400, regression_months=20, delays=20, bases=(0.005, BASE, 0.1))
QUICK = Size(samples=600, months=40, regression_months=1, delays=2, bases=(BASE,))


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown, its columns aligned."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}\n")
    rule = [("-" * width if at == 0 else "-" * (width - 1) + ":") for at, width in enumerate(widths)]
    for at, row in enumerate([cells[0], rule, *cells[1:]]):
        padded = (
            text.ljust(width) if first == 0 else text.rjust(width)
            for first, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print(f"| {' | '.join(padded)} |", flush=at == len(cells))


def default_rule() -> High:
    """Return `RagDefectRateHigh` with its defaults, at the threshold of the tables."""
    return High([(one.window, one.z) for one in DEFAULT_WINDOWS], THRESHOLD, Z_OVER)


def alarms_of_high(per_hour: float, months: int, seed: str) -> tuple[float, float]:
    """Return the false alarms in 30 days at the base rate, with their standard error."""
    rng, rule = random.Random(seed), default_rule()
    found = [high_alarms(rule, BASE, per_hour, days=MONTH, rng=rng) for _ in range(months)]
    return fmean(found), stdev(found) / math.sqrt(months)


def high_notices(per_hour: float, after: float, runs: int, seed: str) -> Noticed:
    """Return how soon the default rule notices a step from the base rate."""
    return high_delay(default_rule(), BASE, after, per_hour, runs=runs, days=4, rng=random.Random(seed))


def _percent(share: float, digits: int = 1) -> str:
    return f"{share:.{digits}%}".replace("%", " %")


def _hours(found: Sequence[float | None]) -> str:
    """Return the median, if it is within the simulated time, and the share within a day."""
    middle = median(math.inf if one is None else one for one in found)
    day = sum(one is not None and one <= 24 for one in found) / len(found)
    return f"{'over 96 h' if middle == math.inf else f'{middle:.1f} h'} ({day:.0%})"


def print_coverage(size: Size, parallel: Run) -> None:
    """Coverage and bias."""
    cells = [(rate, judged) for rate in RATES for judged in JUDGED]
    flat = dict(zip(cells, parallel(uniform_coverage, cells), strict=True))
    jobs = [
        (rate, auroc, [(judged, _samples(judged, size)) for judged in JUDGED]) for rate in RATES for auroc in AUROCS
    ]
    boosted: dict[tuple[float, float, int], Boosted] = {
        (rate, auroc, judged): one
        for (rate, auroc, _), found in zip(jobs, parallel(boosted_coverage, jobs), strict=True)
        for judged, one in zip(JUDGED, found, strict=True)
    }
    rows, biases = [], []
    for rate, judged in cells:
        ours = [boosted[rate, auroc, judged] for auroc in AUROCS]
        held = [f"{one.covered:.3f} ({one.missed_above:.3f})" for one in ours]
        rows.append([_percent(rate), f"{judged:,}", f"{flat[rate, judged][0]:.3f}", *held])
        off = [
            text
            for one in ours
            for text in (f"{one.rate[0] * 100:+.2f} +- {one.rate[1] * 100:.2f}", f"{one.ratio * 100:+.2f}")
        ]
        biases.append([_percent(rate), f"{judged:,}", f"{abs(flat[rate, judged][1]) * 100:.2f}", *off])
    title = "How often the 95 % interval holds the true rate (in brackets: how often it lies below it)"
    table(title, ["defect rate", "scored", "uniform", *(f"boosted, AUROC {one:g}" for one in AUROCS)], rows)
    title = "Bias in percent of the rate, +- its standard error, and what a ratio of two sums is off by"
    head = [title for one in AUROCS for title in (f"boosted, AUROC {one:g}", "ratio of sums")]
    table(title, ["defect rate", "scored", "uniform", *head], biases)


def _samples(judged: int, size: Size) -> int:
    """The number of samples at which the error of the coverage is at most half a point."""
    return size.samples // (6 if judged >= 1000 else 3)


def print_needed(_: Size, parallel: Run) -> None:
    """How many answers to score."""
    asked = [
        *((0.01, rate) for rate in (0.02, 0.03, 0.05)),
        *((0.03, rate) for rate in (0.04, 0.06, 0.09, 0.15)),
        *((0.05, rate) for rate in (0.1, 0.15)),
        *((0.1, rate) for rate in (0.2, 0.3)),
    ]
    zs = [one.z for one in DEFAULT_WINDOWS]
    rows = [
        [_percent(limit, 0), _percent(rate, 0), *(f"{judged_to_tell(limit, rate, z):,}" for z in zs), f"{found:.3f}"]
        for (limit, rate), found in zip(asked, parallel(power, asked), strict=True)
    ]
    title = "Answers to score in a window until its lower limit is above the threshold, 9 times in 10"
    table(title, ["threshold", "true rate", *(f"z {z:g}" for z in zs), "power at z 2.58"], rows)


def print_high(size: Size, parallel: Run) -> None:
    """False alarms and delays of the level."""
    alarms = parallel(alarms_of_high, [(one, size.months, f"high {one}") for one in VOLUMES])
    asked = [(one, to) for one in VOLUMES for to in STEPS]
    delays = parallel(high_notices, [(one, to, size.delays * 10, f"notice {one} {to}") for one, to in asked])
    noticed = dict(zip(asked, map(_noticed, delays), strict=True))
    rows = [
        [f"{one:,}", f"{found:.2f} +- {error:.2f}", *(noticed[one, to] for to in STEPS)]
        for one, (found, error) in zip(VOLUMES, alarms, strict=True)
    ]
    title = f"RagDefectRateHigh, default windows, threshold {_percent(THRESHOLD, 0)}, rate {_percent(BASE, 0)}"
    head = ["scored per hour", "false alarms in 30 days", *(f"detects {_percent(to, 0)} after" for to in STEPS)]
    table(f"{title} (median; share within a day)", head, rows)


def _noticed(found: Noticed) -> str:
    return f"{'over 96 h' if found.median is None else f'{found.median:.1f} h'} ({found.within_a_day:.0%})"


def print_regression(size: Size, parallel: Run) -> None:
    """False alarms and delays of the change."""
    steady = [one for one in SCENARIOS if one != "step"]
    alarms = _alarms(steady, size, parallel)
    delays = _delays(("none", "drift", "weekvol", "badday"), size, parallel)
    rows = [
        [
            *(one, f"{volume:,}"),
            *(f"{fmean(month.alarms for month in alarms[one, base, volume]):.2f}" for base in size.bases),
            *(_hours(delays[one, to, volume]) if (one, to, volume) in delays else "" for to in STEPS),
        ]
        for one in steady
        for volume in VOLUMES
    ]
    bases = [_percent(base) for base in size.bases]
    title = f"RagDefectRateRegression, default: false alarms in 30 days by rate ({size.regression_months} months each)"
    head = ["scenario", "scored per hour", *bases, *(f"{_percent(BASE, 0)} to {_percent(to, 0)}" for to in STEPS)]
    table(f"{title}, and delays (median; share within a day)", head, rows)
    rows = []
    for one in steady:
        of = {base: [month for volume in VOLUMES for month in alarms[one, base, volume]] for base in size.bases}
        counts = [_mean([month.alarms for month in of[base]]) for base in size.bases]
        rows.append([one, *counts, *(f"{fmean(month.bare for month in of[base]):.2f}" for base in size.bases)])
    title = "The same over all volumes, +- standard error; no hold: not held, alarms an hour apart or less are one"
    table(title, ["scenario", *bases, *(f"no hold, {base}" for base in bases)], rows)


def _alarms(scenarios: Sequence[str], size: Size, parallel: Run) -> dict[tuple[str, float, int], list[Month]]:
    cells = [(one, base, volume) for one in scenarios for volume in VOLUMES for base in size.bases]
    months = size.regression_months
    jobs = [(*cell, "default", f"{cell} {run}") for cell in cells for run in range(months)]
    found = parallel(month, jobs)
    return {cell: found[at * months : (at + 1) * months] for at, cell in enumerate(cells)}


def _delays(scenarios: Sequence[str], size: Size, parallel: Run) -> dict[tuple[str, float, int], list[float | None]]:
    cells = [(one, to, volume) for one in scenarios for volume in VOLUMES for to in STEPS]
    found = parallel(_delay, [(*cell, run) for cell in cells for run in range(size.delays)])
    return {cell: found[at * size.delays : (at + 1) * size.delays] for at, cell in enumerate(cells)}


def _delay(scenario: str, after: float, volume: float, run: int, per_session: int = 1) -> float | None:
    seed = f"delay {scenario} {after} {volume} {run}"
    return delay(scenario, BASE, after, volume, family="default", seed=seed, per_session=per_session)


def print_step(size: Size, parallel: Run) -> None:
    """A rise that stays."""
    cells = [
        (base, volume, size.regression_months * (2 if base == BASE else 1)) for base in size.bases for volume in VOLUMES
    ]
    jobs = [
        ("step", base, volume, "default", f"step {base} {volume} {run}")
        for base, volume, months in cells
        for run in range(months)
    ]
    found, rows = iter(parallel(month, jobs)), []
    for base, volume, months in cells:
        ours = list(islice(found, months))
        lasts = [(one.ended or 0) - one.first for one in ours if one.first is not None]
        rows.append(
            [
                *(_percent(base), f"{volume:,}", _hours([one.first for one in ours])),
                f"{median(lasts) / 24:.1f} d" if lasts else "-",
                _mean([max(one.alarms - 1, 0) for one in ours]),
                _mean([one.late for one in ours]),
                f"{fmean(max(one.bare - 1, 0) for one in ours):.2f}",
            ]
        )
    head = ["rate", "scored per hour", "detected after", "first alarm lasts", "further alarms in 30 days"]
    title = "RagDefectRateRegression after a lasting rise to three times the rate (scenario step)"
    table(title, [*head, f"alarms after {SETTLED_DAYS} days", "further, no hold"], rows)


def _mean(found: Sequence[float]) -> str:
    if len(found) == 1:
        return f"{found[0]:.2f}"
    return f"{fmean(found):.2f} +- {stdev(found) / math.sqrt(len(found)):.2f}"


def print_corrected(size: Size, parallel: Run) -> None:
    """Judge errors."""
    cells = [(rate, labels) for rate in (0.02, 0.1) for labels in (200, 400, 800)]
    found = parallel(corrected, [(*one, size.samples // 12) for one in cells])
    rows = [
        [_percent(rate, 0), str(labels), *(f"{held:.3f} ({width * 100:.1f})" for held, width in one)]
        for (rate, labels), one in zip(cells, found, strict=True)
    ]
    title = "A judge of sensitivity .8 and specificity .97, 1,000 scored: how often 95 % limits hold (width in points)"
    table(title, ["true rate", "labels", "raw", "by sensitivity and specificity", "by random audits"], rows)


def print_samplers(size: Size, parallel: Run) -> None:
    """The intervals for few answers, and their coverage by the source of the weights."""
    table("What is shown of few answers of equal weight", ["defects", "95 % interval"], samplers.shown())
    numbers = (1, 2, 3, 4, 5, 6, 10, 20, 30, 100, 200)
    methods = ("the monitor's", *METHODS)
    found = iter(parallel(samplers.exact_coverage, [(judged, one) for judged in numbers for one in methods]))
    rows = [
        [str(one), *(f"{worst:.3f} ({width:.3f})" for worst, width in islice(found, len(methods)))] for one in numbers
    ]
    table("Equal weights, exact, over all rates: worst coverage (mean width)", ["scored", *methods], rows)
    rates = samplers.RATES[1:4] if size.samples < FULL.samples else samplers.RATES
    jobs = [
        (name, rate, judged, size.samples // 2)
        for name in samplers.NAMES
        for rate in rates
        for judged in samplers.JUDGED
    ]
    cells = dict(zip(jobs, parallel(samplers.coverage, jobs), strict=True))
    rows = []
    for name in samplers.NAMES:
        of = {job: one for job, one in cells.items() if job[0] == name}
        worst = min(of, key=lambda job: of[job].held)
        by_number = [
            f"{min(one.held for job, one in of.items() if job[2] == judged):.3f}" for judged in samplers.JUDGED
        ]
        side = max(max(one.below, one.above) for one in of.values())
        rows.append([name, *by_number, f"{_percent(worst[1], 0)}, {worst[2]}", f"{side:.3f}"])
    head = ["weights", *(f"{judged} scored" for judged in samplers.JUDGED), "worst at", "one side misses at most"]
    table(
        f"How often the interval holds, worst of the rates {', '.join(_percent(one, 0) for one in rates)}", head, rows
    )


def print_looks(size: Size, parallel: Run) -> None:
    """Whether a single evaluation of an alert keeps its promise, and how often it detects a high rate."""
    zs = [one.z for one in DEFAULT_WINDOWS]
    exact = [(judged, z) for judged in (10, 30, 100, 300) for z in zs]
    of_exact = dict(zip(exact, parallel(samplers.exact_look, exact), strict=True))
    rows = [
        ["equal, exact, all rates", *(f"{max(of_exact[judged, z] for judged in (10, 30, 100, 300)):.2f}" for z in zs)]
    ]
    jobs = [
        (name, rate, judged, tuple(zs), size.samples * 2)
        for name in samplers.NAMES[1:]
        for rate in (0.02, 0.1, 0.3)
        for judged in (30, 300)
    ]
    found = dict(zip(jobs, parallel(samplers.look, jobs), strict=True))
    for name in samplers.NAMES[1:]:
        worst = [max(of_z) for of_z in zip(*(one for job, one in found.items() if job[0] == name), strict=True)]
        rows.append([name, *(f"{one:.2f}" for one in worst)])
    title = "One look: how often the lower limit is above the true rate, divided by the promise; the worst cell"
    table(title, ["weights", *(f"z {z:g}" for z in zs)], rows)
    asked = [(0.03, 0.1, 100, 3.09), (0.2, 0.4, 50, 3.09), (0.3, 0.6, 30, 3.09), (0.5, 0.8, 30, 3.09)]
    noticed = parallel(samplers.noticed, asked)
    rows = [
        [_percent(limit, 0), _percent(rate, 0), str(judged), f"{one:.2f}"]
        for (limit, rate, judged, _), one in zip(asked, noticed, strict=True)
    ]
    table(
        "How often one look notices, equal weights, z 3.09: exact",
        ["threshold", "true rate", "scored", "noticed"],
        rows,
    )


SESSIONS = (
    ("of 10 that agree", sessions.Traffic(10, 1.0, 1.0)),
    ("of 10 that agree, 1 in 5 scored", sessions.Traffic(10, 1.0, 0.2)),
    ("of 10, correlation 0.5", sessions.Traffic(10, 0.5, 1.0)),
    ("of 3 that agree", sessions.Traffic(3, 1.0, 1.0)),
    ("of 10, independent", sessions.Traffic(10, 0.0, 1.0)),
)


def print_sessions(size: Size, parallel: Run) -> None:
    """Bad answers that occur in sessions."""
    rates, numbers = (0.02, 0.1, 0.5), (10, 30, 100)
    samples = size.samples // 12
    jobs = [(kind, rate, number, samples) for _, kind in SESSIONS for rate in rates for number in numbers]
    found = dict(zip(jobs, parallel(sessions.coverage, jobs), strict=True))
    rows = [
        [
            *(name, _percent(rate, 0)),
            *(" / ".join(f"{one:.3f}" for one in found[kind, rate, number, samples]) for number in numbers),
        ]
        for name, kind in SESSIONS
        for rate in rates
    ]
    head = ["sessions", "rate", *(f"{number} sessions" for number in numbers)]
    table("How often the 95 % interval holds: by answer / by session, as the product counts", head, rows)
    most = max(size.months // 40, 2)
    months = {volume: max(most // 5, 2) if volume >= 1000 else most for volume in VOLUMES}
    cells = [(kind, volume) for _, kind in SESSIONS for volume in VOLUMES]
    jobs = [
        (kind, BASE, THRESHOLD, volume, f"{kind} {volume} {run}")
        for kind, volume in cells
        for run in range(months[volume])
    ]
    alarms = iter(parallel(sessions.alarms, jobs))
    by_cell = {cell: list(islice(alarms, months[cell[1]])) for cell in cells}
    rows = []
    for name, kind in SESSIONS:
        row = [name]
        for volume in VOLUMES:
            by_answer, by_session = zip(*by_cell[kind, volume], strict=True)
            row.append(f"{_mean(by_answer)} / {_mean(by_session)}")
        rows.append(row)
    head = ["sessions", *(f"{volume:,} scored per hour ({months[volume]} months)" for volume in VOLUMES)]
    title = f"RagDefectRateHigh: false alarms in 30 days, rate {_percent(BASE)}, threshold {_percent(THRESHOLD)}"
    table(f"{title}: by answer / by session, as the product counts", head, rows)


def print_regression_by_session(size: Size, parallel: Run) -> None:
    """The change, if bad answers occur in sessions of ten."""
    months, volumes = size.regression_months, VOLUMES[1:]
    kinds = [(one, per_session) for one in ("none", "drift") for per_session in (1, 10)]
    cells = [(*kind, volume) for kind in kinds for volume in volumes]
    jobs = [
        (one, BASE, volume, "default", f"sessions {one} {volume} {run}", per_session)
        for one, per_session, volume in cells
        for run in range(months)
    ]
    alarms = iter(parallel(month, jobs))
    of_months = {cell: list(islice(alarms, months)) for cell in cells}
    delays = iter(
        parallel(_delay, [(one, to, volume, run, size_of) for one, size_of, volume in cells for to in STEPS
                          for run in range(size.delays)])
    )  # fmt: skip
    rows = []
    for one, per_session, volume in cells:
        ours = of_months[one, per_session, volume]
        found = [_hours(list(islice(delays, size.delays))) for _ in STEPS]
        name = "independent" if per_session == 1 else f"sessions of {per_session} that agree"
        rows.append([one, name, f"{volume:,}", _mean([month.alarms for month in ours]), *found])
    head = ["scenario", "answers", "scored per hour", "false alarms in 30 days"]
    title = f"RagDefectRateRegression by session, rate {_percent(BASE)}"
    table(title, [*head, *(f"{_percent(BASE, 0)} to {_percent(to, 0)}" for to in STEPS)], rows)


def print_severe(size: Size, parallel: Run) -> None:
    """Alerts on single severe cases."""
    calls = " / ".join(str(one) for one in severe.CALLS)
    head = [
        "harmless judged a day",
        "specificity",
        *(f"repeats {one:.0%}".replace("%", " %") for one in severe.CORRELATIONS),
    ]
    table(f"False confirmed answers in 30 days, {calls} judgements that must agree", head, list(severe.repeated()))
    title = f"How often a page is right, one answer in {severe.SEVERE_IN:,} severe, errors repeat by half (share found)"
    table(
        title,
        ["specificity", *(f"{one} judgement{'s' if one > 1 else ''}" for one in severe.CALLS)],
        list(severe.right()),
    )
    months = size.months * 5
    found = parallel(severe.simulated, [(one, months, f"severe {one}") for one in severe.VOLUMES])
    rows = [
        [f"{one:g}", f"{severe.expected(one):.2f}", f"{pages:.2f}", f"{alone:.2f}"]
        for one, (pages, alone) in zip(severe.VOLUMES, found, strict=True)
    ]
    head = ["false confirmed sessions in 30 days", "false pages expected", "simulated", "a lone true case pages"]
    table("RagSevereCase, 3 false pages in 30 days accepted", head, rows)


def print_sampling(size: Size, parallel: Run) -> None:
    """The gain of boosted sampling, and its spending: the tables of `benchmarks.simulation`."""
    names = ["gains", *(["labelled"] if size.labelled else []), "budgets", "biases"]
    for lines in parallel(_simulated, [(name, size) for name in names]):
        print("\n" + "\n".join(lines), flush=True)


def _simulated(name: str, size: Size) -> list[str]:
    quick = size.samples < FULL.samples
    if name == "gains":
        return list(simulation.gains(streams=2 if quick else 10))
    if name == "labelled":
        return list(simulation.gains_on(size.labelled, streams=2 if quick else 10))
    if name == "budgets":
        return list(simulation.budgets(days=1 if quick else 3))
    rows = binormal(0.9, 2000, random.Random(0))
    return list(simulation.biases(rows, "AUROC .9", defects=200 if quick else simulation.DEFECTS))


TABLES: dict[str, Callable[[Size, Run], None]] = {
    "coverage": print_coverage,
    "samplers": print_samplers,
    "looks": print_looks,
    "sessions": print_sessions,
    "severe": print_severe,
    "sampling": print_sampling,
    "needed": print_needed,
    "high": print_high,
    "regression": print_regression,
    "regression-sessions": print_regression_by_session,
    "step": print_step,
    "corrected": print_corrected,
}


def _call(job: tuple[Run, Sequence[Any]]) -> Any:
    return job[0](*job[1])


def _chosen(text: str) -> Iterator[str]:
    for name in text.split(","):
        if name not in TABLES:
            raise argparse.ArgumentTypeError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
        yield name


def main() -> None:
    """Print the tables, and how long each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations: some minutes")
    parser.add_argument("--only", type=lambda text: list(_chosen(text)), default=list(TABLES), metavar="TABLE,TABLE")
    parser.add_argument("--months", type=int, help="for each field of the regression table")
    parser.add_argument("--labelled", nargs="+", type=Path, default=[], metavar="FILE", help="as benchmarks.simulation")
    options = parser.parse_args()
    size = replace(QUICK if options.quick else FULL, labelled=tuple(options.labelled))
    if options.months:
        size = replace(size, regression_months=options.months)
    with Pool(_WORKERS) as pool:

        def parallel(function: Run, arguments: Iterable[Sequence[Any]]) -> list[Any]:
            return pool.map(_call, [(function, one) for one in arguments], chunksize=1)

        for name in options.only:
            started = time.monotonic()
            TABLES[name](size, parallel)
            print(f"\n({name}: {time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
