from __future__ import annotations

from typing import ClassVar

import anyio
import pytest

from monitor.errors import JudgeError
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import DefectRule, Level, Scale, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.pipeline.assignment import Assignment, versions
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, Question, Verdict
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

FIVE = Scale(1, 5, "higher", tuple(Level(str(n), n) for n in range(1, 6)), whole=True)


class Local(Evaluator):
    name: ClassVar[str] = "local"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = FIVE
    needs: ClassVar[frozenset] = frozenset({"context", "response"})
    default_defect: ClassVar[DefectRule] = DefectRule("below", 3)
    value: float = 2

    async def evaluate(self, case, judge):
        if self.value < 0:
            raise RuntimeError("broken")
        return Score(self.value, "because")


class Judged(Local):
    name: ClassVar[str] = "judged"
    cost: ClassVar[str] = "judge"

    async def evaluate(self, case, judge):
        verdict = await judge.ask(Question("q", "", {}, {}))
        return Score(verdict.data["score"], "because")


class Pause:
    def __await__(self):
        yield


class Waiting(Local):
    name: ClassVar[str] = "waiting"

    async def evaluate(self, case, judge):
        await Pause()
        return Score(1, "x")


class FakeJudge:
    model = "fake/model"
    max_characters = 400_000

    def __init__(self, score=4, error=None, gate=None):
        self.score, self.error, self.gate = score, error, gate

    async def ask(self, question):
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        return Verdict({"score": self.score}, self.model, dollars=0.25, input_tokens=10, output_tokens=5)


class Memory:
    def __init__(self):
        self.ids = set()

    def remembered(self, result):
        return result in self.ids

    def remember(self, results):
        self.ids.update(results)


def case(number=0, context="facts", **more):
    documents = (Document(context),) if context else ()
    return Case(
        request_id=f"{number:032x}", request=Request("q"), retrieved_context=documents, response="a", app="shop", **more
    )


class Bench:
    """An evaluation with one assignment, and what its sink got."""

    def __init__(self, evaluator, rate=1.0, judge=None, *, limit=1_000_000, memory=None, before=None, repeat=0.0):
        self.runtime = runtime()
        self.memory = memory or Memory()
        self.results = []
        self.evaluation = Evaluation(
            [Assignment(evaluator, Uniform(rate=rate), evaluator.default_defect)],
            judges={"": judge} if judge else {},
            sinks={**(before or {}), "test": self.take},
            counting=Counting(self.runtime.metrics),
            delivered=self.memory,
            runtime=self.runtime,
            salt="s",
            waiting_limit=limit,
            repeat={"": repeat},
        )

    async def take(self, judged):
        self.results.append(judged)

    async def run(self, one):
        await self.evaluation.run_local(one)
        chosen = self.evaluation.judged_for(one)
        if chosen:
            await self.evaluation.run_judged(one, chosen)
        return self.results[-1] if self.results else None


async def test_a_result_carries_its_level_its_defect_and_the_weight_of_all_probabilities():
    bench = Bench(Judged(), rate=0.5, judge=FakeJudge(score=1))
    chosen = next(n for n in range(100) if bench.evaluation.judged_for(case(n)))
    result = await bench.run(case(chosen, probability=0.1))
    assert (result.level, result.defect) == ("1", True)
    assert result.weight == pytest.approx(20)
    assert (result.spending.dollars, result.spending.input_tokens) == (0.25, 10)


@pytest.mark.parametrize("reason", list(UnscoredReason))
async def test_whatever_goes_wrong_at_the_judge_is_unscored_with_its_reason(reason):
    bench = Bench(Judged(), judge=FakeJudge(error=JudgeError(reason, "no")))
    result = await bench.run(case())
    assert result.outcome == Unscored(reason, "no")
    assert total(bench.runtime.metrics, "ragmonitor_unscored_total", reason=reason.value) == 1
    assert total(bench.runtime.metrics, "ragmonitor_evaluation_weight_total") == 0


async def test_an_evaluator_that_raises_is_unscored_and_an_event():
    bench = Bench(Local(value=-1))
    assert (await bench.run(case())).outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")
    assert total(bench.runtime.metrics, "ragmonitor_events_total", event="evaluator_failed") == 1


@pytest.mark.parametrize("value", [0, 6, 2.5, float("nan"), float("inf")])
async def test_a_score_off_its_scale_is_no_score(value):
    bench = Bench(Judged(), judge=FakeJudge(score=value))
    assert (await bench.run(case())).outcome.reason is UnscoredReason.OUT_OF_RANGE


async def test_a_local_evaluator_that_waits_is_a_fault_and_not_a_hang():
    assert (await Bench(Waiting()).run(case())).outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")


async def test_a_case_without_context_is_skipped_by_those_who_need_it():
    assert (await Bench(Local()).run(case(context=""))).outcome == Skipped(SkippedReason.NO_CONTEXT)


async def test_a_case_that_comes_again_is_not_judged_again():
    bench = Bench(Judged(), judge=FakeJudge())
    await bench.run(case())
    again = Bench(Judged(), judge=FakeJudge(), memory=bench.memory)
    assert await again.run(case()) is None


async def test_another_judge_model_is_another_instrument_with_results_of_its_own():
    bench = Bench(Judged(), judge=FakeJudge())
    first = await bench.run(case())
    other = FakeJudge()
    other.model = "fake/other"
    second = await Bench(Judged(), judge=other, memory=bench.memory).run(case())
    assert first.version != second.version
    assert first.id != second.id


