"""The worker of the queue: what it delivers, what it leaves waiting, what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import ConfigError, JudgeError
from monitor.jobs.backfill import BackfillSettings, evaluation
from monitor.jobs.backfill import run as running
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.evaluation import BackfillContext
from monitor.jobs.backfill.run import Backfill, QueueLock
from monitor.jobs.backfill.store import NAME, BackfillQueue
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case, Document
from monitor.model.outcome import EvaluationResult as Result
from monitor.model.outcome import RateScope, Score, Unscored, UnscoredReason, result_id
from monitor.pipeline import scoring
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.samplers.uniform import Uniform
from monitor.testing import ScriptedJudge
from tests.support.evaluators import JudgedEvaluator
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio

GOOD, BAD = {"score": 5}, {"score": 1}


class Bench:
    """A worker on a queue in `folder`, whose judge answers by a script."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.runtime = runtime(SystemClock())
        self.evaluator = JudgedEvaluator()
        self.assignment = ConfiguredEvaluator(self.evaluator, Uniform(), self.evaluator.default_defect)
        self.versions = {"judged": "v"}
        self.settings = BackfillSettings(**settings)
        self.backfill = Backfill(self.settings, folder, self.runtime, self.versions)
        self.store = BackfillQueue(folder / NAME, at_most=10**6, clock=ManualClock())
        self.delivered: list[Result] = []
        self.known: set[str] = set()
        self.turns: list[str] = []
        self.forgets: Callable[[Case], bool] = lambda _case: False

    def item(self, number: int, evaluator: str = "judged", *, probability: float = 1.0) -> Item:
        case = Case(request_id=f"r{number}", app="shop", response="a", retrieved_context=(Document("facts"),))
        return Item(case=case, evaluator=evaluator, version="v", origin=BackfillOrigin.FILE, probability=probability)

    def ask(self, *items: Item) -> None:
        self.store.ask(items, batch="b", now=self.runtime.clock.now())

    async def take(self, judged: Result) -> None:
        self.delivered.append(judged)

    async def scored_ids(self, ids: Any) -> set[str]:
        return self.known & set(ids)

    def turn(self, judge: str) -> Any:
        self.turns.append(judge)
        return nullcontext()

    def context(self) -> BackfillContext:
        return BackfillContext(
            evaluators=[self.assignment],
            judges={"": JudgeSettings(model="openai/scripted")},
            versions=self.versions,
            deliver=self.take,
            known=self.scored_ids,
            turn=self.turn,
            forgets=self.forgets,
            slices=["topic"],
            topic=lambda case: f"topic of {case.request_id}",
        )

    async def run(self, until_done: Callable[[Mapping[str, str]], bool] | None = None) -> None:
        with anyio.fail_after(120):
            await self.backfill.run(self.context(), until_done=until_done or self.done)

    def done(self, _held: Mapping[str, str]) -> bool:
        return not self.store.counts("b").get("asked")

    def total(self, name: str, **labels: str) -> float:
        return total(self.runtime.metrics, f"ragmonitor_backfill_{name}", **labels)

    def balance(self) -> float:
        asked = self.total("requested_total")
        assert asked == self.total("evaluations_total") + self.total("pending")
        return asked


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedJudge]:
    """Sets what the judge answers. Waiting is short, so that the tests are."""
    monkeypatch.setattr(running, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(running, "_WRITE_EVERY", 0.02)
    monkeypatch.setattr(running, "_TIDY_EVERY", 0.0)
    monkeypatch.setattr(evaluation, "_PAUSE", 0.02)
    monkeypatch.setattr(evaluation, "HOLDS", dict.fromkeys(evaluation.HOLDS, 0.02))

    def use(*answers: Any) -> ScriptedJudge:
        judge = ScriptedJudge(answers)

        @asynccontextmanager
        async def opened(*_: Any, **__: Any):
            yield judge

        monkeypatch.setattr(scoring, "open_judge", opened)
        return judge

    return use


async def test_a_queue_that_nobody_writes_to_is_not_read_and_what_another_process_asks_for_is_found(
    bench, script, monkeypatch
) -> None:
    script(GOOD)
    reads, looks = [], []
    asked_after = BackfillQueue.asked_after
    monkeypatch.setattr(BackfillQueue, "asked_after", lambda queue, n: reads.append(n) or asked_after(queue, n))

    def done(_held: Mapping[str, str]) -> bool:
        looks.append(len(reads))
        if len(looks) == 20:
            bench.ask(bench.item(1))
        return len(bench.delivered) == 1

    await bench.run(done)
    assert looks[9] == looks[19]
    assert bench.balance() == 1


async def test_what_is_judged_is_delivered_as_backfill_with_its_weight_and_where_it_came_from(bench, script) -> None:
    script(GOOD, BAD)
    bench.ask(bench.item(1, probability=0.5), bench.item(2))
    await bench.run()
    assert {(one.scope, one.origin) for one in bench.delivered} == {(RateScope.BACKFILL, "file")}
    assert sorted(one.weight for one in bench.delivered) == [1.0, 2.0]
    assert {one.case.attributes["topic"] for one in bench.delivered} == {"topic of r1", "topic of r2"}
    assert bench.total("evaluations_total", outcome="passed", source="file", app="shop", version="v") == 1
    assert bench.total("evaluations_total", outcome="defect") == 1
    assert bench.total("weight_total") == 3
    assert bench.total("weight_squares_total") == 5
    assert bench.balance() == 2
    assert bench.turns == ["", ""], "each waited for its turn behind all that is live"


async def test_nothing_of_it_reaches_a_live_series(bench, script) -> None:
    script(GOOD, JudgeError(UnscoredReason.REFUSAL, "no"))
    bench.ask(bench.item(1), bench.item(2))
    await bench.run()
    for family in bench.runtime.metrics.registry.collect():
        if not family.name.startswith(("ragmonitor_backfill", "ragmonitor_build", "ragmonitor_events")):
            assert not any(one.value for one in family.samples if not one.name.endswith("_created")), family.name


async def test_what_has_a_verdict_by_then_is_not_judged_again(bench, script) -> None:
    judge = script()
    bench.known = {result_id("r1", "judged", "v")}
    bench.ask(bench.item(1))
    await bench.run()
    assert not judge.questions
    assert bench.total("evaluations_total", outcome="known") == 1


@pytest.mark.parametrize("reason", [UnscoredReason.PAUSED, UnscoredReason.BUDGET, UnscoredReason.BREAKER_OPEN])
async def test_what_says_nothing_of_the_case_leaves_it_waiting_until_the_judge_answers(bench, script, reason) -> None:
    judge = script(*[JudgeError(reason, "why")] * 8, GOOD)
    bench.ask(bench.item(1))
    await bench.run()
    assert len(judge.questions) == 9
    assert [type(one.outcome) for one in bench.delivered] == [Score]
    assert bench.total("evaluations_total", outcome="passed") == bench.balance() == 1
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="backfill_waits") == 1


