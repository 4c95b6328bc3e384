"""The whole way: a service that is instrumented for real, a judge over HTTP, a real Prometheus, a real Alertmanager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from monitor.cli.main import app
from tests.support.llm import Asked, LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import Webhook, alertmanager, get_json, prometheus, webhook
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

TRACES = 60


def judged(asked: Asked) -> Reply:
    """A judge that sees through the horses."""
    bad = "horses" in asked.data["response"]
    claim = {
        "claim": asked.data["response"],
        "quote": asked.data["response"],
        "verdict": "absent" if bad else "supported",
    }
    claim["note"] = "as read"
    return verdict(
        claims=[claim], explanation="no page mentions it" if bad else "all of it is there", score=1 if bad else 5
    )


def configuration(llm: LLMServer, notified: str) -> dict[str, Any]:
    return {
        "judge": {
            "model": "openai/scripted",
            "api_key": "none",
            "api_base": llm.url,
            "price": {"input_per_million": 1, "output_per_million": 2},
        },
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness"}],
        "alerts": [
            {
                "evaluator": "groundedness",
                "warning": "5%",
                "critical": "10%",
                "windows": [{"window": "20s", "z": 3.09}, {"window": "3m", "z": 2.58}],
                "resolve_after": "2s",
            }
        ],
        "notify": [{"type": "alertmanager", "url": notified}],
    }


def firing(alertmanager_url: str) -> list[dict[str, Any]]:
    return [
        one
        for one in get_json(f"{alertmanager_url}/api/v2/alerts")
        if one["labels"]["alertname"] == "RagDefectRateHigh"
    ]


def critical(alertmanager_url: str) -> list[dict[str, Any]]:
    return [one for one in firing(alertmanager_url) if one["labels"]["severity"] == "critical"]


def test_the_alert_follows_a_defect_rate_up_and_down_through_prometheus_and_in_process(tmp_path: Path) -> None:
    with (
        LLMServer() as llm,
        webhook() as hook,
        alertmanager(tmp_path / "am1", hook.address) as by_rules,
        alertmanager(tmp_path / "am2", hook.address) as in_process,
    ):
        llm.always(judged)
        with MonitorProcess(tmp_path, configuration(llm, in_process)) as monitor:
            written = CliRunner().invoke(app, ["rules", "-c", str(tmp_path / "config.yaml")])
            assert written.exit_code == 0, written.output
            target, manager = f"127.0.0.1:{monitor.metrics_port}", by_rules.removeprefix("http://")
            with prometheus(tmp_path / "prom", [target], rules=fast(written.output), alertmanagers=[manager]) as server:
                service = RagService.over_grpc(monitor.grpc)
                send(service, monitor, [GOOD] * TRACES)
                wait_until(lambda: query(server, "sum(ragmonitor_evaluations_total)") >= 2 * TRACES, 20, "a scrape")
                assert firing(by_rules) == firing(in_process) == []
                send(service, monitor, [BAD] * TRACES)
                for address in (by_rules, in_process):
                    wait_until(lambda at=address: critical(at), 60, f"RagDefectRateHigh at {address}")
                for address in (by_rules, in_process):
                    (one,) = critical(address)
                    assert (one["labels"]["app"], one["labels"]["evaluator"]) == ("shop", "groundedness")
                    assert "%" in one["annotations"]["description"]
                exact = monitor.total("ragmonitor_evaluations_total", evaluator="groundedness", defect="true")
                assert exact == TRACES
                assert monitor.total("ragmonitor_unscored_total") == 0
                assert monitor.total("ragmonitor_judge_tokens_total") > 0
                assert_balanced(monitor.samples())
                exemplars = get_json(
                    f"{server}/api/v1/query_exemplars",
                    query="ragmonitor_evaluations_total",
                    start="0",
                    end="99999999999",
                )
                assert any("trace_id" in one["labels"] for series in exemplars["data"] for one in series["exemplars"])

                def better(address: str) -> bool:
                    send(service, monitor, [GOOD] * TRACES)
                    return not firing(address)

                for address in (by_rules, in_process):
                    wait_until(lambda at=address: better(at), 120, f"the end of RagDefectRateHigh at {address}")
                service.close()
            assert monitor.terminate(12) == 0
        for manager_url in (by_rules, in_process):
            wait_until(lambda at=manager_url: told(hook, at)[-1] == "resolved", 20, f"the last of {manager_url}")


def told(hook: Webhook, manager_url: str) -> list[str]:
    """Return the status of each notification that an Alertmanager has sent."""
    port = manager_url.rpartition(":")[2]
    return [body["status"] for body in list(hook.bodies) if body["externalURL"].endswith(port)]


def send(service: RagService, monitor: MonitorProcess, answers: list[str]) -> None:
    before = monitor.total("ragmonitor_traces_total")
    for answer in answers:
        service.ask(answer=answer)
    service.flush()
    wait_until(lambda: monitor.total("ragmonitor_traces_total") == before + len(answers), 60, "the verdicts")


def fast(rules: str) -> str:
    """The same rules, evaluated every second: the test has less patience than an operator."""
    groups = yaml.safe_load(rules)
    for group in groups["groups"]:
        group["interval"] = "1s"
    return yaml.safe_dump(groups)


def query(server: str, expression: str) -> float:
    found = get_json(f"{server}/api/v1/query", query=expression)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0
