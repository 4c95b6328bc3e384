"""Scoring apart from any pipeline: every evaluator gives a result, whatever goes wrong, and nothing else happens."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import anyio
import pytest

from monitor.errors import ConfigError, JudgeError
from monitor.model.outcome import (
    DefectRule,
    RateScope,
    Score,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
    result_id,
)
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer, versions
from monitor.stages import Question, SamplingDecision, Verdict
from tests.support.evaluators import FakeJudge, JudgedEvaluator, LocalEvaluator, case, configured
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


class AskedToo(JudgedEvaluator):
    name: ClassVar[str] = "asked_too"

    async def evaluate(self, case, judge):
        verdict = await judge.ask(Question("too", "", {}, {}))
        return Score(verdict.data["score"], "because")


class GroupedAnswers(FakeJudge):
    """Answers a merged question part by part, and remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def ask(self, question):
        self.asked.append(question)
        data = {"score": 4}
        if question.name == "group":
            data = dict.fromkeys(question.schema["properties"], data)
        return Verdict(data, self.model, dollars=0.5, input_tokens=10, output_tokens=4)

    @property
    def names(self):
        return sorted(question.name for question in self.asked)


class Suspension:
    def __await__(self):
        yield


class Waiting(LocalEvaluator):
    name: ClassVar[str] = "waiting"

    async def evaluate(self, case, judge):
        await Suspension()
        return Score(1, "x")


async def score_one(evaluator, about=None, judge=None, **more):
    (result,) = await Scorer([configured(evaluator)], {"": judge} if judge else {}, **more).score(about or case())
    return result


async def test_without_a_choice_every_evaluator_scores_every_case_local_ones_first():
    scorer = Scorer([configured(JudgedEvaluator()), configured(LocalEvaluator(value=5))], {"": FakeJudge(score=1)})
    judged = await scorer.score(case())
    assert [(one.evaluator, one.outcome.value, one.defect) for one in judged] == [
        ("local", 5, False),
        ("judged", 1, True),
    ]
    assert [one.weight for one in judged] == [1, 1]


async def test_a_result_weighs_the_inverse_of_both_probabilities_and_stands_as_it_was_chosen():
    scorer, one = Scorer([configured(LocalEvaluator())]), configured(LocalEvaluator())
    (result,) = await scorer.score(
        case(probability=0.1), [(one, SamplingDecision(0.5, 0.4, scope=RateScope.USER_DISLIKED))]
    )
    assert result.weight == pytest.approx(20)
    assert (result.selection.probability, result.selection.target) == (0.5, 0.4)
    assert result.scope is RateScope.USER_DISLIKED


@pytest.mark.parametrize("reason", list(UnscoredReason))
async def test_whatever_goes_wrong_at_the_judge_is_a_result_with_its_reason(reason):
    result = await score_one(JudgedEvaluator(), judge=FakeJudge(error=JudgeError(reason, "no")))
    assert (result.outcome, result.level, result.defect) == (Unscored(reason, "no"), "", False)


async def test_an_evaluator_that_raises_gives_a_result_and_an_event():
    lent = runtime()
    result = await score_one(LocalEvaluator(value=-1), runtime=lent)
    assert result.outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")
    assert total(lent.metrics, "ragmonitor_events_total", event="evaluator_failed") == 1


@pytest.mark.parametrize("value", [0, 6, 2.5, float("nan"), float("inf")])
async def test_a_score_off_its_scale_is_no_score(value):
    result = await score_one(JudgedEvaluator(), judge=FakeJudge(score=value))
    assert result.outcome.reason is UnscoredReason.OUT_OF_RANGE


async def test_a_local_evaluator_that_waits_is_a_fault_and_not_a_hang():
    assert (await score_one(Waiting())).outcome == Unscored(UnscoredReason.ERROR, "RuntimeError")


async def test_a_case_without_context_is_skipped_by_those_who_need_it():
    assert (await score_one(LocalEvaluator(), case(context=""))).outcome == Skipped(SkippedReason.NO_RETRIEVAL)


async def test_a_fact_that_a_local_evaluator_finds_is_an_attribute_of_the_case_for_the_judged_ones():
    seen = []

    class Finding(LocalEvaluator):
        async def evaluate(self, case, judge):
            return Score(4, "because", facts={"language": "fr"})

    class Looking(JudgedEvaluator):
        async def evaluate(self, case, judge):
            seen.append(case.attributes["language"])
            return await super().evaluate(case, judge)

    scorer = Scorer([configured(Looking()), configured(Finding())], {"": FakeJudge()}, slices=("language",))
    local, judged = await scorer.score(case())
    assert seen == ["fr"]
    assert ("language" in local.case.attributes, judged.case.attributes["language"]) == (False, "fr")


