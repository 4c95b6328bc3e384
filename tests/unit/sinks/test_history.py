from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError, ResultsRefused
from monitor.model.outcome import (
    EvaluationResult,
    RateScope,
    Score,
    SessionProducts,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.model.service_version import SeenVersion, ServiceVersion
from monitor.sinks.history import HistorySink
from monitor.storage.history import writer as history_module
from monitor.storage.history.reader import HistoryReader, MinuteSums
from monitor.storage.history.rows import as_json
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


async def deliver(history: HistorySink, *results: EvaluationResult, clock: ManualClock | None = None) -> None:
    async with history.open(runtime(clock)) as deliver_one:
        for one in results:
            await deliver_one([one])


@pytest.fixture
def history(tmp_path: Path) -> HistorySink:
    return HistorySink(path=tmp_path / "storage" / "history.db", texts="all")


async def test_a_delivered_result_can_be_read_at_once_and_after_a_restart(history: HistorySink) -> None:
    async with history.open(runtime()) as deliver_one:
        await deliver_one([judged(1)])
        assert await history.results() == [as_json(judged(1))]
    assert await history.by_trace(f"{1:032x}") == [as_json(judged(1))]


async def test_the_ids_of_the_results_that_were_written_last_are_found_oldest_first(history: HistorySink) -> None:
    assert await history.newest_ids(2) == []
    await deliver(history, judged(3), judged(1), judged(2))
    assert await history.newest_ids(2) == [judged(1).id, judged(2).id]


async def test_a_repeat_replaces_nothing_and_adds_to_no_sum(history: HistorySink) -> None:
    await deliver(history, judged(1, 4.0))
    await deliver(history, judged(1, 1.0))
    assert [row["score"] for row in await history.results()] == [4.0]
    assert [row.judged for row in await history.sums_since(0)] == [1]


async def test_many_at_a_time_are_all_kept(history: HistorySink) -> None:
    async with history.open(runtime()) as deliver_one, anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(deliver_one, [judged(number)])
    assert len(await history.results(limit=2000)) == 1000


async def test_the_worst_are_defects_first_and_from_the_bad_end_of_the_scale(history: HistorySink) -> None:
    await deliver(history, *(judged(n, value) for n, value in enumerate((4.0, 1.0, 2.0, 5.0))))
    assert [row["score"] for row in await history.worst()] == [1.0, 2.0, 4.0, 5.0]
    assert [row["score"] for row in await history.worst(limit=1)] == [1.0]
    await deliver(
        history,
        *(judged(10 + n, value, evaluator="violence", defect=value > 3) for n, value in enumerate((0.0, 7.0, 5.0))),
    )
    assert [row["score"] for row in await history.worst(evaluator="violence", better="lower")] == [7.0, 5.0, 0.0]


async def test_queries_can_be_narrowed_by_app_evaluator_and_time(history: HistorySink) -> None:
    await deliver(history, judged(1), judged(2, app="bank"), judged(3, evaluator="relevance"))
    traces = [f"{n:032x}" for n in range(4)]
    assert [row["trace_id"] for row in await history.results(app="bank")] == [traces[2]]
    assert [row["trace_id"] for row in await history.results(evaluator="relevance")] == [traces[3]]
    assert [row["trace_id"] for row in await history.results(since=1_700_000_002.0)] == [traces[3], traces[2]]


async def test_only_scores_enter_the_worst_and_the_sums(history: HistorySink) -> None:
    await deliver(
        history,
        judged(1, outcome=Unscored(UnscoredReason.TIMEOUT, "30 s"), level="", defect=False),
        judged(2, outcome=Skipped(SkippedReason.NO_RETRIEVAL), level="", defect=False),
    )
    assert await history.worst() == []
    assert await history.sums_since(0) == []
    assert [(row["outcome"], row["reason"]) for row in await history.results()] == [
        ("skipped", "no_retrieval"),
        ("unscored", "timeout"),
    ]


async def test_results_of_an_evaluator_are_counted_by_what_came_of_them(history: HistorySink) -> None:
    timeout = Unscored(UnscoredReason.TIMEOUT, "30 s")
    await deliver(
        history,
        *(judged(number, 4.0) for number in (1, 2)),
        judged(3, 1.0, app="bank"),
        judged(4, outcome=timeout, level="", defect=False),
        judged(5, evaluator="relevance"),
    )
    found = HistoryReader(history.path)
    assert found.numbers("groundedness", 0.0) == {"passed": 2, "defect": 1, "unscored": 1}
    assert found.numbers("groundedness", 0.0, "bank") == {"defect": 1}
    assert found.numbers("groundedness", 1_700_000_004.0) == {"unscored": 1}
    assert found.numbers("nobody", 0.0) == {}


async def test_sums_are_by_the_minute_with_weights_and_their_squares(history: HistorySink) -> None:
    start = 1_700_000_040.0  # a full minute
    await deliver(
        history,
        judged(1, 1.0, evaluated_at=start + 1, weight=2.0),
        judged(2, 1.0, evaluated_at=start + 59, weight=3.0),
        judged(3, 5.0, evaluated_at=start + 30, weight=4.0),
        judged(4, 5.0, evaluated_at=start + 60, weight=5.0),
        judged(5, 5.0, evaluated_at=start - 1, weight=6.0),
    )
    assert await history.sums_since(start + 30) == [
        MinuteSums(int(start), "shop", "groundedness", "v1", False, 1, 4.0, 16.0, 4.0, 0.0, 16.0, 0.0),
        MinuteSums(int(start), "shop", "groundedness", "v1", True, 2, 5.0, 13.0, 3.0, 13.0, 13.0, 13.0),
        MinuteSums(int(start) + 60, "shop", "groundedness", "v1", False, 1, 5.0, 25.0, 5.0, 0.0, 25.0, 0.0),
    ]


async def test_products_of_sessions_are_summed_up_too(history: HistorySink) -> None:
    first, second = judged(1, 1.0, weight=2.0), judged(2, 1.0, weight=2.0)
    of_session = replace(second, session_products={"": SessionProducts(12.0, 20.0, 16.0)})
    await deliver(history, first, of_session)
    (found,) = await history.hourly_sums(0, 2e9)
    assert (found.sums.defects, found.sums.top) == (2, 2.0)
    assert (found.defect_products, found.every_products, found.both_products) == (16.0, 24.0, 20.0)


async def test_versions_of_an_evaluator_are_summed_apart_by_the_minute_and_by_the_hour(history: HistorySink) -> None:
    start = 1_699_999_200.0  # a full hour
    await deliver(history, *(judged(n, version=f"v{n % 2}", evaluated_at=start + 60) for n in range(3)))
    by_minute, by_hour = await history.sums_since(start), await history.hourly_sums(start, start + 3600)
    for found in (by_minute, by_hour):
        assert [(row.version, row.judged) for row in found] == [("v0", 2), ("v1", 1)]


async def test_sums_from_before_versions_were_told_apart_are_forgotten(history: HistorySink) -> None:
    """Nobody knows whose they are."""
    assert history.path is not None
    history.path.parent.mkdir()
    with closing(sqlite3.connect(history.path)) as older:
        older.execute("CREATE TABLE sums (at, app, evaluator, defect, judged, weight, weight_squares)")
        older.execute("INSERT INTO sums VALUES (1699999200, 'shop', 'groundedness', 1, 1, 1, 1)")
        older.commit()
    await deliver(history, judged(1))
    assert [(row.version, row.judged) for row in await history.sums_since(0)] == [("v1", 1)]


async def test_old_results_go_and_their_sums_stay_for_longer(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "h.db", retention="1h", sums_retention="2h")
    clock = ManualClock(1_700_000_000.0)
    async with history.open(runtime(clock)) as deliver_one:
        await deliver_one([judged(1, evaluated_at=clock.now())])
        clock.advance(4000)
        await deliver_one([judged(2, evaluated_at=clock.now())])
        assert [row["trace_id"] for row in await history.results()] == [f"{2:032x}"]
        assert len(await history.sums_since(0)) == 2
        clock.advance(4000)
        await deliver_one([judged(3, evaluated_at=clock.now())])
        assert len(await history.sums_since(0)) == 2


async def test_beyond_at_most_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    history = HistorySink(path=tmp_path / "h.db", max_size="1MB")
    await deliver(history, *(judged(n, version="v" * 20_000) for n in range(100)))
    found = await history.results(limit=2000)
    assert 5 < len(found) < 95
    assert found[0]["trace_id"] == f"{99:032x}"
    assert [row["evaluated_at"] for row in found] == sorted((row["evaluated_at"] for row in found), reverse=True)


async def test_a_file_full_of_sums_is_limited_too_and_the_newest_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    history = HistorySink(path=tmp_path / "h.db", max_size="1MB")
    await deliver(history, *(judged(number * 600, version=f"{number}-" + "v" * 10_000) for number in range(150)))
    sums = await history.sums_since(0)
    assert 20 < len(sums) < 100
    assert sums[-1].version.startswith("149-")


async def test_of_versions_that_change_with_every_request_the_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    history = HistorySink(path=tmp_path / "h.db")
    many = [judged(n, service_version=ServiceVersion(service=f"build-{n}")) for n in range(1, 400)]
    await deliver(history, judged(0, app="docs"), *many, judged(500))
    kept = [one.service_version.service for one in await history.generations(["shop"])]
    assert kept == [*(f"build-{n}" for n in range(301, 400)), ""]
    assert len(await history.generations(["docs"])) == 1


async def test_unless_texts_are_asked_for_none_reaches_the_file(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "h.db", texts="explanations")
    await deliver(history, judged(1))
    image = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))  # noqa: ASYNC240 - nothing else runs
    assert b"How long is the warranty" not in image
    assert b"u-1" not in image
    assert b"because" in image


