"""Sums of whole periods: what is in them, to the minute, and beside damaged rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.model.outcome import Cost
from monitor.statistics.rates import Sums
from monitor.storage.history.periods import JudgeUse, PeriodRate, PeriodReader
from tests.support.histories import FAILED, HOUR, MINUTE, change, keep
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_the_rates_of_a_period_are_by_version_and_end_before_its_end(path: Path) -> None:
    keep(path, judged(1), judged(2, 1.0), judged(61, weight=2.0), judged(3, version="v2"))
    found = PeriodReader(path).rates(MINUTE, MINUTE + 61)
    assert [(one.version, one.last - MINUTE, one.sums.judged, one.sums.defects, one.sums.weight) for one in found] == [
        ("v1", 60.0, 3, 1, 22.0),
        ("v2", 0.0, 1, 0, 10.0),
    ]
    assert found[0].sums == Sums(3, 1, 22.0, 10.0, 100.0, 104.0, 10.0, 100.0, 204.0, 100.0)
    assert [one.sums.judged for one in PeriodReader(path).rates(MINUTE, MINUTE + 60)] == [2, 1]
    assert [one.sums.judged for one in PeriodReader(path).rates(MINUTE + 1, MINUTE + 61)] == [1]
    assert isinstance(found[0], PeriodRate)


def test_what_judges_were_asked_is_added_up_over_a_period(path: Path) -> None:
    cost = Cost("m", 0.5, seconds=2.0, attempts=3, asked=True)
    keep(path, judged(1, cost=cost), judged(101, cost=cost), judged(2, outcome=FAILED))
    reader = PeriodReader(path)
    assert reader.judge_use(HOUR, HOUR + 901) == [
        JudgeUse("shop", "groundedness", "score", 2, 2, 6, 1.0, 4.0),
        JudgeUse("shop", "groundedness", "timeout", 1, 0, 0, 0.0, 0.0),
    ]
    assert [one.evaluations for one in reader.judge_use(HOUR, HOUR + 900)] == [1, 1]
    assert [one.evaluations for one in reader.judge_use(HOUR + 1, HOUR + 901)] == [1]


def test_a_period_begins_with_the_first_minute_that_has_sums(path: Path) -> None:
    keep(path)
    assert PeriodReader(path).begin() is None
    keep(path, judged(1), judged(100))
    assert PeriodReader(path).begin() == MINUTE


@pytest.mark.parametrize(("column", "left"), [("top = 'x'", 1), ("app = x'01'", 1), ("judged = 2", 2)])
def test_a_damaged_row_of_a_period_hides_no_other(path: Path, column: str, left: int) -> None:
    keep(path, judged(1), judged(2, app="docs"))
    change(path, f"UPDATE session_sums SET {column} WHERE app = 'docs'")
    assert len(PeriodReader(path).rates(0, 2e9)) == left
