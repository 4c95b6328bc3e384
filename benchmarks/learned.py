"""How much a score gains by learning from verdicts, on labelled answers, with the product's own functions.

    python -m benchmarks.learned [--data FOLDER] [--splits N] [--quick]

FOLDER, or RAG_MONITOR_LABELLED in the environment, contains the files of `SETS`: one answer a line, with `question`,
`contexts`, `response`, `label` (1: defective), and `group` (its document, question or dialogue). Three quarters of the
groups are the service whose verdicts are learned from; everything is measured on the others, which have no verdict.
`--quick` takes seconds instead of minutes, for rough figures.
"""

from __future__ import annotations

import argparse
import os
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Final, NamedTuple

from benchmarks.answers import Mix, Row, binormal, labelled, mixed
from benchmarks.simulation import SLOPE, Stream, halved, learned_mean
from monitor.statistics.defect_model import INPUTS, DefectModel

SETS: Final = ("mtrag_human", "q2_wow", "faithdial_audit", "fool_me_twice")
CHECKPOINTS: Final = (50, 100, 200, 500, 1000, 2000)
ERRORS: Final = (0.0, 0.05, 0.10)
RATE: Final = 0.05
FOLDER: Final = "RAG_MONITOR_LABELLED"
SPLITS: Final = 8
_FOLDS = 4
_WORST: Final = (0.01, 0.05)
_AT: Final = (200, 1000, 2000)  # columns of the table of the worst answers
_SAMPLED: Final = (200, 1000)  # columns of the table of the sampler


def auroc(bad: Sequence[float], good: Sequence[float]) -> float:
    """Return the probability that a bad answer has more `bad` than a good one; ties count half."""
    ordered = sorted(bad)
    above = sum(2 * len(ordered) - bisect_left(ordered, one) - bisect_right(ordered, one) for one in good)
    return above / 2 / len(bad) / len(good)


def told_apart(rows: Sequence[Row], order: Callable[[Row], float]) -> float:
    """Return the AUROC of an order, higher for worse, against the labels."""
    return auroc([order(row) for row in rows if row.defect], [order(row) for row in rows if not row.defect])


def blend(row: Row) -> float:
    """Return the order by the untrained score."""
    return row.seen[0]


def found_among_worst(mix: Mix, order: Callable[[Row], float], share: float) -> float:
    """Return the share of defects among the worst `share` of the cases."""
    left, found = share, 0.0
    for row, often in sorted(zip(*mix, strict=True), key=lambda one: -order(one[0])):
        taken = min(often, left)
        found += taken * row.defect
        left -= taken
    return found / share


class Seen(NamedTuple):
    """Measurements after some number of verdicts."""

    verdicts: int
    auroc: float
    worst: tuple[float, ...]


class Run(NamedTuple):
    """Measurements over a stream of verdicts, on answers without a verdict; the first one before any verdict.

    `before` has the AUROCs of the untrained and of the learned score on the judged cases against the verdicts, each
    score as it was before the verdict on its case.
    """

    held: list[Seen]
    before: tuple[float, float]


def folds(rows: Sequence[Row], splits: int) -> Iterator[set[str]]:
    """Yield the groups held out in each split: four folds of all groups, then four others, so all count equally."""
    groups = sorted({row.group for row in rows})
    for split in range(splits):
        if split % _FOLDS == 0:
            random.Random(split).shuffle(groups)
        yield set(groups[split % _FOLDS :: _FOLDS])


def streamed(
    rows: Sequence[Row],
    apart: set[str],
    rng: random.Random,
    *,
    error: float,
    rate: float = RATE,
    checkpoints: Sequence[int],
) -> Run:
    """Learn from verdicts drawn evenly at a defect rate, some of them wrong; groups in `apart` have none."""
    stream, held = [row for row in rows if row.group not in apart], [row for row in rows if row.group in apart]
    bad, good = [row for row in stream if row.defect], [row for row in stream if not row.defect]
    learner = DefectModel((SLOPE, *(0.0 for _ in INPUTS[1:])))
    mix, found, judged = mixed(held, rate), [], list[tuple[bool, float, float]]()

    def measure(verdicts: int) -> Seen:
        order = {row: learner.log_odds(row.seen) for row in held}
        worst = tuple(found_among_worst(mix, order.__getitem__, share) for share in _WORST)
        return Seen(verdicts, told_apart(held, order.__getitem__), worst)

    found.append(measure(0))
    for before, until in pairwise((0, *checkpoints)):
        for _ in range(before, until):
            row = rng.choice(bad if rng.random() < rate else good)
            verdict = row.defect != (rng.random() < error)
            judged.append((verdict, blend(row), learner.log_odds(row.seen)))
            learner.learn(row.seen, 1.0, defect=verdict)
        found.append(measure(until))
    both = [auroc([one[at] for one in judged if one[0]], [one[at] for one in judged if not one[0]]) for at in (1, 2)]
    return Run(found, (both[0], both[1]))