async def test_half_a_surrogate_pair_in_a_text_is_kept(history: HistorySink) -> None:
    await deliver(history, judged(1, outcome=Score(4.0, "broken \ud83d"), app="app \ud83d"))
    assert (await history.results())[0]["explanation"] == "broken \ud83d"


@pytest.mark.parametrize("batches", [1, 4], ids=["in one batch", "each by another caller"])
async def test_one_result_that_can_never_be_written_takes_none_of_its_neighbours_along(
    history: HistorySink, batches: int
) -> None:
    results = [judged(number) for number in range(4)]
    results[1] = judged(1, outcome=Score(4.0, "x", evidence=("a quote",)))  # type: ignore[arg-type]
    failed: list[Exception] = []
    async with history.open(runtime()) as deliver_one, anyio.create_task_group() as callers:

        async def call(some: list[EvaluationResult]) -> None:
            try:
                await deliver_one(some)
            except (AttributeError, ResultsRefused) as error:
                failed.append(error)

        for number in range(batches):
            callers.start_soon(call, results[number::batches])
    kept = {row["id"] for row in await history.results()}
    assert kept == {one.id for one in results} - {results[1].id}
    (error,) = failed
    assert not isinstance(error, ResultsRefused) or error.ids == {results[1].id}
    assert isinstance(error, ResultsRefused) or batches > 1


