"""Verdicts stand on the traces in real Phoenix and real MLflow, where a service and the monitor both get the traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from monitor.clock import SystemClock
from monitor.errors import InvalidData
from monitor.model.label import LabelDraw, LabelVerdict
from monitor.model.outcome import EvaluationResult, Unscored, UnscoredReason
from monitor.sinks.mlflow import Mlflow
from monitor.sinks.phoenix import Phoenix
from monitor.stages import Sink
from monitor.storage.labels import LabelReader, LabelStore
from tests.backends import servers
from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.service import BAD, RagService
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.running("phoenix", tmp_path_factory.mktemp("phoenix") / "data") as url:
        yield url


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.running("mlflow", tmp_path_factory.mktemp("mlflow") / "data") as url:
        yield url


def judged_trace(
    folder: Path, sink: dict[str, Any], exporter: OTLPSpanExporter, stored: Callable[[str], object]
) -> str:
    """The id of a trace that a service has sent to both, when the monitor has judged it and written the verdict.

    The monitor gets it when it is `stored` over there.
    """
    monitor = MonitorProcess(folder, {"evaluators": [{"type": EVALUATOR}], "alerts": []})
    monitor.config["sinks"].append(sink)
    with monitor:
        service, kept = RagService(exporter), InMemorySpanExporter()
        service.provider.add_span_processor(SimpleSpanProcessor(kept))
        trace = service.ask(answer=BAD)
        service.close()
        wait_until(lambda: stored(trace), 20, "the trace in the other product")
        OTLPSpanExporter(f"http://127.0.0.1:{monitor.http}/v1/traces", timeout=60).export(kept.get_finished_spans())
        monitor.wait_for_total(1, "ragmonitor_sink_results_total", sink=sink["type"], outcome="sent")
        assert monitor.terminate() == 0
        assert "sink_failed" not in monitor.log.read_text()
    return trace


def pulled(folder: Path, server: str, reviewer: str, comment: str) -> None:
    """What a person said there is a label here."""
    ended = command("labels", "--pull", server, "-c", folder / "config.yaml")
    assert "labels: 1; new: 1" in ended.output
    (label,) = LabelReader(folder / "state" / "labels.db").find()
    assert (label.reviewer, label.verdict, label.comment) == (reviewer, LabelVerdict.GOOD, comment)


def pushed(folder: Path, server: str) -> None:
    """A label that was given here stands there."""
    state = folder / "state"
    (label,) = LabelReader(state / "labels.db").find(reviewer="ana")
    store = LabelStore(state / "labels.db", SystemClock())
    store.put(replace(label, reviewer="bo", verdict=LabelVerdict.DEFECT, draw=LabelDraw.PICKED))
    store.close()
    assert f"sent to {server}: 1" in command("labels", "--push", server, "-c", folder / "config.yaml").output


def deliver(sink: Sink, *results: EvaluationResult) -> None:
    async def run() -> None:
        async with sink.open(runtime(SystemClock())) as deliver_one:
            for one in results:
                await deliver_one([one])

    anyio.run(run)


def test_a_verdict_is_an_annotation_on_the_span_in_phoenix(phoenix: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=phoenix, trust_env=False, timeout=60) as client:

        def spans(trace: str) -> list[str]:
            found = client.get("/v1/projects/default/spans", params={"trace_id": trace})
            return [one["context"]["span_id"] for one in found.json().get("data", ())]

        exporter = OTLPSpanExporter(f"{phoenix}/v1/traces")
        trace = judged_trace(tmp_path, {"type": "phoenix", "url": phoenix}, exporter, lambda one: len(spans(one)) == 3)

        def annotations() -> list[dict[str, Any]]:
            ids = spans(trace)
            found: list[dict[str, Any]] = client.get(
                "/v1/projects/default/span_annotations", params={"span_ids": ids}
            ).json()["data"]
            return found

        (found,) = wait_until(annotations, 10, "the annotation")  # type: ignore[misc]
        assert (found["name"], found["annotator_kind"]) == (EVALUATOR, "CODE")
        assert 0 <= found["result"]["score"] < 0.5
        assert found["result"]["explanation"]
        assert found["metadata"]["defect"] is True

        said = {"label": "good", "explanation": "I checked"}
        human = {"span_id": found["span_id"], "name": EVALUATOR, "annotator_kind": "HUMAN", "identifier": "ana"}
        client.post("/v1/span_annotations?sync=true", json={"data": [human | {"result": said}]}).raise_for_status()
        pulled(tmp_path, "phoenix", "ana", "I checked")
        pushed(tmp_path, "phoenix")
        ours = [one for one in annotations() if one["identifier"] == "rag-monitor:bo"]
        assert [(one["annotator_kind"], one["result"]["label"]) for one in ours] == [("HUMAN", "defect")]
        assert "already known: 1" in command("labels", "--pull", "phoenix", "-c", tmp_path / "config.yaml").output


def test_a_repeat_changes_nothing_in_phoenix_and_an_unknown_span_is_a_failure(phoenix: str) -> None:
    with httpx.Client(base_url=phoenix, trust_env=False, timeout=60) as client:
        service = RagService(OTLPSpanExporter(f"{phoenix}/v1/traces"))
        trace = service.ask()
        service.close()

        def span() -> str:
            spans = client.get("/v1/projects/default/spans", params={"trace_id": trace}).json()["data"]
            return spans[0]["context"]["span_id"] if spans else ""

        span_id = str(wait_until(span, 10, "the span"))
        result = replace(judged(1), case=replace(judged(1).case, request_id=trace, span_id=span_id))
        sink = Phoenix(url=phoenix)
        deliver(sink, result, result)
        deliver(sink, result)
        found = client.get("/v1/projects/default/span_annotations", params={"span_ids": [span_id]}).json()["data"]
        assert [one["identifier"] for one in found] == [result.id]
        with pytest.raises(InvalidData, match="unknown span"):
            deliver(sink, judged(7))


def test_a_verdict_is_an_assessment_of_the_trace_in_mlflow(mlflow: str, tmp_path: Path) -> None:
    exporter = OTLPSpanExporter(f"{mlflow}/v1/traces", headers={"x-mlflow-experiment-id": "0"})

    def asked(trace: str) -> httpx.Response:
        return httpx.get(f"{mlflow}/api/3.0/mlflow/traces/tr-{trace}", trust_env=False, timeout=60)

    sink = {"type": "mlflow", "url": mlflow, "timeout": "20s"}
    trace = judged_trace(tmp_path, sink, exporter, lambda one: asked(one).is_success)
    answer = asked(trace).json()
    (found,) = answer["trace"]["trace_info"]["assessments"]
    assert found["assessment_name"] == EVALUATOR
    assert found["source"]["source_type"] == "CODE"
    assert 0 <= found["feedback"]["value"] < 0.5
    assert found["rationale"]
    assert found["metadata"]["rag_monitor.defect"] == "True"

    human = {
        "assessment_name": EVALUATOR,
        "trace_id": f"tr-{trace}",
        "source": {"source_type": "HUMAN", "source_id": "ana"},
        "create_time": "2026-11-22T10:00:00Z",
        "last_update_time": "2026-11-22T10:00:00Z",
        "feedback": {"value": True},
        "rationale": "I checked",
    }
    added = httpx.post(
        f"{mlflow}/api/3.0/mlflow/traces/tr-{trace}/assessments",
        json={"assessment": human},
        trust_env=False,
        timeout=60,
    )
    added.raise_for_status()
    pulled(tmp_path, "mlflow", "ana", "I checked")
    for _ in range(2):  # a repeat replaces
        pushed(tmp_path, "mlflow")
    found = [
        one
        for one in asked(trace).json()["trace"]["trace_info"]["assessments"]
        if one["source"] == {"source_type": "HUMAN", "source_id": "bo"}
    ]
    assert [one["feedback"] for one in found] == [{"value": "defect"}]


def test_a_repeat_adds_nothing_in_mlflow_and_an_unknown_trace_is_a_failure(mlflow: str) -> None:
    service = RagService(OTLPSpanExporter(f"{mlflow}/v1/traces", headers={"x-mlflow-experiment-id": "0"}))
    trace = service.ask()
    service.close()
    result = replace(judged(1), case=replace(judged(1).case, request_id=trace))
    failed = replace(result, evaluator="other", outcome=Unscored(UnscoredReason.TIMEOUT, "30 s"), level="")
    sink = Mlflow(url=mlflow, timeout=20.0)
    deliver(sink, result, result, failed)
    answer = httpx.get(f"{mlflow}/api/3.0/mlflow/traces/tr-{trace}", trust_env=False, timeout=60).json()
    found = {one["assessment_name"]: one["feedback"] for one in answer["trace"]["trace_info"]["assessments"]}
    assert len(answer["trace"]["trace_info"]["assessments"]) == 2
    assert found["groundedness"] == {"value": 4.0}
    assert found["other"]["error"]["error_code"] == "timeout"
    with pytest.raises(InvalidData, match="unknown trace"):
        deliver(sink, judged(7))
