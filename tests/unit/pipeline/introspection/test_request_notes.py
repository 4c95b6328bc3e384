"""What the pipeline notes of each request: who chose it, how long it waited, each attempt at the judge, each end."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from monitor.errors import JudgeError
from monitor.model.case import Case, Document, Joined, Reading, ReadingStatus, Request
from monitor.model.outcome import Attempt, Cost, UnscoredReason
from monitor.model.request_log import RequestRecord, RequestStep
from monitor.model.row import Row
from monitor.pipeline.complete import WholeRow
from monitor.pipeline.fair_queue import FairQueue
from monitor.pipeline.introspection import request_notes
from monitor.pipeline.introspection.request_notes import RequestNotes
from monitor.pipeline.ledger import Ledger, RequestOutcome, TraceOutcome
from monitor.pipeline.live_evaluation import LiveEvaluation
from monitor.pipeline.scoring import scores_of
from monitor.pipeline.traffic import Quota
from monitor.samplers.budget import BudgetSampler
from monitor.samplers.uniform import Uniform
from monitor.stages import Verdict
from tests.support.evaluators import JudgedEvaluator, LocalEvaluator, configured, live
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


class Kept:
    """A keeper that remembers."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self.steps: dict[RequestStep, int] = {}

    def keep(self, record: RequestRecord) -> None:
        self.records.append(record)

    def count(self, step: RequestStep, number: int = 1, expected: float = 0.0) -> None:
        self.steps[step] = self.steps.get(step, 0) + number


class Judge:
    """Answers as it is told: a verdict, or an error."""

    model = "fake/model"
    max_characters = 1000

    def __init__(self, answer: Verdict | JudgeError) -> None:
        self.answer = answer
        self.open: anyio.Event | None = None

    async def ask(self, question):
        if self.open is not None:
            await self.open.wait()
        if isinstance(self.answer, JudgeError):
            raise self.answer
        return self.answer


class Remembered:
    """Results that were delivered before."""

    def __init__(self, *, all_of_them: bool = False) -> None:
        self.all = all_of_them

    def remembered(self, key: str) -> bool:
        return self.all

    def remember(self, keys) -> None:
        pass


OK = Verdict({"score": 5}, "fake/model", tries=(Attempt(0.1, "rate_limited", "HTTP 429"), Attempt(0.2, "ok")))
CASE = Case(request_id="ab" * 16, app="shop", request=Request("q"), retrieved_context=(Document("d"),), response="r")
COMPLETE = WholeRow("shop", "kafka", (), 1.0, 0.5, Row("ab" * 16, "shop", b"{}"))


def evaluating(lent, judge, *, sampler=None, memory=None, **options) -> LiveEvaluation:
    return live(
        [configured(LocalEvaluator()), configured(JudgedEvaluator(), sampler)],
        judges={"": judge},
        memory=memory or Remembered(),
        lent=lent,
        **options,
    )


async def noted(answer: Verdict | JudgeError = OK, *, case: Case = CASE, before: int = 0, **options):
    """One case through a local and a judged evaluator, after others: its record, and what was summed."""
    lent, keeper = runtime(), Kept()
    evaluation = evaluating(lent, Judge(answer), **options)
    notes = RequestNotes(keeper, lent)
    for number in range(before):
        evaluation.choose(replace(case, request_id=f"{number:032x}"))
    note = notes.begin(COMPLETE.record(2.0))
    assert note is not None
    note.read(Reading(ReadingStatus.READY, case, joined=(Joined("ask", "01"),)))
    local = scores_of(await evaluation.score_local(case))
    chosen = evaluation.choose(case, local)
    assert notes.waiting() == dict.fromkeys([one.evaluator.name for one, _ in chosen], 1)
    await evaluation.score_judged(case, chosen)
    assert len(notes.of(case.request_id)) == 1
    notes.end(note, RequestOutcome.EVALUATED)
    assert notes.of(case.request_id) == []
    (record,) = keeper.records
    return record, keeper


async def test_a_case_that_was_judged_has_its_draw_its_wait_and_each_attempt():
    record, keeper = await noted()
    local, judged = record.decisions
    assert (local.outcome, local.probability, local.tries) == ("score", 1.0, ())
    assert (judged.outcome, judged.waited, judged.tries) == ("score", 0.0, OK.tries)
    assert (record.probability, record.outcome, record.joined, record.traffic) == (
        0.5,
        "evaluated",
        (Joined("ask", "01"),),
        "production",
    )
    assert 0 < record.draw < 1
    assert keeper.steps == {RequestStep("shop", "", "local", "score"): 1, RequestStep("shop", "", "judged", "score"): 1}


@pytest.mark.parametrize("reason", [UnscoredReason.BREAKER_OPEN, UnscoredReason.AUTH, UnscoredReason.PAUSED])
async def test_attempts_that_came_to_nothing_are_kept_with_the_reason(reason):
    tries = (Attempt(0.1, "provider_error", "HTTP 500"),)
    record, keeper = await noted(JudgeError(reason, "it failed", Cost(tries=tries)))
    judged = record.decisions[1]
    assert (judged.outcome, judged.reason, judged.detail, judged.tries) == ("unscored", reason, "it failed", tries)
    assert keeper.steps[RequestStep("shop", "", "judged", f"unscored:{reason}")] == 1


