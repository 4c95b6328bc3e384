"""Severe cases at the edges of their month, their number and the retention of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.model.severe import SevereCall, SevereCase
from monitor.storage import severe_cases
from monitor.storage.severe_cases import SevereCaseFile, erase
from tests.support.runtime import runtime

DAY = 86400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def file(tmp_path: Path, clock: ManualClock) -> SevereCaseFile:
    return SevereCaseFile(tmp_path / "severe_cases.db", 7 * DAY, runtime(clock))


def case(at: float, request_id: str = "a", evaluator: str = "violence") -> SevereCase:
    return SevereCase("shop", evaluator, at, request_id)


def test_cases_come_by_their_time_and_those_of_one_second_as_they_were_found(
    file: SevereCaseFile, clock: ManualClock
) -> None:
    now = clock.now()
    for at, name in ((now - 1, "late"), (now - 5, "early"), (now - 1, "later")):
        file.add(case(at, name))
    assert [one.request_id for one in file.load()] == ["early", "late", "later"]


def test_a_case_of_thirty_one_days_ago_is_read_and_an_older_one_is_not(
    file: SevereCaseFile, clock: ManualClock
) -> None:
    file.add(case(clock.now()))
    clock.advance(31 * DAY)
    assert len(file.load()) == 1
    clock.advance(1)
    assert file.load() == []


def test_a_case_of_thirty_one_days_ago_stays_and_an_older_one_is_deleted(
    file: SevereCaseFile, clock: ManualClock
) -> None:
    now = clock.now()
    file.add(case(now - 31 * DAY, "at the edge"))
    file.add(case(now - 31 * DAY - 1, "too old"))
    clock.jump(-2 * DAY)
    assert len(file.load()) == 1


def test_a_request_is_known_up_to_its_retention(file: SevereCaseFile, clock: ManualClock) -> None:
    now = clock.now()
    file.add(case(now - 7 * DAY, "known"))
    file.add(case(now - 7 * DAY - 1, "not any more"))
    assert [one.request_id for one in file.load()] == ["", "known"]


def test_the_newest_are_kept_where_there_are_too_many(
    file: SevereCaseFile, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(severe_cases, "MOST", 3)
    for name in "abcde":
        file.add(case(clock.now(), name))
    assert [one.request_id for one in file.load()] == ["c", "d", "e"]


def test_a_call_is_of_one_request_and_evaluator(file: SevereCaseFile, clock: ManualClock) -> None:
    for name, evaluator in (("a", "violence"), ("b", "violence"), ("a", "advice")):
        file.add(case(clock.now(), name, evaluator))
    file.call("a", "violence", SevereCall.RIGHT)
    assert [one.call for one in file.load()] == [SevereCall.RIGHT, None, None]


def test_a_damaged_case_hides_no_other(file: SevereCaseFile, clock: ManualClock) -> None:
    file.add(case(clock.now(), "a"))
    file.add(case(clock.now(), "b"))
    with file._file.transaction() as db:
        db.execute("UPDATE cases SET call = 'maybe' WHERE request_id = 'a'")
    assert [one.request_id for one in file.load()] == ["b"]


def test_a_case_is_kept_with_what_was_said_of_it(file: SevereCaseFile, clock: ManualClock, tmp_path: Path) -> None:
    one = SevereCase("shop", "violence", clock.now(), "a", SevereCall.WRONG)
    file.add(one)
    assert file.load() == [one]
    file.close()
    assert erase(tmp_path / "severe_cases.db", {"b"}, dry_run=False) == {}
