"""Labels and draws at the edges of their limits and times, and beside damaged rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData
from monitor.model.label import LATEST, Label, LabelDraw, LabelVerdict, ReviewDraw
from monitor.privacy import erasure
from monitor.storage import labels
from monitor.storage.labels import LabelReader, LabelStore, erase, requests_of
from monitor.storage.sqlite import SetAside
from tests.support.labels import label


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.db"


@pytest.fixture
def store(path: Path) -> LabelStore:
    return LabelStore(path, ManualClock())


def drawn(number: int = 0, **fields: object) -> ReviewDraw:
    one = label(number)
    defaults = {name: getattr(one, name) for name in ("result_id", "request_id", "app", "evaluator", "version")}
    chance = {"draw": LabelDraw.UNIFORM, "probability": 0.5, "at": 1000.0 + number}
    return ReviewDraw(**{**defaults, **chance, **fields})


AT_THE_EDGE = [
    {"comment": "x" * 4000},
    {"comment": f" {'x' * 4000}\n"},
    {"level": "x" * 512},
    {"level": None},
    {"level": ""},
    {"reviewer": "x" * 512},
    {"app": "", "user": ""},
    {"at": 0.0},
    {"at": LATEST - 1.0},
    {"probability": 1.0},
    {"probability": 1e-9},
    {"weight": 1e-9},
    {"score": 0.0},
    {"score": None},
    {"score": -1.0},
    {"answered_at": 0.0},
]
BEYOND = [
    ({"comment": "x" * 4001}, r"the comment has 4,001 characters, the limit is 4,000"),
    ({"level": "x" * 513}, r"level has 513 characters, the limit is 512"),
    ({"reviewer": "x" * 513}, r"reviewer has 513 characters, the limit is 512"),
    ({"at": LATEST}, "between 1970 and the year 9999"),
    ({"at": -0.5}, "between 1970 and the year 9999"),
    ({"at": float("inf")}, "finite"),
    ({"answered_at": float("nan")}, "finite"),
    ({"weight": float("inf")}, "finite"),
    ({"score": float("-inf")}, "finite"),
    ({"weight": -1.0}, "weight must be above 0, not -1"),
    ({"probability": 0.0}, "probability must be above 0 and up to 1, not 0"),
    ({"probability": 1.001}, "probability must be above 0 and up to 1"),
    *[({name: ""}, f"{name} is empty") for name in ("result_id", "request_id", "evaluator", "version", "reviewer")],
    *[({name: "x" * 513}, f"{name} has 513") for name in ("result_id", "request_id", "app", "evaluator", "version")],
    ({"user": "x" * 513}, "user has 513"),
]


@pytest.mark.parametrize("fields", AT_THE_EDGE, ids=" ".join)
def test_a_label_at_the_edge_of_what_can_be_is_kept(store: LabelStore, fields: dict[str, object]) -> None:
    assert store.put(label(**fields))
    (kept,) = store.find()
    for name, value in fields.items():
        assert getattr(kept, name) == (value.strip() if name == "comment" else value)


@pytest.mark.parametrize(("fields", "words"), BEYOND)
def test_a_label_beyond_it_is_refused_with_its_limit(store: LabelStore, fields: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        store.put(replace(label(), **fields))
    assert store.find() == []


@pytest.mark.parametrize("draw", list(LabelDraw))
def test_a_label_has_a_probability_just_where_its_result_was_drawn_at_random(
    store: LabelStore, draw: LabelDraw
) -> None:
    measures = draw in (LabelDraw.UNIFORM, LabelDraw.STRATIFIED)
    assert store.put(label(draw=draw, probability=0.5 if measures else None))
    with pytest.raises(InvalidData, match=f"draw is {draw}"):
        store.put(label(draw=draw, probability=None if measures else 0.5))


def test_the_last_label_that_has_room_is_taken(store: LabelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MOST", 3)
    for number in range(3):
        assert store.put(label(number))
    with pytest.raises(InvalidData, match="the limit is 3 labels and 1 GiB"):
        store.put(label(3))
    assert len(store.find()) == 3


def test_a_file_that_has_just_its_size_takes_no_more(store: LabelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(label(1))
    sizes = []
    used = labels.used_bytes
    monkeypatch.setattr(labels, "used_bytes", lambda db: sizes.append(used(db)) or sizes[-1])
    store.put(label(2))
    monkeypatch.setattr(labels, "MOST_BYTES", sizes[-1] + 1)
    assert store.put(label(3))
    monkeypatch.setattr(labels, "MOST_BYTES", sizes[-1])
    with pytest.raises(InvalidData, match="no room"):
        store.put(label(4))


def test_changes_are_kept_by_reviewer_and_result(store: LabelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "CHANGES_AT_MOST", 2)
    for at in range(5):
        store.put(label(1, at=float(at)))
    for number, reviewer in ((1, "ben"), (2, "ana")):
        for at in range(3):
            store.put(label(number, reviewer=reviewer, at=float(at)))
    kept = [(one.reviewer, one.at) for one in store.changes_of(label(1).result_id)]
    assert sorted(kept) == [("ana", 2.0), ("ana", 3.0), ("ben", 0.0), ("ben", 1.0)]
    assert [one.at for one in store.changes_of(label(2).result_id)] == [0.0, 1.0]


def test_a_time_begins_with_its_first_second_and_a_limit_takes_the_newest(store: LabelStore) -> None:
    for number in (3, 1, 2):
        store.put(label(number))
    assert [one.at for one in store.find()] == [1001.0, 1002.0, 1003.0]
    assert [one.at for one in store.find(since=1002.0)] == [1002.0, 1003.0]
    assert [one.at for one in store.find(since=1002.5)] == [1003.0]
    assert [one.at for one in store.find(limit=1)] == [1003.0]
    assert store.find(limit=0) == []
    assert [one.at for one in store.find(app="shop", evaluator="groundedness", limit=2)] == [1002.0, 1003.0]


def test_labels_of_one_second_come_as_they_were_given(store: LabelStore) -> None:
    for number in (2, 1, 3):
        store.put(label(number, at=5.0))
    assert [one.request_id for one in store.find()] == ["request-2", "request-1", "request-3"]
    assert [one.request_id for one in store.find(limit=2)] == ["request-1", "request-3"]


def test_all_results_of_a_request_have_their_labels(store: LabelStore) -> None:
    store.put(label(1))
    store.put(label(2, request_id="request-1"))
    store.put(label(3))
    assert [one.result_id for one in store.of_request("request-1")] == [label(1).result_id, label(2).result_id]


def test_counts_tell_apart_apps_evaluators_and_versions(store: LabelStore) -> None:
    every = [label(1), label(2, app="docs"), label(3, evaluator="relevance"), label(4, version="2"), label(5)]
    for one in every:
        store.put(one)
    counted = {one[:3]: one.labels for one in store.counts()}
    assert counted == {
        ("shop", "groundedness", "1"): 2,
        ("docs", "groundedness", "1"): 1,
        ("shop", "relevance", "1"): 1,
        ("shop", "groundedness", "2"): 1,
    }


def test_a_damaged_count_hides_no_other(store: LabelStore) -> None:
    store.put(label(1))
    store.put(label(2, draw=LabelDraw.PICKED))
    with store._own.transaction() as db:
        db.execute("UPDATE labels SET draw = 'somehow' WHERE request_id = 'request-1'")
    assert [one.draw for one in store.counts()] == [LabelDraw.PICKED]


@pytest.mark.parametrize("change", ["weight = 'x'", "score = 'x'", "probability = 'x'", "app = x'00'", "draw = ''"])
def test_a_damaged_label_hides_no_other(store: LabelStore, change: str) -> None:
    store.put(label(1, score=1.0))
    store.put(label(2, score=1.0))
    with store._own.transaction() as db:
        db.execute(f"UPDATE labels SET {change} WHERE request_id = 'request-1'")
    assert [one.request_id for one in store.find()] == ["request-2"]


def test_a_label_is_kept_in_the_new_file_where_the_old_one_was_set_aside(
    store: LabelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, tried = store._put, []

    def damaged_at_first(one: Label) -> bool:
        tried.append(one)
        if len(tried) == 1:
            raise SetAside("it was damaged")
        return write(one)

    monkeypatch.setattr(store, "_put", damaged_at_first)
    assert store.put(label())
    assert (len(tried), store.find()) == (2, [label()])


def test_whether_there_is_a_file_is_known_without_making_one(path: Path, store: LabelStore) -> None:
    assert not LabelReader(path).exists()
    assert (LabelReader(path).draws("shop", "groundedness", "1"), LabelReader(path).draw_of("x")) == ([], None)
    assert not path.exists()
    store.put(label())
    assert LabelReader(path).exists()


def test_a_file_without_tables_has_no_labels_yet(path: Path) -> None:
    path.touch()
    reader = LabelReader(path)
    assert (reader.find(), reader.counts(), reader.draws("a", "b", "c")) == ([], [], [])
    assert erase(path, {"request-1"}, dry_run=False) == {}
    assert requests_of(path, {"p"}, "u") == set()


# -- draws


def test_draws_come_oldest_first_of_one_app_evaluator_and_version(store: LabelStore, path: Path) -> None:
    every = [drawn(3), drawn(1), drawn(2, app="docs"), drawn(4, evaluator="other"), drawn(5, version="2")]
    for one in every:
        assert store.keep_draw(one)
    assert LabelReader(path).draws("shop", "groundedness", "1") == [drawn(1), drawn(3)]
    assert store.draws("docs", "groundedness", "1") == [drawn(2, app="docs")]
    assert store.draw_of(drawn(5).result_id) == drawn(5, version="2")
    assert store.draw_of("none") is None


def test_a_result_is_drawn_once(store: LabelStore) -> None:
    assert store.keep_draw(drawn(probability=0.5))
    assert not store.keep_draw(drawn(probability=0.9))
    assert store.draw_of(drawn().result_id) == drawn(probability=0.5)


def test_a_label_that_is_there_measures_once_its_result_is_drawn(store: LabelStore) -> None:
    store.put(label(1, draw=LabelDraw.PICKED))
    store.put(label(2, draw=LabelDraw.PICKED))
    store.keep_draw(drawn(1, draw=LabelDraw.STRATIFIED, probability=0.25))
    first, second = store.find()
    assert (first.draw, first.probability) == (LabelDraw.STRATIFIED, 0.25)
    assert (second.draw, second.probability) == (LabelDraw.PICKED, None)


def test_draws_from_just_then_stay_and_their_labels_in_any_case(store: LabelStore) -> None:
    store.put(label(1))
    for number in (1, 2):
        store.keep_draw(drawn(number))
    store.drop_draws(1002.0)
    assert store.draws("shop", "groundedness", "1") == [drawn(2)]
    assert len(store.find()) == 1


def test_a_damaged_draw_hides_no_other(store: LabelStore) -> None:
    store.keep_draw(drawn(1))
    store.keep_draw(drawn(2))
    with store._own.transaction() as db:
        db.execute("UPDATE draws SET draw = 'somehow' WHERE request_id = 'request-1'")
    assert store.draws("shop", "groundedness", "1") == [drawn(2)]


def test_a_request_that_is_to_be_forgotten_is_not_drawn(store: LabelStore, path: Path) -> None:
    erasure.add(path.parent, [erasure.Mark(5000.0, trace="request-1")], since=0.0)
    assert not store.keep_draw(drawn(1))
    assert store.keep_draw(drawn(2))
    assert store.draw_of(drawn(1).result_id) is None


def test_a_request_is_erased_with_its_draws(store: LabelStore, path: Path) -> None:
    store.keep_draw(drawn(1, user="p1"))
    store.keep_draw(drawn(2, user="p2"))
    assert requests_of(path, {"p1"}, "u") == {"request-1"}
    assert erase(path, {"request-1"}, dry_run=False) == {"draws": 1}
    assert store.draws("shop", "groundedness", "1") == [drawn(2, user="p2")]


# -- retention


def test_comments_from_just_then_stay(store: LabelStore) -> None:
    store.put(label(1, comment="old", at=10.0))
    store.put(label(2, comment="at the time", at=20.0))
    store.blank_comments(20.0)
    assert [one.comment for one in store.find()] == ["", "at the time"]


def test_a_label_is_deleted_alone(store: LabelStore) -> None:
    store.put(label(1))
    store.put(label(1, reviewer="ben"))
    store.put(label(2, verdict=LabelVerdict.DEFECT))
    assert store.delete(label(1).result_id, "ana")
    assert [(one.request_id, one.reviewer) for one in store.find()] == [("request-1", "ben"), ("request-2", "ana")]
