"""Live scoring: each result once, counted and published, however slow or broken judges and sinks are."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import anyio
import pytest

from monitor.errors import JudgeError
from monitor.model.outcome import Attempt, Cost, Score, Unscored, UnscoredReason
from monitor.pipeline.fair_queue import FairQueue
from monitor.samplers.uniform import Uniform
from monitor.stages import Verdict
from monitor.testing import RecordingSink, ScriptedJudge
from tests.support.evaluators import (
    FakeJudge,
    JudgedEvaluator,
    LocalEvaluator,
    Memory,
    case,
    configured,
    live,
    run_local,
)
from tests.support.judge import question
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


class Bench:
    """Live scoring by one evaluator, and what its sink got."""

    def __init__(
        self, evaluator, rate=1.0, judge=None, *, limit=1_000_000, memory=None, before=None, recheck=0.0, **more
    ):
        self.runtime = runtime()
        self.memory = memory or Memory()
        self.sink = RecordingSink()
        self.results = self.sink.results
        self.queue = FairQueue({}, limit=limit, shares={}, clock=self.runtime.clock)
        self.evaluation = live(
            [configured(evaluator, Uniform(rate=rate))],
            judges={"": judge} if judge else {},
            sinks={**(before or {}), "test": self.sink.deliver},
            memory=self.memory,
            lent=self.runtime,
            queue=self.queue,
            recheck=recheck,
            **more,
        )

    async def run(self, one):
        await run_local(self.evaluation, one)
        chosen = self.evaluation.choose(one)
        if chosen:
            await self.evaluation.score_judged(one, chosen)
        return self.results[-1] if self.results else None


async def test_a_result_carries_its_level_its_defect_and_the_weight_of_all_probabilities():
    bench = Bench(JudgedEvaluator(), rate=0.5, judge=FakeJudge(score=1))
    chosen = next(n for n in range(100) if bench.evaluation.choose(case(n)))
    result = await bench.run(case(chosen, probability=0.1))
    assert (result.level, result.defect) == ("1", True)
    assert result.weight == pytest.approx(20)
    assert (result.cost.dollars, result.cost.input_tokens) == (0.25, 10)


@pytest.mark.parametrize("reason", list(UnscoredReason))
async def test_whatever_goes_wrong_at_the_judge_is_unscored_with_its_reason(reason):
    bench = Bench(JudgedEvaluator(), judge=FakeJudge(error=JudgeError(reason, "no")))
    result = await bench.run(case())
    assert result.outcome == Unscored(reason, "no")
    assert total(bench.runtime.metrics, "ragmonitor_unscored_total", reason=reason.value) == 1
    assert total(bench.runtime.metrics, "ragmonitor_evaluation_weight_total") == 0


async def test_an_evaluator_that_raises_is_unscored_and_an_event():
    bench = Bench(LocalEvaluator(value=-1))
    assert (await bench.run(case())).outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="evaluator_failed") == 1


async def test_a_case_that_comes_again_is_not_judged_again():
    bench = Bench(JudgedEvaluator(), judge=FakeJudge())
    await bench.run(case())
    again = Bench(JudgedEvaluator(), judge=FakeJudge(), memory=bench.memory)
    assert await again.run(case()) is None


async def test_another_judge_model_is_another_instrument_with_results_of_its_own():
    bench = Bench(JudgedEvaluator(), judge=FakeJudge())
    first = await bench.run(case())
    other = FakeJudge()
    other.model = "fake/other"
    second = await Bench(JudgedEvaluator(), judge=other, memory=bench.memory).run(case())
    assert first.version != second.version
    assert first.id != second.id


async def test_cases_beyond_the_waiting_limit_are_unscored_while_the_judge_is_slow():
    gate = anyio.Event()
    bench = Bench(JudgedEvaluator(), judge=FakeJudge(gate=gate), limit=10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, case(1, "x" * 8))
        await anyio.wait_all_tasks_blocked()
        result = await bench.run(case(2, "x" * 8))
        assert result.outcome.reason is UnscoredReason.OVERLOADED
        gate.set()
    assert isinstance(bench.results[-1].outcome, Score)
    assert bench.queue.size == 0


async def test_a_sink_that_fails_is_counted_and_does_not_stop_the_others():
    async def broken(judged):
        raise OSError("disk")

    bench = Bench(LocalEvaluator(), before={"broken": broken})
    await bench.run(case())
    assert len(bench.results) == 1
    assert total(bench.runtime.metrics, "ragmonitor_sink_failures_total", sink="broken") == 1


async def test_what_is_judged_at_one_rate_is_judged_at_every_higher_rate():
    low, high = Bench(LocalEvaluator(), rate=0.1), Bench(LocalEvaluator(), rate=0.4)
    for number in range(300):
        one = case(number)
        if await low.evaluation.score_local(one):
            assert await high.evaluation.score_local(one)


@pytest.mark.parametrize(("second", "outcome"), [(5, "same"), (1, "other"), (None, "unscored")])
async def test_a_case_judged_twice_tells_how_steady_the_judge_is_and_changes_no_rate(second, outcome):
    class Moody(FakeJudge):
        async def ask(self, question):
            if question.repeat and second is None:
                raise JudgeError(UnscoredReason.TIMEOUT, "no")
            return Verdict({"score": second if question.repeat else 4}, self.model)

    bench = Bench(JudgedEvaluator(), judge=Moody(), recheck=1.0)
    await bench.run(case())
    assert [one.outcome.value for one in bench.results] == [4]
    assert [one.recheck for one in bench.results] == [outcome]
    assert total(bench.runtime.metrics, "ragmonitor_judge_rechecks_total", outcome=outcome) == 1
    assert total(bench.runtime.metrics, "ragmonitor_judge_rechecks_total") == 1
    assert total(bench.runtime.metrics, "ragmonitor_evaluations_total") == 1
    assert total(bench.runtime.metrics, "ragmonitor_unscored_total") == 0


async def test_every_evaluator_of_a_group_is_judged_twice_not_only_the_one_that_has_the_call():
    class Other(JudgedEvaluator):
        name: ClassVar[str] = "other"

        async def evaluate(self, case, judge):
            return Score((await judge.ask(question("other"))).data["score"], "because")

    def answer(asked):
        parts = asked.schema.get("properties", {})
        return {name: {"score": 4} for name in parts} if asked.name == "group" else {"score": 4}

    lent, sink = runtime(), RecordingSink()
    group = [configured(one, group="g") for one in (JudgedEvaluator(), Other())]
    judge = ScriptedJudge(answer)
    evaluation = live(group, judges={"": judge}, sinks={"test": sink.deliver}, lent=lent, recheck=1.0)
    await evaluation.score_judged(case(), evaluation.choose(case()))
    assert judge.questions[0].name == "group"
    assert {one.evaluator: one.recheck for one in sink.results} == {"judged": "same", "other": "same"}
    assert total(lent.metrics, "ragmonitor_judge_rechecks_total", outcome="same") == 2


@pytest.mark.parametrize(
    ("again", "spent"),
    [
        (Verdict({"score": 4}, "m", 0.5, 7, 3, 1.0, 2, tries=(Attempt(1.0, "ok"),)), (0.75, 17, 8, 3)),
        (JudgeError(UnscoredReason.MALFORMED, "prose", Cost("", 1.0, 2, 4, 1.0, 1)), (1.25, 12, 9, 2)),
    ],
)
async def test_what_a_repeat_cost_is_in_the_result_that_it_is_about_and_nothing_else_of_it(again, spent):
    class Asked(FakeJudge):
        async def ask(self, question):
            if not question.repeat:
                return replace(await super().ask(question), tries=(Attempt(2.0, "first"),))
            if isinstance(again, JudgeError):
                raise again
            return again

    bench = Bench(JudgedEvaluator(), judge=Asked(), recheck=1.0)
    cost = (await bench.run(case())).cost
    assert (cost.dollars, cost.input_tokens, cost.output_tokens, cost.attempts) == spent
    assert (cost.model, cost.seconds, [one.result for one in cost.tries]) == ("fake/model", 0.0, ["first"])


async def test_no_case_is_judged_twice_where_nobody_asked_for_it():
    bench = Bench(JudgedEvaluator(), judge=FakeJudge())
    await bench.run(case())
    assert total(bench.runtime.metrics, "ragmonitor_judge_rechecks_total") == 0


async def test_a_judgement_that_its_judge_refused_is_told_with_its_whole_case_and_others_are_not():
    missed = []
    for reason in (UnscoredReason.PAUSED, UnscoredReason.TIMEOUT):
        bench = Bench(
            JudgedEvaluator(),
            judge=FakeJudge(error=JudgeError(reason, "why")),
            missed=lambda one, about, judged: missed.append((one.judge, about, judged.selection.probability)),
        )
        about = case(1, attributes={"not.a.slice": "x"})
        await bench.evaluation.score_judged(about, bench.evaluation.choose(about))
    assert missed == [("", about, 1.0)]
