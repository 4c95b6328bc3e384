"""Severe cases on disk: kept for thirty days, without what identifies a request after the retention of results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from monitor.clock import ManualClock
from monitor.model.severe import SevereCall, SevereCase
from monitor.storage.severe_cases import SevereCaseFile, erase
from tests.support.runtime import runtime

DAY = 86400.0


def made(folder: Path, clock: ManualClock) -> SevereCaseFile:
    return SevereCaseFile(folder / "severe_cases.db", 7 * DAY, runtime(clock))


def case(clock: ManualClock, request_id: str = "a") -> SevereCase:
    return SevereCase("shop", "violence", clock.now(), request_id)


def test_a_case_and_its_call_are_known_to_the_next_process(tmp_path: Path) -> None:
    clock = ManualClock()
    file, one = made(tmp_path, clock), case(clock)
    file.add(one)
    file.call("a", "violence", SevereCall.WRONG)
    file.close()
    assert made(tmp_path, clock).load() == [replace(one, call=SevereCall.WRONG)]


def test_without_a_file_there_is_no_case_and_none_is_created(tmp_path: Path) -> None:
    assert made(tmp_path, ManualClock()).load() == []
    assert list(tmp_path.iterdir()) == []


def test_the_request_is_forgotten_with_its_results_and_the_case_after_a_month(tmp_path: Path) -> None:
    clock = ManualClock()
    file = made(tmp_path, clock)
    file.add(case(clock))
    clock.advance(8 * DAY)
    file.add(case(clock, "b"))
    assert [one.request_id for one in file.load()] == ["", "b"]
    clock.advance(24 * DAY)
    file.add(case(clock, "c"))
    assert [one.request_id for one in file.load()] == ["", "c"]


def test_a_request_can_be_erased(tmp_path: Path) -> None:
    clock = ManualClock()
    file = made(tmp_path, clock)
    file.add(case(clock))
    file.add(case(clock, "b"))
    file.close()
    path = tmp_path / "severe_cases.db"
    assert erase(path, {"a"}, dry_run=True) == {"cases": 1}
    assert erase(path, {"a"}, dry_run=False) == {"cases": 1}
    assert [one.request_id for one in file.load()] == ["b"]


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    clock = ManualClock()
    (tmp_path / "severe_cases.db").write_bytes(b"no database at all" * 300)
    assert made(tmp_path, clock).load() == []
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1
