"""The file of labels: what is read is what was written, within its bounds, and what is to be forgotten is gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData
from monitor.model.label import LabelDraw, LabelVerdict
from monitor.privacy import erasure
from monitor.storage import labels
from monitor.storage.damage import Repaired
from monitor.storage.labels import LabelReader, LabelStore, erase, requests_of
from tests.support.labels import label

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\ud800 ```"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.db"


@pytest.fixture
def store(path: Path) -> LabelStore:
    return LabelStore(path, ManualClock())


def test_what_is_read_is_what_was_written(store: LabelStore, path: Path):
    whole = label(
        1,
        verdict=LabelVerdict.DEFECT,
        judged_defect=True,
        level="poor",
        comment="The price is not in the sources.",
        score=2.0,
        weight=4.0,
        user="u1",
        answered_at=900.0,
    )
    assert store.put(whole)
    assert store.put(label(2, draw=LabelDraw.PICKED))
    assert LabelReader(path).of_result(whole.result_id) == [whole]
    assert store.of_request("request-2") == [label(2, draw=LabelDraw.PICKED)]
    assert store.of_result("none") == []


def test_without_a_file_there_are_no_labels(path: Path):
    reader = LabelReader(path)
    assert (reader.find(), reader.counts(), reader.of_result("1")) == ([], [], [])
    assert not path.exists()


def test_a_later_label_of_a_reviewer_takes_the_place_of_the_first_which_is_kept(store: LabelStore):
    first, second = label(verdict=LabelVerdict.DEFECT), label(at=2000.0)
    store.put(first)
    store.put(second)
    assert store.of_result(first.result_id) == [second]
    assert store.changes_of(first.result_id) == [first]


def test_two_reviewers_each_have_a_label(store: LabelStore):
    store.put(label())
    store.put(label(reviewer="ben", verdict=LabelVerdict.DEFECT, at=2000.0))
    assert [one.reviewer for one in store.of_result(label().result_id)] == ["ana", "ben"]
    assert store.changes_of(label().result_id) == []


def test_of_many_changes_the_newest_are_kept(store: LabelStore):
    for at in range(30):
        store.put(label(at=float(at)))
    kept = store.changes_of(label().result_id)
    assert [one.at for one in kept] == [float(at) for at in range(9, 29)]


def test_labels_are_found_by_app_evaluator_version_reviewer_and_time(store: LabelStore):
    every = [
        label(1),
        label(2, app="docs"),
        label(3, evaluator="relevance"),
        label(4, version="2"),
        label(5, reviewer="ben"),
    ]
    for one in every:
        store.put(one)
    assert store.find() == every
    assert store.find(app="docs") == [every[1]]
    assert store.find(evaluator="relevance") == [every[2]]
    assert store.find(evaluator="groundedness", version="2") == [every[3]]
    assert store.find(reviewer="ben") == [every[4]]
    assert store.find(since=1004.0) == every[3:]
    assert store.find(limit=2) == every[3:]


def test_labels_are_counted_by_what_they_are_about_and_what_they_say(store: LabelStore):
    store.put(label(1))
    store.put(label(2))
    store.put(label(3, verdict=LabelVerdict.CANNOT_TELL))
    counted = {(one.draw, one.verdict): one.labels for one in store.counts()}
    drawn = LabelDraw.STRATIFIED
    assert counted == {(drawn, LabelVerdict.GOOD): 2, (drawn, LabelVerdict.CANNOT_TELL): 1}


def test_hostile_text_is_kept_as_it_is(store: LabelStore):
    one = label(comment=HOSTILE, level=HOSTILE, reviewer=HOSTILE)
    assert store.put(one)
    (kept,) = store.of_result(one.result_id)
    assert kept.comment == kept.level == kept.reviewer == HOSTILE.replace("\ud800", "?")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"comment": "x" * 4001}, "the limit is 4,000"),
        ({"reviewer": ""}, "reviewer is empty"),
        ({"request_id": "x" * 513}, "the limit is 512"),
        ({"level": "x" * 513}, "the limit is 512"),
        ({"score": float("nan")}, "finite"),
        ({"at": -1.0}, "between 1970 and the year 9999"),
        ({"at": 1e12}, "between 1970 and the year 9999"),
        ({"weight": 0.0}, "above 0"),
        ({"probability": None}, "belongs to results drawn at random"),
        ({"probability": 1.5}, "up to 1"),
        ({"draw": LabelDraw.PICKED, "probability": 0.5}, "belongs to results drawn at random"),
    ],
)
def test_a_label_that_cannot_be_is_refused(store: LabelStore, fields: dict[str, object], words: str):
    with pytest.raises(InvalidData, match=words):
        store.put(replace(label(), **fields))
    assert store.find() == []


def test_a_full_file_takes_changes_but_no_further_label(store: LabelStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(labels, "MOST", 2)
    store.put(label(1))
    store.put(label(2))
    with pytest.raises(InvalidData, match="no room"):
        store.put(label(3))
    assert store.put(label(2, verdict=LabelVerdict.DEFECT))
    assert len(store.find()) == 2


def test_a_refused_change_leaves_the_label(store: LabelStore, monkeypatch: pytest.MonkeyPatch):
    store.put(label())
    monkeypatch.setattr(labels, "MOST_BYTES", 1)
    with pytest.raises(InvalidData, match="no room"):
        store.put(label(verdict=LabelVerdict.DEFECT))
    assert (store.find(), store.changes_of(label().result_id)) == ([label()], [])


def test_a_label_is_deleted_with_its_changes(store: LabelStore):
    store.put(label())
    store.put(label(at=2000.0))
    assert store.delete(label().result_id, "ana")
    assert not store.delete(label().result_id, "ana")
    assert store.find() == store.changes_of(label().result_id) == []


def test_comments_go_with_the_texts(store: LabelStore):
    store.put(label(1, comment="old"))
    store.put(label(1, comment="newer", at=5000.0))
    store.blank_comments(4000.0)
    assert [one.comment for one in store.changes_of(label(1).result_id)] == [""]
    assert [one.comment for one in store.find()] == ["newer"]


# -- to be forgotten


def test_a_request_is_erased_with_its_labels_and_changes(store: LabelStore, path: Path):
    for number in (1, 2):
        store.put(label(number))
        store.put(label(number, at=2000.0))
    store.put(label(3, request_id="request-1/span"))
    assert erase(path, {"request-1"}, dry_run=True) == {"labels": 2, "changes": 1}
    assert erase(path, {"request-1"}, dry_run=False) == {"labels": 2, "changes": 1}
    assert [one.request_id for one in store.find()] == ["request-2"]
    assert store.changes_of(label(1).result_id) == []


def test_an_erased_comment_is_gone_from_the_disk(store: LabelStore, path: Path):
    store.put(label(1, comment="Zanzibar"))
    store.put(label(1, comment="no"))
    store.close()
    erase(path, {"request-1"}, dry_run=False)
    assert not any(b"Zanzibar" in one.read_bytes() for one in path.parent.iterdir())


def test_the_requests_of_a_user_are_found_when_the_history_is_gone(store: LabelStore, path: Path):
    store.put(label(1, user="p1"))
    store.put(label(2, user="p2"))
    assert requests_of(path, {"p1"}, "u-4711") == {"request-1"}


def test_a_request_forgotten_between_being_shown_and_labelled_is_not_kept(path: Path):
    clock = ManualClock()
    store = LabelStore(path, clock)
    erasure.add(path.parent, [erasure.Mark(clock.now(), trace="request-1")], since=0.0)
    erasure.add(path.parent, [erasure.Mark(2000.0, user="p2")], since=0.0)
    assert not store.put(label(1))
    assert not store.put(label(2, user="p2", answered_at=1999.0))
    assert store.put(label(3, user="p2", answered_at=2001.0))
    assert [one.request_id for one in store.find()] == ["request-3"]


# -- damage


def test_a_damaged_file_is_set_aside_and_the_label_is_kept(path: Path):
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 8192)
    repaired: list[Repaired] = []
    store = LabelStore(path, ManualClock(), repaired.append)
    assert store.put(label())
    assert store.find() == [label()]
    assert len(repaired) == 1
    assert repaired[0].aside.exists()


def test_a_row_of_damaged_bytes_is_left_out(store: LabelStore, path: Path):
    store.put(label(1))
    store.put(label(2))
    store.put(label(3))
    with store._own.transaction() as db:
        db.execute("UPDATE labels SET verdict = 'perhaps' WHERE request_id = 'request-1'")
        db.execute("UPDATE labels SET at = 'soon' WHERE request_id = 'request-2'")
    assert store.find() == [label(3)]
    assert [one.labels for one in store.counts()] == [2]
    assert path.exists()
