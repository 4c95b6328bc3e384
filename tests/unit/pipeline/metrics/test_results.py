from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction.feedback import FeedbackSettings
from monitor.extraction.feedback.rules import ruling
from monitor.model.case import Case
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    DefectRule,
    EvaluationResult,
    Level,
    RateScope,
    Scale,
    Score,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.pipeline.feedback.names import ExternalEvaluator
from monitor.pipeline.metrics.results import ResultMetrics, score_boundaries
from monitor.stages import Evaluator, Needs
from monitor.statistics.session_products import SessionMemory
from monitor.telemetry.metrics import samples
from tests.support.runtime import runtime, total

FIVE = Scale(1, 5, "higher", tuple(Level(str(n), n) for n in range(1, 6)), whole=True)
SHARE = Scale(0, 1, "higher", (Level("low", 0), Level("middle", 0.4), Level("high", 0.8)))


class Steps(Evaluator):
    name: ClassVar[str] = "steps"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = FIVE
    default_defect: ClassVar[DefectRule] = DefectRule("below", 3)

    async def evaluate(self, case, judge):
        raise NotImplementedError


class Share(Steps):
    name: ClassVar[str] = "share"
    scale: ClassVar[Scale] = SHARE
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)


def judged(outcome, evaluator=Steps, weight=1.0):
    score = outcome if isinstance(outcome, Score) else None
    return EvaluationResult(
        case=Case(request_id="ab" * 16, app="shop"),
        evaluator=evaluator.name,
        version="1+ab",
        outcome=outcome,
        weight=weight,
        level=evaluator.scale.level(score.value) if score else "",
        defect=bool(score and evaluator.default_defect.matches(score)),
    )


def counting(evaluator=Steps):
    lent = runtime()
    made = ResultMetrics(lent.metrics)
    made.declare(evaluator(), evaluator.default_defect, "1+ab")
    return made, lent.metrics


@pytest.mark.parametrize("evaluator", [Steps, Share])
@given(value=st.floats(0, 1))
def test_every_score_on_the_scale_finds_its_series(evaluator, value):
    scale = evaluator.scale
    value = scale.lowest + value * (scale.highest - scale.lowest)
    value = float(round(value)) if scale.whole else value
    made, metrics = counting(evaluator)
    made.selected("shop", evaluator.name)
    made.finished(judged(Score(value, "because"), evaluator), 0.1)
    assert total(metrics, "ragmonitor_evaluations_total", level=scale.level(value)) == 1


def test_the_series_that_rates_add_up_exist_at_zero_before_the_first_result_of_an_app():
    made, metrics = counting()
    made.prepare("shop")
    assert metrics.registry.get_sample_value(
        "ragmonitor_evaluations_total",
        {"app": "shop", "evaluator": "steps", "version": "1+ab", "level": "1", "defect": "true"},
    ) == 0  # fmt: skip


class Remembering(Steps):
    name: ClassVar[str] = "remembering"
    needs: ClassVar[frozenset[Needs]] = frozenset({"context", "history"})


class Judged(Steps):
    name: ClassVar[str] = "judged"
    cost: ClassVar[Literal["local", "judge"]] = "judge"


class Classified(Judged):
    name: ClassVar[str] = "classified"
    asks: ClassVar[Literal["model", "classifier"]] = "classifier"


@pytest.mark.parametrize(
    ("evaluator", "reasons"),
    [
        (Steps, {"error", "out_of_range"}),
        (Judged, set(UnscoredReason)),
        (Classified, set(UnscoredReason) - {"refusal", "truncated"}),
    ],
)
def test_the_reasons_that_can_come_about_exist_at_zero_and_no_others(evaluator, reasons):
    made, metrics = counting(evaluator)
    made.prepare("shop")
    assert {at["reason"]: value for at, value in samples(metrics.unscored)} == dict.fromkeys(reasons, 0)


@pytest.mark.parametrize(
    ("evaluator", "reasons"),
    [(Steps, {"no_response"}), (Remembering, {"no_retrieval", "context_not_recorded", "no_history"})],
)
def test_the_reasons_to_skip_a_case_exist_at_zero_by_what_the_evaluator_needs(evaluator, reasons):
    made, metrics = counting(evaluator)
    made.prepare("shop")
    assert {at["reason"]: value for at, value in samples(metrics.skipped)} == dict.fromkeys(reasons, 0)


