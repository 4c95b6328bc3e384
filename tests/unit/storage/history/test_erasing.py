"""Texts that leave before their results, and requests that are erased."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor.model.outcome import RateScope
from monitor.storage.history import erasing
from monitor.storage.history.reader import HistoryReader
from monitor.storage.history.tables import create, insert
from tests.support.histories import BEGAN, CHOSEN, KEY, asked, keep, numbers
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_texts_leave_up_to_their_second_in_some_hundred_at_once(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(erasing, "_AT_ONCE", 2)
    keep(path, *[judged(number) for number in (1, 2, 3, 4)])

    def with_texts() -> list[int]:
        return sorted(numbers([row for row in HistoryReader(path).results() if "response" in row]))

    with closing(create(path)) as db:
        assert erasing.blank(db, BEGAN + 4)
        assert with_texts() == [3, 4]
        assert erasing.blank(db, BEGAN + 4)
        assert not erasing.blank(db, BEGAN + 4)
        assert with_texts() == [4]
        assert db.execute("SELECT until FROM blanked").fetchall() == [(BEGAN + 4,)]


def test_results_of_one_moment_lose_their_texts_together_and_time_goes_on(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(erasing, "_AT_ONCE", 2)
    keep(path, *[judged(number, evaluated_at=BEGAN) for number in range(5)], judged(9))
    with closing(create(path)) as db:
        calls = 0
        while erasing.blank(db, BEGAN + 100):
            calls += 1
            assert calls < 9
    assert not any("response" in row for row in HistoryReader(path).results())


def test_a_clock_that_was_set_back_begins_again(path: Path) -> None:
    keep(path, judged(5))
    with closing(create(path)) as db:
        assert not erasing.blank(db, BEGAN + 100)
        insert(db, [judged(1), judged(50)], texts=True)
        erasing.blank(db, BEGAN + 10)
    assert [("response" in row) for row in HistoryReader(path).results()] == [True, False, False]


def test_a_blanked_row_keeps_numbers_and_names_and_no_text() -> None:
    row = {"score": 1.0, "explanation": "said", "detail": None, "response": "x", "user_id": "u", "used": "1"}
    found = erasing.blanked({**row, "evidence": [{"claim": "c", "verdict": "v", "start": 1, "end": 2, "note": "n"}]})
    assert found == {
        "score": 1.0,
        "explanation": "",
        "detail": None,
        "evidence": [{"claim": "", "verdict": "v", "start": 1, "end": 2, "note": ""}],
    }
    assert erasing.blanked({"detail": "after 60 s"}) == {"detail": "", "evidence": []}


def test_the_requests_of_a_user_are_found_by_pseudonym_and_by_the_id_in_texts(path: Path) -> None:
    keep(path, judged(1), asked(judged(2), user_id="u-2"))
    assert erasing.traces_of(path, {KEY.of("u-1")}, "nobody") == {f"{1:032x}"}
    assert erasing.traces_of(path, set(), "u-2") == {f"{2:032x}"}
    assert erasing.traces_of(path, set(), "nobody") == set()


def test_a_request_is_erased_from_every_table_that_names_it(path: Path) -> None:
    scoped = {"selection": CHOSEN, "scope": RateScope.LIVE}
    keep(path, judged(1, **scoped), judged(2, **scoped), asked(judged(3, **scoped), request_id=f"{1:032x}/span"))
    expected = {"results": 2, "people": 2, "features": 2, "past_results": 2}
    assert erasing.erase(path, [f"{1:032x}"], dry_run=True) == expected
    assert len(HistoryReader(path).results()) == 3
    assert erasing.erase(path, [f"{1:032x}"], dry_run=False) == expected
    assert numbers(HistoryReader(path).results()) == [2]
    assert [one.judged for one in HistoryReader(path).sums_since(0.0)] == [3]
    path.with_name("empty.db").touch()
    assert erasing.erase(path.with_name("empty.db"), ["x"], dry_run=False) == {}
    assert erasing.traces_of(path.with_name("empty.db"), {"x"}, "x") == set()
