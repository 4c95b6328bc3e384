"""The queue on disk: once each, bounded, shared among processes, begun anew where it is damaged."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.run import QueueLock, somebody_works
from monitor.jobs.backfill.store import BackfillGroup, BackfillQueue, EnqueueResult, Missed, missed_items
from monitor.model.case import Case
from monitor.storage.damage import Repaired

NAMES = ("relevance", "groundedness")


def item(
    number: int, evaluator: str = "relevance", *, origin: BackfillOrigin = BackfillOrigin.FILE, text: str = "x"
) -> Item:
    case = Case(request_id=f"r{number}", app="shop", response=text, answered_at=1000.0 + number, user_id=f"u{number}")
    return Item(case=case, evaluator=evaluator, version="1", origin=origin)


def missed(number: int, **more: str) -> Item:
    return item(number, origin=BackfillOrigin.MISSED, **more)


@pytest.fixture
def store(tmp_path: Path) -> BackfillQueue:
    return BackfillQueue(tmp_path / "state" / "backfill.db", at_most=10**6, clock=ManualClock())


def waiting(store: BackfillQueue, limit: int = 10, **more: object) -> list[list[str]]:
    return [[one.id for one in those] for those in store.next(limit, up_to=10**9, among=NAMES, **more)]


def test_the_file_and_what_is_beside_it_are_for_their_owner_only(store: BackfillQueue, tmp_path: Path) -> None:
    store.ask([item(1)], batch="b", now=0)
    for path in (tmp_path / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_what_was_asked_for_waits_once_however_often_it_is_asked_for(store: BackfillQueue) -> None:
    assert store.ask([item(1), item(2), item(1)], batch="a", now=0) == EnqueueResult(new=2, there=1)
    assert store.ask([item(2), item(3)], batch="b", now=0) == EnqueueResult(new=1, there=1)
    assert waiting(store) == [[item(number).id] for number in (1, 2, 3)]


@pytest.mark.parametrize("outcome", ["defect", "passed", "skipped", "known"])
def test_what_came_to_a_verdict_is_not_asked_for_again(store: BackfillQueue, outcome: str) -> None:
    store.ask([item(1)], batch="a", now=0)
    assert store.finish(item(1).id, outcome, 1)
    assert store.ask([item(1)], batch="b", now=2) == EnqueueResult(known=1)
    assert waiting(store) == []


@pytest.mark.parametrize("outcome", ["unscored", "expired"])
def test_what_came_to_none_may_be_asked_for_again(store: BackfillQueue, outcome: str) -> None:
    store.ask([item(1)], batch="a", now=0)
    store.finish(item(1).id, outcome, 1)
    assert store.ask([item(1)], batch="b", now=2) == EnqueueResult(new=1)


def test_an_item_ends_once(store: BackfillQueue) -> None:
    store.ask([item(1)], batch="a", now=0)
    assert store.finish(item(1).id, "passed", 1)
    assert not store.finish(item(1).id, "passed", 1)


def test_a_request_comes_with_all_that_waits_of_it_and_not_while_it_is_under_way(store: BackfillQueue) -> None:
    store.ask([item(1), item(2), item(1, "groundedness")], batch="a", now=0)
    assert waiting(store, 1) == [[item(1).id, item(1, "groundedness").id]]
    assert waiting(store, without=["r1"]) == [[item(2).id]]
    assert [len(one) for one in store.next(5, up_to=10**9, among=["groundedness"])] == [1]


def test_what_is_new_since_the_last_look_is_told_once(store: BackfillQueue) -> None:
    store.ask([item(1), item(2)], batch="a", now=0)
    store.miss([missed(3)], 0)
    seen, new = store.asked_after(0)
    assert new == {BackfillGroup("shop", "relevance", "file"): 2}
    assert store.asked_after(seen) == (seen, {})
    store.ask(store.missed_items(), batch="b", now=1)
    assert store.asked_after(seen)[1] == {BackfillGroup("shop", "relevance", "missed"): 1}


def test_what_was_missed_is_summed_until_somebody_asks_for_it(store: BackfillQueue) -> None:
    store.miss([missed(1), missed(2), missed(2)], 5000)
    assert store.missed() == [Missed("relevance", 2, 1001, 1002)]
    assert store.ask(store.missed_items(["groundedness"]), batch="b", now=1) == EnqueueResult()
    assert store.ask(store.missed_items(["relevance"], "shop"), batch="b", now=1) == EnqueueResult(new=2)
    assert store.missed() == []
    assert store.counts("b") == {"asked": 2}


def test_when_it_is_full_what_was_missed_first_makes_room_and_what_was_asked_for_stays(tmp_path: Path) -> None:
    store = BackfillQueue(tmp_path / "q.db", at_most=3 * 600, clock=ManualClock())
    group = BackfillGroup("shop", "relevance", "missed")
    assert store.ask([item(0)], batch="b", now=0) == EnqueueResult(new=1)
    dropped, displaced = store.miss([missed(number) for number in range(1, 10)], 0)
    assert dropped == []
    assert displaced
    assert set(displaced) == {group}
    assert [one.case.request_id for one in store.missed_items()][-1] == "r9", "the newest are kept"
    assert len(list(store.missed_items())) + len(displaced) == 9
    assert waiting(store) == [[item(0).id]]


def test_when_what_was_asked_for_fills_it_nothing_more_has_room(tmp_path: Path) -> None:
    store = BackfillQueue(tmp_path / "q.db", at_most=2 * 600, clock=ManualClock())
    asked = store.ask([item(number) for number in range(9)], batch="b", now=0)
    assert asked.new >= 1
    assert asked.new + asked.full == 9
    assert store.miss([missed(20)], 0)[0] == [BackfillGroup("shop", "relevance", "missed")]
    store.finish(item(0).id, "passed", 1)
    assert store.ask([item(8)], batch="b", now=0) == EnqueueResult(new=1), "what is done takes no room"


def test_what_waits_for_too_long_is_given_up(store: BackfillQueue) -> None:
    store.ask([item(1), item(2)], batch="a", now=10)
    store.miss([missed(3)], 10)
    store.ask([item(4)], batch="a", now=100)
    asked, gone = store.expire(before=50, now=150, up_to=10**9, spare=["r2"])
    assert asked == {BackfillGroup("shop", "relevance", "file"): 1}
    assert gone == [BackfillGroup("shop", "relevance", "missed")]
    assert waiting(store) == [[item(2).id], [item(4).id]]
    assert store.counts("a") == {"asked": 2, "expired": 1}
    store.expire(before=160, now=200, up_to=0)
    assert store.counts("a") == {"asked": 2}, "and in time forgotten"


def test_what_nobody_has_counted_yet_does_not_expire(store: BackfillQueue) -> None:
    store.ask([item(1)], batch="a", now=10)
    assert store.expire(before=50, now=150, up_to=0) == ({}, [])


def test_two_processes_work_on_one_file(store: BackfillQueue, tmp_path: Path) -> None:
    other = BackfillQueue(tmp_path / "state" / "backfill.db", at_most=10**6, clock=ManualClock())
    store.ask([item(1)], batch="a", now=0)
    assert other.ask([item(1), item(2)], batch="b", now=0) == EnqueueResult(new=1, there=1)
    other.close()
    assert len(waiting(store)) == 2


def test_a_damaged_file_is_put_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    path.write_bytes(b"no database" * 1000)
    repaired: list[Repaired] = []
    store = BackfillQueue(path, at_most=10**6, clock=ManualClock(), repaired=repaired.append)
    assert store.ask([item(1)], batch="a", now=0) == EnqueueResult(new=1)
    assert [one.aside.exists() for one in repaired] == [True]


def test_a_file_that_cannot_be_opened_is_a_fault_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "q.db").mkdir()
    with pytest.raises(MonitorError, match=r"q\.db"):
        BackfillQueue(tmp_path / "q.db", at_most=10**6, clock=ManualClock()).missed()


def test_an_item_that_cannot_be_read_is_handed_out_without_its_case(store: BackfillQueue) -> None:
    store.ask([item(1)], batch="a", now=0)
    with store._file.transaction() as db:
        db.execute("UPDATE items SET body = x'00'")
    assert store.next(1, up_to=10**9, among=NAMES)[0][0].item is None


def test_another_version_of_an_evaluator_is_another_judgement(store: BackfillQueue) -> None:
    assert store.ask([item(1), replace(item(1), version="2")], batch="a", now=0) == EnqueueResult(new=2)


def test_one_process_at_a_time_works_the_queue_off(tmp_path: Path) -> None:
    assert not somebody_works(tmp_path)
    first, second = QueueLock(tmp_path), QueueLock(tmp_path)
    assert first.take()
    assert first.take()
    assert somebody_works(tmp_path)
    assert not second.take()
    first.leave()
    assert second.take()
    second.leave()


def test_what_was_missed_can_be_read_without_a_change_on_the_disk(store: BackfillQueue, tmp_path: Path) -> None:
    path = tmp_path / "state" / "backfill.db"
    assert list(missed_items(path)) == []
    assert not path.parent.exists()
    store.miss([missed(1), missed(2, evaluator="groundedness")], 0)
    assert [one.id for one in missed_items(path)] == [one.id for one in store.missed_items()]
    assert [one.evaluator for one in missed_items(path, ["groundedness"], "shop")] == ["groundedness"]
    store.close()
    content = b"no database" * 1000
    path.write_bytes(content)
    with pytest.raises(MonitorError, match=r"backfill\.db cannot be read"):
        list(missed_items(path))
    assert path.read_bytes() == content
