"""The desk for verdicts of others: under whose name, with which weight, once; and what a user's "no" sets off."""

from __future__ import annotations

import random
from dataclasses import replace

import anyio
import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.errors import MonitorError
from monitor.extraction.feedback import FeedbackSettings
from monitor.model.ack import Ack
from monitor.model.case import Reading, ReadingStatus, Traffic
from monitor.model.external import ExternalScore, ScoreSource
from monitor.model.outcome import RateScope, Score
from monitor.pipeline.feedback import processor
from monitor.pipeline.feedback.boost import Agreement, Unchosen
from monitor.pipeline.feedback.names import ExternalEvaluators
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.publish import Publisher
from monitor.samplers.uniform import Uniform
from monitor.testing import RecordingSink
from tests.support.evaluators import FakeJudge, JudgedEvaluator, KeptDraws, Memory, case, configured, live
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


class Past:
    def __init__(self):
        self.rows, self.broken = [], False

    async def by_trace(self, trace_id):
        if self.broken:
            raise MonitorError("the history cannot be read")
        return [row for row in self.rows if row["trace_id"] == trace_id]


class Bench:
    """A judged evaluator at `rate` that finds everything bad, and a desk."""

    def __init__(self, *, rate=0.1, judge=None, draws=None, topic=None, **settings):
        self.runtime, self.sink, self.past = runtime(), RecordingSink(), Past()
        self.results = self.sink.results
        metrics, memory = self.runtime.metrics, Memory()
        agreement, counting = Agreement(metrics), ResultMetrics(metrics)
        sinks = {"test": self.sink.deliver}
        self.evaluation = live(
            [configured(JudgedEvaluator(), Uniform(rate=rate))],
            judges={"": judge or FakeJudge(score=1)},
            sinks=sinks,
            counting=counting,
            memory=memory,
            draws=draws if draws is not None else KeptDraws(),
            lent=self.runtime,
            raises=True,
            listeners=[agreement.on_result],
        )
        options = FeedbackSettings.model_validate(settings)
        self.names = ExternalEvaluators(options, counting, {"judged"}, options.evaluators)
        self.processor = FeedbackProcessor(
            options,
            names=self.names,
            evaluation=self.evaluation,
            counting=counting,
            publisher=Publisher(sinks, memory, self.runtime, listeners=[agreement.on_result]),
            past=self.past.by_trace,
            agreement=agreement,
            runtime=self.runtime,
            late_after=900.0,
            slices=["topic"] if topic is not None else [],
            topic=topic,
        )

    async def tell(self, *verdicts):
        """Have these worked off, with all that follows."""
        settled = []
        ack = Ack(lambda: settled.append(True))
        self.processor.take(verdicts, ack)
        ack.settle()
        async with anyio.create_task_group() as group:
            group.start_soon(self.processor.run)
            await anyio.wait_all_tasks_blocked()
            assert settled
            group.cancel_scope.cancel()

    async def boost(self, one, *said):
        await self.processor.before_sampling(Reading(ReadingStatus.READY, one, external_scores=said))
        return self.processor.boost(one)

    async def process(self, one, *said):
        """As the pipeline does: verdicts in the trace, the draw, the judge. Whether it was judged."""
        chosen = self.evaluation.choose(one, {}, await self.boost(one, *said))
        self.processor.after_sampling(one, chosen)
        await self.evaluation.score_judged(one, chosen)
        return bool(chosen)

    def total(self, name, **labels):
        return total(self.runtime.metrics, f"ragmonitor_{name}", **labels)


def one_case(number, **changes):
    return replace(case(), request_id=random.Random(number).randbytes(16).hex(), app="shop", **changes)


def vote(request_id, thumb="down", **said):
    return ExternalScore(
        request_id=request_id,
        evaluator="user_feedback",
        score_source=ScoreSource.FEEDBACK,
        label=f"thumbs_{thumb}",
        **said,
    )


def unlucky(bench, rate=0.1):
    """A case that the evaluator does not choose of its own accord."""
    from monitor.statistics import consistent_sampling

    return next(one for one in map(one_case, range(1000)) if not consistent_sampling.chosen(one.request_id, "s", rate))


def test_more_than_so_many_that_wait_are_a_backlog(monkeypatch):
    monkeypatch.setattr(processor, "_AT_MOST", 2)
    bench, said = Bench(), []
    for number in range(4):
        said.append(bench.processor.backlog)
        bench.processor.take([vote(one_case(number).request_id)], None)
    assert [bool(one) for one in (*said, bench.processor.backlog)] == [False, False, False, True, True]


