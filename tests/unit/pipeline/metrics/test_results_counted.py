"""Which results count in the rates: live ones, and where the others go."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from monitor.model.case import Case, Document, Request, Traffic
from monitor.model.outcome import RateScope, Score, Unscored, UnscoredReason
from monitor.pipeline.fair_queue import FairQueue
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.metrics.slices import SliceMetrics
from monitor.pipeline.service_versions import ServiceVersions
from monitor.testing import RecordingSink
from tests.support.evaluators import FakeJudge, JudgedEvaluator, LocalEvaluator, configured, live, run_local
from tests.support.pipeline import settled
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

MAIN = [f"ragmonitor_evaluation{part}_total" for part in ("s", "_weight", "_weight_squares", "_score_weighted")]


class Bench:
    """An evaluation that knows of traffic, and what its sink got."""

    def __init__(self, evaluator=None, judge=None, *, turns=None, limit=1_000_000):
        self.runtime = runtime()
        self.sink = RecordingSink()
        self.results = self.sink.results
        self.generations = ServiceVersions(self.runtime)
        metrics, clock = self.runtime.metrics, self.runtime.clock
        self.queue = FairQueue(turns or {}, limit=limit, shares={}, clock=clock, patience=900.0)
        self.evaluation = live(
            [configured(evaluator or LocalEvaluator())],
            judges={"": judge} if judge else {},
            sinks={"test": self.sink.deliver},
            lent=self.runtime,
            queue=self.queue,
            counting=ResultMetrics(metrics, SliceMetrics(("tenant",), metrics, clock), self.generations),
            slices=("tenant",),
            late_after=900.0,
        )

    def case(self, number=0, age=1.0, **more):
        answered_at = self.runtime.clock.now() - age
        given = {
            "response": "a",
            "app": "shop",
            "answered_at": answered_at,
            "retrieved_context": (Document("f"),),
            **more,
        }
        return Case(request_id=f"{number:032x}", request=Request("q"), **given)

    async def run(self, case):
        await run_local(self.evaluation, case)
        chosen = self.evaluation.choose(case)
        if chosen:
            await self.evaluation.score_judged(case, chosen)
        return self.results[-1]

    def total(self, name, **labels):
        return total(self.runtime.metrics, name, **labels)


async def test_a_verdict_in_time_is_live_and_its_lag_is_known():
    bench = Bench()
    result = await bench.run(bench.case(age=20))
    assert (result.scope, result.lag) == (RateScope.LIVE, 20)
    assert bench.total("ragmonitor_evaluations_total") == 1
    assert bench.total("ragmonitor_evaluation_lag_seconds_bucket", le="30.0") == 1
    assert bench.total("ragmonitor_evaluation_lag_seconds_bucket", le="10.0") == 0
    assert bench.total("ragmonitor_late_evaluations_total") == 0


async def test_a_late_verdict_adds_to_the_late_series_and_to_no_other_rate():
    bench = Bench()
    result = await bench.run(bench.case(age=901, probability=0.1))
    assert result.scope is RateScope.LATE
    assert bench.total("ragmonitor_late_evaluations_total", outcome="defect") == 1
    assert bench.total("ragmonitor_late_evaluation_weight_total", outcome="defect") == 10
    assert bench.total("ragmonitor_late_evaluation_weight_squares_total", outcome="defect") == 100
    assert [bench.total(name) for name in MAIN] == [0, 0, 0, 0]
    assert bench.total("ragmonitor_slice_evaluations_total") == 0
    assert bench.total("ragmonitor_evaluation_lag_seconds_count") == 1
    assert bench.generations.latest("shop", "local") is None
    assert bench.total("ragmonitor_service_version_info") == 0


async def test_what_comes_to_no_verdict_too_late_is_no_part_of_the_share_without_verdict():
    """Else a backlog would raise RagUnscoredHigh: its scores are not among those that the share is taken of."""
    broken, without = Bench(LocalEvaluator(value=-1)), Bench()
    await broken.run(broken.case(age=901))
    await without.run(without.case(age=901, retrieved_context=()))
    assert broken.total("ragmonitor_late_evaluations_total", outcome="unscored") == 1
    assert without.total("ragmonitor_late_evaluations_total", outcome="skipped") == 1
    assert broken.total("ragmonitor_unscored_total") == without.total("ragmonitor_skipped_total") == 0
    assert broken.total("ragmonitor_evaluations_selected_total") == 1


async def test_a_case_that_does_not_say_when_it_was_answered_is_live_and_has_no_lag():
    bench = Bench()
    result = await bench.run(bench.case(answered_at=0.0))
    assert (result.scope, result.lag) == (RateScope.LIVE, None)
    assert bench.total("ragmonitor_evaluation_lag_seconds_count") == 0


async def test_an_answer_from_the_future_has_no_lag_below_zero():
    assert (await (bench := Bench()).run(bench.case(age=-30))).lag == 0


@pytest.mark.parametrize("traffic", [Traffic.EXPERIMENT, Traffic.SYNTHETIC, Traffic.INTERNAL])
async def test_what_is_not_production_is_counted_apart_whatever_comes_of_it(traffic):
    bench = Bench()
    assert (await bench.run(bench.case(1, traffic=traffic, probability=0.5))).scope is RateScope.NON_PRODUCTION
    await bench.run(bench.case(2, traffic=traffic, retrieved_context=()))
    broken = Bench(LocalEvaluator(value=-1))
    await broken.run(broken.case(3, traffic=traffic))
    labels = {"app": "shop", "evaluator": "local", "traffic": traffic.value}
    assert bench.total("ragmonitor_non_production_evaluations_total", outcome="defect", **labels) == 1
    assert bench.total("ragmonitor_non_production_evaluation_weight_total", outcome="defect", **labels) == 2
    assert bench.total("ragmonitor_non_production_evaluations_total", outcome="skipped", **labels) == 1
    assert broken.total("ragmonitor_non_production_evaluations_total", outcome="unscored", **labels) == 1
    assert [bench.total(name) for name in MAIN] == [0, 0, 0, 0]
    assert [one.total(f"ragmonitor_{name}_total") for one, name in ((bench, "skipped"), (broken, "unscored"))] == [0, 0]
    for one, selected in ((bench, 2), (broken, 1)):
        assert one.total("ragmonitor_evaluations_selected_total") == selected
        assert one.total("ragmonitor_evaluations_pending") == 0


async def test_only_slices_and_harmless_facts_leave_with_a_result():
    bench = Bench()
    told = {"tenant.id": "north", "customer.email": "a@b.c", "service.version": "2"}
    result = await bench.run(bench.case(attributes=told))
    assert dict(result.case.attributes) == {"tenant": "north", "service.version": "2"}
    assert bench.total("ragmonitor_slice_evaluations_total", slice="tenant", value="north") == 1


async def test_an_evaluator_and_a_sampler_see_all_attributes():
    seen = []

    class Curious(LocalEvaluator):
        async def evaluate(self, case, judge):
            seen.append(dict(case.attributes))
            return Score(4, "because")

    bench = Bench(Curious())
    await bench.run(bench.case(attributes={"route": "/ask"}))
    assert seen == [{"route": "/ask"}]


async def test_a_result_names_the_versions_behind_it():
    bench = Bench(JudgedEvaluator(), FakeJudge())
    told = {"llm.prompt_template.version": "3", "service.version": "1.2", "index.version": "may"}
    result = await bench.run(bench.case(1, attributes=told))
    parts = result.service_version.parts
    assert parts == {
        "evaluator": result.version,
        "judge": "fake/model",
        "prompt": "3",
        "index": "may",
        "service": "1.2",
    }
    await bench.run(bench.case(2, attributes={**told, "service.version": "1.3"}))
    assert bench.generations.latest("shop", "judged").text == "service 1.2 -> 1.3"
    assert bench.total("ragmonitor_service_version_info") == 2


async def test_a_score_for_which_no_judge_was_asked_is_no_change_of_judge():
    """An empty answer is scored by rule: which model would have answered, and under which name, nobody has said."""

    class ByRule(JudgedEvaluator):
        async def evaluate(self, case, judge):
            return Score(1, "by rule") if not case.response else await super().evaluate(case, judge)

    bench = Bench(ByRule(), FakeJudge())
    await bench.run(bench.case(1, response=""))
    assert bench.total("ragmonitor_service_version_info") == 0
    await bench.run(bench.case(2))
    assert bench.total("ragmonitor_service_version_info") == 1


async def test_a_score_that_shares_its_call_with_another_evaluator_is_one_of_its_judge():
    class Shares(FakeJudge):
        async def ask(self, question):
            return replace(await super().ask(question), attempts=0)

    bench = Bench(JudgedEvaluator(), Shares())
    await bench.run(bench.case(1))
    assert bench.total("ragmonitor_service_version_info") == 1


async def test_a_judgement_that_was_given_up_begins_no_generation():
    bench = Bench(LocalEvaluator(value=-1))
    assert (await bench.run(bench.case())).outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")
    assert bench.total("ragmonitor_service_version_info") == 0


class TickingJudge(FakeJudge):
    """Answers all that it was asked when the next tick comes."""

    def __init__(self):
        super().__init__()
        self.tick = anyio.Event()

    async def ask(self, question):
        await self.tick.wait()
        return await super().ask(question)

    async def next(self):
        self.tick.set()
        self.tick = anyio.Event()
        await settled()


async def test_a_loud_app_pays_itself_for_what_does_not_fit_and_moves_nobody_elses_verdicts():
    judge = TickingJudge()
    bench = Bench(JudgedEvaluator(), judge, turns={"": 2}, limit=40)
    ticks = {}
    came = {}

    async def take(results):
        ticks.update((one.case.request_id, now - came[one.case.request_id]) for one in results)

    bench.evaluation._publisher._sinks["test"] = take
    async with anyio.create_task_group() as tasks:
        for now in range(30):
            for number in range(now * 100, now * 100 + 51):
                one = bench.case(number, app="loud" if number % 100 else "quiet")
                came[one.request_id] = now
                tasks.start_soon(bench.evaluation.score_judged, one, bench.evaluation.choose(one))
            await settled()
            await judge.next()
        assert max(ticks[f"{n * 100:032x}"] for n in range(28)) <= 1
        assert bench.total("ragmonitor_unscored_total", app="loud", reason="overloaded") > 1000
        assert bench.total("ragmonitor_unscored_total", app="quiet") == 0
        for app in ("loud", "quiet"):
            parts = ("evaluations_total", "unscored_total", "evaluations_pending")
            parts_sum = sum(bench.total(f"ragmonitor_{part}", app=app) for part in parts)
            assert bench.total("ragmonitor_evaluations_selected_total", app=app) == parts_sum
        assert bench.queue.size <= 40
        tasks.cancel_scope.cancel()
