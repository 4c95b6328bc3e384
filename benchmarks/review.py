"""The value of people's labels: coverage and width of the limits, and whether the queue keeps its promise.

    python -m benchmarks.review [--only exact|simulated|disagrees] [--days N] [--years N]

Each line is simulated: a judge of the given quality judges 2,000 answers a day, the product's queue draws results for
review, people label them without error, and the product's own functions compute the estimates. `uniform` draws every
result with the same probability, as an audit does.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from statistics import fmean

from benchmarks.intervals import exact as binomial
from monitor.alerts.self_alerts.judge_disagrees import LEVEL
from monitor.jobs.review.effects import by_result, chance_of_lately
from monitor.model.label import Label, LabelDraw, LabelVerdict
from monitor.statistics.correction import LabelledResult
from monitor.statistics.rates import Estimate, Sums
from monitor.statistics.review import (
    VerdictShares,
    agreement,
    combine,
    corrected,
    outlook,
    sensitivity,
    shares,
    specificity,
)
from monitor.statistics.review_draws import JudgedResult, draws, verdict_shares

ANSWERS = 2_000
NUMBERS = (40, 80, 200, 400)
SIMULATED = (80, 200)
MORE = 40
_AT_ONCE = 10
"""Labels after which the queue takes new labels into account: a few at a time here, each one in the product."""


@dataclass(frozen=True, slots=True)
class Judge:
    """The judge's sensitivity, and its specificity."""

    sensitivity: float
    specificity: float


JUDGES = (Judge(0.7, 0.9), Judge(0.7, 0.99), Judge(0.95, 0.9), Judge(0.95, 0.99))
RATES = (0.05, 0.1)


def day(
    rng: random.Random, rate: float, judge: Judge, answers: int = ANSWERS
) -> tuple[list[JudgedResult], dict[str, bool]]:
    """Return judged answers, and which of them are defects. Wrong verdicts are more frequent near the threshold."""
    results, truths = [], {}
    for _ in range(answers):
        truth = rng.random() < rate
        right = rng.random() < (judge.sensitivity if truth else judge.specificity)
        verdict = truth == right
        near = rng.random() < (0.3 if right else 0.6)
        score = (2.0 if near else 1.0) if verdict else (3.0 if near else rng.choice([4.0, 5.0]))
        key = f"{rng.getrandbits(64):016x}"
        results.append(JudgedResult(key, verdict, score, 1.0))
        truths[key] = truth
    return results, truths


def reviewed(
    results: Sequence[JudgedResult], truths: Mapping[str, bool], number: int, *, rng: random.Random | None = None
) -> list[LabelledResult]:
    """Label `number` results as the queue draws them; with `rng` drawn uniformly instead."""
    by_key = {one.key: one for one in results}
    if rng is not None:
        drawn = rng.sample(list(results), number)
        return [LabelledResult(one.weight * len(results) / number, one.defect, truths[one.key]) for one in drawn]
    found: list[LabelledResult] = []
    known: dict[str, bool] = {}
    while len(known) < number:
        wanted = min(_AT_ONCE, number - len(known))
        more = list(islice(draws(results, known, known, len(known)), wanted))
        if not more:
            break
        for drawn_one in more:
            one, truth = by_key[drawn_one.key], truths[drawn_one.key]
            known[one.key] = truth
            found.append(LabelledResult(one.weight / drawn_one.probability, one.defect, truth))
    return found


@dataclass(slots=True)
class Line:
    """Results of many days: whether each of several limits was correct, and how wide the rate's interval was."""

    held: dict[str, list[bool]] = field(default_factory=dict)
    widths: list[float] = field(default_factory=list)
    promised: list[float] = field(default_factory=list)
    came: list[float] = field(default_factory=list)

    def note(self, name: str, *, held: bool) -> None:
        """Note whether limits were correct."""
        self.held.setdefault(name, []).append(held)

    def share(self, name: str) -> float:
        """Return how often they were; 1 if there never were any."""
        return fmean(self.held.get(name, [True]))