async def test_a_verdict_within_a_sampled_trace_weighs_as_much_as_its_trace_and_one_from_outside_one():
    bench = Bench()
    one = one_case(1, probability=0.25)
    await bench.process(one, vote(one.request_id))
    await bench.tell(vote(one_case(2).request_id, app="shop"))
    votes = [
        (judged.evaluator, judged.weight, judged.defect)
        for judged in bench.results
        if judged.score_source is ScoreSource.FEEDBACK
    ]
    assert votes == [("user_feedback", 4.0, True), ("user_feedback", 1.0, True)]


async def test_a_verdict_that_a_link_leads_to_another_request_is_on_that_and_weighs_what_its_carrier_does():
    bench = Bench()
    target, carrier = unlucky(bench), one_case(5000, probability=0.25)
    await bench.process(target)
    said = vote(target.request_id, span_id="00000000000000ff", linked=True)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.processor.run)
        await bench.boost(replace(carrier, app="reviews"), said)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    (one,) = [judged for judged in bench.results if judged.score_source is ScoreSource.FEEDBACK]
    assert (one.case.request_id, one.case.app, one.weight, one.defect) == (target.request_id, "shop", 4.0, True)
    assert bench.total("user_disliked_evaluations_total", outcome="defect") == 1
    assert bench.total("feedback_agreement_total", judge="defect", user="down") == 1


async def test_an_annotation_of_a_person_is_a_vote_also_where_only_the_history_knows_of_an_earlier_one():
    bench = Bench()
    ours = {"trace_id": "r", "evaluator": "judged", "traffic": "production", "outcome": "score", "defect": True}
    theirs = {"score_source": "openinference", "evaluator": "thumbs", "label": "thumbs-down", "outcome": "score"}
    said = replace(vote("r"), evaluator="thumbs", score_source=ScoreSource.OPENINFERENCE, annotator="HUMAN")
    bench.past.rows = [{**ours, **dict.fromkeys(("app", "source", "session_id", "model", "span_id"), "")}]
    bench.past.rows[0] |= {"convention": "", "attributes": {}}
    await bench.tell(said)
    assert bench.total("feedback_agreement_total", evaluator="judged", judge="defect", user="down") == 1
    again = Bench()
    again.past.rows = [*bench.past.rows, {**bench.past.rows[0], **theirs}]
    await again.tell(replace(said, label="up"))
    assert again.total("feedback_agreement_total") == 0


async def test_a_verdict_is_taken_once_also_when_both_deliveries_are_in_work_at_once():
    bench = Bench()
    await bench.tell(vote("r1"), vote("r1"), vote("r1", "up"))
    outcomes = {outcome: bench.total("external_scores_total", outcome=outcome) for outcome in ("scored", "duplicate")}
    assert outcomes == {"scored": 2, "duplicate": 1}


async def test_what_cannot_be_a_verdict_is_counted_by_its_fault_and_delivered_nowhere():
    bench = Bench()
    await bench.tell(vote("", fault="no_request"), vote("r", fault="no_value"))
    assert bench.results == []
    assert bench.total("external_scores_total", source="feedback", outcome="no_value") == 1


async def test_of_ten_thousand_evaluators_fifty_have_series_and_all_others_are_counted_together():
    bench = Bench()
    said = [
        replace(vote("r"), evaluator=f"e{number}", score_source=ScoreSource.GEN_AI_EVENTS) for number in range(10_000)
    ]
    await bench.tell(*said)
    assert bench.total("external_scores_total", outcome="scored") == 50
    assert bench.total("external_scores_total", outcome="too_many_names") == 9_950
    assert bench.total("evaluations_total") == 50


async def test_the_same_name_from_two_mouths_is_two_evaluators():
    bench = Bench()
    told = [
        bench.names.of("tone", via).name
        for via in (ScoreSource.GEN_AI_EVENTS, ScoreSource.OPENINFERENCE, ScoreSource.GEN_AI_EVENTS)
    ]
    assert told == ["tone", "tone_openinference", "tone"]
    assert bench.names.of("judged", ScoreSource.OPENINFERENCE).name == "judged_external"


@pytest.mark.parametrize("name", ["__other__", "\ud800" * 300, "x" * 100_000, "a\nb", '{evil="1"}'])
async def test_no_name_breaks_the_series(name):
    bench = Bench()
    await bench.tell(
        replace(vote("r"), evaluator=name[:128], score_source=ScoreSource.OPENINFERENCE), vote("r", app="shop")
    )
    assert bench.total("external_scores_total") == 2
    exposed = generate_latest(bench.runtime.metrics.registry).decode()
    assert sum(1 for _ in text_string_to_metric_families(exposed)) > 50


