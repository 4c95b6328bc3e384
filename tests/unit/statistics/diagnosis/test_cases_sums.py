"""What is added up of cases, over all pairs; the onset by trying every moment; blocks of equally many bad ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from monitor.statistics.diagnosis.cases import (
    LIGHTEST,
    Factor,
    JudgedCase,
    Prepared,
    WeighedCase,
    sums_of,
    tally,
    unit_squares,
)
from monitor.statistics.diagnosis.looks import looks_at, next_look, spent
from monitor.statistics.diagnosis.onset import Onset, find_step
from monitor.statistics.diagnosis.results import Diagnosis
from monitor.statistics.diagnosis.rounds import time_blocks

ROWS = [
    WeighedCase(float(at), 0.125 * (1 + at * 5 % 7), at % 3 == 0 or at % 11 == 5, at * 7 % 13, (at % 2,), float(at))
    for at in range(45)
]


def test_cases_are_ordered_by_time_and_weighed_as_parts_of_the_heaviest() -> None:
    one, other = Factor("word", "word", "a"), Factor("word", "word", "b")
    prepared = Prepared(
        [
            JudgedCase(5.0, True, "x", (other, one, other), 4.0),
            JudgedCase(2.0, False, "y", (one,), 1.0, judged_at=9.0),
            JudgedCase(3.0, True, "x", (), 1e-300, judged_at=1.0),
        ]
    )
    assert prepared.factors == [one, other]
    assert prepared.rows == [
        WeighedCase(2.0, 0.25, False, 0, (0,), 9.0),
        WeighedCase(3.0, LIGHTEST, True, 1, (), 3.0),
        WeighedCase(5.0, 1.0, True, 1, (1, 0), 5.0),
    ]
    assert LIGHTEST == 1e-100
    assert prepared.number(other) == 1
    assert prepared.number(Factor("word", "word", "c")) == 2


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_case_has_a_weight_above_0_and_a_time(wrong: float) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        Prepared([JudgedCase(1.0, True, "x", weight=wrong)])
    if not math.isfinite(wrong):
        with pytest.raises(ValueError, match="is not a time"):
            Prepared([JudgedCase(wrong, True, "x")])
        with pytest.raises(ValueError, match="is not a time"):
            Prepared([JudgedCase(1.0, True, "x", judged_at=wrong)])


@pytest.mark.parametrize("timed", [None, [0.5 + at % 4 for at in range(45)]], ids=["plain", "timed"])
def test_sums_of_cases_are_by_unit(timed: list[float] | None) -> None:
    bad = [row for row in ROWS if row.bad]
    found = tally(ROWS, timed)
    assert (found.cases, found.bad, found.units) == (45, len(bad), len({row.unit for row in bad}))
    assert found.weight == pytest.approx(sum(row.weight for row in ROWS))
    assert found.timed == pytest.approx(sum(timed or [row.weight for row in ROWS]))
    assert found.bad_weight == pytest.approx(sum(row.weight for row in bad))
    squares = sum(one.weight * other.weight for one in bad for other in bad if one.unit == other.unit)
    assert found.bad_squares == pytest.approx(squares)
    assert found.good_squares == pytest.approx(sum(row.weight**2 for row in ROWS if not row.bad))
    assert found.rate == pytest.approx(found.bad_weight / found.weight)
    assert found.unit_weight == pytest.approx(squares / found.bad_weight)
    every = sum(one.weight * other.weight for one in ROWS for other in ROWS if one.unit == other.unit)
    assert unit_squares(ROWS) == pytest.approx(every)


def test_the_sums_for_a_rate_have_the_products_of_units_for_sessions() -> None:
    found, bad = sums_of(ROWS), [row for row in ROWS if row.bad]
    assert (found.judged, found.defects, found.top) == (45, len(bad), 0.125 * 7)
    assert found.weight == pytest.approx(sum(row.weight for row in ROWS))
    assert found.defect_weight == pytest.approx(sum(row.weight for row in bad))
    assert found.defect_weight_squares == pytest.approx(sum(row.weight**2 for row in bad))
    assert found.good_weight_squares == pytest.approx(sum(row.weight**2 for row in ROWS if not row.bad))
    for products, first, second in (
        (found.defect_products, bad, bad),
        (found.every_products, ROWS, ROWS),
        (found.both_products, bad, ROWS),
    ):
        expected = sum(one.weight * other.weight for one in first for other in second if one.unit == other.unit)
        assert products == pytest.approx(expected)
    assert sums_of([]).top == 0.0


def log_likelihood(rows: Sequence[WeighedCase], rate: float) -> float:
    return sum(row.weight * math.log(rate if row.bad else 1 - rate) for row in rows)


def gain(rows: Sequence[WeighedCase], usual: float, unit: float) -> float:
    """How much likelier the rows are at their own rate, by typical sessions; never at a rate that is lower."""
    rate = tally(rows).rate
    if rate <= usual:
        return -math.inf
    return (log_likelihood(rows, rate) - log_likelihood(rows, usual)) / unit


@pytest.mark.parametrize("usual", [0.05, 0.2, 0.34])
@pytest.mark.parametrize("since", [0, 30, 52, 77])
def test_the_onset_is_where_the_rest_is_likeliest_and_its_interval_where_it_is_nearly_so(
    usual: float, since: int
) -> None:
    rows = [
        WeighedCase(float(at // 2), 0.25 + at % 4 / 5, at % (9 if at < since else 2) == 1, at // 3, ())
        for at in range(120)
    ]
    unit = tally(rows).unit_weight
    moments = [at for at in range(120) if at == 0 or rows[at - 1].time < rows[at].time]
    gains = {at: gain(rows[at:], usual, unit) for at in moments}
    best = max(gains, key=lambda at: (gains[at], -at))
    likely = [at for at in moments if gains[at] >= gains[best] - 2.5]
    step = find_step(rows, usual)
    assert step is not None
    assert (step.best, step.lowest) == (best, likely[0])
    before = [rows[max(at - 1, 0)].time for at in (best, likely[0])]
    assert step.onset == Onset((before[0] + rows[best].time) / 2, before[1], rows[likely[-1]].time)


@pytest.mark.parametrize(("bad", "count"), [(0, 1), (9, 1), (19, 1), (20, 2), (30, 3), (40, 4), (95, 4)])
def test_up_to_four_blocks_have_equally_many_bad_cases_and_at_least_ten(bad: int, count: int) -> None:
    """The bad cases come ever later after each other, so no two blocks have the same rate."""
    rows: list[WeighedCase] = []
    for number in range(bad):
        rows += [WeighedCase(float(len(rows)), 1.0, False, 1000 + len(rows) + at, ()) for at in range(1 + number // 5)]
        rows.append(WeighedCase(float(len(rows)), 2.0, True, number, ()))
    rows += [WeighedCase(1e6, 1.0, False, 5000, ())] * (bad > 0)
    timed = time_blocks(rows)
    ends = [math.ceil(bad * number / count) for number in range(1, count + 1)]
    expected: list[float] = []
    for first, last in zip([0, *ends], ends, strict=False):
        places = [at for at, row in enumerate(rows) if row.bad]
        start = places[first - 1] + 1 if first else 0
        stop = len(rows) if last == bad else places[last - 1] + 1
        block = rows[start:stop]
        expected += [row.weight * tally(block).rate / tally(rows).rate for row in block]
    assert timed == pytest.approx(expected)


def test_the_first_look_takes_ten_bad_answers_and_spends_half_of_the_level() -> None:
    assert [spent(bad) for bad in (0, 10, 20, 90)] == pytest.approx([0.0, 0.5, 2 / 3, 0.9])
    assert [next_look(look) for look in (10, 11, 15)] == [15, 17, 23]
    assert list(looks_at(0, 15)) == [10, 15]
    assert list(looks_at(10, 10)) == [10]
    assert list(looks_at(11, 10)) == []


@pytest.mark.parametrize(("looked", "following", "awaits"), [(None, 3, True), (5.0, 3, False), (None, None, False)])
def test_an_alert_awaits_its_first_look_while_none_was_made(
    looked: float | None, following: int | None, awaits: bool
) -> None:
    assert Diagnosis(state="no_rise", looked=looked, next_look=following).awaits_first_look is awaits
