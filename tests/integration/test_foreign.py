"""Verdicts of other tools and of users, sent to a real monitor as they are sent in the field."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from monitor.model.outcome import UnscoredReason
from tests.support.feedback import LOCAL, answered, came, post
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

RESULT = "gen_ai.evaluation.result"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[MonitorProcess]:
    with MonitorProcess(tmp_path, LOCAL) as monitor:
        yield monitor


@pytest.fixture
def judging(tmp_path: Path) -> Iterator[MonitorProcess]:
    """A judge that finds everything bad, and is asked next to nothing of its own accord."""
    with LLMServer() as llm:
        llm.always(verdict(claims=[], explanation="made up", score=1))
        config: dict[str, Any] = {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1},
            "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness", "sample": 0.0001}],
            "alerts": [],
        }
        with MonitorProcess(tmp_path, config) as monitor:
            yield monitor


def tell(monitor: MonitorProcess, trace_id: str, event: str = RESULT, scope: str = "acme.evals", **said: Any) -> None:
    """An event on a trace, by the OpenTelemetry SDK, from a service of its own."""
    provider = LoggerProvider(resource=Resource({"service.name": "acme-evals"}))
    provider.add_log_record_processor(
        SimpleLogRecordProcessor(OTLPLogExporter(f"http://127.0.0.1:{monitor.http}/v1/logs"))
    )
    span = NonRecordingSpan(SpanContext(int(trace_id, 16), 1, is_remote=True, trace_flags=TraceFlags(1)))
    record = LogRecord(
        timestamp=time.time_ns(),
        context=set_span_in_context(span),
        event_name=event,
        attributes={key.replace("__", "."): value for key, value in said.items()},
    )
    provider.get_logger(scope).emit(record)
    provider.shutdown()


def reasons(monitor: MonitorProcess, evaluator: str) -> dict[str, float]:
    """The series of what came to no score, by reason."""
    series = monitor.samples().get("ragmonitor_unscored_total", [])
    return {at["reason"]: value for at, value in series if at["evaluator"] == evaluator}


def result(name: str, **said: Any) -> dict[str, Any]:
    given = {f"gen_ai.evaluation.{key.replace('_', '.', 1)}": value for key, value in said.items()}
    return {"gen_ai.evaluation.name": name, **given}


def test_an_evaluation_event_of_another_tool_is_a_verdict_on_the_app_that_answered(local: MonitorProcess) -> None:
    trace_id = answered(local)
    tell(local, trace_id, **result("tone", score_value=0.2, explanation="rude"))
    came(local, 1, source="gen_ai_events", outcome="scored")
    labels = {"app": "shop", "evaluator": "tone", "version": "gen_ai_events", "defect": "true"}
    assert local.total("ragmonitor_evaluations_total", **labels) == 1
    assert local.total("ragmonitor_evaluation_weight_total", **labels) == 1
    assert local.total("ragmonitor_evaluator_info", evaluator="tone", source="gen_ai_events") == 1
    assert local.total("ragmonitor_evaluator_info", evaluator="overlap_groundedness", source="own") == 1
    wait_until(lambda: "rude" in local.get(f"/case/{trace_id}"), 20, "the verdict on the page")
    assert_balanced(local.samples())


def test_a_verdict_of_our_own_that_comes_back_is_none(local: MonitorProcess) -> None:
    """By its scope, and by its attributes where a Collector has put another scope in its place."""
    trace_id = answered(local)
    tell(local, trace_id, scope="rag-monitor", **result("groundedness", score_value=1.0))
    tell(local, trace_id, **result("groundedness", score_value=1.0), rag_monitor__result_id="0" * 32)
    wait_until(lambda: local.total("ragmonitor_log_records_total", outcome="own_telemetry") == 1, 20, "the first")
    wait_until(lambda: local.total("ragmonitor_log_records_total", outcome="unrelated") == 1, 20, "the second")
    assert local.total("ragmonitor_log_records_total", outcome="external_score") == 0
    assert local.total("ragmonitor_external_scores_total") == 0


def test_a_name_of_ours_in_anothers_mouth_is_not_mixed_into_ours(local: MonitorProcess) -> None:
    tell(local, answered(local), **result("overlap_groundedness", score_label="fail"))
    came(local, 1, outcome="scored")
    assert local.total("ragmonitor_evaluations_total", evaluator="overlap_groundedness_external", defect="true") == 1
    assert local.total("ragmonitor_evaluations_total", evaluator="overlap_groundedness", defect="true") == 0


def test_feedback_is_counted_once_however_often_it_is_sent(local: MonitorProcess) -> None:
    trace_id = answered(local)
    down = {"trace_id": trace_id, "thumbs": "down", "comment": "That is out of date.", "id": "click-1"}
    assert post(local, down) == {"accepted": 1, "rejected": 0, "errors": []}
    came(local, 1, source="feedback", outcome="scored")
    post(local, down)
    came(local, 1, source="feedback", outcome="duplicate")
    labels = {"app": "shop", "evaluator": "user_feedback", "version": "feedback"}
    assert local.total("ragmonitor_evaluations_total", **labels) == 1
    assert local.total("ragmonitor_evaluation_weight_total", **labels, defect="true") == 1
    agreed = {"evaluator": "overlap_groundedness", "judge": "passed", "user": "down"}
    local.wait_for_total(1, "ragmonitor_feedback_agreement_total", **agreed)
    assert local.total("ragmonitor_feedback_agreement_total") == 1
    wait_until(lambda: "That is out of date." in local.get(f"/case/{trace_id}"), 20, "the comment on the page")


def test_feedback_that_cannot_be_read_is_refused_with_what_is_allowed(local: MonitorProcess) -> None:
    said = post(local, {"trace_id": "abc", "thumbs": "down"}, expect=400)
    assert "trace_id: must be 32 hex digits" in said["message"]
    mixed = post(local, {"request_id": "r1", "thumbs": "up"}, {"request_id": "r2", "thumbs": "sideways"})
    assert (mixed["accepted"], mixed["rejected"], mixed["errors"][0]["entry"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "score": NaN}',
        b'{"request_id": "r\\ud80", "label": "\\ud83d", "comment": "\\udc00"}',
        b'{"request_id": "r", "score": 1e999}',
        b"[" * 10_000,
        b'{"request_id": "r", "name": "' + b"x" * 100_000 + b'", "thumbs": "up"}',
    ],
)
def test_no_body_brings_it_down_or_is_counted_as_a_verdict_it_is_not(local: MonitorProcess, body: bytes) -> None:
    assert local.post(body, "/v1/feedback", "application/json") == 400
    assert local.post(b'{"request_id": "r", "thumbs": "up"}', "/v1/feedback", "application/json") == 200
    came(local, 1, outcome="scored")
    assert local.total("ragmonitor_external_scores_total") == 1


def test_an_alert_may_rest_on_what_users_say(tmp_path: Path) -> None:
    config = {**LOCAL, "alerts": [{"evaluator": "user_feedback", "critical": "10%"}]}
    with MonitorProcess(tmp_path, config) as monitor:
        post(monitor, *({"request_id": f"r{number}", "app": "shop", "thumbs": "down"} for number in range(100)))
        wait_until(lambda: "alert_firing" in monitor.log.read_text(), 40, "an alert")
        (alert,) = [
            line for line in map(json.loads, monitor.log.read_text().splitlines()) if line["event"] == "alert_firing"
        ]
        assert "user_feedback" in str(alert)


def test_a_disliked_answer_that_nobody_chose_is_judged_apart_from_all_rates(judging: MonitorProcess) -> None:
    trace_id = answered(judging)
    wait_until(lambda: reasons(judging, "groundedness") == dict.fromkeys(UnscoredReason, 0), 20, "all reasons, at 0")
    assert judging.total("ragmonitor_evaluations_selected_total", evaluator="groundedness") == 0
    post(judging, {"trace_id": trace_id, "thumbs": "down"})
    wait_until(
        lambda: judging.total("ragmonitor_user_disliked_evaluations_total", outcome="defect") == 1, 60, "a verdict"
    )
    assert judging.total("ragmonitor_evaluations_total", evaluator="groundedness") == 0
    agreed = {"evaluator": "groundedness", "judge": "defect", "user": "down"}
    wait_until(lambda: judging.total("ragmonitor_feedback_agreement_total", **agreed) == 1, 20, "agreement")
    assert_balanced(judging.samples())


def test_a_dislike_that_comes_before_the_draw_raises_the_probability_and_lowers_the_weight(
    judging: MonitorProcess,
) -> None:
    service = RagService.over_http(judging.http)
    with service.tracer.start_as_current_span("POST /chat") as root:
        service.ask()
        root.add_event("gen_ai.evaluation.user_feedback", {"gen_ai.evaluation.score": -1.0})
    service.close()
    wait_until(lambda: judging.total("ragmonitor_traces_total", app="shop") == 1, 20, "the end of the trace")
    assert judging.total("ragmonitor_feedback_boosted_cases_total", app="shop") == 1
    said = {"evaluator": "user_feedback", "defect": "true"}
    wait_until(lambda: judging.total("ragmonitor_evaluation_weight_total", **said) == 1, 20, "the user's word")
    wait_until(lambda: judging.total("ragmonitor_evaluations_total", evaluator="groundedness") == 1, 60, "a verdict")
    assert judging.total("ragmonitor_evaluation_weight_total", evaluator="groundedness") == 1


def test_feedback_that_was_answered_with_200_survives_a_crash(tmp_path: Path) -> None:
    monitor = MonitorProcess(tmp_path, LOCAL)
    with monitor:
        post(monitor, *({"request_id": f"r{number}", "app": "shop", "thumbs": "up"} for number in range(200)))
        monitor.kill()
        monitor.start()
        scored = "ragmonitor_external_scores_total"
        wait_until(lambda: monitor.total(scored, outcome="scored") == 200, 20, "the feedback of the last process")
        wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0, 20, "the spool to be empty")
        for number in (0, 199):
            wait_until(lambda at=number: "user_feedback" in monitor.get(f"/case/r{at}"), 20, "the feedback on the page")
