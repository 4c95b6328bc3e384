"""Two replicas under a real Prometheus: PromQL over their counters says what the estimate says of all their results."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.rates import SUMS
from monitor.alerts.prometheus.rules import render
from monitor.statistics.rates import Sums, estimate
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import get_json, prometheus
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

EVALUATOR = "overlap_groundedness"
POLICY = AlertPolicy.model_validate({"evaluator": EVALUATOR, "warning": "5%", "windows": [{"window": "1h", "z": 1.96}]})
Z_UPPER = 1.645
BAD_OF = {"shop": 12, "support": 2, "calm": 10**9}  # one answer in so many
_NAME = re.compile(r"app_evaluator_version:ragmonitor_\w+:\w+")


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
    """A monitor with its own sample, and perhaps options of its own, whose results also go to a file."""

    def __init__(self, folder: Path, evaluator: dict[str, Any], alerts: list[dict[str, Any]] | None = None) -> None:
        folder.mkdir()
        self.results = folder / "results.jsonl"
        self.monitor = MonitorProcess(folder, {"evaluators": [evaluator], "alerts": alerts or []})
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


@contextmanager
def running(*replicas: Replica) -> Iterator[list[Replica]]:
    try:
        for one in replicas:
            one.monitor.start()
        yield list(replicas)
    finally:
        for one in replicas:
            one.monitor.kill()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[list[Replica]]:
    samples = {"one": "60%", "other": "25%"}
    made = (Replica(tmp_path / name, {"type": EVALUATOR, "sample": sample}) for name, sample in samples.items())
    with running(*made) as pair:
        yield pair


def pooled(rows: list[dict[str, Any]], app: str) -> Sums:
    return sum((Sums.of(row["weight"], defect=row["defect"]) for row in rows if row["app"] == app), Sums())


def judged_and_scraped(replicas: list[Replica], number: int, address: str) -> float:
    """Send so many rounds to each; the moment from which Prometheus has all results."""

    def everything_scraped() -> float:
        judged = sum(len(one.rows()) for one in replicas)
        seen = get_json(f"{address}/api/v1/query", query="sum(ragmonitor_evaluations_total)")["data"]["result"]
        return time.time() if seen and float(seen[0]["value"][1]) == judged else 0

    for one in replicas:
        one.send(number)
    wait_until(lambda: all(one.settled() for one in replicas), 60, "all verdicts")
    return float(wait_until(everything_scraped, 30, "a scrape of all verdicts"))  # type: ignore[arg-type]


def asked(address: str, query: str, at: float) -> dict[str, float]:
    """The answer by app. Fails where it has any other label, or two versions of the one evaluator."""
    found = get_json(f"{address}/api/v1/query", query=query, time=f"{at:.3f}")["data"]["result"]
    assert all(set(one["metric"]) == {"app", "evaluator", "version"} for one in found)
    assert len(found) == len({one["metric"]["app"] for one in found})
    return {one["metric"]["app"]: float(one["value"][1]) for one in found}


def vars_of(sums: Sums) -> Iterator[float]:
    """The sums that are recorded, in the order of `SUMS`."""
    yield from (sums.judged, sums.weight, sums.defect_weight, sums.defect_weight_squares, sums.good_weight_squares)
    yield from (sums.defect_products, sums.every_products, sums.both_products)


def limits_are_those_of_the_sums(address: str, app: str) -> bool:
    """Whether both recorded limits are what the estimate makes of the recorded sums; both move while data are young."""
    at = time.time()

    def recorded(name: str, z: str = "") -> float:
        labels = f'app="{app}"' + (f', z="{z}"' if z else "")
        query = f"app_evaluator_version:ragmonitor_{name}1h{{{labels}}}"
        found = get_json(f"{address}/api/v1/query", query=query, time=f"{at:.3f}")["data"]["result"]
        return float(found[0]["value"][1]) if found else -1.0

    judged, *values = (recorded(f"{name}:increase") for name in SUMS)
    query = f'max(max_over_time(ragmonitor_evaluation_weight_max{{app="{app}"}}[1h]))'
    top = float(get_json(f"{address}/api/v1/query", query=query)["data"]["result"][0]["value"][1])
    counts = 2 * math.ceil(judged)  # `increase` extrapolates: there may be more than are counted
    sums = Sums(counts, counts // 2 if values[1] else 0, *values[:4], top, *values[4:])
    lower, upper = estimate(sums, 1.96), estimate(sums, Z_UPPER)
    assert lower is not None
    assert upper is not None
    found = (
        recorded("defect_ratio:rate"),
        recorded("defect_ratio:lower", "1.96"),
        recorded("defect_ratio:upper", "1.645"),
    )
    return found == pytest.approx((lower.rate, lower.lower, upper.upper), rel=1e-4, abs=1e-9)


def test_rate_and_limits_are_those_of_all_results(replicas: list[Replica], tmp_path: Path) -> None:
    targets = [f"127.0.0.1:{one.monitor.metrics_port}" for one in replicas]
    recorded = Recorded()
    with prometheus(tmp_path / "prometheus", targets, rules=render([POLICY], interval=1.0)) as address:
        moments, known = [], []
        for number in (60, 90):
            moments.append(judged_and_scraped(replicas, number, address))
            known.append([row for one in replicas for row in one.rows()])
        assert len({row["weight"] for row in known[1]}) == 2, "replicas with different weights"

        first, both = known
        seen = {row["id"] for row in first}
        second = [row for row in both if row["id"] not in seen]
        for rows, since in ((both, None), (second, moments[0])):
            for app in BAD_OF:
                sums = pooled(rows, app)
                expected = dict(zip(SUMS, vars_of(sums), strict=True))
                for name, value in expected.items():
                    query = recorded.query(f"app_evaluator_version:ragmonitor_{name}:increase1h", since=since)
                    found = asked(address, query, moments[1])
                    assert found[app] == pytest.approx(value, rel=1e-6, abs=1e-9), (name, app, since)
        for app in BAD_OF:
            wait_until(lambda app=app: limits_are_those_of_the_sums(address, app), 20, f"limits of {app}")
        assert pooled(both, "calm").defects == 0
        assert pooled(both, "support").defects > 50
    for one in replicas:
        assert_balanced(one.monitor.samples())


def test_while_a_stricter_version_is_rolled_out_each_has_its_own_rate_and_alert_and_none_outlives_it(
    tmp_path: Path,
) -> None:
    """To the stricter one short answers are defects, to the other none is: their mean is the rate of neither."""
    policy = {"evaluator": "response_length", "warning": "20%", "resolve_after": "0s"}
    strict, other = (
        Replica(tmp_path / name, {"type": "response_length", "sample": "50%", **options}, [policy])
        for name, options in (("strict", {"shortest": 14}), ("other", {}))
    )
    rules = render([AlertPolicy.model_validate(policy)], interval=1.0)
    targets = [f"127.0.0.1:{one.monitor.metrics_port}" for one in (strict, other)]
    recorded = Recorded()
    rate, lower = (f"app_evaluator_version:ragmonitor_defect_ratio:{name}" for name in ("rate1h", "lower1h"))
    with (
        running(strict, other) as replicas,
        prometheus(tmp_path / "prometheus", targets, rules=rules) as address,
    ):

        def by_version(query: str) -> dict[str, float]:
            found = get_json(f"{address}/api/v1/query", query=query)["data"]["result"]
            return {one["metric"]["version"]: float(one["value"][1]) for one in found if one["metric"]["app"] == "shop"}

        def alarms() -> list[str]:
            found = get_json(f"{address}/api/v1/alerts")["data"]["alerts"]
            labels = [one["labels"] for one in found if one["state"] == "firing"]
            return [one["version"] for one in labels if (one["alertname"], one["app"]) == ("RagDefectRateHigh", "shop")]

        for _ in range(2):  # what is there at the first scrape, `increase` cannot see
            judged_and_scraped(replicas, 60, address)
        (stricter,), (usual,) = ({row["version"] for row in one.rows()} for one in (strict, other))
        assert stricter != usual
        expected = {version: estimate(pooled(one.rows(), "shop"), 1.96) for version, one in
                    ((stricter, strict), (usual, other))}  # fmt: skip
        rates = {version: found.rate for version, found in expected.items() if found is not None}
        # Another look, where a scrape took too long.
        wait_until(lambda: by_version(recorded.query(rate)) == pytest.approx(rates, rel=1e-6), 20, "both rates")
        assert rates[usual] == 0
        assert rates[stricter] > 0.5
        wait_until(lambda: alarms() == [stricter], 30, "the alert on the stricter version")
        strict.monitor.kill()
        wait_until(lambda: alarms() == [], 20, "the end of the alert on a version that nobody judges with")
        wait_until(lambda: by_version(f'{lower}{{z="3.09"}}')[stricter] > 0.2, 20, "what the window remembers")
