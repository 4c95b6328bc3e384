"""Two replicas under a real Prometheus: PromQL over their counters says what the estimate says of all their results."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.rules import render
from monitor.estimates.rates import Sums, estimate
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import get_json, prometheus
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
POLICY = AlertPolicy.model_validate({"evaluator": EVALUATOR, "warning": "5%", "windows": [{"window": "1h", "z": 1.96}]})
Z_UPPER = 1.645
BAD_OF = {"shop": 12, "support": 2, "calm": 10**9}  # one answer in so many
_NAME = re.compile(r"app_evaluator:ragmonitor_\w+:\w+")


class Recorded:
    """The recording rules of `rag-monitor rules`, each written out in full, over the counters themselves."""

    def __init__(self) -> None:
        groups = yaml.safe_load(render([POLICY]))["groups"]
        self._rules = {
            (rule["record"], rule.get("labels", {}).get("z")): rule["expr"]
            for group in groups
            for rule in group["rules"]
            if "record" in rule
        }

    def query(self, name: str, z: str | None = None, *, since: float | None = None) -> str:
        """What is recorded under a name, over what was counted from the second `since` on, or from the start."""
        counted = r"\1" if since is None else rf"(\1 - (\1 @ {since:.3f}))"
        return re.sub(r"increase\((\w+(?:\{[^}]*\})?)\[1h\]\)", counted, self._inlined(name, z))

    def _inlined(self, name: str, z: str | None) -> str:
        return _NAME.sub(lambda found: f"({self._inlined(found[0], None)})", self._rules[name, z])


class Replica:
    """A monitor with its own sample, whose results also go to a file."""

    def __init__(self, folder: Path, sample: str) -> None:
        folder.mkdir()
        self.results = folder / "results.jsonl"
        self.monitor = MonitorProcess(folder, {"evaluators": [{"type": EVALUATOR, "sample": sample}], "alerts": []})
        self.monitor.config["sinks"].append({"type": "jsonl", "path": str(self.results)})
        self.sent = 0

    def send(self, number: int) -> None:
        for app, every in BAD_OF.items():
            for _ in range(number):
                self.sent += 1
                answer = BAD if self.sent % every == 0 else GOOD
                row = {"id": f"{self.results}-{self.sent}", "app": app, "question": "Can I get my money back?",
                       "contexts": [CONTEXT], "response": answer}  # fmt: skip
                self.monitor.post(json.dumps(row).encode(), "/v1/cases", "application/json")

    def settled(self) -> bool:
        """Whether all that was sent is done, and written."""
        ended = self.monitor.total("ragmonitor_traces_total")
        return ended == self.sent and len(self.rows()) == self.monitor.total("ragmonitor_evaluations_total")

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.results.read_text().splitlines()] if self.results.exists() else []


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[list[Replica]]:
    pair = [Replica(tmp_path / "one", "60%"), Replica(tmp_path / "other", "25%")]
    try:
        for one in pair:
            one.monitor.start()
        yield pair
    finally:
        for one in pair:
            one.monitor.kill()


def pooled(rows: list[dict[str, Any]], app: str) -> Sums:
    return sum((Sums.of(row["weight"], defect=row["defect"]) for row in rows if row["app"] == app), Sums())


def asked(address: str, query: str, at: float) -> dict[str, float]:
    """The answer by app. Fails where it has any other label or evaluator."""
    found = get_json(f"{address}/api/v1/query", query=query, time=f"{at:.3f}")["data"]["result"]
    assert all(set(one["metric"]) == {"app", "evaluator"} for one in found)
    return {one["metric"]["app"]: float(one["value"][1]) for one in found}


def test_rate_effective_defects_and_limits_are_those_of_all_results(replicas: list[Replica], tmp_path: Path) -> None:
    targets = [f"127.0.0.1:{one.monitor.metrics_port}" for one in replicas]
    recorded = Recorded()
    with prometheus(tmp_path / "prometheus", targets) as address:

        def everything_scraped() -> float:
            """The moment from which Prometheus has all results, 0 before it."""
            judged = sum(len(one.rows()) for one in replicas)
            seen = get_json(f"{address}/api/v1/query", query="sum(ragmonitor_evaluations_total)")["data"]["result"]
            return time.time() if seen and float(seen[0]["value"][1]) == judged else 0

        moments, known = [], []
        for number in (60, 90):
            for one in replicas:
                one.send(number)
            wait_until(lambda: all(one.settled() for one in replicas), 60, "all verdicts")
            moments.append(wait_until(everything_scraped, 30, "a scrape of all verdicts"))
            known.append([row for one in replicas for row in one.rows()])
        assert len({row["weight"] for row in known[1]}) == 2, "replicas with different weights"

        first, both = known
        seen = {row["id"] for row in first}
        second = [row for row in both if row["id"] not in seen]
        for rows, since in ((both, None), (second, moments[0])):
            for app in BAD_OF:
                sums = pooled(rows, app)
                lower, upper = estimate(sums, 1.96), estimate(sums, Z_UPPER)
                assert lower is not None
                assert upper is not None
                expected = {
                    ("evaluations:increase1h", None): lower.judged,
                    ("evaluation_weight:increase1h", None): sums.weight,
                    ("defect_ratio:rate1h", None): lower.rate,
                    ("effective_defects:increase1h", None): lower.effective_defects,
                    ("defect_ratio:lower1h", "1.96"): lower.lower,
                    ("defect_ratio:upper1h", f"{Z_UPPER:g}"): upper.upper,
                }
                for (name, z), value in expected.items():
                    query = recorded.query(f"app_evaluator:ragmonitor_{name}", z, since=since)
                    found = asked(address, query, moments[1])
                    assert found[app] == pytest.approx(value, rel=1e-6, abs=1e-9), (name, app, since)
        assert pooled(both, "calm").defects == 0
        assert pooled(both, "support").defects > 50
    for one in replicas:
        assert_balanced(one.monitor.samples())
