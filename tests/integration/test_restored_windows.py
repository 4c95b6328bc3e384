"""A restart: the baseline of a regression comes back from the history, whatever `storage.keep` says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.app import _restore
from monitor.clock import ManualClock
from monitor.estimates.change import DAY, HOUR
from monitor.estimates.windows import Windows
from monitor.sinks.history import History
from tests.unit.sinks.results import judged, runtime

pytestmark = pytest.mark.anyio
MIDNIGHT = 19_675 * DAY
HOURS = 12 * 24 + 5


async def test_the_week_before_is_known_again_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    before = Windows(clock, baselines=True)
    history = History(path=tmp_path / "history.db", keep=HOUR)
    async with history.open(runtime(clock)) as deliver:
        for number in range(HOURS * 4):
            defect = number % 9 == 0 or 700 < number < 720
            clock.advance(900)
            at = clock.now() - 60
            before.add("shop", "grounded", at, 2.0, defect)
            one = judged(number, evaluator="grounded", defect=defect)
            await deliver(replace(one, judged_at=at, case=replace(one.case, app="shop"), weight=2.0))
        after = Windows(clock, baselines=True)
        await _restore(after, history, clock.now())
    changes, days = before.changes("shop", "grounded", clock.now())
    assert set(changes) == {HOUR, 6 * HOUR, DAY, 3 * DAY}
    assert days == 7
    assert after.changes("shop", "grounded", clock.now()) == (changes, days)


async def test_windows_without_baselines_read_no_more_than_they_need(tmp_path: Path) -> None:
    clock = ManualClock(MIDNIGHT)
    history = History(path=tmp_path / "history.db")
    async with history.open(runtime(clock)) as deliver:
        await deliver(replace(judged(1), judged_at=clock.now() - 2 * DAY))
        windows = Windows(clock)
        await _restore(windows, history, clock.now())
    assert windows.keys() == ()