def test_users_are_compared_with_own_evaluators_from_zero_on_and_never_with_those_of_others():
    made, metrics = counting()
    external = ExternalEvaluator("theirs", ScoreSource.FEEDBACK, ruling("theirs", FeedbackSettings()))
    made.declare(external, None, "feedback", source=ScoreSource.FEEDBACK)
    made.prepare("shop")
    found = {(at["evaluator"], at["judge"], at["user"]): value for at, value in samples(metrics.feedback_agreement)}
    said = product(["steps"], ["defect", "passed"], ["down", "up"])
    assert found == dict.fromkeys(said, 0)


@pytest.mark.parametrize("reason", UnscoredReason)
def test_an_outcome_that_had_no_series_yet_gets_one(reason):
    made, metrics = counting()
    for outcome in (Unscored(reason), Unscored(reason), Skipped(SkippedReason.REFUSAL)):
        made.selected("shop", "steps")
        made.finished(judged(outcome), 0.1)
    assert total(metrics, "ragmonitor_unscored_total", app="shop", reason=reason.value) == 2
    assert total(metrics, "ragmonitor_skipped_total", app="shop", reason="refusal") == 1


def test_every_series_that_holds_verdicts_has_the_version_and_no_other_has():
    made, metrics = counting()
    made.prepare("shop")
    for scope in RateScope:
        made.selected("shop", "steps")
        made.finished(replace(judged(Score(1, "because")), scope=scope), 0.1)
    held = {sample.name: sample.labels for family in metrics.registry.collect() for sample in family.samples}
    names = {name for name, labels in held.items() if labels.get("evaluator") == "steps" and name.endswith("_total")}
    with_version = {name for name in names if held[name].get("version") == "1+ab"}
    assert names - with_version == {
        f"ragmonitor_{name}_total" for name in ("unscored", "skipped", "evaluations_selected", "feedback_agreement")
    }
    assert held["ragmonitor_evaluation_score_bucket"]["version"] == "1+ab"


def test_a_level_that_cannot_be_a_defect_has_no_such_series():
    made, metrics = counting()
    made.prepare("shop")
    labels = {"app": "shop", "evaluator": "steps", "version": "1+ab", "level": "5", "defect": "true"}
    assert metrics.registry.get_sample_value("ragmonitor_evaluations_total", labels) is None
    assert metrics.registry.get_sample_value("ragmonitor_evaluations_total", labels | {"defect": "false"}) == 0


@pytest.mark.parametrize(("seconds", "count"), [(0.25, 1), (None, 0)])
def test_only_evaluations_whose_time_is_known_are_timed(seconds, count):
    made, metrics = counting()
    made.selected("shop", "steps")
    made.finished(judged(Score(1, "because")), seconds)
    assert total(metrics, "ragmonitor_evaluation_duration_seconds_count", evaluator="steps") == count
    assert total(metrics, "ragmonitor_evaluation_duration_seconds_sum", evaluator="steps") == (seconds or 0.0)


def test_weight_and_its_square_are_summed_for_scores():
    made, metrics = counting()
    for weight in (10.0, 2.0):
        made.selected("shop", "steps")
        made.finished(judged(Score(2, "because"), weight=weight), 0.1)
    assert total(metrics, "ragmonitor_evaluation_weight_total", defect="true") == 12
    assert total(metrics, "ragmonitor_evaluation_weight_squares_total", defect="true") == 104
    assert (
        total(metrics, "ragmonitor_evaluation_score_weighted_total") == 12
    )  # (2 - 1) above the lowest, times the weight


@pytest.mark.parametrize(
    ("outcome", "series"),
    [
        (Unscored(UnscoredReason.TIMEOUT), "ragmonitor_unscored_total"),
        (Skipped(SkippedReason.NO_RETRIEVAL), "ragmonitor_skipped_total"),
    ],
)
def test_what_was_not_scored_adds_to_no_weight(outcome, series):
    made, metrics = counting()
    made.selected("shop", "steps")
    made.finished(judged(outcome, weight=50), 0.1)
    assert total(metrics, series) == 1
    assert total(metrics, "ragmonitor_evaluation_weight_total") == 0
    assert total(metrics, "ragmonitor_evaluations_total") == 0


