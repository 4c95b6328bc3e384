"""Verdicts that come on spans of their own, with a link to what they are on, or on spans that come too late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tests.support.command import command
from tests.support.feedback import LOCAL, answered, came, post
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

SPAN_ID = 0xAA


@pytest.fixture
def local(tmp_path: Path) -> Iterator[MonitorProcess]:
    with MonitorProcess(tmp_path, LOCAL) as monitor:
        yield monitor


def context(trace_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), SPAN_ID, is_remote=True, trace_flags=TraceFlags(1))


def carry(monitor: MonitorProcess, *targets: str, kind: str = "EVALUATOR", within: str = "", **said: Any) -> None:
    """A span with an annotation and links to `targets`, by the SDK, in a trace of its own or `within` one."""
    provider = TracerProvider(resource=Resource({"service.name": "reviews"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{monitor.http}/v1/traces")))
    parent = set_span_in_context(NonRecordingSpan(context(within))) if within else None
    with provider.get_tracer("own").start_as_current_span(
        "feedback", context=parent, links=[Link(context(one)) for one in targets]
    ) as span:
        span.set_attribute("openinference.span.kind", kind)
        span.set_attributes({f"annotations.0.annotation.{key}": value for key, value in said.items()})
    provider.shutdown()


def ended(monitor: MonitorProcess, number: float) -> None:
    wait_until(
        lambda: monitor.total("ragmonitor_traces_total", outcome="no_request") == number, 20, "the carrier's end"
    )


DOWN = {
    "name": "user_feedback",
    "label": "thumbs-down",
    "annotator_kind": "HUMAN",
    "explanation": "That is out of date.",
}


@pytest.mark.parametrize("kind", ["EVALUATOR", "CHAIN"])
def test_a_verdict_on_a_linked_carrier_is_on_the_request_that_it_links_to(local: MonitorProcess, kind: str) -> None:
    trace_id = answered(local)
    carry(local, trace_id, kind=kind, **DOWN)
    came(local, 1, source="openinference", outcome="scored")
    labels = {"app": "shop", "evaluator": "user_feedback", "version": "openinference", "defect": "true"}
    assert local.total("ragmonitor_evaluations_total", **labels) == 1
    assert local.total("ragmonitor_evaluation_weight_total", **labels) == 1
    agreed = {"app": "shop", "evaluator": "overlap_groundedness", "judge": "passed", "user": "down"}
    local.wait_for_total(1, "ragmonitor_feedback_agreement_total", **agreed)
    assert local.total("ragmonitor_feedback_agreement_total") == 1
    wait_until(lambda: "That is out of date." in local.get(f"/case/{trace_id}"), 20, "the comment on the page")
    ended(local, 1)
    assert local.total("ragmonitor_traces_total", app="reviews") == 1
    assert_balanced(local.samples())


def test_it_weighs_what_the_carrier_weighs_and_needs_no_kept_target(tmp_path: Path) -> None:
    """Of 64 carriers, each of a trace of its own, about half is kept at half the rate: the weights make up for it."""
    with MonitorProcess(tmp_path, {**LOCAL, "sampling": {"traces": 0.5}}) as monitor:
        for number in range(64):
            carry(monitor, f"{number + 1:032x}", **DOWN)
        ended(monitor, 64 - monitor.total("ragmonitor_traces_total", outcome="sampled_out"))
        kept = monitor.total("ragmonitor_traces_total", outcome="no_request")
        assert 8 < kept < 56
        assert monitor.total("ragmonitor_evaluation_weight_total", evaluator="user_feedback") == 2 * kept


def test_a_carrier_with_several_links_is_counted_as_such_and_delivered_nowhere(local: MonitorProcess) -> None:
    first, second = answered(local), answered(local, 1)
    carry(local, first, second, **DOWN)
    came(local, 1, source="openinference", outcome="several_links")
    assert local.total("ragmonitor_external_scores_total") == 1
    assert local.total("ragmonitor_evaluations_total", evaluator="user_feedback") == 0


def test_a_carrier_without_a_link_speaks_of_its_own_trace(local: MonitorProcess) -> None:
    carry(local, **DOWN)
    came(local, 1, source="openinference", outcome="scored")
    assert local.total("ragmonitor_evaluations_total", app="reviews", evaluator="user_feedback") == 1


def test_a_dislike_on_a_carrier_has_the_answer_judged_that_nobody_chose(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(verdict(claims=[], explanation="made up", score=1))
        config: dict[str, Any] = {
            "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1},
            "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness", "sample": 0.0001}],
            "alerts": [],
        }
        with MonitorProcess(tmp_path, config) as monitor:
            trace_id = answered(monitor)
            carry(monitor, trace_id, **DOWN)
            wait_until(
                lambda: monitor.total("ragmonitor_user_disliked_evaluations_total", outcome="defect") == 1,
                60,
                "a verdict",
            )
            assert monitor.total("ragmonitor_evaluations_total", evaluator="groundedness") == 0


def test_a_verdict_on_a_span_that_comes_late_is_read_and_the_span_stays_late(local: MonitorProcess) -> None:
    trace_id = answered(local)
    carry(local, within=trace_id, kind="CHAIN", name="tone", score=0.1, annotator_kind="LLM")
    came(local, 1, source="openinference", outcome="scored")
    assert local.total("ragmonitor_evaluations_total", app="shop", evaluator="tone", defect="true") == 1
    assert local.total("ragmonitor_spans_total", outcome="late") == 1
    assert local.total("ragmonitor_traces_total") == 1
    wait_until(lambda: "tone" in local.get(f"/case/{trace_id}"), 20, "the verdict on the page")
    assert_balanced(local.samples())


def test_a_late_span_that_says_nothing_of_the_answer_is_late_and_no_more(local: MonitorProcess) -> None:
    carry(local, within=answered(local), kind="CHAIN")
    wait_until(lambda: local.total("ragmonitor_spans_total", outcome="late") == 1, 20, "the late span")
    assert local.total("ragmonitor_external_scores_total") == 0


def why(monitor: MonitorProcess, *arguments: str) -> dict[str, Any]:
    result = command("why", *arguments, "-c", monitor.folder / "config.yaml", "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def shown(monitor: MonitorProcess) -> dict[str, tuple[str, int, int]]:
    """The source, the evaluated answers and the defects of each rate on the page, by evaluator."""
    apps = json.loads(monitor.get("/api/v1/overview"))["apps"]
    return {
        rate["evaluator"]: (rate["source"], rate["evaluated"], rate["defects"]) for app in apps for rate in app["rates"]
    }


def test_what_others_say_is_explained_counted_and_shown_beside_ours(local: MonitorProcess) -> None:
    trace_id = answered(local)
    before = why(local, "-e", "user_feedback")
    assert (before["cause"], "user feedback" in before["conclusion"]) == ("not_asked", True)
    carry(local, trace_id, name="tone", score=0.1, annotator_kind="LLM")
    post(local, {"trace_id": trace_id, "thumbs": "down"}, {"trace_id": trace_id, "thumbs": "up"})
    came(local, 3, outcome="scored")
    wait_until(
        lambda: "2 scores arrived, 1 of them defects" in why(local, "-e", "user_feedback")["conclusion"], 20, "it"
    )
    wait_until(lambda: "OpenInference" in why(local, "-e", "tone")["conclusion"], 20, "what is said of tone")
    assert why(local, "-e", "tone", "--app", "nobody")["cause"] == "not_asked"
    assert "no evaluator named nobody" in why(local, "-e", "nobody")["conclusion"]
    assert "is not an evaluator of this monitor" in why(local, "f" * 32, "-e", "user_feedback")["conclusion"]
    expected = {
        "overlap_groundedness": ("own", 1, 0),
        "tone": ("openinference", 1, 1),
        "user_feedback": ("feedback", 2, 1),
    }
    wait_until(lambda: shown(local) == expected, 20, "the rates on the page")
    assert "among users who gave feedback" in local.get("/")
    page = "/answers?evaluator=user_feedback&outcome=any"
    wait_until(lambda: trace_id in local.get(page), 20, "the answer in the history")
    assert "<option selected>user_feedback</option>" in local.get(page)


def test_a_verdict_on_a_request_that_cannot_be_judged_is_on_its_app_all_the_same(local: MonitorProcess) -> None:
    said = {"id": "f" * 32, "app": "shop", "question": "Can I get my money back?", "contexts": ["Yes."]}
    row = json.dumps(said).encode()
    assert local.post(row, "/v1/cases", "application/x-ndjson") == 200
    wait_until(lambda: local.total("ragmonitor_traces_total", app="shop") == 1, 20, "the end of the row")
    assert local.total("ragmonitor_requests_total", outcome="content_missing") == 1
    carry(local, "f" * 32, **DOWN)
    came(local, 1, outcome="scored")
    assert local.total("ragmonitor_evaluations_total", app="shop", evaluator="user_feedback") == 1