async def test_a_passing_fault_is_tried_again_some_times_and_then_is_the_outcome(bench, script) -> None:
    judge = script(*[JudgeError(UnscoredReason.TIMEOUT, "slow")] * 20)
    bench.ask(bench.item(1))
    await bench.run()
    assert len(judge.questions) == 5
    assert [one.outcome for one in bench.delivered] == [Unscored(UnscoredReason.TIMEOUT, "slow")]
    assert bench.total("evaluations_total", outcome="unscored") == bench.balance() == 1


async def test_what_no_other_try_mends_is_the_outcome_at_once(bench, script) -> None:
    judge = script(JudgeError(UnscoredReason.REFUSAL, "no"))
    bench.ask(bench.item(1))
    await bench.run()
    assert len(judge.questions) == 1
    assert bench.total("evaluations_total", outcome="unscored") == 1


async def test_a_fault_of_ours_ends_neither_the_worker_nor_the_item(bench, script) -> None:
    script(GOOD)
    faults = [RuntimeError("ours")]

    async def known(ids):
        if faults:
            raise faults.pop()
        return set()

    bench.scored_ids = known
    bench.ask(bench.item(1))
    await bench.run()
    assert bench.total("evaluations_total", outcome="passed") == 1
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="backfill_failed") == 1


async def test_an_item_of_an_evaluator_that_does_not_work_here_waits_uncounted(bench, script) -> None:
    script(GOOD)
    bench.ask(bench.item(1, "another"), bench.item(2))
    await bench.run(lambda _held: bool(bench.delivered))
    assert bench.balance() == 1
    assert bench.store.counts("b") == {"asked": 1, "passed": 1}


async def test_what_waits_for_too_long_is_counted_as_expired(tmp_path, script) -> None:
    bench = Bench(tmp_path, retention=0.2)
    script(*[JudgeError(UnscoredReason.BUDGET, "spent")] * 200)
    bench.ask(bench.item(1))
    await bench.run()
    assert bench.total("evaluations_total", outcome="expired") == bench.balance() == 1