async def test_cases_beyond_the_waiting_limit_are_unscored_while_the_judge_is_slow():
    gate = anyio.Event()
    bench = Bench(Judged(), judge=FakeJudge(gate=gate), limit=10)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.run, case(1, "x" * 8))
        await anyio.wait_all_tasks_blocked()
        result = await bench.run(case(2, "x" * 8))
        assert result.outcome.reason is UnscoredReason.OVERLOADED
        gate.set()
    assert isinstance(bench.results[-1].outcome, Score)
    assert bench.evaluation.waiting == 0


async def test_a_sink_that_fails_is_counted_and_does_not_stop_the_others():
    async def broken(judged):
        raise OSError("disk")

    bench = Bench(Local(), before={"broken": broken})
    await bench.run(case())
    assert len(bench.results) == 1
    assert total(bench.runtime.metrics, "ragmonitor_sink_failures_total", sink="broken") == 1


async def test_what_is_judged_at_one_rate_is_judged_at_every_higher_rate():
    low, high = Bench(Local(), rate=0.1), Bench(Local(), rate=0.4)
    for number in range(300):
        one = case(number)
        if low.evaluation._draw(low.evaluation._local[0], one):
            assert high.evaluation._draw(high.evaluation._local[0], one)


@pytest.mark.parametrize(("second", "outcome"), [(5, "same"), (1, "other"), (None, "unscored")])
async def test_a_case_judged_twice_tells_how_steady_the_judge_is_and_changes_no_rate(second, outcome):
    class Moody(FakeJudge):
        async def ask(self, question):
            if question.repeat and second is None:
                raise JudgeError(UnscoredReason.TIMEOUT, "no")
            return Verdict({"score": second if question.repeat else 4}, self.model)

    bench = Bench(Judged(), judge=Moody(), repeat=1.0)
    await bench.run(case())
    assert [one.outcome.value for one in bench.results] == [4]
    assert total(bench.runtime.metrics, "ragmonitor_judge_repeats_total", outcome=outcome) == 1
    assert total(bench.runtime.metrics, "ragmonitor_judge_repeats_total") == 1
    assert total(bench.runtime.metrics, "ragmonitor_evaluations_total") == 1
    assert total(bench.runtime.metrics, "ragmonitor_unscored_total") == 0


async def test_no_case_is_judged_twice_where_nobody_asked_for_it():
    bench = Bench(Judged(), judge=FakeJudge())
    await bench.run(case())
    assert total(bench.runtime.metrics, "ragmonitor_judge_repeats_total") == 0


class AskedToo(Judged):
    name: ClassVar[str] = "asked_too"

    async def evaluate(self, case, judge):
        verdict = await judge.ask(Question("too", "", {}, {}))
        return Score(verdict.data["score"], "because")


class PanelJudge(FakeJudge):
    def __init__(self):
        super().__init__()
        self.asked = []

    async def ask(self, question):
        self.asked.append(question.name)
        data = {"score": 4}
        if question.name == "panel":
            data = dict.fromkeys(question.schema["properties"], data)
        return Verdict(data, self.model, dollars=0.5, input_tokens=10, output_tokens=4)


@pytest.mark.parametrize(
    ("groups", "calls"), [(("g", "g"), ["panel"]), (("g", "h"), ["q", "too"]), (("", ""), ["q", "too"])]
)
async def test_evaluators_of_one_group_are_asked_in_one_call(groups, calls):
    bench, judge = Bench(Judged(), judge=FakeJudge()), PanelJudge()
    members = [
        Assignment(one, Uniform(rate=1.0), one.default_defect, group=group)
        for one, group in zip((Judged(), AskedToo()), groups, strict=True)
    ]
    evaluation = Evaluation(
        members,
        judges={"": judge},
        sinks={"test": bench.take},
        counting=Counting(runtime().metrics),
        delivered=Memory(),
        runtime=bench.runtime,
        salt="s",
        waiting_limit=1000,
        repeat={},
    )
    await evaluation.run_judged(case(), evaluation.judged_for(case()))
    assert sorted(judge.asked) == calls
    assert sorted(result.evaluator for result in bench.results) == ["asked_too", "judged"]
    assert all(isinstance(result.outcome, Score) for result in bench.results)
    assert sum(result.spending.dollars for result in bench.results) == 0.5 * len(calls)


def test_other_options_another_judge_or_other_company_are_another_version():
    """Results of two versions are never averaged."""
    big, small = FakeJudge(), FakeJudge()
    small.model = "small"

    def version(one: Assignment, *others: Assignment) -> str:
        return versions([one, *others], {"": big, "small": small})[one.evaluator.name]

    def at(evaluator, **more):
        return Assignment(evaluator, Uniform(rate=1.0), evaluator.default_defect, **more)

    assert version(at(Local())) == "1"
    found = [
        version(at(Local())),
        version(at(Local(value=3))),
        version(at(Judged())),
        version(at(Judged(), judge="small")),
        version(at(Judged(), group="g"), at(AskedToo(), group="g")),
    ]
    assert len(set(found)) == len(found)
    assert version(at(Judged(), group="g")) == version(at(Judged(), group="other"))


async def test_a_judgement_that_its_judge_refused_is_told_with_its_whole_case_and_others_are_not():
    missed = []
    for reason in (UnscoredReason.PAUSED, UnscoredReason.TIMEOUT):
        bench = Bench(Judged(), judge=FakeJudge(error=JudgeError(reason, "why")))
        bench.evaluation._missed = lambda about, judged: missed.append((about, judged.selection.probability))
        about = case(1, attributes={"not.a.slice": "x"})
        await bench.evaluation.run_judged(about, bench.evaluation.judged_for(about))
    assert missed == [(about, 1.0)]