def simulate(rate: float, judge: Judge, number: int, days: int, *, uniform: bool = False) -> Line:
    """Review `number` results on each of this many days."""
    line = Line()
    for n in range(days):
        rng = random.Random(f"{rate} {judge} {n}")
        results, truths = day(rng, rate, judge)
        judged = Sums.total(Sums.of(one.weight, defect=one.defect) for one in results)
        labels = reviewed(results, truths, number + MORE, rng=rng if uniform else None)
        if uniform:
            rng.shuffle(labels)
        before = labels[:number]
        now, known = corrected(judged, before), shares(judged, before)
        if now is None or known is None:
            continue
        line.note("rate", held=now.lower <= rate <= now.upper)
        line.widths.append((now.upper - now.lower) / 2)
        for name, found, true in (
            ("sensitivity", sensitivity(known), judge.sensitivity),
            ("specificity", specificity(known), judge.specificity),
        ):
            if found is not None:
                line.note(name, held=found.lower <= true <= found.upper)
        alike = agreement([(one.verdict, one.truth, one.weight) for one in before])
        if alike is not None:
            line.note("kappa", held=alike.lower <= kappa_of(rate, judge) <= alike.upper)
        later = corrected(judged, labels)
        drawn = verdict_shares(results, {}) if not uniform else {True: judged.defects / judged.judged}
        expected = outlook(judged, before, drawn or {}, more=MORE)
        if later is not None and expected is not None:
            line.promised.append(expected.half_width_after)
            line.came.append((later.upper - later.lower) / 2)
    return line


def exact(rate: float, judge: Judge, number: int) -> tuple[float, float]:
    """Return the coverage of the rate's limits, and half their width, over all possible outcomes of `number` labels.

    With the optimal shares of draws, and the judge's own rate known.
    """
    said = rate * judge.sensitivity + (1 - rate) * (1 - judge.specificity)
    of_defects, of_good = rate * judge.sensitivity / said, rate * (1 - judge.sensitivity) / (1 - said)
    sizes = [said * math.sqrt(of_defects * (1 - of_defects)), (1 - said) * math.sqrt(of_good * (1 - of_good))]
    bad = max(round(number * (0.8 * sizes[0] / sum(sizes) + 0.2 * said)), 1)
    judged = Estimate(said, said, said, ANSWERS, round(ANSWERS * said))
    held = width = 0.0
    for found, chance in _shares(True, bad, of_defects):
        for missed, other in _shares(False, number - bad, of_good):
            now = combine(VerdictShares(judged, found, missed))
            assert now is not None
            held += chance * other * (now.lower <= rate <= now.upper)
            width += chance * other * (now.upper - now.lower) / 2
    return held, width


def _shares(verdict: bool, labels: int, rate: float) -> list[tuple[Estimate, float]]:
    """Return the possible outcomes of the labels of one verdict, with their probabilities."""
    found = []
    for defects, chance in enumerate(binomial(rate, labels)):
        if chance > 1e-9:
            said = [LabelledResult(1.0, verdict, n < defects) for n in range(labels)]
            known = shares(Sums.counted(2, 1), said)
            one = known and (known.of_defects if verdict else known.of_good)
            assert one
            found.append((one, chance))
    return found


def kappa_of(rate: float, judge: Judge) -> float:
    """Return Cohen's kappa over all answers."""
    both, missed = rate * judge.sensitivity, rate * (1 - judge.sensitivity)
    alarmed = (1 - rate) * (1 - judge.specificity)
    said = both + alarmed
    chance = rate * said + (1 - rate) * (1 - said)
    return (1 - missed - alarmed - chance) / (1 - chance)


def exact_table() -> Iterator[str]:
    """The coverage of the rate's limits, computed exactly."""
    yield "| defects | judge | labels | held | plus or minus |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for rate in RATES:
        for judge in JUDGES:
            for number in NUMBERS:
                held, width = exact(rate, judge, number)
                quality = f"{judge.sensitivity:g} / {judge.specificity:g}"
                yield f"| {rate:.0%} | {quality} | {number} | {held:.3f} | {100 * width:.2f} |"


def simulated_table(days: int) -> Iterator[str]:
    """The same over the life of a queue, also for other limits, and whether the queue keeps its promise."""
    heads = ("defects", "judge", "labels", "rate held", "queue: plus or minus", "uniform: plus or minus")
    heads += ("sensitivity held", "specificity held", "kappa held", f"promised with {MORE} more", "came")
    yield f"| {' | '.join(heads)} |"
    yield f"|{' ---: |' * len(heads)}"
    for rate in RATES:
        for judge in JUDGES:
            for number in SIMULATED:
                queue = simulate(rate, judge, number, days)
                plain = simulate(rate, judge, number, days, uniform=True)
                held = [f"{queue.share(name):.3f}" for name in ("rate", "sensitivity", "specificity", "kappa")]
                widths = [f"{100 * fmean(one):.2f}" for one in (queue.widths, plain.widths)]
                kept = [f"{100 * fmean(one):.2f}" for one in (queue.promised, queue.came)]
                first = (f"{rate:.0%}", f"{judge.sensitivity:g} / {judge.specificity:g}", str(number))
                yield f"| {' | '.join((*first, held[0], *widths, *held[1:], *kept))} |"


