"""Writing the history: what a result adds to sums, uses, versions and the feed, and what leaves at which second."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.model.case import Request
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    Cost,
    EvaluationResult,
    RateScope,
    Score,
    SessionProducts,
    Skipped,
    SkippedReason,
)
from monitor.model.service_version import ServiceVersion
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.storage.history import tables
from monitor.storage.history.features import load_features
from monitor.storage.history.tables import create, insert, prune
from tests.support.histories import BEGAN, CHOSEN, FAILED, HOUR, MINUTE
from tests.support.results import judged


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(create(tmp_path / "history.db")) as made:
        yield made


def rows(db: sqlite3.Connection, sql: str) -> list[tuple[object, ...]]:
    return db.execute(sql).fetchall()


def number(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def answered(one: EvaluationResult, at: float) -> EvaluationResult:
    return replace(one, case=replace(one.case, answered_at=at))


def test_scores_of_a_minute_are_added_up_by_version_and_verdict(db: sqlite3.Connection) -> None:
    insert(db, [judged(1, weight=2.0), judged(2, weight=3.0), judged(3, 1.0, weight=5.0)], texts=False)
    insert(db, [judged(4, weight=1.0), judged(5, version="v2", weight=7.0)], texts=False)
    found = rows(db, "SELECT * FROM session_sums ORDER BY version, defect")
    assert found == [
        (MINUTE, "shop", "groundedness", "v1", 0, 3, 6.0, 14.0, 3.0, 0.0, 14.0, 0.0),
        (MINUTE, "shop", "groundedness", "v1", 1, 1, 5.0, 25.0, 5.0, 25.0, 25.0, 25.0),
        (MINUTE, "shop", "groundedness", "v2", 0, 1, 7.0, 49.0, 7.0, 0.0, 49.0, 0.0),
    ]


def test_products_of_a_session_are_added_as_they_were_counted(db: sqlite3.Connection) -> None:
    products = {"": SessionProducts(1.0, 2.0, 3.0), "strict": SessionProducts(4.0, 5.0, 6.0)}
    one = judged(1, session_products=products, alert_defects={"strict": True, "lenient": False})
    insert(db, [one, replace(judged(2), alert_defects={"strict": True})], texts=False)
    sums = "defect, judged, weight, weight_squares, top, defect_products, every_products, both_products"
    assert rows(db, f"SELECT {sums} FROM session_sums") == [(0, 2, 20.0, 200.0, 10.0, 1.0, 102.0, 3.0)]
    assert rows(db, f"SELECT rule, {sums} FROM rule_sums ORDER BY rule") == [
        ("lenient", 0, 1, 10.0, 100.0, 10.0, 0.0, 100.0, 0.0),
        ("strict", 1, 2, 20.0, 200.0, 10.0, 104.0, 105.0, 106.0),
    ]


@pytest.mark.parametrize(
    ("at", "minute"),
    [
        (0.0, MINUTE),
        (BEGAN - 60.0, MINUTE - 60),
        (BEGAN - 20.5, MINUTE - 60),
        (BEGAN - 20.0, MINUTE),
        (BEGAN + 500.0, MINUTE),
    ],
)
def test_a_score_counts_in_the_minute_of_its_answer_and_never_later_than_it_was_judged(
    db: sqlite3.Connection, at: float, minute: int
) -> None:
    insert(db, [answered(judged(0), at)], texts=False)
    assert rows(db, "SELECT at FROM session_sums") == [(minute,)]


@pytest.mark.parametrize(
    "result",
    [
        judged(1, outcome=FAILED),
        judged(1, outcome=Skipped(SkippedReason.REFUSAL)),
        *[judged(1, scope=scope) for scope in RateScope if scope is not RateScope.LIVE],
    ],
)
def test_only_live_scores_are_in_sums_and_versions(db: sqlite3.Connection, result: EvaluationResult) -> None:
    insert(db, [replace(result, alert_defects={"strict": True})], texts=False)
    assert [number(db, table) for table in ("results", "session_sums", "rule_sums", "generations")] == [1, 0, 0, 0]


def test_a_version_is_seen_from_its_first_answer_to_its_last(db: sqlite3.Connection) -> None:
    new = ServiceVersion(prompt="4")
    insert(db, [judged(5), judged(3), judged(9, service_version=new)], texts=False)
    insert(db, [judged(7), judged(4)], texts=False)
    found = rows(db, "SELECT app, evaluator, began - 1700000000, seen - 1700000000 FROM generations ORDER BY began")
    assert found == [("shop", "groundedness", 3.0, 7.0), ("shop", "groundedness", 9.0, 9.0)]


def test_a_repeat_is_in_nothing_a_second_time(db: sqlite3.Connection) -> None:
    for _ in range(2):
        insert(db, [judged(1, cost=Cost("m", 0.5, attempts=1), selection=CHOSEN)], texts=False)
    tables_of = ("results", "feed", "past_results", "features", "session_sums")
    assert [number(db, table) for table in tables_of] == [1] * 5
    assert rows(db, "SELECT judged FROM session_sums") == [(1,)]
    assert rows(db, "SELECT evaluations FROM judge_use") == [(1,)]


def test_only_a_backfill_takes_the_place_of_what_failed_and_none_of_what_did_not(db: sqlite3.Connection) -> None:
    insert(db, [judged(1, outcome=FAILED), judged(2, 1.0)], texts=False)
    insert(db, [judged(1)], texts=False)
    assert rows(db, "SELECT outcome FROM results ORDER BY trace_id") == [("unscored",), ("score",)]
    insert(db, [judged(1, scope=RateScope.BACKFILL), judged(2, 4.0, scope=RateScope.BACKFILL)], texts=False)
    assert rows(db, "SELECT outcome, score FROM results ORDER BY trace_id") == [("score", 4.0), ("score", 1.0)]


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (
            judged(1, cost=Cost("m", 0.5, seconds=2.0, attempts=3, asked=True)),
            (HOUR, "shop", "groundedness", "score", 1, 1, 3, 0.5, 2.0),
        ),
        (
            judged(1, cost=Cost("m", cached=True, seconds=2.0)),
            (HOUR, "shop", "groundedness", "score", 1, 0, 0, 0.0, 0.0),
        ),
        (
            judged(1, outcome=FAILED, cost=Cost("m", 0.25, seconds=9.0, attempts=1)),
            (HOUR, "shop", "groundedness", "timeout", 1, 0, 1, 0.25, 0.0),
        ),
        (
            judged(1, cost=Cost("m", 0.25, seconds=2.0, asked=True)),
            (HOUR, "shop", "groundedness", "score", 1, 1, 0, 0.25, 2.0),
        ),
        (judged(1, outcome=FAILED), (HOUR, "shop", "groundedness", "timeout", 1, 0, 0, 0.0, 0.0)),
        (
            judged(1, outcome=Skipped(SkippedReason.REFUSAL), cost=Cost("m", attempts=1, seconds=1.0, asked=True)),
            (HOUR, "shop", "groundedness", "skipped", 1, 1, 1, 0.0, 1.0),
        ),
        (judged(1), None),
        (judged(1, cost=Cost("m", attempts=1), score_source=ScoreSource.FEEDBACK), None),
        (judged(1, outcome=FAILED, score_source=ScoreSource.FEEDBACK), None),
    ],
)
def test_what_a_judge_was_asked_counts_by_the_quarter_of_an_hour(
    db: sqlite3.Connection, result: EvaluationResult, kept: tuple[object, ...] | None
) -> None:
    insert(db, [result], texts=False)
    assert rows(db, "SELECT * FROM judge_use") == ([kept] if kept else [])


def test_uses_of_a_quarter_are_added_up_and_the_next_one_begins_with_its_second(db: sqlite3.Connection) -> None:
    cost = Cost("m", 0.5, seconds=2.0, attempts=3, asked=True)
    insert(db, [judged(1, cost=cost), judged(99, cost=cost), judged(100, cost=cost)], texts=False)
    found = rows(db, "SELECT at, evaluations, asked, calls, dollars, seconds FROM judge_use ORDER BY at")
    assert found == [(HOUR, 2, 2, 6, 1.0, 4.0), (HOUR + 900, 1, 1, 3, 0.5, 2.0)]


def test_samplers_learn_only_from_verdicts_on_what_they_sampled(db: sqlite3.Connection) -> None:
    results = [
        judged(1, selection=CHOSEN),
        judged(2),
        judged(3, selection=replace(CHOSEN, inputs=())),
        judged(4, selection=CHOSEN, outcome=FAILED),
        judged(5, selection=replace(CHOSEN, inputs_version=INPUTS_VERSION + 1)),
    ]
    insert(db, results, texts=False)
    assert rows(db, "SELECT at - 1700000000 FROM past_results") == [(1.0,)]


def test_results_are_numbered_as_they_are_written(db: sqlite3.Connection) -> None:
    insert(db, [judged(3), judged(1)], texts=False)
    insert(db, [judged(2)], texts=False)
    assert rows(db, "SELECT n, id FROM feed ORDER BY n") == [(n, judged(i).id) for n, i in ((1, 3), (2, 1), (3, 2))]


def test_a_user_is_kept_by_pseudonym_where_there_is_a_key_and_a_user(db: sqlite3.Connection) -> None:
    key = UserKey(b"k" * 32)
    nobody = replace(judged(2), case=replace(judged(2).case, user_id=""))
    insert(db, [judged(1), nobody], texts=False, users=key)
    assert rows(db, "SELECT user, trace_id, at FROM people") == [(key.of("u-1"), f"{1:032x}", BEGAN + 1)]
    insert(db, [judged(3)], texts=False)
    assert number(db, "people") == 1


def test_features_are_kept_of_scored_texts_once_with_the_sources_that_any_evaluator_found_used(
    db: sqlite3.Connection,
) -> None:
    textless = replace(judged(2), case=replace(judged(2).case, request=Request(""), response=""))
    others = judged(3, score_source=ScoreSource.FEEDBACK)
    told = judged(1, evaluator="told", outcome=Score(4.0, "", used_sources="1"))
    insert(db, [judged(1), told, textless, others, judged(4, outcome=FAILED)], texts=True)
    ((request, at, body),) = rows(db, "SELECT request_id, at, body FROM features")
    assert (request, at, load_features(body).used) == (f"{1:032x}", BEGAN + 1, "1")
    only_answer = replace(judged(5), case=replace(judged(5).case, request=Request("")))
    insert(db, [only_answer], texts=True)
    assert number(db, "features") == 2


# -- what leaves


def full(db: sqlite3.Connection, *numbers: int, **fields: object) -> None:
    cost = Cost("m", attempts=1)
    results = [judged(one, cost=cost, selection=CHOSEN, alert_defects={"strict": True}, **fields) for one in numbers]
    insert(db, results, texts=True, users=UserKey(b"k" * 32))


def pruned(db: sqlite3.Connection, *, before: float = 0.0, sums_before: float = 0.0, at_most: int = 10**9) -> bool:
    return prune(db, before=before, sums_before=sums_before, at_most=at_most)


def test_what_is_just_as_old_as_it_may_be_stays(db: sqlite3.Connection) -> None:
    full(db, 1, 2)
    assert not pruned(db, before=BEGAN + 2)
    of_results = ("results", "past_results", "people", "features")
    assert [number(db, table) for table in of_results] == [1] * 4
    assert [number(db, table) for table in ("session_sums", "rule_sums", "judge_use", "generations")] == [1] * 4


def test_sums_leave_by_a_retention_of_their_own(db: sqlite3.Connection) -> None:
    full(db, 0)
    names = ("session_sums", "rule_sums", "judge_use", "generations")
    for before, left in ((HOUR, [1] * 4), (HOUR + 1, [1, 1, 0, 1]), (MINUTE, [1, 1, 0, 1])):
        pruned(db, sums_before=before)
        assert [number(db, table) for table in names] == left
    pruned(db, sums_before=MINUTE + 1)
    assert [number(db, table) for table in names] == [0, 0, 0, 1]
    pruned(db, sums_before=BEGAN)
    assert number(db, "generations") == 1
    pruned(db, sums_before=BEGAN + 1)
    assert (number(db, "generations"), number(db, "results")) == (0, 1)


def test_some_leave_at_once_the_oldest_and_it_says_whether_there_may_be_more(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PRUNE_AT_ONCE", 2)
    full(db, 5, 1, 4, 2, 3)
    assert pruned(db, before=BEGAN + 4)
    assert rows(db, "SELECT at - 1700000000 FROM results ORDER BY at") == [(3.0,), (4.0,), (5.0,)]
    assert not pruned(db, before=BEGAN + 4)
    assert number(db, "results") == 2


def test_of_too_large_a_file_the_oldest_leave_with_their_features(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PRUNE_AT_ONCE", 2)
    full(db, 3, 1, 2)
    monkeypatch.setattr(tables, "used_bytes", lambda _: 1000)
    assert not pruned(db, at_most=1000)
    assert number(db, "results") == 3
    assert pruned(db, at_most=999)
    assert rows(db, "SELECT at - 1700000000 FROM results") == [(3.0,)]
    pruned(db, at_most=1000)
    assert rows(db, "SELECT at - 1700000000 FROM features") == [(3.0,)]


def test_of_past_results_only_the_newest_stay(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAST_RESULTS_AT_MOST", 2)
    full(db, 1, 2, 3)
    pruned(db)
    assert rows(db, "SELECT at - 1700000000 FROM past_results ORDER BY n") == [(2.0,), (3.0,)]


def test_the_feed_keeps_what_a_sink_lacks_and_a_little_while_nothing_follows(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_WITHOUT_FOLLOWERS", 4)
    full(db, *range(1, 7))
    pruned(db)
    assert rows(db, "SELECT n FROM feed ORDER BY n") == [(3,), (4,), (5,), (6,)]
    db.execute("INSERT INTO followers VALUES ('fast', 6), ('slow', 4)")
    pruned(db)
    assert rows(db, "SELECT n FROM feed ORDER BY n") == [(5,), (6,)]
    db.execute("UPDATE followers SET position = 99 WHERE name = 'fast'")  # of a file that was begun again
    pruned(db)
    assert number(db, "feed") == 2


def test_what_no_sink_took_in_time_leaves_the_feed_too(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PRUNE_AT_ONCE", 3)
    full(db, *range(1, 6))
    db.execute("INSERT INTO followers VALUES ('slow', 0)")
    db.execute("DELETE FROM results")
    assert pruned(db, before=BEGAN + 5)
    assert rows(db, "SELECT n FROM feed ORDER BY n") == [(4,), (5,)]
    assert not pruned(db, before=BEGAN + 5)
    assert rows(db, "SELECT n FROM feed ORDER BY n") == [(5,)]
