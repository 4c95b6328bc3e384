"""Decides which results people label next. Pure functions.

Results are drawn one by one, each draw with a known chance for every result: four of five from strata, the fifth from
all traffic. Strata are the judge's verdicts, divided by doubt and by score; a stratum gets draws in proportion to its
share of the traffic and to how much the truth varies in it (Neyman, Journal of the Royal Statistical Society 97, 1934,
p. 558).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.model.label import LabelDraw

UNIFORM_EVERY: Final = 5
"""One draw in this many is from all traffic evenly: its labels reveal what strata may hide."""

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_BANDS: Final = 3
_SMALLEST: Final = 20
"""The fewest results of a stratum; smaller ones are merged with their neighbour."""
_PRIOR: Final = {True: 0.3, False: 0.05}
"""The expected share of defects in what the judge calls a defect, and in what it calls good."""
_PRIOR_LABELS: Final = 8.0


class JudgedResult(NamedTuple):
    """A result that may be drawn. `weight`: how many requests it stands for.

    `doubtful`: the judge's own explanation or its second judgement says the opposite.
    """

    key: str
    defect: bool
    score: float
    weight: float
    doubtful: bool = False


class Drawn(NamedTuple):
    """A result that was drawn, and the chance that this draw gave it."""

    key: str
    draw: LabelDraw
    probability: float


@dataclass(frozen=True, slots=True)
class Stratum:
    """Similar results with the same verdict of the judge; `weight` is the sum of their weights."""

    defect: bool
    results: Sequence[JudgedResult]
    weight: float


def strata(results: Sequence[JudgedResult]) -> list[Stratum]:
    """Divide results by verdict, then doubtful ones from the rest, then by score into three parts of equal traffic."""
    found: list[Stratum] = []
    for defect in (True, False):
        own = [one for one in results if one.defect == defect]
        doubtful = [one for one in own if one.doubtful]
        if min(len(doubtful), len(own) - len(doubtful)) < _SMALLEST:
            doubtful = []
        parts = [doubtful] if doubtful else []
        parts += _by_score([one for one in own if not (doubtful and one.doubtful)])
        found += [Stratum(defect, part, math.fsum(one.weight for one in part)) for part in parts]
    return found


def _by_score(results: Sequence[JudgedResult]) -> list[list[JudgedResult]]:
    """Divide at scores, so that equal scores stay together."""
    by_score: defaultdict[float, list[JudgedResult]] = defaultdict(list)
    for one in results:
        by_score[one.score].append(one)
    target = math.fsum(one.weight for one in results) / _BANDS
    parts: list[list[JudgedResult]] = []
    for score in sorted(by_score):
        full = parts and math.fsum(one.weight for one in parts[-1]) >= target and len(parts[-1]) >= _SMALLEST
        if not parts or full:
            parts.append([])
        parts[-1] += by_score[score]
    if len(parts) > 1 and len(parts[-1]) < _SMALLEST:
        last = parts.pop()
        parts[-1] += last
    return parts


def allocation(divided: Sequence[Stratum], truths: Mapping[str, bool]) -> list[float]:
    """Return the share of draws that each stratum gets; they add up to 1. `truths`: what people said, by key.

    While few labels show how often people disagree with the judge, a stratum is assumed to have the rate of its
    verdict, and the verdict a rate that is usual for judges.
    """
    defects: dict[bool, float] = {}
    for verdict in (True, False):
        own = (one.key for part in divided if part.defect == verdict for one in part.results)
        known = [truths[key] for key in own if key in truths]
        defects[verdict] = _shrunk(sum(known), len(known), _PRIOR[verdict])
    sizes = []
    for part in divided:
        known = [truths[one.key] for one in part.results if one.key in truths]
        rate = _shrunk(sum(known), len(known), defects[part.defect])
        sizes.append(part.weight * math.sqrt(rate * (1 - rate)))
    total = math.fsum(sizes)
    return [one / total for one in sizes] if total > 0 else sizes


def _shrunk(defects: int, labels: int, towards: float) -> float:
    return (defects + _PRIOR_LABELS * towards) / (labels + _PRIOR_LABELS)


def draw(
    results: Sequence[JudgedResult], drawn: Collection[str], truths: Mapping[str, bool], number: int
) -> Drawn | None:
    """Draw one more result; None if all that can be drawn have been. See `draws`."""
    return next(draws(results, drawn, truths, number), None)


def draws(
    results: Sequence[JudgedResult], drawn: Collection[str], truths: Mapping[str, bool], number: int
) -> Iterator[Drawn]:
    """Draw further results one by one, given what is known now.

    The same arguments, with `results` in any order, give the same draws. If a stratum of a verdict is used up, the
    whole verdict waits for further results: drawing only from its other strata would misrepresent it.

    Args:
        results: all that may be drawn, drawn or not.
        drawn: the keys of those already drawn.
        truths: by key, whether people call the answer a defect, as far as they have said.
        number: how many were drawn before.
    """
    divided = strata(results)
    left = [{one.key: one for one in part.results if one.key not in drawn} for part in divided]
    shares = allocation(divided, truths)
    whole = math.fsum(part.weight for part in divided)
    in_stratum = [sorted(rest.values(), key=lambda one: _race(one, "stratum")) for rest in left]
    every = ((at, one) for at, rest in enumerate(left) for one in rest.values())
    of_all = sorted(every, key=lambda one: _race(one[1], "all"))
    for place in itertools.count(number):
        closed = {part.defect for part, rest in zip(divided, left, strict=True) if not rest}
        waiting = [at for at, part in enumerate(divided) if part.defect not in closed]
        if not waiting:
            return
        uniform = place % UNIFORM_EVERY == UNIFORM_EVERY - 1
        if uniform:
            at, chosen = next((at, one) for at, one in of_all if at in waiting and one.key in left[at])
        else:
            at = _stratum(waiting, shares, place)
            chosen = next(one for one in in_stratum[at] if one.key in left[at])
        del left[at][chosen.key]
        chance = _mixed(shares[at] / divided[at].weight, 1 / whole) * chosen.weight
        kind = LabelDraw.UNIFORM if uniform else LabelDraw.STRATIFIED
        yield Drawn(chosen.key, kind, min(max(chance, 1e-12), 1.0))


def _stratum(waiting: Sequence[int], shares: Sequence[float], number: int) -> int:
    """Return a stratum by its share. Multiples of the golden ratio keep the numbers of draws close to the shares."""
    point = (number + 1) * _GOLDEN % 1.0 * math.fsum(shares[at] for at in waiting)
    for at in waiting:
        point -= shares[at]
        if point < 0:
            return at
    return waiting[-1]


def verdict_shares(results: Sequence[JudgedResult], truths: Mapping[str, bool]) -> dict[bool, float]:
    """Return the shares of draws that go to what the judge calls defects and to what it calls good."""
    divided = strata(results)
    whole = math.fsum(part.weight for part in divided) or 1.0
    shares = {True: 0.0, False: 0.0}
    for part, share in zip(divided, allocation(divided, truths), strict=True):
        shares[part.defect] += _mixed(share, part.weight / whole)
    return shares


def _mixed(of_strata: float, of_all: float) -> float:
    return ((UNIFORM_EVERY - 1) * of_strata + of_all) / UNIFORM_EVERY


def _race(one: JudgedResult, name: str) -> tuple[float, str]:
    """Return a sort key by which a result comes first with a chance in proportion to its weight."""
    digest = hashlib.blake2b(f"{name}\x1f{one.key}".encode("utf-8", "replace"), digest_size=8).digest()
    return -math.log((int.from_bytes(digest, "big") + 1) / 2**64) / one.weight, one.key