async def test_another_repeat_asks_another_question():
    judge = GroupedAnswers()
    scorer = Scorer([configured(JudgedEvaluator())], {"": judge})
    await scorer.score(case())
    await scorer.score(case(), repeat=2000)
    assert [question.repeat for question in judge.asked] == [0, 2000]


@pytest.mark.parametrize(
    ("groups", "calls"), [(("g", "g"), ["group"]), (("g", "h"), ["q", "too"]), (("", ""), ["q", "too"])]
)
async def test_evaluators_of_one_group_are_asked_in_one_call(groups, calls):
    judge = GroupedAnswers()
    members = [configured(one, group=group) for one, group in zip((JudgedEvaluator(), AskedToo()), groups, strict=True)]
    found = await Scorer(members, {"": judge}).score(case(), repeat=3)
    assert judge.names == calls
    assert {question.repeat for question in judge.asked} == {3}
    assert [result.evaluator for result in found] == ["judged", "asked_too"]
    assert all(isinstance(result.outcome, Score) for result in found)
    assert sum(result.cost.dollars for result in found) == 0.5 * len(calls)


async def test_a_result_is_told_as_soon_as_it_is_there_while_another_evaluator_waits_for_its_judge():
    gate, told = anyio.Event(), []

    async def each(result):
        told.append(result.evaluator)

    slow = configured(AskedToo(), judge="slow")
    scorer = Scorer([slow, configured(JudgedEvaluator())], {"": FakeJudge(), "slow": FakeJudge(gate=gate)})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: scorer.score(case(), each=each))
        await anyio.wait_all_tasks_blocked()
        assert told == ["judged"]
        gate.set()
    assert told == ["judged", "asked_too"]


async def test_the_time_of_a_judged_evaluation_counts_from_when_it_is_said_to_have_begun():
    lent = runtime()
    scorer = Scorer([configured(JudgedEvaluator())], {"": FakeJudge()}, runtime=lent)
    (result,) = await scorer.score(case(), began=lent.clock.monotonic() - 7)
    assert result.cost.seconds == 7


def test_a_judged_evaluator_without_its_judge_is_refused():
    with pytest.raises(ConfigError, match="judged: needs the judge"):
        Scorer([configured(JudgedEvaluator(), judge="other")], {"": FakeJudge()})


async def test_scoring_counts_nothing():
    lent = runtime()

    def samples():
        return {
            (sample.name, *sample.labels.items()): sample.value
            for family in lent.metrics.registry.collect()
            for sample in family.samples
        }

    before = samples()
    scorer = Scorer([configured(LocalEvaluator()), configured(JudgedEvaluator())], {"": FakeJudge()}, runtime=lent)
    assert len(await scorer.score(case())) == 2
    assert samples() == before


def test_a_defect_rule_other_than_the_default_is_another_version():
    """A rate by one rule is not the past of a rate by another. The scores are the same, and so are their ids."""

    def version(rule: DefectRule) -> str:
        one = replace(configured(LocalEvaluator()), defect=rule)
        return versions([one], {})[one.evaluator.name]

    usual = LocalEvaluator.default_defect
    assert version(usual) == version(usual.on(LocalEvaluator.scale)) == "1"
    others = [DefectRule("below", 2), DefectRule("at_least", 2), DefectRule("label", label="bad")]
    assert [version(rule) for rule in others] == ["1~below 2", "1~at_least 2", "1~label bad"]
    assert {result_id("r", "local", version(rule)) for rule in others} == {result_id("r", "local", "1")}
    assert result_id("r", "local", "1~2") != result_id("r", "local", "1~3")  # a plug-in's own version


def test_other_options_another_judge_or_other_company_are_another_version():
    """Results of two versions are never averaged."""

    def version(one: ConfiguredEvaluator, *others: ConfiguredEvaluator) -> str:
        return versions([one, *others], {"": "fake/model", "small": "small"})[one.evaluator.name]

    assert version(configured(LocalEvaluator())) == "1"
    found = [
        version(configured(LocalEvaluator())),
        version(configured(LocalEvaluator(value=3))),
        version(configured(JudgedEvaluator())),
        version(configured(JudgedEvaluator(), judge="small")),
        version(configured(JudgedEvaluator(), group="g"), configured(AskedToo(), group="g")),
    ]
    assert len(set(found)) == len(found)
    assert version(configured(JudgedEvaluator(), group="g")) == version(configured(JudgedEvaluator(), group="other"))
