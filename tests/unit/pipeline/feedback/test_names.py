"""Names of external evaluators: one each, never one of ours, and after a restart the same as before."""

from __future__ import annotations

import pytest

from monitor.extraction.feedback import FeedbackSettings
from monitor.model.external import ScoreSource
from monitor.pipeline.feedback.names import ExternalEvaluators, PastScores
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.telemetry.metrics import OVERFLOW, Metrics
from tests.support.runtime import runtime, total

EVENTS, ANNOTATIONS, USERS = ScoreSource.GEN_AI_EVENTS, ScoreSource.OPENINFERENCE, ScoreSource.FEEDBACK


class Names:
    """The external evaluators of a monitor with the evaluator `judged` of its own."""

    def __init__(self, *expected: str, own: tuple[str, ...] = ("judged",), **settings: object) -> None:
        self.metrics: Metrics = runtime().metrics
        options = FeedbackSettings.model_validate(settings)
        self.external = ExternalEvaluators(options, ResultMetrics(self.metrics), own, [*expected, *options.evaluators])

    def of(self, given_name: str, source: ScoreSource) -> str | None:
        found = self.external.of(given_name, source)
        return found.name if found is not None else None

    def restore(self, *past: PastScores) -> dict[str, str]:
        return self.external.restore(past)

    def info(self, **labels: str) -> float:
        return total(self.metrics, "ragmonitor_evaluator_info", **labels)


def past(name: str, source: ScoreSource, last: float = 100.0, *, recent: int = 1, number: int = 1) -> PastScores:
    return PastScores(name, source, last, recent, number)


@pytest.mark.parametrize("first", [EVENTS, ANNOTATIONS])
def test_after_a_restart_each_source_has_its_name_again_whoever_is_first(first: ScoreSource) -> None:
    names = Names()
    assert names.restore(past("tone", EVENTS), past("tone_openinference", ANNOTATIONS)) == {
        "tone": "gen_ai_events",
        "tone_openinference": "openinference",
    }
    names.of("tone", first)
    assert (names.of("tone", EVENTS), names.of("tone", ANNOTATIONS)) == ("tone", "tone_openinference")
    assert names.of("tone", USERS) == "tone_feedback"


def test_a_source_of_which_the_history_knows_nothing_does_not_get_the_name_of_another() -> None:
    names = Names()
    names.restore(past("tone", EVENTS))
    assert names.of("tone", ANNOTATIONS) == "tone_openinference"
    assert names.of("tone", EVENTS) == "tone"


def test_a_source_keeps_its_second_name_where_the_history_knows_no_score_under_the_first() -> None:
    names = Names()
    names.restore(past("tone_openinference", ANNOTATIONS))
    assert names.of("tone", ANNOTATIONS) == "tone_openinference"
    assert names.of("tone", EVENTS) == "tone"


def test_of_two_sources_that_had_a_name_the_last_one_keeps_it() -> None:
    names = Names()
    before = past("tone", EVENTS, 100.0, recent=900, number=900), past("tone", ANNOTATIONS, 200.0)
    assert names.restore(*before) == {"tone": "openinference"}
    assert names.restore(*reversed(before)) == {"tone": "openinference"}
    assert names.of("tone", EVENTS) == "tone_gen_ai_events"


def test_two_names_of_one_tool_are_two_evaluators_also_where_one_is_the_others_second_name() -> None:
    names = Names()
    names.of("tone", EVENTS)
    told = [names.of(name, ANNOTATIONS) for name in ("tone", "tone_openinference")]
    assert told == ["tone_openinference", "tone_openinference_openinference"]
    restored = Names()
    restored.restore(past("tone_openinference", ANNOTATIONS))
    assert [restored.of(name, ANNOTATIONS) for name in ("tone_openinference", "tone")] == ["tone_openinference", "tone"]


def test_no_second_name_is_that_of_an_evaluator_of_ours() -> None:
    names = Names(own=("tone_openinference",))
    names.of("tone", EVENTS)
    assert names.of("tone", ANNOTATIONS) is None


def test_an_evaluator_of_ours_gets_no_scores_of_others_that_had_its_name_before_it_was_configured() -> None:
    names = Names(own=("tone",))
    assert names.restore(past("tone", EVENTS)) == {}
    assert names.of("tone", EVENTS) == "tone_external"


def test_user_feedback_that_is_expected_stays_with_users() -> None:
    names = Names("user_feedback")
    had = past("user_feedback", USERS, 100.0), past("user_feedback", ANNOTATIONS, 200.0)
    assert names.restore(*had) == {"user_feedback": "feedback"}
    assert names.of("user_feedback", ANNOTATIONS) == "user_feedback_openinference"
    assert names.of("user_feedback", USERS) == "user_feedback"


def test_the_busiest_names_come_back_and_all_that_are_configured_and_no_more_than_there_may_be() -> None:
    names = Names(max_names=2, evaluators={"csat": {}})
    quiet = [past(f"quiet{number}", ANNOTATIONS, recent=1, number=5) for number in range(500)]
    restored = names.restore(
        *quiet,
        past("busy_long_ago", ANNOTATIONS, recent=0, number=10_000),
        past("csat", USERS, recent=0),
        past("csat_openinference", ANNOTATIONS, recent=0),
        past("user_feedback", USERS, recent=0),
        past("busier", EVENTS, recent=20, number=20),
        past("busy", EVENTS, recent=10, number=10),
    )
    assert set(restored) == {"csat", "csat_openinference", "user_feedback", "busier", "busy"}
    assert names.info() == len(restored)
    assert names.of("quiet1", ANNOTATIONS) is None
    assert [names.of(name, EVENTS) for name in ("busy", "busier")] == ["busy", "busier"]
    assert names.of("csat", ANNOTATIONS) == "csat_openinference"


def test_a_name_that_cannot_be_given_takes_one_place_however_often_it_comes() -> None:
    names = Names(max_names=2)
    assert [names.of(OVERFLOW, EVENTS) for _ in range(100)] == [None] * 100
    assert names.of("tone", EVENTS) == "tone"


@pytest.mark.parametrize("name", [OVERFLOW, "", "a\nb", "x" * 129])
def test_a_name_that_no_label_has_is_not_restored(name: str) -> None:
    names = Names()
    assert names.restore(past(name, EVENTS)) == {}
    assert names.info() == 0


def test_what_is_restored_is_known_with_its_source_and_scale_before_its_first_score() -> None:
    names = Names(evaluators={"csat": {"lowest": 1, "highest": 5, "below": 3}, "judged": {"highest": 10}})
    names.restore(
        past("csat", USERS), past("csat_openinference", ANNOTATIONS), past("judged_external", EVENTS), past("x", EVENTS)
    )
    assert names.info(evaluator="csat", source="feedback", version="feedback", lowest="1", highest="5") == 1
    assert names.info(evaluator="csat_openinference", source="openinference", lowest="1", highest="5") == 1
    assert names.info(evaluator="judged_external", source="gen_ai_events", highest="10") == 1
    assert names.info(evaluator="x", source="gen_ai_events", lowest="0", highest="1") == 1


def test_series_of_what_is_restored_begin_at_0_with_the_apps_that_had_scores() -> None:
    names = Names()
    names.restore(past("tone", EVENTS))
    for evaluator in ("tone", "judged", "unknown"):
        names.external.prepare("shop", evaluator)
    series = names.metrics.evaluations._metrics
    assert {key[:3] for key in series} == {("shop", "tone", "gen_ai_events")}
    assert total(names.metrics, "ragmonitor_evaluations_total") == 0