async def test_what_is_deleted_or_to_be_forgotten_is_not_judged_and_the_ledger_balances(bench, script) -> None:
    judge = script()
    bench.forgets = lambda case: case.request_id == "r2"
    bench.ask(bench.item(1))
    first = True

    def deleted(held) -> bool:
        nonlocal first
        if first and held:
            first = False
            with bench.store._file.transaction() as db:
                db.execute("DELETE FROM items")
            bench.ask(bench.item(2))
        return not bench.total("pending") and not first

    script(JudgeError(UnscoredReason.PAUSED, "why"))
    await bench.run(deleted)
    assert not judge.questions
    assert bench.total("evaluations_total", outcome="forgotten") == bench.balance() == 2


async def test_a_budget_in_dollars_for_a_model_without_a_price_is_refused_at_the_start(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"backfill\.budget: "):
        await Bench(tmp_path, budget={"dollars_per_day": 5}).run()


async def test_while_another_process_works_the_queue_off_this_one_waits(bench, script) -> None:
    script(GOOD)
    other = QueueLock(bench.folder)
    other.take()
    bench.ask(bench.item(1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run)
        await anyio.sleep(0.1)
        assert not bench.delivered
        other.leave()
    assert len(bench.delivered) == 1


def paused(bench: Bench, number: int) -> tuple[Case, Result]:
    case = bench.item(number).case
    return case, Result(case=case, evaluator="judged", version="v", outcome=Unscored(UnscoredReason.PAUSED), weight=1.0)


async def test_what_was_missed_is_written_soon_and_also_when_it_ends_before(bench, script) -> None:
    script()
    bench.backfill.miss(*paused(bench, 1))
    await bench.run(lambda _held: True)
    (one,) = bench.store.missed()
    assert (one.evaluator, one.number) == ("judged", 1)
    assert bench.total("missed_total", app="shop", evaluator="judged", outcome="kept") == 1


@pytest.mark.parametrize("way", ["no time", "no texts"])
async def test_what_is_not_to_be_kept_is_not(tmp_path, script, way) -> None:
    bench = Bench(tmp_path, **({"retention": 0} if way == "no time" else {}))
    if way == "no texts":
        bench.backfill = Backfill(bench.settings, tmp_path, bench.runtime, bench.versions, texts=False)
    bench.backfill.miss(*paused(bench, 1))
    await bench.run(lambda _held: True)
    assert bench.store.missed() == []


async def test_a_queue_that_cannot_be_written_costs_what_was_missed_and_nothing_else(bench, script) -> None:
    script()
    (bench.folder / NAME).mkdir()
    bench.backfill.miss(*paused(bench, 1))
    said = partial(total, bench.runtime.metrics, "ragmonitor_events_total", event="backfill_failed")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.backfill.run, bench.context())
        await until(lambda: said() == 2, "a word of each who uses the queue")
        tasks.cancel_scope.cancel()
    assert bench.total("missed_total", outcome="dropped") == 1
    assert said() == 2


async def test_what_was_missed_while_the_queue_cannot_be_written_is_written_when_it_can_be(bench, script) -> None:
    script()
    (bench.folder / NAME).mkdir()
    failing = {"database": "backfill"}
    async with anyio.create_task_group() as tasks:
        for number in range(1, 4):
            bench.backfill.miss(*paused(bench, number))
        tasks.start_soon(bench.backfill.run, bench.context())
        await until(lambda: total(bench.runtime.metrics, "ragmonitor_database_failing", **failing) == 1)
        (bench.folder / NAME).rmdir()
        await until(lambda: bench.total("missed_total", outcome="kept") == 3)
        assert total(bench.runtime.metrics, "ragmonitor_database_failing", **failing) == 0
        tasks.cancel_scope.cancel()
    assert [one.number for one in bench.store.missed()] == [3]
    assert bench.total("missed_total", outcome="dropped") == 0
    assert total(bench.runtime.metrics, "ragmonitor_database_unwritten_records_total", **failing) == 0


async def test_beyond_what_may_wait_in_memory_the_missed_are_dropped_and_counted(bench) -> None:
    _, result = paused(bench, 1)
    large = Case(request_id="r1", app="shop", response="x" * 6 * 1024**2)
    for _ in range(4):
        bench.backfill.miss(large, result)
    assert bench.total("missed_total", outcome="dropped") == 2
