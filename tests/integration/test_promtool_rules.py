"""The rules file as Prometheus reads it: valid, firing when it must, and deciding what the engine decides."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts import catalogue
from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.grafana_rules import render_grafana
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render, render_resource
from monitor.clock import ManualClock
from monitor.statistics.rates import Sums, estimate
from monitor.statistics.session_products import SessionMemory
from monitor.statistics.windows import Windows
from tests.support.prometheus import get_json, prometheus, promtool
from tests.support.tools import wait_until

GOLDEN = Path(__file__).parent.parent / "golden"
RUNBOOKS = Path(__file__).parent.parent.parent / "docs" / "runbooks"
POLICIES = [
    AlertPolicy(evaluator="groundedness", warning=0.05, critical=0.15),
    AlertPolicy(evaluator="violence", critical=0.001),
]

RISING = [
    AlertPolicy.model_validate({"evaluator": "groundedness", "warning": "5%", "regression": True}),
    AlertPolicy.model_validate({"evaluator": "retrieval_empty", "critical": "30%"}),
    AlertPolicy.model_validate({"evaluator": "context_not_recorded", "warning": "10%"}),
]


def windows(*pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"window": window, "z": z} for window, z in pairs]


def policy(**options: Any) -> AlertPolicy:
    return AlertPolicy.model_validate(options)


MIXED = [
    *POLICIES,
    policy(evaluator="groundedness", app='o"d\\d {{ app', warning="5%", windows=windows(("30m", 3), ("1h", 2))),
    policy(evaluator="groundedness", app="bank", critical="5%", resolve_after="0s", regression="strict"),
    policy(evaluator="violence", app="bank", regression=True, regression_severity="critical"),
    policy(evaluator="retrieval_empty", warning="10%", critical="30%"),
    policy(evaluator="context_not_recorded", warning="10%", windows=windows(("2h", 3))),
    policy(evaluator="self_harm", severe=True),
]


ADDRESS = "https://runbooks.example.org/rag-monitor"


def quick(tests: str) -> str:
    """Written tests without those of alerts that look at days: no policy changes them, and the golden file has them."""
    document = yaml.safe_load(tests)
    slow = ("RagJudgeDrifted", "RagDefectRateRegression")
    return yaml.safe_dump({**document, "tests": [one for one in document["tests"] if not one["name"].startswith(slow)]})


def rules_of(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        ("rules.yml", render(POLICIES, runbooks=ADDRESS)),
        ("rules_grafana.yml", render_grafana(POLICIES, runbooks=ADDRESS)),
        ("rules_regression.yml", render(RISING, runbooks=ADDRESS)),
        ("rules_regression_test.yml", render_tests(RISING, rules_file="rules_regression.yml")),
    ],
)
def test_what_is_written_is_what_the_golden_file_has(name: str, rendered: str) -> None:
    """UPDATE_GOLDEN=1 writes it anew; look at the difference before you commit it."""
    golden = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(rendered)
    assert rendered == golden.read_text()


def test_a_prometheus_rule_holds_the_same_groups() -> None:
    resource = yaml.safe_load(render_resource(MIXED, runbooks=ADDRESS))
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert resource["metadata"]["name"] == "rag-monitor"
    assert resource["spec"] == yaml.safe_load(render(MIXED, runbooks=ADDRESS))


def test_the_written_tests_pass_and_say_of_every_alert_when_it_fires_and_when_not() -> None:
    tested = promtool("test", "rules", "rules_regression_test.yml", cwd=GOLDEN)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    tests = yaml.safe_load((GOLDEN / "rules_regression_test.yml").read_text())["tests"]
    for name in {rule["alert"] for rule in rules_of(render(RISING)) if "alert" in rule}:
        looks = [look for test in tests for look in test["promql_expr_test"] if f'"{name}"' in look["expr"]]
        assert any(look["exp_samples"] for look in looks), f"{name} never fires"
        assert any(not look["exp_samples"] for look in looks), f"{name} is never silent"


def test_a_regression_says_both_rates_their_ratio_and_how_many_were_judged(tmp_path: Path) -> None:
    document = yaml.safe_load(render_tests(RISING))
    (test,) = (one for one in document["tests"] if one["name"].startswith("RagDefectRateRegression default: fires"))
    test["input_series"] = [one for one in test["input_series"] if 'app="rises"' in one["series"]]
    said = (
        "According to any, more answers from rises are defective than in the 7 days before (2.002%): in the last 1h 10%"
        " of 480 scored, 5 times as many; in the last 1d 4.667% of 11520 scored, 2.33 times as many."
    )
    annotations = {
        "summary": "The defect rate is clearly higher than in the week before.",
        "description": said,
        "runbook_url": f"{ADDRESS}/RagDefectRateRegression.md",
    }
    labels = {"app": "rises", "evaluator": "any", "version": "1", "severity": "warning"}
    test["promql_expr_test"] = []
    test["alert_rule_test"] = [
        {
            "alertname": "RagDefectRateRegression",
            "eval_time": "152h",
            "exp_alerts": [{"exp_labels": labels, "exp_annotations": annotations}],
        }
    ]
    (tmp_path / "rules.yml").write_text(render(RISING, runbooks=ADDRESS))
    (tmp_path / "test.yml").write_text(yaml.safe_dump({**document, "tests": [test]}))
    tested = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:4000]


def test_the_written_tests_pass_for_policies_with_windows_of_their_own(tmp_path: Path) -> None:
    policies = [one.model_copy(update={"regression": None}) for one in MIXED if one.thresholds]
    (tmp_path / "rules.yml").write_text(render(policies))
    (tmp_path / "test.yml").write_text(quick(render_tests(policies)))
    tested = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:4000]


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("evaluation_weight:increase1h > 0) * 0) <", "evaluation_weight:increase1h > 0) * 0 + 1) <"),
        ("and on (app, evaluator, version)\n          ragmonitor_evaluations_total", ""),
        ("unless on (app, evaluator, version)", "unless on (app, evaluator)"),
        ('reason!="budget"', 'reason!=""'),
        ("> 1800", "> 18000"),
        ('reason="budget"}[15m])) > 0', 'reason="budget"}[15m])) > 100'),
        ("unless on (app, evaluator)\n          app_evaluator:ragmonitor_evaluations:increase1h > 0", ""),
    ],
)
def test_the_written_tests_notice_a_rule_that_is_broken(sound: str, broken: str, tmp_path: Path) -> None:
    policies = [AlertPolicy(evaluator="groundedness", warning=0.05)]
    rules = render(policies)
    assert sound in rules
    (tmp_path / "rules.yml").write_text(rules.replace(sound, broken))
    (tmp_path / "test.yml").write_text(quick(render_tests(policies)))
    assert promtool("test", "rules", "test.yml", cwd=tmp_path).returncode == 1


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
    assert render(RISING) == render([policy(evaluator="tone", app="shop", critical="9%", regression="strict")])


def test_every_alert_says_what_it_is_and_has_a_runbook() -> None:
    alerts = [rule for rule in rules_of(render(MIXED, runbooks="https://example.org/r/")) if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == set(catalogue.names())
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
        self.products: dict[tuple[str, ...], list[float]] = {
            (app, replica, of): [0.0] for app in self.apps for replica in "ab" for of in ("defects", "all", "both")
        }
        self.largest: dict[str, list[float]] = {app: [0.0] for app in self.apps}
        self.sessions = {replica: SessionMemory(self.clock) for replica in "ab"}

    def pass_minute(self, minute: int) -> None:
        self.clock.advance(30)
        added: dict[tuple[str, ...], float] = defaultdict(float)
        largest: dict[str, float] = defaultdict(float)
        for app in self.apps if minute > 120 else ():
            for _ in range(0 if app == "quiet" and minute > 200 else self.rng.randrange(24)):
                weight = self.rng.choice([2.0, 5.0, 20.0])
                defect = self.rng.random() < self.rate(app, minute)
                replica, session = self.rng.choice("ab"), bytes([self.rng.randrange(200), len(app)])
                products = self.sessions[replica].add(session, ("grounded", "2"), weight, defect=defect)
                one = Sums.of(weight, defect=defect, products=products)
                self.windows.add_sums(app, "grounded", self.clock.now(), one)
                key = (app, replica, str(defect).lower())
                for of, product in zip(("defects", "all", "both"), products, strict=True):
                    added[app, replica, of] += product
                largest[app] = max(largest[app], weight)
                added["evaluations", *key] += 1
                added["evaluation_weight", *key] += weight
                added["evaluation_weight_squares", *key] += weight**2
        self.clock.advance(30)
        for key, values in [*self.counters.items(), *self.products.items()]:
            values.append(values[-1] + added[key])
        for app, weights in self.largest.items():
            weights.append(largest[app])

    @staticmethod
    def rate(app: str, minute: int) -> float:
        incident = {"shop": 150 < minute < 190, "quiet": minute > 150, "flat": False}.get(app, 200 < minute < 215)
        return 0.35 if incident else 0.02

    def series(self) -> list[dict[str, str]]:
        return (
            [
                {
                    "series": f'ragmonitor_{metric}_total{{app={_quoted(app)}, evaluator="grounded", version="2", '
                    f'level="l", defect="{defect}", instance="{replica}"}}',
                    "values": " ".join(f"{value:g}" for value in values),
                }
                for (metric, app, replica, defect), values in self.counters.items()
            ]
            + [
                {
                    "series": f"ragmonitor_evaluation_session_products_total{{app={_quoted(app)}, "
                    f'evaluator="grounded", version="2", of="{of}", instance="{replica}"}}',
                    "values": " ".join(f"{value:g}" for value in values),
                }
                for (app, replica, of), values in self.products.items()
            ]
            + [
                {
                    "series": f"ragmonitor_evaluation_weight_max{{app={_quoted(app)}, "
                    'evaluator="grounded", instance="a"}',
                    "values": " ".join(f"{value:g}" for value in values),
                }
                for app, values in self.largest.items()
            ]
        )


def limit(name: str, window: str, z: float, value: float | None) -> tuple[str, dict[str, float]]:
    """An expression for a limit of `shop` in millionths, and what it must be."""
    labels = f'{{app="shop", evaluator="grounded", version="2", z="{z}"}}'
    samples = {labels: round(1e6 * value)} if value is not None else {}
    return f'round(1e6 * app_evaluator_version:ragmonitor_defect_ratio:{name}{window}{{app="shop"}})', samples


@pytest.mark.parametrize("name", PARITY)
def test_rules_and_engine_fire_at_the_same_minutes(name: str, tmp_path: Path) -> None:
    """Random traffic with incidents over two replicas: every fifth minute the same alerts, and the same limits."""
    day = Day()
    engine = AlertEngine(PARITY[name], day.windows, versions={"grounded": "2"})
    expected: list[tuple[int, str, dict[str, float]]] = []
    for minute in day.minutes:
        day.pass_minute(minute)
        now = day.clock.now()
        states = engine.evaluate(now)
        if minute % 5 == 0:
            firing = {f"ALERTS{_selector(s.labels, alertstate='firing')}": 1.0 for s in states if s.firing}
            expected.append((minute, 'ALERTS{alertname="RagDefectRateHigh", alertstate="firing"}', firing))
        if minute % 30 == 0:
            usual = day.windows.usual("shop", "grounded", now)
            surely = estimate(day.windows.sums("shop", "grounded", 7200, now), 2.33, usual=usual)
            likely = estimate(day.windows.sums("shop", "grounded", 600, now), 1.645, usual=usual)
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


def _selector(labels: Mapping[str, str], **more: str) -> str:
    return "{" + ", ".join(f"{name}={_quoted(value)}" for name, value in {**labels, **more}.items()) + "}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
