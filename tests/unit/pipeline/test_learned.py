"""The learned order: it begins as the overlap's, learns from the verdicts of its teacher only, and says what spoke."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.evaluators.learned_groundedness import LearnedGroundedness
from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case, Document, Request, Traffic
from monitor.model.outcome import Cost, Outcome, Score, Skipped, SkippedReason
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.learned import LearnedOrder, order_for
from monitor.pipeline.local_evaluation import run_local
from monitor.pipeline.sampling import CaseSampler
from monitor.pipeline.scoring import Scorer, versions
from monitor.samplers.boosted import Boosted
from monitor.samplers.uniform import Uniform
from monitor.stages import Evaluator, PastResult, Sampler
from monitor.statistics.defect_model import INPUTS
from tests.support.evaluators import FakeJudge
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

CONTEXT = "The library opens at nine. It closes at six on weekdays, and it is closed on Sundays."
ANSWERS = (
    "The library opens at nine.",
    "The library opens at nine and closes at six.",
    "The library opens at nine; its café serves 14 kinds of cake.",
    "Elephants from Mars repaired 47 submarines yesterday.",
    "It is closed on Sundays. It opens at nine. It closes at six. On weekdays it closes at six.",
    "\u56fe\u4e66\u9986 library",
    "word " * 5_000,
    "",
)
SEEN = tuple(0.5 for _ in INPUTS)


def made(name: str, sampler: Sampler | None = None, **options: object) -> ConfiguredEvaluator:
    evaluator = registry.read("evaluators", {"type": name, **options}, Evaluator, "here")
    return ConfiguredEvaluator(evaluator, sampler or Uniform(rate=1.0), evaluator.default_defect.on(evaluator.scale))


LEARNED, OVERLAP = made("learned_groundedness"), made("overlap_groundedness")


def answered(response: str, **more: object) -> Case:
    case = Case(request_id="1", request=Request("When?"), retrieved_context=(Document(CONTEXT),), response=response)
    return replace(case, app="shop", **more)  # type: ignore[arg-type]


def measured(response: str) -> Outcome:
    return run_local(OverlapGroundedness(), answered(response))


def sampler(order: LearnedOrder, *, sample: Sampler, names: tuple[str, ...] = ("groundedness",)) -> CaseSampler:
    evaluators = [OVERLAP, LEARNED, *(made(name, sample) for name in names)]
    return CaseSampler(
        evaluators,
        versions={one.evaluator.name: "v1" for one in evaluators},
        draws=None,
        runtime=runtime(),
        salt="",
        learned=order,
    )


def past(number: int = 1, **more: object) -> PastResult:
    version = b"v1".decode()  # as read from a file: equal to the other, and another object
    fields = {"result": str(number), "app": "shop", "evaluator": "groundedness", "version": version, "inputs": SEEN}
    return PastResult(**{**fields, "defect": True, **more})  # type: ignore[arg-type]


def test_it_begins_in_the_order_of_the_overlap() -> None:
    order, found = LearnedOrder("groundedness"), []
    for response in ANSWERS:
        before = measured(response)
        learned = order.rescored("shop", before, LEARNED)
        if isinstance(before, Score) and isinstance(learned, Score):
            found.append((round(before.value, 4), learned.value))
            assert learned.explanation.startswith("Nothing has been learned yet")
            assert learned.label == LEARNED.evaluator.scale.level(learned.value)
            assert learned.evidence == before.evidence
        else:
            assert learned == before
    assert len(found) >= 5
    assert [one for one, _ in sorted(found)] == [one for one, _ in sorted(found, key=lambda one: one[1])]


def test_its_evaluator_alone_measures_as_the_overlap_does() -> None:
    for response in ANSWERS:
        before, learned = measured(response), run_local(LearnedGroundedness(), answered(response))
        if isinstance(before, Score) and isinstance(learned, Score):
            assert (learned.value, learned.measures) == (before.value, before.measures)
        else:
            assert learned == before


async def test_offline_it_is_in_the_order_it_begins_with() -> None:
    scorer = Scorer([OVERLAP, LEARNED])
    _, learned = await scorer.score(answered(ANSWERS[2]))
    untaught = LearnedOrder().rescored("shop", measured(ANSWERS[2]), LEARNED)
    assert isinstance(untaught, Score)
    assert isinstance(learned.outcome, Score)
    assert learned.outcome.value == untaught.value
    assert (learned.scope.value, learned.defect) == ("ranking", False)


def test_an_outcome_without_measures_stays_as_it_is() -> None:
    order = LearnedOrder("groundedness")
    for outcome in (Score(0.5, "from elsewhere"), Skipped(SkippedReason.REFUSAL)):
        assert order.rescored("shop", outcome, LEARNED) is outcome


@given(st.lists(st.floats(), max_size=12), st.floats(), st.floats(), st.booleans())
def test_no_number_breaks_it(seen: list[float], weight: float, shift: float, defect: bool) -> None:
    order = LearnedOrder("groundedness")
    order.verdict("shop", seen, weight if 0 <= weight < 1e9 else 1.0, shift if abs(shift) < 1e9 else 0.0, defect=defect)
    found = order.rescored("shop", measured(ANSWERS[0]), LEARNED)
    assert isinstance(found, Score)
    assert 0 <= found.value <= 1


def test_it_says_which_measures_spoke() -> None:
    order, rng = LearnedOrder("groundedness"), random.Random(1)
    for _ in range(300):
        words = rng.gauss(0, 1)
        seen = tuple(words if name == "novel_words" else rng.gauss(0, 0.5) for name in INPUTS)
        order.verdict("shop", [max(-3.0, min(one, 3.0)) for one in seen], 1.0, 0.0, defect=words > 0.5)
    found = order.rescored("shop", measured(ANSWERS[3]), LEARNED)
    assert isinstance(found, Score)
    assert found.explanation.startswith("Learned from 300 verdicts")
    assert "For a defect: " in found.explanation
    assert "its number of words that no document has (+" in found.explanation


def test_measures_that_say_little_are_named_and_those_that_say_next_to_nothing_are_not() -> None:
    order, rng = LearnedOrder("groundedness"), random.Random(1)
    for _ in range(300):
        seen = [rng.gauss(0, 0.5) for _ in INPUTS]
        order.verdict("shop", [max(-3.0, min(one, 3.0)) for one in seen], 1.0, 0.0, defect=rng.random() < 0.5)
    said = [order.rescored("shop", measured(one), LEARNED) for one in ANSWERS]
    shares = [
        float(text)
        for one in said
        if isinstance(one, Score)
        for text in re.findall(r"\(([+-][0-9.]+)\)", one.explanation)
    ]
    assert min(map(abs, shares)) < 1
    assert min(map(abs, shares)) >= 0.1


def test_verdicts_of_its_teacher_on_production_traffic_teach_it_once() -> None:
    order = LearnedOrder("groundedness")
    cases = sampler(order, sample=Uniform(rate=1.0), names=("groundedness", "relevance"))
    for one in (
        past(1),
        past(1),
        past(2, evaluator="relevance"),
        past(3, version="of another judge"),
        past(4, defect=None),
        past(5, inputs=()),
        past(6, inputs=(1.0, 2.0)),
        past(7, app="other"),
    ):
        cases.learn_past(one)
    assert (order.standing("shop").taught, order.standing("other").taught) == (1, 1)


def test_of_a_thousand_results_that_are_replayed_twice_each_teaches_once() -> None:
    order = LearnedOrder("groundedness")
    cases = sampler(order, sample=Uniform(rate=1.0))
    for number in [*range(1000), *range(1000)]:
        cases.learn_past(past(number))
    assert order.standing("shop").taught == 1000


async def test_a_verdict_teaches_by_the_inputs_of_the_overlap_also_where_the_sample_is_even() -> None:
    order = LearnedOrder("groundedness")
    cases = sampler(order, sample=Uniform(rate=0.5))
    local, judged = measured(ANSWERS[3]), made("groundedness", Uniform(rate=0.5))
    assert isinstance(local, Score)
    drawn = []
    for number in range(40):
        one = answered(ANSWERS[3], request_id=str(number))
        drawn.append(cases.draw(judged, one, {"overlap_groundedness": local}))
    chosen = [one for one in drawn if one is not None]
    assert 0 < len(chosen) < 40
    assert all(len(one.inputs) == len(INPUTS) for one in chosen)
    scorer = Scorer([judged], {"": FakeJudge(score=1)})
    for traffic in (Traffic.SYNTHETIC, Traffic.PRODUCTION):
        one = answered(ANSWERS[3], request_id=traffic.value, traffic=traffic)
        result = scorer.result(judged, one, Score(1, "bad"), chosen[0], Cost())
        cases.learn(chosen[0], one, result)
    assert order.standing("shop").taught == 1


def test_it_learns_by_the_models_of_a_boosted_teacher_not_twice() -> None:
    order = LearnedOrder("groundedness")
    cases = sampler(order, sample=Boosted(per_day=1e6))
    for number in range(50):
        cases.learn_past(past(number, defect=number % 2 == 0))
    found = order.standing("shop")
    assert (found.taught, found.verdicts, found.defects) == (50, 50, 25)
    assert order._learners is cases._samplings["groundedness"].learners  # type: ignore[attr-defined]


def test_its_version_changes_with_the_judge_of_its_teacher() -> None:
    evaluators = [OVERLAP, LEARNED, made("groundedness")]
    one, other = (versions(evaluators, {"": model}) for model in ("openai/one", "openai/other"))
    assert one["learned_groundedness"] != other["learned_groundedness"]
    assert one["overlap_groundedness"] == other["overlap_groundedness"]


def test_its_teacher_is_the_first_that_asks_a_judge_about_grounding_unless_one_is_named() -> None:
    evaluators = [OVERLAP, made("relevance"), made("faithfulness"), made("groundedness")]
    own = made("learned_groundedness", learns_from="groundedness")
    first, named = order_for([LEARNED, *evaluators]), order_for([own, *evaluators])
    assert first is not None
    assert named is not None
    assert (first.teacher, named.teacher) == ("faithfulness", "groundedness")
    assert order_for(evaluators) is None
