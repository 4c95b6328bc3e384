"""Queries of the history: which rows they return, in which order, and where their times begin and end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.errors import MonitorError
from monitor.model.service_version import ServiceVersion
from monitor.statistics.rates import Sums
from monitor.storage.history import reader as reader_module
from monitor.storage.history.reader import HistoryReader, MinuteSums, Search
from monitor.telemetry.metrics import OVERFLOW
from tests.support.histories import BEGAN, CHOSEN, FAILED, HOUR, KEY, MINUTE, REFUSED, asked, change, keep, numbers
from tests.support.results import judged


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def reader(path: Path) -> HistoryReader:
    return HistoryReader(path)


def test_results_come_newest_first_from_a_second_on_of_any_outcome(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(2), judged(1), judged(3, outcome=FAILED), judged(4, app="docs"), judged(5, evaluator="other"))
    assert numbers(reader.results()) == [5, 4, 3, 2, 1]
    assert numbers(reader.results(since=BEGAN + 4)) == [5, 4]
    assert numbers(reader.results(limit=2)) == [5, 4]
    assert numbers(reader.results(app="docs")) == [4]
    assert numbers(reader.results(app="shop", evaluator="groundedness", since=BEGAN + 2)) == [3, 2]


def test_the_worst_are_defects_and_then_from_the_bad_end_the_newest_first_among_equals(
    path: Path, reader: HistoryReader
) -> None:
    scores = {1: 4.0, 2: 5.0, 3: 4.0, 4: 1.0, 5: 2.5}
    keep(path, *[judged(number, value) for number, value in scores.items()], judged(6, outcome=FAILED))
    assert numbers(reader.worst()) == [4, 5, 3, 1, 2]
    assert numbers(reader.worst(better="lower")) == [5, 4, 2, 3, 1]
    assert numbers(reader.worst(since=BEGAN + 3, limit=2)) == [4, 5]
    assert numbers(reader.worst(since=BEGAN + 5)) == [5]
    assert reader.worst(evaluator="other") == reader.worst(app="docs") == []


def test_a_row_that_lacks_what_every_row_has_or_cannot_be_read_hides_no_other(
    path: Path, reader: HistoryReader
) -> None:
    keep(path, judged(1), judged(2), judged(3), judged(4))
    change(
        path,
        f"UPDATE results SET body = x'ff' WHERE trace_id = '{1:032x}'",
        f"UPDATE results SET body = '[]' WHERE trace_id = '{2:032x}'",
        f"UPDATE results SET body = json_remove(CAST(body AS TEXT), '$.weight') WHERE trace_id = '{3:032x}'",
    )
    assert numbers(reader.results()) == [4]


def test_a_search_takes_in_its_first_second_and_not_its_last(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(1), judged(2), judged(3))
    assert numbers(reader.search(Search(since=BEGAN + 2, order="newest"))) == [3, 2]
    assert numbers(reader.search(Search(until=BEGAN + 2, order="newest"))) == [1]
    assert numbers(reader.search(Search(since=BEGAN + 1, until=BEGAN + 3, limit=1, order="newest"))) == [2]


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ("any", [5, 4, 3, 2, 1]),
        ("score", [2, 1]),
        ("defect", [2]),
        ("passed", [1]),
        ("unscored", [4, 3]),
        ("skipped", [5]),
    ],
)
def test_a_search_is_for_an_outcome(path: Path, reader: HistoryReader, outcome: Any, found: list[int]) -> None:
    failed = [judged(number, outcome=FAILED) for number in (3, 4)]
    keep(path, judged(1), judged(2, 1.0), *failed, judged(5, outcome=REFUSED))
    assert numbers(reader.search(Search(outcome=outcome, order="newest"))) == found


def test_a_search_is_for_apps_evaluators_and_bands_of_scores(path: Path, reader: HistoryReader) -> None:
    keep(
        path,
        judged(1, 3.0),
        judged(2, 4.0, app="docs"),
        judged(3, 5.0, app="wiki"),
        judged(4, 0.5, evaluator="relevance"),
    )

    def search(**wanted: Any) -> list[int]:
        return numbers(reader.search(Search(order="newest", **wanted)))

    assert search(apps=("docs",)) == [2]
    assert search(apps=("docs", "wiki")) == [3, 2]
    assert search(evaluator="relevance") == [4]
    assert search(bands={"groundedness": (3.0, 4.0)}) == [1]
    assert search(bands={"groundedness": (4.0, 5.5), "relevance": (0.5, 0.6)}) == [4, 3, 2]
    assert search(bands={}) == []


def test_the_worst_of_several_scales_are_as_far_from_their_good_end(path: Path, reader: HistoryReader) -> None:
    scores = [("a", 1, 0.9), ("a", 2, 0.2), ("b", 3, 2.0), ("b", 4, 5.0), ("c", 5, 9.0)]
    keep(path, *[judged(number, value, evaluator=name, defect=False) for name, number, value in scores])
    scales = {"a": (0.0, 1.0), "b": (5.0, 1.0)}
    assert numbers(reader.search(Search(scales=scales))) == [4, 2, 5, 3, 1]
    assert numbers(reader.search(Search(scales=scales, limit=2))) == [4, 2]
    assert numbers(reader.search(Search())) == [2, 1, 3, 4, 5]


def test_only_answers_that_an_evaluator_has_no_score_of_are_unjudged(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(1), judged(1, evaluator="llm"), judged(2), judged(2, evaluator="llm", outcome=FAILED))
    wanted = Search(evaluator="groundedness", unjudged_by="llm")
    assert numbers(reader.search(wanted)) == [2]


def test_a_long_row_is_found_without_its_context_and_history(path: Path, reader: HistoryReader) -> None:
    keep(path, asked(judged(1), response="x" * 20_000), judged(2))
    short, long = reader.search(Search(order="newest"))
    assert "retrieved_context" in short
    assert "retrieved_context" not in long
    assert len(long["response"]) == 20_000


def test_results_are_found_by_their_ids_however_many(path: Path, reader: HistoryReader, monkeypatch: Any) -> None:
    monkeypatch.setattr(reader_module, "_IDS_AT_ONCE", 2)
    keep(path, *[judged(number) for number in range(6)])
    ids = [judged(number).id for number in range(5)]
    assert sorted(numbers(reader.by_ids(ids))) == [0, 1, 2, 3, 4]
    assert reader.by_ids([]) == reader.by_ids(["none"]) == []


def test_a_request_has_its_results_oldest_first_and_its_long_texts_once(path: Path, reader: HistoryReader) -> None:
    late = asked(judged(1, evaluated_at=BEGAN + 9), response="x" * 30_000)
    keep(path, late, replace(late, evaluator="a", evaluated_at=BEGAN + 5), judged(2))
    first, second = reader.by_trace(f"{1:032x}")
    assert (first["evaluator"], second["evaluator"]) == ("a", "groundedness")
    assert ("response" in first, "response" in second) == (True, False)
    assert reader.by_trace("none") == []


def test_of_a_row_with_several_requests_those_are_told_and_the_last_is_shown(path: Path, reader: HistoryReader) -> None:
    for name, at in (("row/b", 1.0), ("row/a", 2.0), ("row0", 3.0), ("rowing", 4.0)):
        keep(path, asked(judged(1, evaluated_at=at), request_id=name))
    assert reader.requests_of("row") == ["row/b", "row/a"]
    assert [row["request_id"] for row in reader.by_trace("row")] == ["row/a"]
    keep(path, asked(judged(1, evaluated_at=9.0), request_id="row"))
    assert [row["request_id"] for row in reader.by_trace("row")] == ["row"]


def test_ids_are_known_that_have_a_score_or_need_none(path: Path, reader: HistoryReader, monkeypatch: Any) -> None:
    monkeypatch.setattr(reader_module, "_AT_ONCE", 2)
    every = [judged(1), judged(2, outcome=FAILED), judged(3, outcome=REFUSED), judged(4), judged(5)]
    keep(path, *every[:4])
    assert reader.scored_ids([one.id for one in every]) == {every[0].id, every[2].id, every[3].id}
    assert reader.scored_ids([]) == set()


def test_the_newest_score_of_an_evaluator_counts_for_a_request(
    path: Path, reader: HistoryReader, monkeypatch: Any
) -> None:
    monkeypatch.setattr(reader_module, "_AT_ONCE", 1)
    keep(path, judged(1, 4.0), replace(judged(1, 2.0), key="k", evaluated_at=BEGAN + 50), judged(2, 5.0))
    keep(path, judged(3, outcome=FAILED), judged(4, evaluator="other"))
    names = [f"{number:032x}" for number in range(1, 5)]
    assert reader.scores_by(names, "groundedness") == {names[0]: 2.0, names[1]: 5.0}


def test_results_are_counted_by_what_they_came_to(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(1), judged(2, 1.0), judged(3, 1.0, app="docs"), judged(4, outcome=FAILED))
    keep(path, judged(5, outcome=REFUSED), judged(6, evaluator="other"))
    assert reader.numbers("groundedness", 0.0) == {"passed": 1, "defect": 2, "unscored": 1, "skipped": 1}
    assert reader.numbers("groundedness", BEGAN + 3, "shop") == {"unscored": 1, "skipped": 1}
    assert reader.numbers("groundedness", BEGAN + 3, "docs") == {"defect": 1}


def test_the_ids_that_were_written_last_come_oldest_first(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(3), judged(1), judged(2))
    assert reader.newest_ids(2) == [judged(1).id, judged(2).id]


def test_past_results_come_oldest_first_without_damaged_ones(
    path: Path, reader: HistoryReader, monkeypatch: Any
) -> None:
    keep(path, *[judged(number, selection=CHOSEN) for number in (1, 2, 3, 4)])
    change(path, "UPDATE past_results SET body = x'00' WHERE n = 3")
    monkeypatch.setattr(reader_module, "PAST_RESULTS_AT_MOST", 3)
    found = reader.past_results()
    assert [one.result for one in found] == [judged(2).id, judged(4).id]
    assert found[0].inputs == (1.0, 0.0)


def test_versions_come_by_their_first_result_without_damaged_ones(path: Path, reader: HistoryReader) -> None:
    keep(path, judged(5, service_version=ServiceVersion(prompt="2")), judged(9), judged(7, app="docs"))
    assert [one.began - BEGAN for one in reader.generations()] == [5.0, 7.0, 9.0]
    assert reader.generations()[0].service_version == ServiceVersion(prompt="2")
    change(path, "UPDATE generations SET parts = '{' WHERE app = 'docs'")
    assert [one.began - BEGAN for one in reader.generations()] == [5.0, 9.0]


def test_the_user_of_a_request_is_a_pseudonym_and_empty_where_nothing_is_known(
    path: Path, reader: HistoryReader
) -> None:
    keep(path, judged(1), judged(2))
    assert reader.user_of(f"{1:032x}") == KEY.of("u-1")
    assert reader.user_of("none") == ""
    change(path, "UPDATE features SET body = x'00'")
    assert reader.user_of(f"{1:032x}") == ""


def test_without_a_history_there_is_an_error_that_names_it(reader: HistoryReader, path: Path) -> None:
    with pytest.raises(MonitorError, match=r"the history .*history\.db cannot be read"):
        reader.results()
    assert not path.exists()


@pytest.mark.parametrize(
    ("defect", "expected"),
    [
        (True, Sums(2, 2, 3.0, 3.0, 5.0, 0.0, 2.0, 6.0, 7.0, 8.0)),
        (False, Sums(2, 0, 3.0, 0.0, 0.0, 5.0, 2.0, 6.0, 7.0, 8.0)),
    ],
)
def test_the_sums_of_a_minute_are_all_of_defects_or_all_of_good_ones(*, defect: bool, expected: Sums) -> None:
    assert MinuteSums(0, "a", "e", "v", defect, 2, 3.0, 5.0, 2.0, 6.0, 7.0, 8.0).sums == expected


def minutes(path: Path) -> None:
    """Results of three minutes, an hour later, and of another app."""
    ats = (0, 61, 121, 3600)
    rules = {"alert_defects": {"strict": True}}
    keep(path, *[judged(at, evaluated_at=MINUTE + at, **rules) for at in ats], judged(7, app="docs", **rules))


def test_sums_begin_with_the_minute_that_contains_the_second(path: Path, reader: HistoryReader) -> None:
    minutes(path)
    assert [one.at - MINUTE for one in reader.sums_since(MINUTE + 119.0)] == [60, 120, 3600]
    assert [one.at - MINUTE for one in reader.sums_since(MINUTE + 120.0)] == [120, 3600]
    assert [(one.at - MINUTE, one.app) for one in reader.sums_since(0.0)][:2] == [(0, "docs"), (0, "shop")]


def test_hourly_sums_are_of_whole_hours_without_the_last(path: Path, reader: HistoryReader) -> None:
    minutes(path)
    found = reader.hourly_sums(HOUR + 3599.0, HOUR + 7200.0)
    assert [(one.at - HOUR, one.app, one.judged, one.weight) for one in found] == [
        (0, "docs", 1, 10.0),
        (0, "shop", 3, 30.0),
        (3600, "shop", 1, 10.0),
    ]
    assert [one.at - HOUR for one in reader.hourly_sums(HOUR, HOUR + 7199.0)] == [0, 0]
    assert [one.at - HOUR for one in reader.hourly_sums(HOUR + 3600.0, HOUR + 7200.0)] == [3600]
    assert (found[1].top, found[1].weight_squares, found[1].every_products) == (10.0, 300.0, 300.0)


def test_apps_beyond_those_that_are_named_are_one(path: Path, reader: HistoryReader) -> None:
    minutes(path)
    keep(path, *[judged(20 + number, app=f"svc-{number}", alert_defects={"strict": True}) for number in range(5)])
    assert len({one.app for one in reader.sums_since(0.0)}) == 7
    for found in (
        reader.sums_since(0.0, apps=["shop"]),
        reader.hourly_sums(HOUR, HOUR + 7200.0, apps=["shop"]),
        reader.rule_sums(HOUR, HOUR + 7200.0, apps=["shop"]),
        reader.rule_sums(HOUR, HOUR, apps=["shop"]),
    ):
        judged_by_app = {name: sum(one.judged for one in found if one.app == name) for name in ("shop", OVERFLOW)}
        assert judged_by_app == {"shop": 4, OVERFLOW: 6}
        assert {one.app for one in found} == {"shop", OVERFLOW}
    assert {one.app for one in reader.sums_since(0.0, apps=[])} == {OVERFLOW}
    assert {one.app for one in reader.generations(["docs"])} == {"docs"}
    assert reader.generations([]) == []


def test_the_busiest_apps_are_those_with_the_most_scores_of_late_and_then_of_all(
    path: Path, reader: HistoryReader
) -> None:
    old = [judged(number, app=app) for number, app in enumerate(["was-busy"] * 9 + ["fair"] * 2 + ["rare"])]
    new = [judged(3600 + number, app=app) for number, app in enumerate(["shop"] * 3 + ["fair"] * 2 + ["docs"])]
    keep(path, *old, *new)
    assert reader.busiest_apps(0.0, BEGAN + 1800, 9) == ["shop", "fair", "docs", "was-busy", "rare"]
    assert reader.busiest_apps(0.0, 0.0, 2) == ["was-busy", "fair"]
    assert reader.busiest_apps(BEGAN + 1800, 0.0, 9) == ["shop", "fair", "docs"]


def test_sums_of_a_rate_are_of_one_app_evaluator_version_and_rule(path: Path, reader: HistoryReader) -> None:
    minutes(path)
    keep(path, judged(8, version="v2", evaluated_at=MINUTE + 30.0), judged(9, evaluator="other"))

    def found(since: float, until: float, **wanted: str) -> list[tuple[int, str, bool, str]]:
        sums = reader.rate_sums("shop", "groundedness", MINUTE + since, MINUTE + until, **wanted)
        return [(one.at - MINUTE, one.version, one.defect, one.rule) for one in sums]

    assert found(119.0, 121.0) == [(60, "v1", False, ""), (120, "v1", False, "")]
    assert found(119.0, 120.0) == [(60, "v1", False, "")]
    assert {one[1] for one in found(0.0, 60.0)} == {"v1", "v2"}
    assert found(0.0, 60.0, version="v2") == [(0, "v2", False, "")]
    assert found(0.0, 61.0, rule="strict") == [(0, "v1", True, "strict"), (60, "v1", True, "strict")]
    assert found(0.0, 61.0, rule="strict", version="v2") == found(0.0, 61.0, rule="lenient") == []


def test_sums_by_rule_are_by_the_hour_and_in_the_end_by_the_minute(path: Path, reader: HistoryReader) -> None:
    minutes(path)
    by_hour = [(one.at - HOUR, one.app, one.judged) for one in reader.rule_sums(HOUR + 100.0, HOUR + 3700.0)]
    assert by_hour == [(0, "docs", 1), (0, "shop", 3), (MINUTE + 3600 - HOUR, "shop", 1)]
    by_minute = [one.at - MINUTE for one in reader.rule_sums(HOUR, HOUR + 100.0) if one.app == "shop"]
    assert by_minute == [0, 60, 120, 3600]
    assert [one.at for one in reader.rule_sums(HOUR + 3600.0, HOUR + 3600.0)] == [MINUTE + 3600]
    assert {one.rule for one in reader.rule_sums(0.0, 0.0)} == {"strict"}


@pytest.mark.parametrize("column", ["judged = 'x'", "weight = 'x'", "both_products = 'x'", "version = 1.5"])
def test_damaged_sums_hide_no_others(path: Path, reader: HistoryReader, column: str) -> None:
    minutes(path)
    change(path, f"UPDATE session_sums SET {column} WHERE at = {MINUTE + 60}")
    if column == "version = 1.5":  # SQLite makes a text of it
        change(path, f"UPDATE session_sums SET version = x'01' WHERE at = {MINUTE + 60}")
    assert [one.at - MINUTE for one in reader.sums_since(0.0)] == [0, 0, 120, 3600]
