"""The feed of results: what a sink gets next, and what a number without a result means."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import MonitorError
from monitor.storage.history import erasing
from monitor.storage.history.feed import Feed, Standing
from tests.support.histories import BEGAN, change, keep
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_a_sink_gets_what_comes_after_it_began_to_follow(path: Path) -> None:
    keep(path, judged(1))
    feed = Feed(path)
    assert feed.begin(["a", "b"]) == ["a", "b"]
    assert feed.begin(["a", "c"]) == ["c"]
    assert set(feed.standings()) == {"a", "c"}
    keep(path, judged(2), judged(3))
    window = feed.read("a", at_most=9, at_most_bytes=10**6)
    assert (window.position, window.until, window.end) == (1, 3, 3)
    assert [(one.number, one.result and one.result.id) for one in window.entries] == [
        (2, judged(2).id),
        (3, judged(3).id),
    ]
    assert feed.standings()["a"] == Standing(1, 3, BEGAN + 2)
    feed.advance("a", 3)
    assert feed.standings()["a"] == Standing(3, 3, None)
    assert feed.read("a", at_most=9, at_most_bytes=10**6).entries == []


def test_a_window_ends_with_its_number_of_results_or_bytes(path: Path) -> None:
    keep(path)
    feed = Feed(path)
    feed.begin(["a"])
    keep(path, *[judged(number) for number in range(5)])
    with closing(sqlite3.connect(path)) as db:
        sizes = [size for (size,) in db.execute("SELECT length(body) FROM results ORDER BY rowid")]

    def until(at_most: int, at_most_bytes: int) -> tuple[int, int]:
        window = feed.read("a", at_most=at_most, at_most_bytes=at_most_bytes)
        return len(window.entries), window.until

    assert until(2, 10**6) == (2, 2)
    assert until(9, sum(sizes[:3])) == (3, 3)
    assert until(9, sum(sizes[:3]) + 1) == (4, 4)
    assert until(9, 1) == (1, 1)
    assert until(9, 10**6) == (5, 5)


def test_a_number_without_a_result_says_why(path: Path) -> None:
    keep(path)
    Feed(path).begin(["a"])
    keep(path, *[judged(number) for number in (1, 2, 3, 4)])
    change(
        path,
        f"DELETE FROM results WHERE id = '{judged(1).id}'",
        f"UPDATE results SET body = '{{}}' WHERE id = '{judged(2).id}'",
    )
    erasing.erase(path, [f"{3:032x}"], dry_run=False)
    window = Feed(path).read("a", at_most=9, at_most_bytes=10**6)
    assert [one.lost for one in window.entries] == ["expired", "unreadable", "forgotten", None]
    assert [one.result is None for one in window.entries] == [True, True, True, False]


def test_after_a_new_beginning_of_the_file_all_that_it_holds_is_new(path: Path) -> None:
    keep(path, judged(1), judged(2))
    feed = Feed(path)
    assert feed.read("unknown", at_most=9, at_most_bytes=10**6).position == 0
    feed.advance("a", 7)
    assert feed.standings()["a"].position == 2
    assert len(feed.read("a", at_most=9, at_most_bytes=10**6).entries) == 2
    change(path, "DELETE FROM feed")
    feed.advance("a", 7)
    assert feed.read("a", at_most=9, at_most_bytes=10**6).position == 2


def test_a_feed_without_a_history_makes_none(path: Path) -> None:
    with pytest.raises(MonitorError, match=r"history\.db does not exist"):
        Feed(path).standings()
    assert not path.exists()
    path.write_bytes(b"no database" * 100)
    with pytest.raises(MonitorError, match=r"history\.db cannot be followed"):
        Feed(path).standings()
