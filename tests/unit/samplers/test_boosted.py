"""Boosted and budgeted sampling as components: what they take, what they go by, what they do when they must not."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from monitor.clock import ManualClock
from monitor.config import Config
from monitor.config.file import parse
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.samplers.boosted import Boosted
from monitor.samplers.budget import BudgetSampler
from monitor.samplers.by_attribute import ByAttribute
from monitor.samplers.uniform import Uniform
from monitor.statistics.defect_model import ERRORS, INPUTS, inputs
from tests.support.rubrics import shipped
from tests.support.runtime import RememberedState, runtime, total
from tests.support.sampled import BAD, GOOD, OVERLAP, case, local


def test_what_the_context_does_not_support_stands_out_in_every_input() -> None:
    good, bad = inputs(local(GOOD), OVERLAP), inputs(local(BAD), OVERLAP)
    assert good is not None
    assert bad is not None
    assert len(good) == len(bad) == len(INPUTS)
    higher = [name for name, one, other in zip(INPUTS, good, bad, strict=True) if other > one]
    assert higher == ["value_absent", "marked_absent_n", "trigrams_absent", "doc_share", "novel_words"]
    assert all(abs(value) <= 3 for value in good + bad)


def test_an_unsupported_answer_is_likelier_judged_from_the_first_case_on() -> None:
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    good, bad = sampling.draw(case(GOOD), local(GOOD)), sampling.draw(case(BAD), local(BAD))
    assert bad.probability > 2 * good.probability
    assert good.probability >= good.target / 2


def test_an_evaluator_that_has_nothing_to_do_with_overlap_begins_evenly() -> None:
    sampling = Boosted(per_day=24_000).open(shipped("hate_unfairness"), runtime())
    good, bad = sampling.draw(case(GOOD), local(GOOD)), sampling.draw(case(BAD), local(BAD))
    assert good.probability == pytest.approx(bad.probability, rel=0.001)


def test_without_the_local_score_a_case_has_the_mean_chance_and_teaches_nothing() -> None:
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    drawn = sampling.draw(case(), {})
    assert (drawn.probability, drawn.risk) == (drawn.target, None)
    before = sampling.draw(case(BAD), local(BAD)).risk
    sampling.learn(case(), drawn, defect=True, dollars=0.0)
    assert sampling.draw(case(BAD), local(BAD)).risk == before


def test_a_score_of_another_evaluator_under_that_name_is_no_measure() -> None:
    assert inputs({OVERLAP: Score(0.5, "")}, OVERLAP) is None
    assert inputs({OVERLAP: Score(0.5, "", measures={"words": math.nan})}, OVERLAP) is None


def test_each_app_has_a_model_of_its_own_and_no_verdict_teaches_nothing() -> None:
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    other = Case(request_id="1", app="other", response=GOOD)
    before = sampling.draw(other, local()).risk
    drawn = sampling.draw(case(), local())
    sampling.learn(case(), drawn, defect=None, dollars=0.01)
    assert sampling.draw(case(), local()).risk == drawn.risk
    for _ in range(20):
        sampling.learn(case(), drawn, defect=True, dollars=0.01)
    assert sampling.draw(case(), local()).risk > 0.3
    assert sampling.draw(other, local()).risk == before


def test_apps_without_number_take_no_memory_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.samplers.boosted._APPS", 3)
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    for number in range(10):
        sampling.draw(Case(request_id="1", app=str(number)), local())
    assert list(sampling._apps) == ["7", "8", "9"]


def test_thumbs_down_multiply_the_odds() -> None:
    sampling = Boosted(per_day=24_000, odds={"feedback=down": 10.0}).open(shipped("groundedness"), runtime())
    plain = sampling.draw(case(), local()).risk
    marked = sampling.draw(case(attributes={"feedback": "down"}), local()).risk
    # Of a true defect, that is: a verdict is one too where the judge errs, which a thumbs-down does not change.
    error = sum(ERRORS) / len(ERRORS)
    odds = [one / (1 - one) for one in ((seen - error) / (1 - 2 * error) for seen in (plain, marked))]
    assert odds[1] == pytest.approx(10 * odds[0])
    assert sampling.draw(case(attributes={"feedback": "up"}), local()).risk == plain


def test_a_choice_that_does_harm_is_given_up_for_a_week_and_said_so() -> None:
    lent, rng = runtime(), random.Random(8)
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), lent)
    for number in range(3000):  # every defect where the model was led to expect none, heavy and rare
        defect = number % 20 == 0
        drawn = sampling.draw(case(), local())
        share = 0.5 if defect else rng.choice((0.5, 2.0))
        led = replace(drawn, probability=drawn.target * share)
        sampling.learn(case(), led, defect=defect, dollars=0.0)
    assert total(lent.metrics, "ragmonitor_events_total", event="boost_paused") == 1
    assert sampling.draw(case(BAD), local(BAD)).risk is None
    lent.clock.advance(7 * 86400 + 1)
    assert sampling.draw(case(BAD), local(BAD)).risk is not None


def test_a_budget_in_dollars_follows_what_judgements_cost() -> None:
    lent = runtime()
    sampling = BudgetSampler(dollars_per_day=2.4, dollars_per_evaluation=0.001).open(shipped("groundedness"), lent)
    limit = total(lent.metrics, "ragmonitor_sampling_bucket_limit_evaluations")
    assert limit == pytest.approx(4 * 100 / 6)
    for number in range(500):
        lent.clock.advance(60)
        sampling.learn(case(number=number), sampling.draw(case(), {}), defect=None, dollars=0.004)
    assert total(lent.metrics, "ragmonitor_sampling_bucket_limit_evaluations") == pytest.approx(limit / 4, rel=0.05)


def test_the_model_is_exported_where_asked_for() -> None:
    lent = runtime()
    sampling = Boosted(per_day=24_000, export_model=True).open(shipped("groundedness"), lent)
    sampling.learn(case(), sampling.draw(case(), local()), defect=True, dollars=0.0)
    found = {name: total(lent.metrics, "ragmonitor_sampling_coefficient", input=name) for name in INPUTS}
    assert set(found) == set(INPUTS)
    assert any(found.values())


def test_each_kind_has_its_rate() -> None:
    sampler = ByAttribute(attribute="tenant", rates={"gold": "50%", "free": 0}, default="5%")
    kinds = [{"tenant": "gold"}, {"tenant": "free"}, {"tenant": "tin"}, {}]
    assert [sampler.probability(case(attributes=kind)) for kind in kinds] == [0.5, 0, 0.05, 0.05]
    assert ByAttribute(attribute="app", rates={"shop": 0.2}, default=1).probability(case()) == 0.2


def config(sample: object, *others: dict) -> Config:
    return parse({"evaluators": [*others, {"type": "groundedness", "sample": sample, "optional": True}], "alerts": []})


def sampler_of(sample: object, *others: dict):
    return config(sample, *others).configured_evaluators[-1].sampler


def test_a_budget_is_written_in_few_words() -> None:
    overlap = {"type": OVERLAP}
    assert sampler_of({"per_hour": 500, "boost": OVERLAP}, overlap) == Boosted(per_hour=500)
    assert sampler_of({"per_day": 2400}) == BudgetSampler(per_day=2400)
    assert sampler_of({"dollars_per_day": 5}) == BudgetSampler(dollars_per_day=5)
    assert sampler_of({"type": "uniform", "rate": "5%"}) == Uniform(rate=0.05)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"per_day": 1, "per_hour": 1}, "not per_day and per_hour"),
        ({"boost": OVERLAP}, "none is given"),
        ({"per_hour": 500, "max_per_hour": 100}, "100 is less than the mean hour of the budget, 500"),
        ({"per_day": 0}, "must be above 0"),
        ({"per_day": 10, "boost": "relevance"}, OVERLAP),
        ({"per_day": 10, "boost": OVERLAP}, "not a configured evaluator"),
        ({"per_day": 10, "boost": OVERLAP, "odds": {"down": 2}}, "odds"),
        ({"type": "by_attribute", "attribute": "tenant", "rates": {}}, "rates"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(sample, said) -> None:
    with pytest.raises(ConfigError, match=r"evaluators\[0\]") as caught:
        config(sample)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "sampler", [Boosted(per_day=240), BudgetSampler(per_day=240), BudgetSampler(dollars_per_day=1)]
)
def test_lives_that_are_cut_short_spend_a_budget_once_together(sampler: Boosted | BudgetSampler) -> None:
    clock, kept, drawn = ManualClock(), RememberedState(), []
    for _ in range(30):  # a crash loop: a life a second, a hundred cases in each
        sampling = sampler.open(shipped("groundedness"), runtime(clock, kept))
        drawn += [sampling.draw(case(GOOD), local(GOOD)).probability for _ in range(100)]
        clock.advance(1.0)
        kept.ended()
    steady = sampler.open(shipped("groundedness"), runtime(ManualClock(), RememberedState()))
    in_one_life = math.fsum(steady.draw(case(GOOD), local(GOOD)).probability for _ in range(3000))
    assert math.fsum(drawn) <= in_one_life * 1.1 + 1


def test_a_budget_goes_on_after_a_night_off_as_if_it_had_waited() -> None:
    clock, kept = ManualClock(), RememberedState()
    first = BudgetSampler(per_day=240).open(shipped("groundedness"), runtime(clock, kept))
    for _ in range(300):
        clock.advance(60.0)
        target = first.draw(case(GOOD), local(GOOD)).target
    kept.ended()
    clock.advance(8 * 3600.0)
    again = BudgetSampler(per_day=240).open(shipped("groundedness"), runtime(clock, kept)).draw(case(GOOD), local(GOOD))
    assert again.target == pytest.approx(target, rel=0.5)
    assert not again.thinned


@pytest.mark.parametrize(
    "kept", [{}, {"at": "x"}, {"at": 0, "share": 1, "price": 1, "priced": 20, "pacer": {"age": -1}}]
)
def test_what_is_no_state_of_a_pacer_leaves_it_as_new(kept: dict[str, object]) -> None:
    state = RememberedState()
    state.follow("pacer of groundedness", lambda: kept)
    state.ended()
    odd = BudgetSampler(per_day=240).open(shipped("groundedness"), runtime(kept=state))
    new = BudgetSampler(per_day=240).open(shipped("groundedness"), runtime())
    assert odd.draw(case(GOOD), local(GOOD)) == new.draw(case(GOOD), local(GOOD))


def test_a_pause_of_boosting_outlives_a_restart_and_ends_on_time() -> None:
    clock, kept, rng = ManualClock(), RememberedState(), random.Random(8)
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime(clock, kept))
    for number in range(3000):  # as in the test of the pause itself
        defect = number % 20 == 0
        drawn = sampling.draw(case(), local())
        led = replace(drawn, probability=drawn.target * (0.5 if defect else rng.choice((0.5, 2.0))))
        sampling.learn(case(), led, defect=defect, dollars=0.0)
    assert sampling.draw(case(BAD), local(BAD)).risk is None
    kept.ended()
    clock.advance(86_400.0)
    again = Boosted(per_day=24_000).open(shipped("groundedness"), runtime(clock, kept))
    assert again.draw(case(BAD), local(BAD)).risk is None
    clock.advance(6 * 86_400.0 + 1)
    assert again.draw(case(BAD), local(BAD)).risk is not None
