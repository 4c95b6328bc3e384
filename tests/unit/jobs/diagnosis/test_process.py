"""Diagnoses beside the running monitor: in another process, the same as here, and kept for a minute."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.jobs.diagnosis import DiagnosisRequest, diagnose_history
from monitor.jobs.diagnosis import process as diagnosis_process
from monitor.jobs.diagnosis.process import FRESH, Diagnoser
from monitor.model.outcome import DefectRule
from tests.support.rise import HOUR, NOW, in_acme, kept, results

pytestmark = pytest.mark.anyio

REQUEST = DiagnosisRequest("shop", "overlap_groundedness", 6 * HOUR)


def diagnoser(folder: Path, clock: ManualClock) -> Diagnoser:
    return Diagnoser(folder / "data" / "history.db", ["tenant"], clock)


async def test_the_process_says_what_this_one_would_say(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    here = diagnose_history(tmp_path / "data" / "history.db", ["tenant"], REQUEST, NOW)
    assert await diagnoser(tmp_path, ManualClock(NOW)).diagnose(REQUEST) == here
    assert [factor.factor.value for factor in here.found.factors] == ["acme"]


async def test_a_diagnosis_is_given_again_until_it_is_a_minute_old(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    clock = ManualClock(NOW)
    ours = diagnoser(tmp_path, clock)
    first = await ours.diagnose(REQUEST)
    clock.advance(FRESH - 1)
    assert await ours.diagnose(REQUEST) is first
    clock.advance(1)
    assert (await ours.diagnose(REQUEST)).until == NOW + FRESH


async def test_the_rule_of_an_alert_says_what_is_bad(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    found = await diagnoser(tmp_path, ManualClock(NOW)).diagnose(REQUEST._replace(rule=DefectRule("below", 0.5)))
    assert found.found.state == "too_few_before"


async def test_a_history_that_cannot_be_read_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="history"):
        await diagnoser(tmp_path, ManualClock(NOW)).diagnose(REQUEST)


async def test_without_another_process_it_is_made_in_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept(tmp_path, results(in_acme))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    assert (await diagnoser(tmp_path, ManualClock(NOW)).diagnose(REQUEST)).found.state == "found"


async def test_what_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis_process, "_COMMAND", "import time; time.sleep(600)")
    monkeypatch.setattr(diagnosis_process, "LONGEST", 0.2)
    with pytest.raises(MonitorError, match=r"longer than 0\.2 s"):
        await diagnoser(tmp_path, ManualClock(NOW)).diagnose(REQUEST)


async def test_a_process_that_dies_costs_one_diagnosis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept(tmp_path, results(in_acme))
    ours = diagnoser(tmp_path, ManualClock(NOW))
    with monkeypatch.context() as broken:
        broken.setattr(diagnosis_process, "_COMMAND", "import os; os.abort()")
        with pytest.raises(MonitorError, match="exit status -6"):
            await ours.diagnose(REQUEST)
    assert (await ours.diagnose(REQUEST)).found.state == "found"


async def test_two_that_ask_at_once_get_one_diagnosis(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    ours, got = diagnoser(tmp_path, ManualClock(NOW)), []

    async def ask() -> None:
        got.append(await ours.diagnose(REQUEST))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
    assert got[0] is got[1]