async def test_series_of_users_begin_with_an_app_where_they_are_expected_and_else_with_the_first_vote():
    assert Bench().runtime.metrics.evaluator_info._metrics.keys() == {("judged",)}
    bench = Bench(evaluators={"user_feedback": {"lowest": -1}})
    bench.evaluation.prepare("shop")
    assert ("shop", "user_feedback") in {key[:2] for key in bench.runtime.metrics.evaluations._metrics}


async def test_a_verdict_without_a_readable_rule_is_unscored_and_in_no_rate():
    bench = Bench()
    await bench.tell(
        ExternalScore(request_id="r", evaluator="stars", score_source=ScoreSource.GEN_AI_EVENTS, value=4.0)
    )
    assert bench.total("unscored_total", evaluator="stars", reason="out_of_range") == 1
    assert bench.total("evaluation_weight_total", evaluator="stars") == 0


async def test_a_verdict_from_outside_is_on_the_app_and_class_of_its_request():
    bench = Bench(rate=0.0001)
    one = unlucky(bench)
    one = replace(one, traffic=Traffic.SYNTHETIC)
    await bench.process(one)
    await bench.tell(vote(one.request_id, app="the-tool"))
    (judged,) = [judged for judged in bench.results if judged.score_source is ScoreSource.FEEDBACK]
    assert (judged.case.app, judged.scope) == ("shop", RateScope.NON_PRODUCTION)


async def test_a_verdict_has_the_topic_of_the_question_also_where_the_text_is_gone():
    asked = []

    def topic(one):
        asked.append(one.request.query)
        return "warranty"

    bench = Bench(rate=0.0001, topic=topic)
    one, own = unlucky(bench), one_case(1, attributes={"topic": "of the service"})
    await bench.process(one)
    await bench.process(own)
    await bench.tell(vote(one.request_id), vote(own.request_id), vote("unknown"))
    found = {judged.case.request_id: judged.case.attributes.get("topic") for judged in bench.results if judged.key}
    assert found == {one.request_id: "warranty", own.request_id: "of the service", "unknown": None}
    assert all(asked)


async def test_a_request_that_is_no_longer_remembered_is_looked_up_in_the_history():
    bench = Bench()
    row = {
        "trace_id": "r",
        "app": "shop",
        "source": "cases",
        "session_id": "",
        "model": "",
        "span_id": "s",
        "convention": "",
        "attributes": {},
        "traffic": "production",
        "evaluator": "judged",
        "outcome": "score",
        "defect": False,
    }
    bench.past.rows = [row]
    await bench.tell(vote("r", app="elsewhere"))
    assert bench.results[0].case.app == "shop"
    assert bench.total("feedback_agreement_total", evaluator="judged", judge="passed", user="down") == 1
    bench.past.rows.append({**row, "score_source": "feedback"})
    bench.past.rows[0]["trace_id"] = bench.past.rows[1]["trace_id"] = "q"
    await bench.tell(vote("q"))
    assert bench.total("feedback_agreement_total") == 1  # another user had spoken before: that was counted then


async def test_a_history_that_cannot_be_read_costs_no_verdict():
    bench = Bench()
    bench.past.broken = True
    await bench.tell(vote("r"))
    assert bench.total("external_scores_total", outcome="scored") == 1


async def test_a_fault_of_ours_costs_one_verdict_and_neither_the_others_nor_the_traces():
    bench = Bench()
    bench.past.rows = [{"trace_id": "r"}]  # nothing that a result of ours looks like
    await bench.tell(vote("r"), vote("q"))
    outcomes = {outcome: bench.total("external_scores_total", outcome=outcome) for outcome in ("scored", "failed")}
    assert outcomes == {"scored": 1, "failed": 1}


@pytest.mark.parametrize("thumb", ["up", "down"])
async def test_agreement_is_counted_once_whichever_comes_second(thumb):
    bench = Bench(rate=1.0)
    first, second = one_case(1), one_case(2)
    await bench.process(first)
    await bench.tell(vote(first.request_id, thumb))
    await bench.tell(vote(second.request_id, thumb), vote(second.request_id, thumb, user="another"))
    await bench.process(second)
    assert bench.total("feedback_agreement_total", evaluator="judged", judge="defect", user=thumb) == 2
    assert bench.total("feedback_agreement_total") == 2


async def test_a_dislike_before_the_draw_raises_the_probability_and_the_weight_knows():
    bench = Bench()
    one = unlucky(bench)
    assert await bench.process(one, vote(one.request_id))
    (judged,) = [judged for judged in bench.results if judged.evaluator == "judged"]
    assert (judged.weight, judged.scope, judged.selection.probability) == (1.0, RateScope.LIVE, 1.0)
    assert bench.total("feedback_boosted_cases_total") == 1


