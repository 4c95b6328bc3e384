"""Work in another process: the same result as here, its own words for what fails, and one process at a time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.jobs import own_process
from monitor.jobs.own_process import FRESH, FreshReports, in_own_process

pytestmark = pytest.mark.anyio


async def test_the_result_comes_from_another_process() -> None:
    assert await in_own_process(os.getpid, name="the number", longest=60) != os.getpid()
    assert await in_own_process(divmod, 7, 2, name="the division", longest=60) == (3, 1)


async def test_an_error_of_ours_is_told_in_its_own_words() -> None:
    with pytest.raises(MonitorError, match="there is no history"):
        await in_own_process(_fail, "there is no history", name="the work", longest=60)


def _fail(text: str) -> None:
    raise MonitorError(text)


async def test_without_another_process_it_is_done_in_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    assert await in_own_process(os.getpid, name="the number", longest=60) == os.getpid()


async def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process, "_COMMAND", "import time; time.sleep(600)")
    with pytest.raises(MonitorError, match=r"the work took longer than 0\.2 s"):
        await in_own_process(os.getpid, name="the work", longest=0.2)


async def test_a_process_that_dies_is_an_error_of_this_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(own_process, "_COMMAND", "import os; os.abort()")
        with pytest.raises(MonitorError, match="the work ended early, with exit status -6"):
            await in_own_process(os.getpid, name="the work", longest=60)
    assert await in_own_process(len, "abc", name="the work", longest=60) == 3


async def test_the_oldest_report_is_dropped_where_there_are_too_many() -> None:
    reports = FreshReports[str, tuple[str, float]](_said, name="a report", clock=ManualClock(1.0), longest=60, kept=2)
    first = await reports.of("a")
    second, third = await reports.of("b"), await reports.of("c")
    assert await reports.of("b") is second
    assert await reports.of("c") is third
    assert await reports.of("a") is not first


async def test_a_report_is_made_again_after_a_minute_and_where_the_clock_was_set_back() -> None:
    clock = ManualClock(1_000.0)
    reports = FreshReports[str, tuple[str, float]](_said, name="a report", clock=clock, longest=60, kept=2)
    first = await reports.of("a")
    clock.advance(FRESH - 1)
    assert await reports.of("a") is first
    clock.advance(1)
    assert await reports.of("a") == ("a", 1_000.0 + FRESH)
    clock.jump(-500.0)
    assert await reports.of("a") == ("a", 500.0 + FRESH)


def _said(request: str, now: float) -> tuple[str, float]:
    return request, now


async def test_two_that_ask_at_once_get_one_report() -> None:
    reports = FreshReports[str, tuple[str, float]](_said, name="a report", clock=ManualClock(1.0), longest=60, kept=2)
    got = []

    async def ask() -> None:
        got.append(await reports.of("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
    assert got[0] is got[1]