async def test_only_the_owner_can_read_the_files(history: HistorySink) -> None:
    assert history.path is not None
    async with history.open(runtime()) as deliver_one:
        await deliver_one([judged(1)])
        assert {path.stat().st_mode & 0o777 for path in history.path.parent.iterdir()} == {0o600}
        assert history.path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(history: HistorySink) -> None:
    assert history.path is not None
    history.path.parent.mkdir()
    history.path.write_bytes(b"not a database " * 1000)
    await deliver(history, judged(1))
    assert len(await history.results()) == 1
    (aside,) = history.path.parent.glob("*.damaged-*")
    assert aside.read_bytes().startswith(b"not a database")


async def test_a_file_that_cannot_be_written_raises_and_works_again_later(history: HistorySink) -> None:
    assert history.path is not None
    async with history.open(runtime()) as deliver_one:
        await deliver_one([judged(1)])
        other = sqlite3.connect(history.path)
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'refused'); END")
        other.commit()
        with pytest.raises(MonitorError, match=r"history\.db cannot be written: refused"):
            await deliver_one([judged(2)])
        other.execute("DROP TRIGGER refuse")
        other.commit()
        other.close()
        await deliver_one([judged(2)])
    assert len(await history.results()) == 2


async def test_reading_where_there_is_no_history_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match=r"none\.db"):
        await HistorySink(path=tmp_path / "none.db").results()


async def test_a_sum_belongs_to_the_minute_of_the_answer(history: HistorySink) -> None:
    late = judged(1)
    await deliver(history, replace(late, case=replace(late.case, answered_at=late.evaluated_at - 600)))
    assert [row.at for row in await history.sums_since(0)] == [int((late.evaluated_at - 600) // 60 * 60)]


async def test_an_answer_from_the_future_counts_when_it_was_judged(history: HistorySink) -> None:
    one = judged(1)
    await deliver(history, replace(one, case=replace(one.case, answered_at=one.evaluated_at + 10_000)))
    assert [row.at for row in await history.sums_since(0)] == [int(one.evaluated_at // 60 * 60)]


@pytest.mark.parametrize("scope", [RateScope.LATE, RateScope.NON_PRODUCTION])
async def test_what_does_not_count_is_kept_as_a_result_and_adds_to_no_sum(
    history: HistorySink, scope: RateScope
) -> None:
    """Else the windows of alerts would hold it after a restart."""
    await deliver(history, judged(1, scope=scope))
    assert [row["scope"] for row in await history.results()] == [scope.value]
    assert await history.sums_since(0) == []
    assert await history.generations() == []


async def test_the_versions_behind_results_are_kept_with_their_first_and_last_time(history: HistorySink) -> None:
    old, new = ServiceVersion(evaluator="1", prompt="3"), ServiceVersion(evaluator="1", prompt="4")
    results = [judged(number, service_version=new if number == 2 else old) for number in (1, 2, 3)]
    await deliver(history, *results)
    assert await history.generations() == [
        SeenVersion("shop", "groundedness", old, results[0].evaluated_at, results[2].evaluated_at),
        SeenVersion("shop", "groundedness", new, results[1].evaluated_at, results[1].evaluated_at),
    ]
    assert (await history.results())[0]["versions"] == {"fingerprint": old.fingerprint, **old.parts}