def wrong(stream: Stream, error: float) -> Stream:
    """Return the stream of a judge that errs in this share of all answers; the gain is for the rate of verdicts."""
    return Stream(lambda: _mistaken(stream.seen(), error), _mistaken(stream.held, error))


def useless(rng: random.Random, error: float) -> Stream:
    """Return answers whose inputs carry no information."""
    return wrong(Stream(lambda: mixed(binormal(0.5, 1000, rng), RATE), mixed(binormal(0.5, 8000, rng), RATE)), error)


def _mistaken(mix: Mix, error: float) -> Mix:
    if not error:
        return mix
    flipped = [row._replace(defect=not row.defect) for row in mix.rows]
    often = [one * share for share in (1 - error, error) for one in mix.often]
    return Mix([*mix.rows, *flipped], often)


# -- the tables


def orders(sets: Mapping[str, Sequence[Row]], splits: int) -> Iterator[str]:
    """Yield lines, by set and share of wrong verdicts, with the AUROC after some verdicts; then the worst answers."""
    yield f"AUROC on answers that were never judged; {RATE:.0%} defects, even draw, mean of {splits} splits"
    yield _line("set", "wrong", "untrained", *map(str, CHECKPOINTS), "judged: blend", "learned")
    runs = {}
    for error in ERRORS:
        for name, rows in sets.items():
            runs[name, error] = [
                streamed(rows, apart, random.Random(seed), error=error, checkpoints=CHECKPOINTS)
                for seed, apart in enumerate(folds(rows, splits))
            ]
            yield _line(name, f"{error:.0%}", *_aurocs(runs[name, error]), *_before(runs[name, error]))
        every = [run for name in sets for run in runs[name, error]]
        yield _line("mean", f"{error:.0%}", *_aurocs(every), *_before(every))
    yield ""
    yield f"share of defects among the lowest scores of answers that were never judged; {RATE:.0%} defects"
    yield _line("the worst", "wrong", "untrained", *map(str, _AT))
    for error in ERRORS:
        every = [run for name in sets for run in runs[name, error]]
        for place, share in enumerate(_WORST):
            means = [fmean(run.held[at].worst[place] for run in every) for at in _places()]
            yield _line(f"{share:.0%}", f"{error:.0%}", *means)


def sampled(sets: Mapping[str, Sequence[Row]], splits: int) -> Iterator[str]:
    """Yield lines with the gain of a boosted sampler with this learner over an even draw: geometric mean of sets."""
    yield f"judgements that an even draw needs, per judgement of the boosted; {splits} splits"
    yield _line("answers", "rate", "wrong", "0", *map(str, _SAMPLED))
    for rate, error in ((0.02, 0.0), (0.10, 0.0), (0.02, 0.05), (0.10, 0.05)):
        found = []
        for rows in sets.values():
            make = partial(_halved_wrong, rows, rate, error)
            found.append(learned_mean(make, streams=splits, checkpoints=_SAMPLED))
        means = [geometric_mean(column) for column in zip(*found, strict=True)]
        yield _line("mean of the sets", f"{rate:.0%}", f"{error:.0%}", *means)
    for error in (0.0, 0.05):
        means = learned_mean(partial(useless, error=error), streams=splits, checkpoints=_SAMPLED)
        yield _line("nothing to know", f"{RATE:.0%}", f"{error:.0%}", *means)


def _halved_wrong(rows: Sequence[Row], rate: float, error: float, rng: random.Random) -> Stream:
    return wrong(halved(rows, rate, rng), error)


def _aurocs(runs: Sequence[Run]) -> list[float]:
    return [fmean(run.held[at].auroc for run in runs) for at in range(len(CHECKPOINTS) + 1)]


def _before(runs: Sequence[Run]) -> list[float]:
    return [fmean(run.before[at] for run in runs) for at in (0, 1)]


def _places() -> list[int]:
    return [0, *(CHECKPOINTS.index(at) + 1 for at in _AT)]


def _line(first: object, *rest: object) -> str:
    cells = (f"{one:>14.3f}" if isinstance(one, float) else f"{one:>14}" for one in rest)
    return f"{first!s:<17}" + "".join(cells)


def read(folder: Path | None) -> dict[str, list[Row]]:
    """Return the sets of a folder. Exits with instructions if it contains none of them."""
    found = [] if folder is None else [one for one in (folder / f"{name}.jsonl" for name in SETS) if one.is_file()]
    if not found:
        raise SystemExit(f"no labelled answers: give --data or {FOLDER} a folder with {', '.join(SETS)} (.jsonl)")
    return {one.stem: labelled(one) for one in found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all tables."""
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get(FOLDER)
    reading.add_argument("--data", type=Path, metavar="FOLDER", default=Path(default) if default else None)
    reading.add_argument("--splits", type=int, default=SPLITS)
    reading.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    options = reading.parse_args(arguments)
    sets, splits = read(options.data), 1 if options.quick else options.splits
    for table in (orders(sets, splits), sampled(sets, splits)):
        for line in table:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
