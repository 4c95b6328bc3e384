"""What an event says of each kind of result. How it travels: tests/integration/test_otel_events.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from monitor.model.outcome import Cost, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks.otel_events import OtelEvents, attributes
from tests.support.results import judged


def test_a_score_has_the_attributes_of_the_convention_and_ours() -> None:
    result = judged(1, cost=Cost(model="gpt-4o-mini"))
    assert attributes(result, explanations=True) == {
        "gen_ai.evaluation.name": "groundedness",
        "gen_ai.evaluation.score.value": 4.0,
        "gen_ai.evaluation.score.label": "x",
        "gen_ai.evaluation.explanation": "because",
        "rag_monitor.result_id": result.id,
        "rag_monitor.outcome": "score",
        "rag_monitor.app": "shop",
        "rag_monitor.version": "v1",
        "rag_monitor.model": "gpt-4o-mini",
        "rag_monitor.level": "high",
        "rag_monitor.defect": False,
        "rag_monitor.weight": 10.0,
        "rag_monitor.scope": "live",
    }


def test_the_provider_s_id_of_the_answer_goes_along_where_it_is_known() -> None:
    result = judged(1)
    known = replace(result, case=replace(result.case, attributes={"gen_ai.response.id": "chatcmpl-1"}))
    assert attributes(known, explanations=True)["gen_ai.response.id"] == "chatcmpl-1"
    assert "gen_ai.response.id" not in attributes(result, explanations=True)


def test_a_score_without_a_label_has_the_name_of_its_level() -> None:
    found = attributes(judged(1, outcome=Score(4.0, "because"), level="medium"), explanations=True)
    assert found["gen_ai.evaluation.score.label"] == "medium"


def test_a_score_of_zero_is_a_score() -> None:
    assert attributes(judged(1, outcome=Score(0.0, "")), explanations=True)["gen_ai.evaluation.score.value"] == 0.0


def test_a_judgement_that_did_not_come_about_has_an_error_and_no_score() -> None:
    result = judged(1, outcome=Unscored(UnscoredReason.REFUSAL, "would not"), level="", defect=False)
    found = attributes(result, explanations=True)
    assert found["error.type"] == found["rag_monitor.reason"] == "refusal"
    assert found["rag_monitor.detail"] == "would not"
    assert not [key for key in found if "score" in key or "explanation" in key or key == "rag_monitor.defect"]


def test_an_evaluator_that_does_not_apply_is_no_error() -> None:
    result = judged(1, outcome=Skipped(SkippedReason.NO_HISTORY), level="", defect=False)
    found = attributes(result, explanations=True)
    assert "error.type" not in found
    assert (found["rag_monitor.outcome"], found["rag_monitor.reason"]) == ("skipped", "no_history")


def test_reasons_stay_here_unless_wanted() -> None:
    unscored = judged(1, outcome=Unscored(UnscoredReason.REFUSAL, "because"), level="", defect=False)
    for result in (judged(1), unscored):
        assert "because" not in str(attributes(result, explanations=False))


def test_neither_question_nor_context_nor_answer_is_sent() -> None:
    found = str(attributes(judged(1), explanations=True))
    assert not [text for text in ("How long", "Two years.", "It is two years.", "u-1") if text in found]


def test_a_row_that_is_no_trace_keeps_its_name() -> None:
    result = replace(judged(1), case=replace(judged(1).case, request_id="order-7"))
    assert attributes(result, explanations=True)["rag_monitor.request_id"] == "order-7"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endpoint": "http://h:4317/v1/logs"}, "must not have a path"),
        ({"endpoint": "http://h:4317", "tls": {}}, "https://"),
        ({"endpoint": "http://h:4317", "headers": {"a b": "x"}}, "'a b' is not plain"),
        ({"endpoint": "http://h:4317", "headers": {"a": "x\ny"}}, "'a' is not plain"),
        ({"endpoint": "http://h:4317", "timeout": "2m"}, "60"),
        ({"endpoint": "http://169.254.169.254"}, "link-local"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OtelEvents.model_validate(options)
