"""What was learned outlives the process and is shared by all replicas: each verdict teaches each of them once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.model.case import Traffic
from monitor.samplers.boosted import Boosted
from monitor.sinks.history import HistorySink
from monitor.stages import PastResult
from monitor.storage.history import tables
from monitor.storage.history.rows import as_json, dump, load, past_result
from tests.support.evaluators import FakeJudge, Memory
from tests.support.runtime import runtime
from tests.support.sampling import UNSUPPORTED, SamplingBench, answered

pytestmark = pytest.mark.anyio

OPTIONS = Boosted(per_day=1e6, max_per_hour=1e6, slope=1.2)


class Process(SamplingBench):
    """One life of a replica, which judges unsupported answers as defects and keeps all its results as rows."""

    def __init__(self, *, score: int = 1, memory: Memory | None = None) -> None:
        super().__init__(OPTIONS, judge=FakeJudge(score=score), memory=memory)

    async def live(self, numbers: Sequence[int], **fields: Any) -> None:
        for number in numbers:
            response = UNSUPPORTED if number % 3 else "The library opens at nine."
            await self.run(answered(number, response, **fields))

    def past_results(self) -> list[PastResult]:
        rows = [load(dump(as_json(one, texts=False))) for one in self.results]
        return [one for one in map(past_result, rows) if one is not None]

    def ids(self) -> set[str]:
        return {one.id for one in self.results}

    def hear(self, past_results: Sequence[PastResult], *, delivered: bool = True) -> None:
        for one in past_results:
            self.evaluation.on_past_result(one, delivered=delivered)

    def belief(self) -> tuple[list[float], list[list[list[float]]], int]:
        learner = self.sampling().learners.of("shop")
        return learner.coefficients, [one.covariance for one in learner.filters], learner.labels


async def test_a_process_that_heard_what_another_one_judged_believes_what_that_one_does() -> None:
    first, second = Process(), Process()
    await first.live(range(60))
    second.hear(first.past_results())
    assert second.belief() == first.belief()
    assert first.belief()[2] == len(first.results) > 10
    assert second.total("sampling_replayed_results_total") == first.total("sampling_learned_results_total")
    assert second.total("sampling_learned_results_total") == 0


async def test_a_verdict_teaches_once_however_often_it_is_told() -> None:
    first, second = Process(), Process()
    await first.live(range(40))
    before, past_results = first.belief(), first.past_results()
    first.hear(past_results)
    second.hear(past_results)
    second.hear(past_results)
    assert first.belief() == second.belief() == before


async def test_a_case_that_another_replica_judged_first_teaches_once_when_it_is_judged_here_too() -> None:
    first, second = Process(), Process()
    await first.live(range(40))
    second.hear(first.past_results(), delivered=False)
    await second.live(range(40))
    again = first.ids() & second.ids()
    assert len(again) > 3
    assert second.belief()[2] == len(first.ids() | second.ids())


async def test_only_the_same_version_of_the_same_evaluator_teaches() -> None:
    first, second = Process(), Process()
    await first.live(range(40))
    for changed in ({"version": "2"}, {"evaluator": "another"}):
        second.hear([replace(one, **changed) for one in first.past_results()])
    assert second.belief()[2] == 0
    assert second.total("sampling_replayed_results_total") == 0


async def test_what_is_not_production_teaches_nobody() -> None:
    first, second = Process(), Process()
    await first.live(range(40), traffic=Traffic.INTERNAL)
    second.hear(first.past_results())
    assert first.results
    assert first.belief()[2] == second.belief()[2] == 0


async def test_what_all_replicas_read_is_not_judged_again_after_another_replicas_end() -> None:
    first, second = Process(), Process()
    await first.live(range(40))
    second.hear(first.past_results())
    await second.live(range(40))
    assert not first.ids() & second.ids()


async def test_what_only_this_process_kept_is_delivered_again_to_sinks_that_may_not_have_it() -> None:
    first, second = Process(), Process()
    await first.live(range(40))
    second.hear(first.past_results(), delivered=False)
    await second.live(range(40))
    assert len(first.ids() & second.ids()) > 3


async def test_the_history_tells_after_a_restart_what_was_learned_oldest_first(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "history.db")
    first, second, heard = Process(), Process(), []
    await first.live(range(60))
    async with history.open(runtime()) as deliver:
        for one in first.results:
            await deliver([one])
    await history.replay_results(heard.append, runtime())
    assert heard == first.past_results()
    second.hear(heard, delivered=False)
    assert second.belief() == first.belief()


async def test_the_history_keeps_the_newest_lessons_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PAST_RESULTS_AT_MOST", 10)
    history, first, heard = HistorySink(path=tmp_path / "history.db"), Process(), []
    await first.live(range(60))
    async with history.open(runtime()) as deliver:
        for one in first.results:
            await deliver([one])
    async with history.open(runtime()) as deliver:  # which tidies up with the next result
        await deliver([first.results[0]])
    await history.replay_results(heard.append, runtime())
    assert heard == first.past_results()[-10:]
    with closing(sqlite3.connect(tmp_path / "history.db")) as db:
        assert db.execute("SELECT count(*) FROM past_results").fetchone() == (10,)


async def test_a_history_of_before_lessons_opens_and_remembers_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history, first, heard = HistorySink(path=path), Process(), []
    await first.live(range(20))
    async with history.open(runtime()) as deliver:
        await deliver([first.results[0]])
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE past_results; PRAGMA user_version = 0;")
    async with history.open(runtime()) as deliver:
        for one in first.results:
            await deliver([one])
    await history.replay_results(heard.append, runtime())
    assert heard == first.past_results()[1:]
    assert len(await history.results()) == len(first.results)


async def test_a_part_of_what_another_replica_has_judged_is_not_judged_again() -> None:
    first, second = Process(), Process()
    await first.live(range(60))
    whole = first.results[0].case
    second.hear(first.past_results())
    await second.run(replace(whole, span_id="f" * 16, retrieved_context=()))
    assert second.results == []
