"""Quotas: an app that is too loud is judged more thinly, at probabilities that are known; nobody else notices."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from pydantic import ValidationError

from monitor.clock import ManualClock
from monitor.model.case import Traffic
from monitor.model.outcome import DefectRule, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.sampling import CaseSampler
from monitor.pipeline.traffic import Quota, TrafficSettings
from monitor.samplers.budget import BudgetSampler
from monitor.samplers.by_attribute import ByAttribute
from monitor.samplers.uniform import Uniform
from monitor.statistics import consistent_sampling
from tests.support.evaluators import JudgedEvaluator, KeptDraws, LocalEvaluator, case
from tests.support.rubrics import shipped
from tests.support.runtime import runtime, total

HOUR, MINUTE = 3600.0, 60.0
TWO_HOURS = 120  # minutes


class Bench:
    """Samplers at work under quotas; `drawn` holds (app, second, probability) of every first draw."""

    def __init__(self, sampler, quotas, *, draws=None, evaluators=("judged",), share=1.0):
        self.runtime = runtime(ManualClock())
        self.runtime.share.set("kafka", share)
        rule = DefectRule("below", 3)
        made = [type("One", (JudgedEvaluator,), {"name": name})() for name in evaluators]
        self.assignments = [ConfiguredEvaluator(one, sampler, rule) for one in made]
        self.draws = draws if draws is not None else KeptDraws()
        self.case_sampler = CaseSampler(
            [*self.assignments, ConfiguredEvaluator(LocalEvaluator(), Uniform(rate=0.5), rule)],
            versions={**dict.fromkeys(evaluators, "1"), "local": "1"},
            draws=self.draws,
            runtime=self.runtime,
            salt="s",
            quotas={name: Quota(**one) for name, one in quotas.items()},
        )
        self.drawn = []

    def draw(self, number, app="loud", which=0, *, applies=True, **more):
        """Whether the case was chosen, and how."""
        context = "facts" if applies else ""
        one = replace(case(number, context), app=app, request_id=f"{app}-{number}", **more)
        before = len(self.draws.kept)
        chosen = self.case_sampler.draw(self.assignments[which], one, {})
        if len(self.draws.kept) > before:
            probability, _ = self.draws.kept[next(reversed(self.draws.kept))]
            self.drawn.append((app, self.runtime.clock.monotonic(), probability))
        return chosen

    def run(self, minutes, first=0, **per_minute):
        """So many cases a minute of each app, numbered from `first` on."""
        for minute in range(minutes):
            for app, number in per_minute.items():
                for one in range(number):
                    self.draw(first + minute * number + one, app)
            self.runtime.clock.advance(MINUTE)

    def busiest(self, app, seconds=HOUR):
        drawn = [(at, chance) for who, at, chance in self.drawn if who == app]
        starts = sorted({at for at, _ in drawn})
        return max(math.fsum(chance for at, chance in drawn if first <= at < first + seconds) for first in starts)

    def chances(self, app):
        return [chance for who, _, chance in self.drawn if who == app]

    def thinned(self, **labels):
        return total(self.runtime.metrics, "ragmonitor_quota_thinned_cases_total", **labels)


def test_an_app_a_hundred_times_louder_stays_within_its_quota_and_a_sixth():
    bench = Bench(Uniform(rate=0.5), {"loud": {"per_hour": 60}, "quiet": {"per_hour": 60}})
    bench.run(90, loud=100, quiet=1)
    assert bench.busiest("loud") <= 70
    assert bench.busiest("loud") > 50
    assert bench.thinned(app="loud", evaluator="judged") > 0
    assert min(bench.chances("loud")) > 0


def test_the_probabilities_of_the_other_apps_are_untouched():
    bench = Bench(Uniform(rate=0.5), {"*": {"per_hour": 60}})
    bench.run(30, loud=100, quiet=1)
    assert set(bench.chances("quiet")) == {0.5}
    assert bench.thinned(app="quiet") == 0 == bench.thinned(app="other")
    free = Bench(Uniform(rate=0.5), {"loud": {"per_hour": 60}})
    assert all(
        free.draw(number, "quiet") is None or free.draw(number, "quiet").probability == 0.5 for number in range(9)
    )
    assert not free.draws.kept, "a case of an app without a quota depends on nothing else, and is not kept"


def test_the_rate_of_a_thinned_app_is_that_of_all_its_traffic():
    """Bursts with six times the defects are thinned most, so that a plain mean of what was judged would be off."""
    bench, truth = Bench(Uniform(rate=0.5), {"loud": {"per_hour": 90}}), []
    for minute in range(TWO_HOURS):
        burst = minute % 60 >= 50
        came = 100 if burst else 20
        for one in range(came):
            bench.draw(len(truth))
            truth.append(one % 10 < 3 if burst else one % 20 == 0)
            bench.runtime.clock.advance(MINUTE / came)
    chances, rate = bench.chances("loud"), fmean(truth)
    assert len(chances) == len(truth)
    estimates, plain, sums = [], [], []
    for salt in range(40):
        judged = [
            (1 / chance, bad)
            for number, (chance, bad) in enumerate(zip(chances, truth, strict=True))
            if consistent_sampling.chosen(f"loud-{number}", f"salt-{salt}", chance)
        ]
        weight = math.fsum(one for one, _ in judged)
        estimates.append(math.fsum(one for one, bad in judged if bad) / weight)
        sums.append(math.fsum(one * (bad - rate) for one, bad in judged) / len(truth))
        plain.append(fmean(bad for _, bad in judged))
    error = stdev(estimates) / math.sqrt(len(estimates))
    assert abs(fmean(estimates) - rate) < 3 * error
    assert abs(fmean(sums)) < 3 * stdev(sums) / math.sqrt(len(sums))
    assert fmean(plain) < rate - 6 * error


def test_a_case_that_comes_again_keeps_its_first_probability_whatever_is_left_by_then():
    bench = Bench(Uniform(rate=0.5), {"loud": {"per_hour": 60}})
    first = [bench.draw(number) for number in range(400)]
    kept = dict(bench.draws.kept)
    bench.runtime.clock.advance(HOUR)
    assert [bench.draw(number) for number in range(400)] == first
    again = Bench(Uniform(rate=0.5), {"loud": {"per_hour": 60}}, draws=bench.draws)
    assert [again.draw(number) for number in range(400)] == first
    assert again.draws.kept == kept
    assert again.thinned() == 0
    assert len({chance for chance, _ in kept.values()}) > 50


def test_all_judged_evaluators_draw_on_the_one_quota_and_local_ones_on_none():
    bench = Bench(Uniform(rate=1.0), {"loud": {"per_hour": 12}}, evaluators=("judged", "other"))
    for number in range(100):
        bench.draw(number, which=number % 2)
    assert math.fsum(bench.chances("loud")) < 2.1
    assert bench.thinned(evaluator="judged") > 0 < bench.thinned(evaluator="other")
    (local,) = [one for one in bench.case_sampler._samplings if one == "local"]
    assignment = ConfiguredEvaluator(LocalEvaluator(), Uniform(rate=0.5), DefectRule("below", 3))
    one = replace(case(1), app="loud", request_id="x")
    assert local
    assert {bench.case_sampler.draw(assignment, replace(one, request_id=str(n)), {}) for n in range(20)} == {
        None,
        bench.case_sampler._samplings["local"].draw(one, {}),
    }


def test_a_case_that_the_evaluator_does_not_apply_to_takes_no_part_of_the_quota():
    bench = Bench(Uniform(rate=1.0), {"loud": {"per_hour": 12}})
    for number in range(100):
        drawn = bench.draw(number, applies=False)
        assert drawn is not None
        assert drawn.probability == 1
    assert bench.draw(1000).probability == 1


def test_a_quota_of_a_day_lets_a_busy_hour_have_more_than_its_twenty_fourth():
    bench = Bench(Uniform(rate=1.0), {"loud": {"per_day": 240}})
    bench.run(60, loud=1)
    assert 2.5 < math.fsum(bench.chances("loud")) / 10 < 5
    assert bench.busiest("loud", 24 * HOUR) <= 280


def test_the_tighter_one_of_both_quotas_binds():
    both = Bench(Uniform(rate=1.0), {"loud": {"per_hour": 30, "per_day": 2400}})
    hour = Bench(Uniform(rate=1.0), {"loud": {"per_hour": 30}})
    for bench in (both, hour):
        bench.run(60, loud=3)
    assert both.chances("loud") == hour.chances("loud")


def test_replicas_of_a_group_share_the_quota():
    half, whole = (Bench(Uniform(rate=1.0), {"loud": {"per_hour": 120}}, share=share) for share in (0.5, 1.0))
    for bench in (half, whole):
        bench.run(TWO_HOURS, loud=10)
    assert half.busiest("loud") == pytest.approx(60, rel=0.17)
    assert whole.busiest("loud") == pytest.approx(120, rel=0.17)
    whole.runtime.share.set("kafka", 0.5)
    whole.drawn.clear()
    whole.run(TWO_HOURS, first=10_000, loud=10)
    assert whole.busiest("loud") == pytest.approx(60, rel=0.17)


def test_a_case_that_is_never_drawn_stays_so_and_spends_nothing():
    sampler = ByAttribute(attribute="app", rates={"loud": 0.0}, default=1.0)
    bench = Bench(sampler, {"loud": {"per_hour": 12}})
    assert all(bench.draw(number) is None for number in range(50))
    assert not bench.draws.kept


def test_a_budget_that_a_quota_spares_goes_to_the_other_apps():
    """A case of which a quota leaves a tenth is a tenth of a case to the budget: it is spent, on the others."""
    spent = {}
    for name, quotas in {"free": {}, "bound": {"loud": {"per_hour": 10}}}.items():
        bench = Bench(BudgetSampler(per_day=960), quotas)
        for number in range(30 * 60):  # thirty hours
            for one in range(4):
                bench.draw(4 * number + one, "loud")
            bench.draw(number, "quiet")
            bench.runtime.clock.advance(MINUTE)
        last_day = [(app, chance) for app, at, chance in bench.drawn if at >= 6 * HOUR]
        spent[name] = [math.fsum(chance for app, chance in last_day if app == who) for who in ("loud", "quiet")]
        expected = total(bench.runtime.metrics, "ragmonitor_sampling_expected_total")
        assert expected == pytest.approx(math.fsum(chance for _, _, chance in bench.drawn))
    assert spent["free"] == pytest.approx([768, 192], rel=0.05)
    assert spent["bound"][0] == pytest.approx(240, rel=0.05)
    assert sum(spent["bound"]) == pytest.approx(960, rel=0.1), "not 432, which the others would get of it otherwise"


def test_what_a_thinned_verdict_teaches_does_not_depend_on_how_much_was_left():
    class Watched(Uniform):
        def open(self, evaluator, runtime):
            return sampling

    class Sampling:
        adaptive = True

        def draw(self, case, local, part=1.0):
            parts.append(part)
            return base.draw(case, local, part)

    parts, base = [], BudgetSampler(per_day=1e6).open(shipped("groundedness"), runtime())
    sampling = Sampling()
    bench = Bench(Watched(), {"loud": {"per_hour": 12}})
    drawn = [bench.draw(number) for number in range(300)]
    assert parts[0] == 1 > parts[-1]
    assert all(one.target / one.probability == pytest.approx(1, abs=1e-3) for one in drawn if one is not None)


def test_apps_beyond_those_that_are_named_have_the_quota_of_the_star_each():
    bench = Bench(Uniform(rate=1.0), {"*": {"per_hour": 12}, "big": {"per_hour": 1200}})
    for app in ("one", "", "big"):
        for number in range(20):
            bench.draw(number, app)
    assert bench.chances("one") == bench.chances("")
    assert sum(bench.chances("big")) > 10 > 3 * sum(bench.chances("one"))
    assert bench.thinned(app="unknown") == bench.thinned(app="one") > 0


def test_the_series_of_a_quota_begin_at_nothing_and_only_where_there_is_one():
    bench = Bench(Uniform(rate=1.0), {"loud": {"per_hour": 12}})
    bench.case_sampler.prepare("loud")
    bench.case_sampler.prepare("free")
    samples = [one for family in bench.runtime.metrics.quota_thinned.collect() for one in family.samples]
    assert {(one.labels["app"], one.labels["evaluator"]) for one in samples} == {("loud", "judged")}
    assert bench.thinned() == 0


@pytest.mark.parametrize("wrong", [{}, {"per_hour": 0}, {"per_day": math.inf}, {"per_week": 1}, {"per_hour": -1}])
def test_a_quota_bounds_something(wrong):
    with pytest.raises(ValidationError):
        TrafficSettings.model_validate({"quotas": {"search": wrong}})


def test_a_local_score_still_reaches_the_sampler():
    seen = []

    class Looking(Uniform):
        def open(self, evaluator, runtime):
            inner = super().open(evaluator, runtime)
            original = inner.draw
            inner.draw = lambda case, local, part=1.0: seen.append(local) or original(case, local, part)
            return inner

    bench = Bench(Looking(rate=1.0), {"loud": {"per_hour": 12}})
    scores = {"local": Score(1, "x")}
    one = replace(case(1), app="loud", traffic=Traffic.SYNTHETIC)
    bench.case_sampler.draw(bench.assignments[0], one, scores)
    assert seen == [scores]