def test_selected_is_scored_and_unscored_and_skipped_and_pending():
    """Rule J2 of the judge."""
    made, metrics = counting()
    for outcome in (Score(1, "x"), Unscored(UnscoredReason.BUDGET), Skipped(SkippedReason.NO_RETRIEVAL), None):
        made.selected("shop", "steps")
        if outcome:
            made.finished(judged(outcome), 0.1)
    parts = ("ragmonitor_evaluations_total", "ragmonitor_unscored_total", "ragmonitor_skipped_total")
    assert [total(metrics, part) for part in parts] == [1, 1, 1]
    assert total(metrics, "ragmonitor_evaluations_pending") == 1
    assert total(metrics, "ragmonitor_evaluations_selected_total") == 4


def test_score_buckets_are_the_steps_of_the_scale():
    assert score_boundaries(FIVE) == (1, 2, 3, 4, 5)
    assert score_boundaries(SHARE)[:3] == (0.1, 0.2, 0.3)


@pytest.mark.parametrize(
    ("scale", "unit"),
    [
        (Scale(0, 1, "higher", (Level("low", 0),)), "share"),
        (Scale(1, 5, "higher", (Level("low", 1),), whole=True), "points"),
        (Scale(0, 7, "lower", (Level("low", 0),)), "score"),
    ],
)
def test_what_an_evaluator_is_says_scale_unit_and_direction(scale, unit):
    class Made(Evaluator):
        name: ClassVar[str] = "made"
        version: ClassVar[str] = "7"

        async def evaluate(self, case, judge):
            raise NotImplementedError

    Made.scale = scale
    metrics = runtime().metrics
    ResultMetrics(metrics).declare(Made(), DefectRule("below", 0.5), "7+0a1b")
    (sample,) = [one for family in metrics.evaluator_info.collect() for one in family.samples]
    told = {"lowest": f"{scale.lowest:g}", "highest": f"{scale.highest:g}", "better": scale.better, "unit": unit}
    assert told.items() <= sample.labels.items()
    assert (sample.labels["version"], sample.labels["defect"]) == ("7+0a1b", "a score below 0.5")


def of_case(defect, weight=2.0, **fields):
    one = judged(Score(1 if defect else 5, "because"), weight=weight)
    return replace(one, case=replace(one.case, **fields))


def products(metrics):
    return [total(metrics, "ragmonitor_evaluation_session_products_total", of=of) for of in ("defects", "all", "both")]


def with_memory():
    lent = runtime()
    made = ResultMetrics(lent.metrics, memory=SessionMemory(lent.clock), clock=lent.clock)
    made.declare(Steps(), Steps.default_defect, "1+ab")
    return made, lent


@pytest.mark.parametrize("name", ["session_id", "user_id"])
def test_answers_of_one_session_or_else_of_one_user_are_counted_together(name):
    made, lent = with_memory()
    for number, defect in enumerate((True, True, False)):
        made.selected("shop", "steps")
        found = made.finished(of_case(defect, request_id=f"{number:032x}", **{name: "the same"}), 0.1)
        assert found.session_products[""] is not None
    assert products(lent.metrics) == [16, 36, 24]


def test_an_answer_without_session_and_user_is_counted_alone():
    made, lent = with_memory()
    for number, defect in enumerate((True, True, False)):
        made.selected("shop", "steps")
        made.finished(of_case(defect, request_id=f"{number:032x}"), 0.1)
    assert products(lent.metrics) == [8, 12, 8]


def test_the_session_comes_before_the_user_and_is_that_of_its_app():
    made, lent = with_memory()
    for app, session, user in (("shop", "a", "one"), ("shop", "b", "one"), ("bank", "a", "one")):
        made.selected(app, "steps")
        made.finished(of_case(True, app=app, session_id=session, user_id=user), 0.1)
    assert products(lent.metrics) == [12, 12, 12]


def test_the_largest_weight_is_exported_for_every_evaluator_and_forgotten_after_ten_minutes():
    made, lent = with_memory()
    made.prepare("shop")
    assert total(lent.metrics, "ragmonitor_evaluation_weight_max") == 0
    for weight in (2.0, 50.0, 3.0):
        made.selected("shop", "steps")
        made.finished(of_case(False, weight), 0.1)
    assert total(lent.metrics, "ragmonitor_evaluation_weight_max", app="shop", evaluator="steps") == 50
    lent.clock.advance(601)
    assert total(lent.metrics, "ragmonitor_evaluation_weight_max") == 0
