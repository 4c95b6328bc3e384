"""Services through the running monitor: each has one name everywhere, however it writes its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp_spans import span
from tests.support.service import BAD, CONTEXT, GOOD, RagService
from tests.support.tools import wait_until

NAMES = {
    "\u5ba2\u670d\u3000\u52a9\u624b": "\u5ba2\u670d \u52a9\u624b",  # an ideographic space
    " padded\u00a0bot ": "padded bot",
    "a\u200dcat": "a?cat",
    129 * "x": 128 * "x",
}
"""The names that services state, with those that the monitor has for them."""


def policy(app: str) -> dict[str, Any]:
    windows = [{"window": "10m", "z": 2.33}]
    return {"evaluator": "overlap_groundedness", "app": app, "critical": "15%", "windows": windows}


def overview(monitor: MonitorProcess) -> dict[str, tuple[int, int]]:
    apps = json.loads(monitor.get("/api/v1/overview"))["apps"]
    return {one["app"]: (one["rates"][0]["evaluated"], one["rates"][0]["defects"]) for one in apps if one["rates"]}


def incidents(monitor: MonitorProcess) -> list[dict[str, Any]]:
    found = json.loads(monitor.get("/api/v1/incidents"))["incidents"]
    return [{**one, **json.loads(monitor.get(f"/api/v1/incidents/{one['id']}"))} for one in found]


def found_defects(monitor: MonitorProcess) -> dict[str, int]:
    """The defects in the impact of the incidents that have their worst answers, by app."""
    told = [one for one in incidents(monitor) if one["impact"] and one["answers"]]
    return {one["app"]: one["impact"]["defects"] for one in told}


def told_by_why(monitor: MonitorProcess, app: str, text: str) -> None:
    """Wait until `why` tells `text` of the evaluator on `app`: the request log is written a little later."""
    options = ("--evaluator", "overlap_groundedness", "--app", app, "--url", f"http://127.0.0.1:{monitor.metrics_port}")
    wait_until(lambda: text in command("why", *options).output, 30, f"{text!r} in `why` on {app}")


def test_the_name_of_a_service_is_the_same_in_alerts_incidents_answers_and_commands_however_it_is_written(
    tmp_path: Path,
) -> None:
    config = {
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [policy(name) for name in NAMES],
        "storage": {"path": str(tmp_path / "state"), "texts": "all"},
    }
    number = 30
    with MonitorProcess(tmp_path, config) as monitor:
        for name in NAMES:
            service = RagService.over_http(monitor.http, name)
            for at in range(number):
                service.ask(answer=BAD if at % 2 else GOOD)
            service.close()
        wait_until(
            lambda: found_defects(monitor) == dict.fromkeys(NAMES.values(), number // 2),
            60,
            "an incident of each, with its impact and worst answers",
        )
        for given, app in NAMES.items():
            for written in (given, app):
                answers = json.loads(monitor.get(f"/api/v1/answers?app={quote(written)}&limit=50"))["answers"]
                assert {one["app"] for one in answers} == {app}
            told_by_why(monitor, given, f"selected    {number} of the {number} it applies to")
            gated = command(
                "gate", "--fail-on", "overlap_groundedness:5%", "--app", given, "-c", tmp_path / "config.yaml"
            )
            assert gated.exit_code == 1, gated.output
            assert f"{app}, overlap_groundedness" in gated.output
        before = overview(monitor)
        assert before == dict.fromkeys(NAMES.values(), (number, number // 2))
        assert monitor.terminate(60) == 0
        monitor.start()
        wait_until(lambda: overview(monitor) == before, 30, "the same rates under the same names")
        assert_balanced(monitor.samples())


def sent_by(service: str, *spans: Any) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scoped = {"scope": {"name": "openinference.instrumentation.own"}, "spans": spans}
    return {"resource": resource, "scopeSpans": [scoped]}


def behind_a_gateway(number: int) -> bytes:
    """One request in a trace of two services, of which the gateway's part comes first."""
    trace, kind = f"{number:032x}", "openinference.span.kind"
    asked, said = "Can I get my money back?", BAD
    found = {kind: "RETRIEVER", "input.value": asked, "retrieval.documents.0.document.content": CONTEXT}
    call = {
        kind: "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"Context: {CONTEXT}\n\nQuestion: {asked}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": said,
    }
    answers = (
        span(trace, 2, {kind: "CHAIN", "input.value": asked, "output.value": said}, parent=1),
        span(trace, 3, found, parent=2),
        span(trace, 4, call, parent=2),
    )
    parts = [sent_by("gateway", span(trace, 1, {"http.route": "/chat"})), sent_by("answers", *answers)]
    return json.dumps({"resourceSpans": parts}).encode()


def test_a_service_behind_a_gateway_has_its_requests_in_the_ledger_the_request_log_and_the_rates(
    tmp_path: Path,
) -> None:
    number = 15
    with MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}) as monitor:
        for at in range(1, number + 1):
            assert monitor.post(behind_a_gateway(at), "/v1/traces", "application/json") == 200
        monitor.wait_for_total(number, "ragmonitor_requests_total", app="answers", outcome="evaluated")
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 30, "the end of the traces")
        samples = monitor.samples()
        assert_balanced(samples)
        assert monitor.total("ragmonitor_traces_received_total", app="gateway") == number
        assert monitor.total("ragmonitor_traces_received_total", app="answers") == 0
        assert monitor.total("ragmonitor_requests_found_total", app="gateway") == 0
        told_by_why(monitor, "answers", f"{number} requests ended: {number} evaluated")
        url = ("--url", f"http://127.0.0.1:{monitor.metrics_port}")
        wait_until(lambda: "from answers, by otlp_http" in command("why", f"{1:032x}", *url).output, 30, "its record")
        assert overview(monitor) == {"answers": (number, number)}
        page = " ".join(monitor.get("/").split())
        assert f"<b>{number}</b> traces since start, answered by other services" in page
        assert "requests since start:" in page
