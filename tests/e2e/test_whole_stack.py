"""The stack as it is deployed, as processes: service, Collector, Kafka, two monitors, Prometheus, Alertmanager."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monitor.cli.main import app
from tests.support.collector import Collector
from tests.support.kafka import Broker
from tests.support.llm import Asked, LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import alertmanager, get_json, prometheus, webhook
from tests.support.sample_service import SampleService
from tests.support.tools import wait_until

pytestmark = pytest.mark.timeout(1200)

RATE = """
  sum(increase(ragmonitor_evaluation_weight_total{evaluator="groundedness", defect="true"}[30s]))
/ sum(increase(ragmonitor_evaluation_weight_total{evaluator="groundedness"}[30s]))
"""


def judge(asked: Asked) -> Reply:
    """A judge that holds an answer against its sources, word for word."""
    answer = asked.data["response"]
    sources = " ".join(text for name, text in asked.data.items() if name != "response")
    found = answer.strip() in sources
    claim = {"claim": answer, "quote": answer, "verdict": "supported" if found else "absent", "note": "as read"}
    return verdict(
        claims=[claim], explanation="It stands there." if found else "No page says so.", score=5 if found else 1
    )


def configuration(broker: str, llm: str) -> dict[str, Any]:
    price = {"input_per_million": 1, "output_per_million": 2}
    return {
        "sources": [
            {"type": "kafka", "brokers": broker, "topics": {"otlp_spans": "otlp_proto"}, "session_timeout": "6s"}
        ],
        "assembly": {"grace_period": "1s", "idle_timeout": "3s"},
        "judge": {"model": "openai/scripted", "api_key": "none", "api_base": llm, "price": price},
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness", "sample": "60%"}],
        "alerts": [
            {
                "evaluator": "groundedness",
                "warning": "10%",
                "critical": "20%",
                "windows": [{"window": "20s", "z": 3.09}, {"window": "1m", "z": 2.58}],
                "resolve_after": "2s",
            }
        ],
    }


def test_a_worse_service_raises_the_alert_and_a_better_one_ends_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "kafka"))
        broker.create_topics("otlp_spans", partitions=4)
        broker.create_topics("rag-monitor-dead-letters", partitions=1)
        llm = stack.enter_context(LLMServer())
        llm.always(judge)
        collector = stack.enter_context(Collector(tmp_path / "collector", broker.address, batch=True))
        monitors = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            monitors.append(stack.enter_context(MonitorProcess(folder, configuration(broker.address, llm.url))))
        written = CliRunner().invoke(app, ["rules", "-c", str(tmp_path / "one" / "config.yaml")])
        assert written.exit_code == 0, written.output
        hook = stack.enter_context(webhook())
        manager = stack.enter_context(alertmanager(tmp_path / "alertmanager", hook.address))
        targets = [f"127.0.0.1:{one.metrics_port}" for one in monitors]
        server = stack.enter_context(
            prometheus(
                tmp_path / "prometheus", targets, rules=quick(written.output), alertmanagers=[manager[len("http://") :]]
            )
        )
        service = stack.enter_context(SampleService(tmp_path, f"http://127.0.0.1:{collector.http}", every=0.1))

        wait_until(lambda: all(judged(one) >= 10 for one in monitors), 60, "verdicts in both monitors")
        assert told(manager) == {}
        wait_until(lambda: rate(server) == 0, 30, "a rate in Prometheus")

        service.hallucinate(0.8)
        wait_until(lambda: told(manager).get("critical"), 90, "the critical alert")
        alert = told(manager)["critical"]
        assert (alert["labels"]["app"], alert["labels"]["evaluator"]) == ("sample-service", "groundedness")
        assert "of the answers from sample-service" in alert["annotations"]["description"]
        wait_until(lambda: 0.3 < rate(server) < 1, 30, "the rate in Prometheus")

        service.hallucinate(0)
        wait_until(lambda: not told(manager), 120, "the end of the alert")
        wait_until(lambda: [body["status"] for body in hook.bodies][-1:] == ["resolved"], 20, "the last notification")
        for one in monitors:
            samples = one.samples()
            assert assert_balanced(samples) > 20
            assert sum(value for _, value in samples["ragmonitor_unscored_total"]) == 0


def quick(rules: str) -> str:
    """The same rules, looked at every second."""
    groups = yaml.safe_load(rules)["groups"]
    return yaml.safe_dump({"groups": [{**group, "interval": "1s"} for group in groups]})


def judged(monitor: MonitorProcess) -> float:
    return monitor.total("ragmonitor_evaluations_total", evaluator="groundedness")


def told(manager: str) -> dict[str, Any]:
    """The alerts on the defect rate that stand at the Alertmanager, by severity."""
    return {
        one["labels"]["severity"]: one
        for one in get_json(f"{manager}/api/v2/alerts", active="true")
        if one["labels"]["alertname"] == "RagDefectRateHigh"
    }


def rate(server: str) -> float:
    """The defect rate over both monitors, as Prometheus adds it up."""
    (found,) = get_json(f"{server}/api/v1/query", query=RATE)["data"]["result"]
    return float(found["value"][1])
