"""The rules file as Prometheus reads it: valid, firing when it must, and deciding what the engine decides."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.rules import render
from monitor.clock import ManualClock
from monitor.estimates.rates import estimate
from monitor.estimates.windows import Windows
from tests.support.prometheus import get_json, prometheus, promtool
from tests.support.tools import wait_until

GOLDEN = Path(__file__).parent.parent / "golden"
RUNBOOKS = Path(__file__).parent.parent.parent / "docs" / "runbooks"
POLICIES = [
    AlertPolicy(evaluator="groundedness", warning=0.05, critical=0.15),
    AlertPolicy(evaluator="violence", critical=0.001),
]


def windows(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"window": window, "z": z} for window, z in pairs]


def policy(**options: Any) -> AlertPolicy:
    return AlertPolicy.model_validate(options)


MIXED = [
    *POLICIES,
    policy(evaluator="groundedness", app='o"d\\d {{ app', warning="5%", windows=windows(("30m", 3), ("1h", 2))),
    policy(evaluator="groundedness", app="bank", critical="5%", resolve_after="0s"),
]


def rules_of(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_the_rules_are_those_of_the_golden_file() -> None:
    """UPDATE_GOLDEN=1 writes it anew; look at the difference before you commit it."""
    rendered = render(POLICIES, runbooks="https://runbooks.example.org/rag-monitor")
    golden = GOLDEN / "rules.yml"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(rendered)
    assert rendered == golden.read_text()


@pytest.mark.parametrize("policies", [[], POLICIES, MIXED], ids=["none", "alike", "mixed"])
def test_promtool_finds_nothing_to_complain_of(policies: list[AlertPolicy], tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(render(policies))
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_golden_rules_fire_when_they_must_and_only_then() -> None:
    tested = promtool("test", "rules", "rules_test.yml", cwd=GOLDEN)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_prometheus_loads_and_evaluates_the_rules(tmp_path: Path) -> None:
    def healthy() -> set[str]:
        groups = get_json(f"{address}/api/v1/rules")["data"]["groups"]
        return {rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "ok"}

    text = render(MIXED, interval=1.0)
    names = {rule.get("alert") or rule["record"] for rule in rules_of(text)}
    with prometheus(tmp_path, ["127.0.0.1:1"], rules=text) as address:
        wait_until(lambda: healthy() == names, 20, "every rule having been evaluated")


def test_thresholds_and_apps_do_not_change_the_rules() -> None:
    assert render(POLICIES) == render([AlertPolicy(evaluator="tone", app="shop", warning=0.3)]) == render([])


def test_every_alert_says_what_it_is_and_has_a_runbook() -> None:
    alerts = [rule for rule in rules_of(render(MIXED, runbooks="https://example.org/r/")) if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == {"RagDefectRateHigh", "RagEvaluationsMissing", "RagUnscoredHigh"}
    for rule in alerts:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"]
        assert rule["annotations"]["runbook_url"] == f"https://example.org/r/{rule['alert']}.md"
        assert (RUNBOOKS / f"{rule['alert']}.md").is_file()


def test_an_alert_is_held_in_prometheus_as_long_as_in_process() -> None:
    rules = rules_of(render([policy(evaluator="tone", warning="5%", resolve_after="10m")]))
    assert {rule.get("keep_firing_for") for rule in rules if rule.get("alert") == "RagDefectRateHigh"} == {"10m"}
    rules = rules_of(render([policy(evaluator="tone", warning="5%", resolve_after="0s")]))
    assert {rule.get("keep_firing_for") for rule in rules if rule.get("alert") == "RagDefectRateHigh"} == {None}


SHORT = windows(("10m", 3.09), ("30m", 2.58), ("2h", 2.33))
PARITY = {
    "one shape": [policy(evaluator="grounded", warning="5%", critical="12%", windows=SHORT)],
    "own rules": [
        policy(evaluator="grounded", warning="5%", critical="12%", windows=SHORT),
        policy(evaluator="grounded", app='o"d {{ app', warning="8%", windows=SHORT[:2], resolve_after="0s"),
    ],
}


class Day:
    """Six hours of traffic that the engine sees as verdicts and promtool as the counters of two replicas.

    Verdicts fall between the scrapes, so that both see the same ones in every window; the first two hours are empty, so
    that no window begins before the data does.
    """

    apps = ("shop", 'o"d {{ app', "quiet", "flat")
    minutes = range(1, 361)

    def __init__(self) -> None:
        self.rng = random.Random(11)
        self.clock = ManualClock(1_700_000_400.0)
        self.windows = Windows(self.clock)
        self.counters: dict[tuple[str, ...], list[float]] = {  # every label set is created at 0
            (metric, app, replica, defect): [0.0]
            for metric in ("evaluations", "evaluation_weight", "evaluation_weight_squares")
            for app in self.apps
            for replica in "ab"
            for defect in ("true", "false")
        }

    def pass_minute(self, minute: int) -> None:
        self.clock.advance(30)
        added: dict[tuple[str, ...], float] = defaultdict(float)
        for app in self.apps if minute > 120 else ():
            for _ in range(0 if app == "quiet" and minute > 200 else self.rng.randrange(24)):
                weight = self.rng.choice([2.0, 5.0, 20.0])
                defect = self.rng.random() < self.rate(app, minute)
                self.windows.add(app, "grounded", self.clock.now(), weight, defect)
                key = (app, self.rng.choice("ab"), str(defect).lower())
                added["evaluations", *key] += 1
                added["evaluation_weight", *key] += weight
                added["evaluation_weight_squares", *key] += weight**2
        self.clock.advance(30)
        for key, values in self.counters.items():
            values.append(values[-1] + added[key])

    @staticmethod
    def rate(app: str, minute: int) -> float:
        incident = {"shop": 150 < minute < 190, "quiet": minute > 150, "flat": False}.get(app, 200 < minute < 215)
        return 0.35 if incident else 0.02

    def series(self) -> list[dict[str, str]]:
        return [
            {
                "series": f'ragmonitor_{metric}_total{{app={_quoted(app)}, evaluator="grounded", level="l", '
                f'defect="{defect}", instance="{replica}"}}',
                "values": " ".join(f"{value:g}" for value in values),
            }
            for (metric, app, replica, defect), values in self.counters.items()
        ]


def limit(name: str, window: str, z: float, value: float | None) -> tuple[str, dict[str, float]]:
    """An expression for a limit of `shop` in millionths, and what it must be."""
    samples = {f'{{app="shop", evaluator="grounded", z="{z}"}}': round(1e6 * value)} if value is not None else {}
    return f'round(1e6 * app_evaluator:ragmonitor_defect_ratio:{name}{window}{{app="shop"}})', samples


@pytest.mark.parametrize("name", PARITY)
def test_rules_and_engine_fire_at_the_same_minutes(name: str, tmp_path: Path) -> None:
    """Random traffic with incidents over two replicas: every fifth minute the same alerts, and the same limits."""
    day = Day()
    engine = AlertEngine(PARITY[name], day.windows)
    expected: list[tuple[int, str, dict[str, float]]] = []
    for minute in day.minutes:
        day.pass_minute(minute)
        now = day.clock.now()
        states = engine.evaluate(now)
        if minute % 5 == 0:
            same = 'alertname="RagDefectRateHigh", alertstate="firing", evaluator="grounded"'
            firing = {
                f'ALERTS{{{same}, app={_quoted(s.app)}, severity="{s.severity}"}}': 1.0 for s in states if s.firing
            }
            expected.append((minute, 'ALERTS{alertname="RagDefectRateHigh", alertstate="firing"}', firing))
        if minute % 30 == 0:
            surely = estimate(day.windows.sums("shop", "grounded", 7200, now), 2.33)
            likely = estimate(day.windows.sums("shop", "grounded", 600, now), 1.645)
            expected.append((minute, *limit("lower", "2h", 2.33, surely.lower if surely else None)))
            expected.append((minute, *limit("upper", "10m", 1.645, likely.upper if likely else None)))
    ever = {labels for _, _, samples in expected for labels in samples if labels.startswith("ALERTS")}
    assert len(ever) >= 4, "the traffic must make something of every kind fire"
    assert not any("flat" in labels for labels in ever)

    thresholds = [
        {
            "series": f"ragmonitor_alert_threshold_ratio{{app={_quoted(state.app)}, "
            f'evaluator="grounded", severity="{state.severity}"}}',
            "values": f"{state.threshold}x360",
        }
        for state in states
    ]
    expressions = [
        {
            "expr": expr,
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
        }
        for minute, expr, samples in expected
    ]
    rules = render(PARITY[name])
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules)["groups"]],
        "tests": [
            {"interval": "1m", "input_series": [*day.series(), *thresholds], "promql_expr_test": expressions},
        ],
    }
    (tmp_path / "rules.yml").write_text(rules)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000))
    tested = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:4000]


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