async def test_a_case_that_found_the_queue_full_never_left_it():
    lent, keeper, judge = runtime(), Kept(), Judge(OK)
    judge.open = anyio.Event()
    evaluation = evaluating(lent, judge, queue=FairQueue({"": 1}, limit=10_000, shares={}, clock=lent.clock))
    notes = RequestNotes(keeper, lent)

    async def work(number: int, size: int) -> None:
        case = replace(CASE, request_id=f"{number:032x}", response="r" * size)
        complete = WholeRow("shop", "kafka", (), 1.0, 1.0, Row(case.request_id, "shop", b"{}"))
        note = notes.begin(complete.record(2.0))
        await evaluation.score_judged(case, evaluation.choose(case))
        notes.end(note, RequestOutcome.EVALUATED)

    async with anyio.create_task_group() as group:
        group.start_soon(work, 1, 10)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(work, 2, 20_000)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(work, 3, 20_000)
        await anyio.wait_all_tasks_blocked()
        judge.open.set()
    told = {one.request_id[-1]: (one.decisions[0].reason, one.decisions[0].waited) for one in keeper.records}
    assert told["1"] == ("", 0.0)
    assert ("overloaded", None) in told.values()


async def test_a_case_that_was_not_chosen_keeps_the_probability():
    record, keeper = await noted(sampler=Uniform(rate=0.0))
    judged = record.decisions[1]
    assert (judged.chosen, judged.probability, judged.outcome) == (False, 0.0, "")
    assert RequestStep("shop", "", "judged", "not_chosen") in keeper.steps


@pytest.mark.parametrize("sampler", [Uniform(rate=1.0), BudgetSampler(per_hour=5)])
async def test_an_evaluator_that_does_not_apply_keeps_what_is_missing(sampler):
    bare = Case(request_id="ab" * 16, app="shop", request=Request("q"), response="r")
    record, keeper = await noted(case=bare, sampler=sampler)
    assert [one.missing for one in record.decisions] == ["no_retrieval", "no_retrieval"]
    assert RequestStep("shop", "", "judged", "missing:no_retrieval") in keeper.steps


async def test_a_case_that_was_judged_before_is_noted_as_such():
    record, keeper = await noted(memory=Remembered(all_of_them=True))
    assert all(one.repeated and not one.chosen for one in record.decisions)
    assert RequestStep("shop", "", "judged", "repeated") in keeper.steps


async def test_a_quota_that_is_nearly_spent_is_noted_with_the_room_that_it_left():
    record, _ = await noted(before=5, quotas={"shop": Quota(per_hour=0.001)})
    assert record.decisions[1].room < 1
    assert record.decisions[1].probability == pytest.approx(record.decisions[1].room)


async def test_what_a_failed_request_says_of_itself_is_a_text_of_the_service_and_not_kept():
    keeper = Kept()
    notes = RequestNotes(keeper, runtime())
    note = notes.begin(COMPLETE.record(2.0))
    note.read(Reading(ReadingStatus.FAILED_REQUEST, CASE, "no such user: Ada"))
    notes.end(note, RequestOutcome.FAILED_REQUEST)
    note = notes.begin(COMPLETE.record(2.0))
    note.read(Reading(ReadingStatus.INCOMPLETE, CASE, "the parent never arrived"))
    notes.end(note, TraceOutcome.INCOMPLETE)
    assert [one.detail for one in keeper.records] == ["", "the parent never arrived"]


async def test_of_a_request_that_is_to_be_forgotten_no_trail_is_kept():
    keeper = Kept()
    notes = RequestNotes(keeper, runtime())
    note = notes.begin(COMPLETE.record(2.0))
    notes.end(note, TraceOutcome.FORGOTTEN)
    assert not keeper.records


async def test_where_nobody_keeps_notes_nothing_is_noted():
    notes = RequestNotes(None, runtime())
    note = notes.begin(COMPLETE.record(2.0))
    assert note is None
    assert request_notes.current() is None
    notes.end(note, RequestOutcome.EVALUATED)


async def test_two_requests_side_by_side_are_noted_apart():
    lent, keeper = runtime(), Kept()
    notes = RequestNotes(keeper, lent)

    async def work(number: int) -> None:
        row = Row(f"{number:032x}", "shop", b"{}")
        complete = WholeRow("shop", "kafka", (), 1.0, 1.0, row)
        note = notes.begin(complete.record(2.0))
        await anyio.lowlevel.checkpoint()
        current = request_notes.current()
        assert current is not None
        current.drew(f"evaluator {number}", None, chosen=False)
        await anyio.lowlevel.checkpoint()
        notes.end(note, RequestOutcome.EVALUATED)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(work, number)
    assert {one.request_id: one.decisions[0].evaluator for one in keeper.records} == {
        f"{number:032x}": f"evaluator {number}" for number in range(5)
    }


async def test_the_ledger_tells_of_every_end_what_passed_at_the_door_too():
    keeper = Kept()
    ledger = Ledger(runtime().metrics, recorder=keeper)
    ledger.received("shop", "kafka")
    ledger.found("shop", "kafka", 2, left_out=3)
    ledger.request_ended("shop", "kafka", RequestOutcome.EVALUATED)
    ledger.request_ended("shop", "kafka", RequestOutcome.FILTERED)
    ledger.ended("shop", "kafka", TraceOutcome.READ)
    ledger.passed("shop", "kafka", TraceOutcome.SAMPLED_OUT, 9)
    assert keeper.steps == {
        RequestStep("shop", "kafka", "", "evaluated"): 1,
        RequestStep("shop", "kafka", "", "filtered"): 1,
        RequestStep("shop", "kafka", "", "too_many"): 3,
        RequestStep("shop", "kafka", "", "sampled_out"): 9,
    }
