"""The file of records: what goes in comes out, bounded by age and size, and can be forgotten."""

from __future__ import annotations

import sqlite3
import string
from contextlib import closing

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import MonitorError
from monitor.model.case import Joined
from monitor.model.outcome import Attempt
from monitor.model.request_log import EvaluatorDecision, RequestRecord, RequestStep
from monitor.storage.request_log import store
from monitor.storage.request_log.store import Minute, RequestLogReader, StepCount, pack, unpack
from tests.support.results import request_record

TEXT = st.text(string.printable + "äß語\ud800", max_size=12)
NUMBER = st.floats(0, 1e9)
ATTEMPTS = st.builds(Attempt, NUMBER, TEXT, TEXT)
DECISIONS = st.builds(
    EvaluatorDecision,
    evaluator=TEXT,
    missing=TEXT,
    probability=st.none() | st.floats(0, 1),
    target=st.none() | st.floats(0, 1),
    thinned=st.booleans(),
    room=st.floats(0, 1),
    chosen=st.booleans(),
    outcome=TEXT,
    waited=st.none() | NUMBER,
    tries=st.lists(ATTEMPTS, max_size=3).map(tuple),
)
TRAILS = st.builds(
    RequestRecord,
    request_id=TEXT,
    app=TEXT,
    source=TEXT,
    received_at=NUMBER,
    closed_at=NUMBER,
    ended_at=NUMBER,
    outcome=TEXT,
    detail=TEXT,
    joined=st.lists(st.builds(Joined, TEXT, TEXT, TEXT, TEXT), max_size=3).map(tuple),
    decisions=st.lists(DECISIONS, max_size=3).map(tuple),
)


def step(name: str = "evaluated", *, app: str = "shop", evaluator: str = "", at: int = 0) -> Minute:
    return Minute(at, RequestStep(app, "" if evaluator else "otlp_http", evaluator, name))


def write(path, records=(), sums=None, **pruning) -> bool:
    with closing(store.create(path)) as db:
        store.insert(db, records, sums or {})
        return store.prune(db, **{"before": 0, "sums_before": 0, "at_most": 10**9, **pruning})


@given(TRAILS)
def test_a_trail_comes_out_of_its_bytes_as_it_went_in(one):
    assert unpack(pack(one)) == one


def test_a_trail_of_a_later_version_is_read_without_what_is_new_in_it():
    told = orjson.loads(pack(request_record(1, decisions=(EvaluatorDecision(evaluator="x"),))))
    told["more"] = 1
    told["decisions"][0]["more"] = 1
    assert unpack(orjson.dumps(told)) == request_record(1, decisions=(EvaluatorDecision(evaluator="x"),))


def test_an_ordinary_trail_takes_less_than_a_kilobyte():
    joined = tuple(Joined(f"step {number}", f"{number:016x}", "retrieval", "openinference") for number in range(3))
    decisions = tuple(
        EvaluatorDecision(
            evaluator=name, probability=1.0, target=1.0, chosen=True, outcome="score", scope="live", seconds=0.01
        )
        for name in ("overlap_groundedness", "response_length")
    )
    assert len(pack(request_record(1, 1.7e9, joined=joined, decisions=decisions, traffic="production"))) < 1000


def test_the_trails_of_one_request_come_oldest_first(tmp_path):
    path = tmp_path / "request_log.db"
    write(path, [request_record(1, 20.0), request_record(2, 15.0), request_record(1, 10.0)])
    assert [one.ended_at for one in RequestLogReader(path).of(f"{1:032x}")] == [10.0, 20.0]
    assert RequestLogReader(path).of("nobody") == []
    assert RequestLogReader(path).oldest() == 10.0


def test_sums_of_the_same_minute_add_up_over_restarts_and_are_read_from_the_minute_on(tmp_path):
    path = tmp_path / "request_log.db"
    write(path, sums={step(at=60): StepCount(2, 0.5, 61.0), step(at=0): StepCount(1, 0.0, 1.0)})
    write(path, sums={step(at=60): StepCount(3, 0.25, 90.0), step(at=60, app="other"): StepCount(1, 0.0, 70.0)})
    (found,) = RequestLogReader(path).sums(75.0, 100.0, "shop")
    assert (found.number, found.expected, found.last) == (5, 0.75, 90.0)
    assert sum(one.number for one in RequestLogReader(path).sums(0.0, 100.0)) == 7
    assert RequestLogReader(path).sums(0.0, 59.0)[0].number == 1
    assert RequestLogReader(path).span() == (0.0, 90.0)


def test_what_is_too_old_is_deleted_and_sums_stay_longer(tmp_path):
    path = tmp_path / "request_log.db"
    write(path, [request_record(1, 10.0), request_record(2, 1000.0)], {step(at=0): StepCount(1, 0, 10.0)}, before=500.0)
    assert RequestLogReader(path).of(f"{1:032x}") == []
    assert len(RequestLogReader(path).of(f"{2:032x}")) == 1
    assert RequestLogReader(path).span() is not None
    write(path, before=500.0, sums_before=500.0)
    assert RequestLogReader(path).span() is None


def test_of_too_much_the_oldest_go_first(tmp_path):
    path = tmp_path / "request_log.db"
    write(path, [request_record(number, float(number), detail="x" * 1000) for number in range(2000)])
    assert write(path, at_most=100_000)
    assert RequestLogReader(path).oldest() == 500.0
    while write(path, at_most=100_000):
        pass
    assert RequestLogReader(path).of(f"{1999:032x}") or RequestLogReader(path).oldest() is None


def test_where_the_sums_alone_are_too_much_the_oldest_of_them_go(tmp_path):
    path = tmp_path / "request_log.db"
    sums = {step(f"step {number}", at=60 * number): StepCount(1, 0, 60.0 * number) for number in range(5000)}
    write(path, sums=sums, at_most=1)
    assert RequestLogReader(path).span()[0] > 0


def test_a_file_that_is_not_there_or_no_database_is_told_as_such(tmp_path):
    with pytest.raises(MonitorError, match="cannot be read"):
        RequestLogReader(tmp_path / "request_log.db").of("x")
    (tmp_path / "request_log.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(MonitorError, match="cannot be read"):
        RequestLogReader(tmp_path / "request_log.db").span()


def test_a_row_that_cannot_be_read_hides_no_other(tmp_path):
    path = tmp_path / "request_log.db"
    write(path, [request_record(1)])
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO requests VALUES (?, 5.0, ?)", (f"{1:032x}", b'{"evaluators": []}'))
        db.commit()
    assert len(RequestLogReader(path).of(f"{1:032x}")) == 1
