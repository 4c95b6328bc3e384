"""Strata, shares and chances of draws once more from their definitions, and each limit from both sides."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import pytest

from monitor.model.label import LabelDraw
from monitor.statistics.review_draws import JudgedResult, allocation, draw, draws, strata, verdict_shares


def results(
    defect: bool, number: int, *, scores: int = 1, doubtful: int = 0, weight: float = 1.0
) -> list[JudgedResult]:
    name = "d" if defect else "g"
    return [JudgedResult(f"{name}{n}", defect, float(n % scores), weight + n % 3, n < doubtful) for n in range(number)]


@pytest.mark.parametrize(
    ("doubtful", "number", "apart"), [(20, 40, True), (19, 40, False), (20, 39, False), (21, 41, True)]
)
def test_doubtful_results_are_apart_where_both_kinds_are_20_or_more(doubtful: int, number: int, apart: bool) -> None:
    divided = strata(results(True, number, doubtful=doubtful))
    assert [len(part.results) for part in divided] == ([doubtful, number - doubtful] if apart else [number])
    assert [part.weight for part in divided] == [sum(one.weight for one in part.results) for part in divided]
    assert all(one.doubtful for one in divided[0].results) is apart


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([20, 20, 20], [20, 20, 20]),
        ([20, 20, 19], [20, 39]),
        ([19, 20, 21], [39, 21]),
        ([60, 1, 29], [60, 30]),
        ([10, 10, 10, 30], [20, 40]),
        ([30, 30, 30, 10], [60, 40]),
        ([5], [5]),
    ],
)
def test_a_part_ends_at_a_third_of_the_traffic_and_20_results(sizes: list[int], parts: list[int]) -> None:
    own = [
        JudgedResult(f"{score}-{n}", False, float(score), 1.0) for score, size in enumerate(sizes) for n in range(size)
    ]
    assert [len(part.results) for part in strata(own[::-1])] == parts


def shares_of(divided: Sequence[Sequence[JudgedResult]], truths: Mapping[str, bool]) -> list[float]:
    """Weight times the standard deviation of truths, whose rate is drawn towards that of the verdict by 8 labels."""
    sizes = []
    for part in divided:
        verdict = part[0].defect
        usual = 0.3 if verdict else 0.05
        alike = [truths[one.key] for each in divided if each[0].defect == verdict for one in each if one.key in truths]
        of_verdict = (sum(alike) + 8 * usual) / (len(alike) + 8)
        own = [truths[one.key] for one in part if one.key in truths]
        rate = (sum(own) + 8 * of_verdict) / (len(own) + 8)
        sizes.append(sum(one.weight for one in part) * math.sqrt(rate * (1 - rate)))
    return [one / sum(sizes) for one in sizes]


EVERY = [*results(True, 70, scores=3, doubtful=25), *results(False, 120, scores=5, weight=2.5)]
TRUTHS = {"d3": True, "d9": False, "d40": True, "g2": True, "g7": False, "g8": False, "g60": False}


@pytest.mark.parametrize("truths", [{}, TRUTHS], ids=["no label", "some labels"])
def test_a_stratum_has_draws_by_its_traffic_and_by_how_much_truths_differ_in_it(truths: dict[str, bool]) -> None:
    divided = strata(EVERY)
    expected = shares_of([part.results for part in divided], truths)
    assert len(expected) >= 5
    assert allocation(divided, truths) == pytest.approx(expected, rel=1e-9)
    whole = sum(one.weight for one in EVERY)
    for verdict in (True, False):
        own = [at for at, part in enumerate(divided) if part.defect == verdict]
        share = sum(0.8 * expected[at] + 0.2 * divided[at].weight / whole for at in own)
        assert verdict_shares(EVERY, truths)[verdict] == pytest.approx(share, rel=1e-9)


def test_of_nothing_there_is_nothing_to_draw() -> None:
    assert verdict_shares([], {}) == {True: 0.0, False: 0.0}
    assert allocation([], {}) == []
    assert draw([], (), {}, 0) is None


def place(one: JudgedResult, name: str) -> float:
    """An exponential waiting time, shorter for a heavier result: who comes first is drawn by weight."""
    digest = hashlib.blake2b(f"{name}\x1f{one.key}".encode(), digest_size=8).digest()
    return -math.log((int.from_bytes(digest, "big") + 1) / 2**64) / one.weight


@pytest.mark.parametrize("number", [0, 3, 17])
def test_four_draws_of_five_follow_the_golden_ratio_through_the_strata_and_the_fifth_is_of_all(number: int) -> None:
    divided, gone = strata(EVERY), {"d3", "g2"}
    shares, whole = shares_of([part.results for part in divided], TRUTHS), sum(one.weight for one in EVERY)
    found = draws(EVERY, gone, TRUTHS, number)
    for at, one in zip(range(number, number + 40), found, strict=False):
        left = [[each for each in part.results if each.key not in gone] for part in divided]
        if at % 5 == 4:
            chosen = min((each for part in left for each in part), key=lambda each: place(each, "all"))
        else:
            point, stratum = (at + 1) * (math.sqrt(5) - 1) / 2 % 1.0, 0
            while point >= sum(shares[: stratum + 1]):
                stratum += 1
            chosen = min(left[stratum], key=lambda each: place(each, "stratum"))
        own = next(n for n, part in enumerate(divided) if chosen in part.results)
        chance = (0.8 * shares[own] / divided[own].weight + 0.2 / whole) * chosen.weight
        assert one.key == chosen.key
        assert one.draw is (LabelDraw.UNIFORM if at % 5 == 4 else LabelDraw.STRATIFIED)
        assert one.probability == pytest.approx(chance, rel=1e-9)
        gone.add(chosen.key)
