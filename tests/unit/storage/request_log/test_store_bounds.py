"""Records and sums at the edges of their times, limits and sizes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.model.request_log import RequestStep
from monitor.storage.request_log import RequestLogReader, store
from monitor.storage.request_log.store import Minute, StepCount
from tests.support.results import request_record

FATE = RequestStep("shop", "otlp_http", "", "evaluated")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "request_log.db"


def write(path: Path, records: object = (), sums: object = None, **pruning: float) -> bool:
    with closing(store.create(path)) as db:
        store.insert(db, records, sums or {})
        return store.prune(db, **{"before": 0, "sums_before": 0, "at_most": 10**9, **pruning})


def step(at: int, app: str = "shop", name: str = "evaluated") -> Minute:
    return Minute(at, RequestStep(app, "otlp_http", "", name))


def test_records_lie_between_two_seconds_and_come_newest_first(path: Path) -> None:
    write(path, [request_record(number, float(number)) for number in (2, 1, 4, 3)])
    reader = RequestLogReader(path)
    assert [one.ended_at for one in reader.between(2.0, 3.0, 9)] == [3.0, 2.0]
    assert [one.ended_at for one in reader.between(0.0, 9.0, 2)] == [4.0, 3.0]
    assert reader.between(4.5, 9.0, 9) == []


def test_a_row_has_the_records_of_all_its_requests(path: Path) -> None:
    for at, name in enumerate(("row", "row/2", "row/1", "row0", "rowing")):
        write(path, [request_record(1, float(at), request_id=name)])
    assert [one.request_id for one in RequestLogReader(path).of("row")] == ["row", "row/2", "row/1"]


def test_of_very_many_records_of_a_request_250_come(path: Path) -> None:
    write(path, [request_record(1, float(number)) for number in range(251)])
    assert len(RequestLogReader(path).of(f"{1:032x}")) == 250


def test_a_record_that_cannot_be_read_hides_no_other_in_a_list(path: Path) -> None:
    write(path, [request_record(number, float(number)) for number in (1, 2)])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE requests SET body = x'00' WHERE at = 1.0")
    assert [one.ended_at for one in RequestLogReader(path).between(0.0, 9.0, 9)] == [2.0]


def test_sums_begin_with_the_minute_of_a_second_and_end_with_their_last(path: Path) -> None:
    write(path, sums={step(at): StepCount(1, 0.5, at + 1.0) for at in (0, 60, 120)})
    reader = RequestLogReader(path)

    def number(since: float, until: float) -> list[int]:
        return [one.number for one in reader.sums(since, until)]

    assert [number(0.0, 120.0), number(59.0, 119.0), number(60.0, 60.0), number(121.0, 119.0)] == [[3], [2], [1], []]
    assert reader.span() == (0.0, 121.0)


def test_steps_are_told_apart_and_those_of_an_app_found(path: Path) -> None:
    count = StepCount(1, 0.0, 1.0)
    write(path, sums={step(0): count, step(0, "docs"): count, step(0, name="dropped"): count})
    reader = RequestLogReader(path)
    assert len(reader.sums(0.0, 60.0)) == 3
    assert {one.step.step for one in reader.sums(0.0, 60.0, "shop")} == {"evaluated", "dropped"}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE steps SET app = x'00' WHERE app = 'docs'")
    assert len(reader.sums(0.0, 60.0)) == 2


def test_an_empty_file_has_neither_begin_nor_end(path: Path) -> None:
    write(path)
    reader = RequestLogReader(path)
    assert (reader.span(), reader.oldest(), reader.sums(0.0, 9.0), reader.of("x")) == (None, None, [], [])


def test_what_is_just_as_old_as_it_may_be_stays(path: Path) -> None:
    write(
        path,
        [request_record(1, 9.0), request_record(2, 10.0)],
        {step(0): StepCount(1, 0, 1.0), step(60): StepCount(1, 0, 61.0)},
    )
    assert not write(path, before=10.0, sums_before=60.0)
    assert RequestLogReader(path).oldest() == 10.0
    assert RequestLogReader(path).span() == (60.0, 61.0)


def test_as_many_are_deleted_as_are_added_twice_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PRUNE_AT_ONCE", 2)
    write(path, [request_record(number, float(number)) for number in range(10)])
    assert write(path, before=100.0)
    assert RequestLogReader(path).oldest() == 2.0
    assert write(path, before=100.0, added=1)
    assert RequestLogReader(path).oldest() == 6.0
    assert not write(path, before=9.0, added=1)
    assert RequestLogReader(path).oldest() == 9.0


def test_a_file_of_just_its_size_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, [request_record(1, 1.0)], {step(0): StepCount(1, 0, 1.0)})
    monkeypatch.setattr(store, "used_bytes", lambda _: 1000)
    assert not write(path, at_most=1000)
    assert RequestLogReader(path).oldest() == 1.0
    write(path, at_most=999)
    assert RequestLogReader(path).oldest() is None
    assert RequestLogReader(path).span() is not None


def test_where_only_sums_are_left_the_oldest_hour_of_them_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, sums={step(at): StepCount(1, 0, float(at)) for at in (0, 3540, 3600, 3660)})
    monkeypatch.setattr(store, "used_bytes", lambda _: 1000)
    write(path, at_most=999)
    assert RequestLogReader(path).span() == (3600.0, 3660.0)
    write(path, at_most=999, sums_before=3660.0 + 3600.0)
    assert RequestLogReader(path).span() is None
    assert not write(path, at_most=999)


def test_a_request_is_erased_with_those_behind_its_slash(path: Path) -> None:
    write(path, [request_record(1, 1.0, request_id=name) for name in ("a", "a/1", "ab")])
    assert store.erase(path, ["a"], dry_run=True) == {"requests": 2}
    assert store.erase(path, ["a"], dry_run=False) == {"requests": 2}
    assert len(RequestLogReader(path).between(0.0, 9.0, 9)) == 1