@dataclass(frozen=True, slots=True)
class Watch:
    """Labels per day for one judge, and the number of labels between two evaluations of `RagJudgeDisagrees`."""

    rate: float
    judge: Judge
    per_day: int
    every: int


WATCHES = (
    Watch(0.05, Judge(0.7, 0.99), 3, 1),
    Watch(0.05, Judge(0.95, 0.9), 3, 1),
    Watch(0.1, Judge(0.7, 0.9), 3, 1),
    Watch(0.1, Judge(0.95, 0.99), 10, 5),
)
YEAR, LIVED, WORSE = 365, 60, 0.5
"""Days; days of labels before the judge becomes worse; the share by which its sensitivity then drops."""


def looks(watch: Watch, days: int, seed: str, *, worse_from: float = math.inf) -> Iterator[tuple[float, bool]]:
    """Yield the days at which the alert is evaluated, and whether it fires. Labels are those that the queue draws."""
    rng, found = random.Random(seed), list[Label]()
    after = Judge(watch.judge.sensitivity * WORSE, watch.judge.specificity)
    for number in range(days):
        results, truths = day(rng, watch.rate, after if number >= worse_from else watch.judge, watch.per_day * 40)
        by_key = {one.key: one for one in results}
        for place, drawn in enumerate(islice(draws(results, {}, {}, 0), watch.per_day)):
            at = (number + (place + 1) / watch.per_day) * 86_400.0
            found.append(_label(by_key[drawn.key], truth=truths[drawn.key], probability=drawn.probability, at=at))
            if len(found) % watch.every == 0:
                yield at / 86_400, chance_of_lately(by_result(found), at) < LEVEL


def _label(one: JudgedResult, *, truth: bool, probability: float, at: float) -> Label:
    return Label(
        result_id=one.key,
        request_id=one.key,
        app="shop",
        evaluator="judge",
        version="1",
        reviewer="ana",
        verdict=LabelVerdict.DEFECT if truth else LabelVerdict.GOOD,
        judged_defect=one.defect,
        at=at,
        draw=LabelDraw.STRATIFIED,
        probability=probability,
        answered_at=at,
    )


def watched(watch: Watch, years: int) -> tuple[int, list[float]]:
    """Return how often the alert begins to fire in this many years of an unchanged judge, and how soon for a worse one.

    In days; infinity means not within two months.
    """
    alarms, delays = 0, []
    for n in range(years):
        before = False
        for _, fires in looks(watch, YEAR, f"same {watch} {n}"):
            alarms += fires and not before
            before = fires
    for n in range(years):
        noticed = (at - LIVED for at, fires in looks(watch, 2 * LIVED, f"worse {watch} {n}", worse_from=LIVED) if fires)
        delays.append(next((one for one in noticed if one >= 0), math.inf))
    return alarms, delays


def disagrees_table(years: int) -> Iterator[str]:
    """False alarms of `RagJudgeDisagrees`, and how soon it notices a judge that finds half as many defects."""
    heads = (
        "defects",
        "judge",
        "labels a day",
        f"false alarms in {years} years",
        "half as good: noticed within a month",
    )
    yield f"| {' | '.join(heads)} |"
    yield f"|{' ---: |' * len(heads)}"
    for watch in WATCHES:
        alarms, delays = watched(watch, years)
        quality = f"{watch.judge.sensitivity:g} / {watch.judge.specificity:g}"
        soon = fmean(one <= 30 for one in delays)
        yield f"| {watch.rate:.0%} | {quality} | {watch.per_day} | {alarms} | {soon:.0%} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=200, help="simulated days of each line")
    parser.add_argument("--years", type=int, default=20, help="simulated years of RagJudgeDisagrees in each line")
    parser.add_argument("--only", choices=("exact", "simulated", "disagrees"))
    options = parser.parse_args()
    tables = {
        "exact": exact_table,
        "simulated": partial(simulated_table, options.days),
        "disagrees": partial(disagrees_table, options.years),
    }
    for name, table in tables.items():
        for line in table() if options.only in (None, name) else ():
            print(line, flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