async def test_neither_praise_nor_a_synthetic_request_raises_anything():
    bench = Bench()
    one = unlucky(bench)
    assert not await bench.process(one, vote(one.request_id, "up"))
    aside = replace(unlucky(bench), request_id=unlucky(bench).request_id[::-1], traffic=Traffic.SYNTHETIC)
    await bench.process(aside, vote(aside.request_id))
    assert bench.total("feedback_boosted_cases_total") == 0


async def test_a_dislike_after_the_draw_has_the_answer_judged_apart_and_only_once():
    bench = Bench()
    one = unlucky(bench)
    assert not await bench.process(one)
    await bench.tell(vote(one.request_id))
    await bench.tell(vote(one.request_id, user="another"))
    judged = [judged for judged in bench.results if judged.evaluator == "judged"]
    assert [one.scope for one in judged] == [RateScope.USER_DISLIKED]
    assert isinstance(judged[0].outcome, Score)
    assert bench.total("user_disliked_evaluations_total", outcome="defect") == 1
    assert bench.total("evaluations_total", evaluator="judged") == 0
    assert bench.processor._unchosen.size == 0


async def test_an_evaluator_that_judges_nothing_judges_nothing_for_a_dislike_in_its_rates():
    bench = Bench(rate=0.0)
    one = one_case(1)
    assert not await bench.process(one, vote(one.request_id))


async def test_with_0_a_dislike_sets_off_nothing():
    bench = Bench(thumbs_down={"probability": 0})
    one = unlucky(bench)
    assert not await bench.process(one, vote(one.request_id))
    two = replace(one, request_id=one_case(5).request_id)
    await bench.process(two)
    await bench.tell(vote(two.request_id))
    assert bench.total("user_disliked_evaluations_total") == 0
    assert bench.processor._unchosen.size == 0


async def test_who_votes_a_lot_cannot_spend_the_judges_budget():
    bench = Bench(thumbs_down={"max_per_hour": 60})
    judged = 0
    for number in range(200):
        one = one_case(number)
        judged += await bench.boost(one, vote(one.request_id)) > 0
    assert judged == 10  # a sixth of an hour's at once


async def test_a_case_that_comes_again_keeps_the_probability_of_its_first_draw():
    draws = KeptDraws()
    one = unlucky(None)
    assert not await Bench(draws=draws).process(one)
    assert not await Bench(draws=draws).process(one, vote(one.request_id))  # after a restart, with more known


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_rates_stay_true_although_disliked_answers_are_judged_more_often(seed):
    """Of 4,000 answers a tenth are bad; users dislike most of those, and some good ones. In 1,000 the word is late."""
    rng = random.Random(seed)
    bad: set[str] = set()
    bench = Bench(rate=0.1, thumbs_down={"max_per_hour": 10_000_000}, judge=FakeJudge(score=1))
    weights = {True: 0.0, False: 0.0}
    biased = [0, 0]
    for number in range(4_000):
        one = one_case(seed * 10_000 + number)
        is_bad = rng.random() < 0.1
        if is_bad:
            bad.add(one.request_id)
        dislikes = rng.random() < (0.7 if is_bad else 0.05)
        in_time = rng.random() < 0.75
        said = [vote(one.request_id)] if dislikes and in_time else []
        chosen = bench.evaluation.choose(one, {}, await bench.boost(one, *said))
        for _, drawn in chosen:
            weights[is_bad] += 1 / drawn.probability
            biased[is_bad] += 1
    everything = sum(weights.values())
    assert everything == pytest.approx(4_000, rel=0.12)
    assert weights[True] / everything == pytest.approx(len(bad) / 4_000, abs=0.025)
    assert biased[1] / sum(biased) > 0.25  # what is judged, uncorrected, says more than twice as much


def test_what_is_kept_stays_within_its_bytes_and_its_time():
    clock = runtime().clock
    kept = Unchosen(clock, wait=60, at_most=30_000)
    for number in range(100):
        kept.keep(replace(one_case(number), response="x" * 1000), ())
    assert 0 < kept.size <= 30_000
    assert kept.take(one_case(0).request_id) is None
    assert kept.take(one_case(99).request_id) is not None
    kept.keep(replace(one_case(100), response="x" * 20_000), ())  # larger than all that may be kept
    assert kept.take(one_case(100).request_id) is None
    clock.advance(61)
    assert kept.take(one_case(98).request_id) is None
