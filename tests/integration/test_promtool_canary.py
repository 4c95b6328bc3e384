"""`RagJudgeDrifted` by promtool: what it says, that it fires when the engine does, and that its tests notice faults."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.promql import dump
from monitor.alerts.prometheus.rule_tests import render_tests
from monitor.alerts.prometheus.rules import render
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.self_alerts.judge_drifted import ALERT as DRIFTED
from monitor.clock import ManualClock
from monitor.model.canary import CanaryRun
from monitor.statistics.windows import Windows
from tests.support.prometheus import promtool

POLICIES = [AlertPolicy(evaluator="groundedness", warning=0.05)]
HOUR = 3600.0


def passes(folder: Path, rules: str, tests: list[dict[str, Any]], interval: str = "1h") -> str:
    """Empty where promtool has nothing to say against it."""
    (folder / "rules.yml").write_text(rules)
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": interval,
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules)["groups"]],
        "tests": tests,
    }
    (folder / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000))
    tested = promtool("test", "rules", "test.yml", cwd=folder)
    return (tested.stdout + tested.stderr)[:4000] if tested.returncode else ""


def of_the_canary(runbooks: str = "") -> str:
    """The rules without those of rates, which take promtool longer."""
    rules = yaml.safe_load(render(POLICIES, runbooks=runbooks))
    return dump({"groups": [one for one in rules["groups"] if one["name"] == "ragmonitor-health"]})


def written() -> list[dict[str, Any]]:
    tests = yaml.safe_load(render_tests(POLICIES))["tests"]
    return [one for one in tests if one["name"].startswith(DRIFTED.name)]


def test_the_written_tests_say_when_it_fires_and_when_it_is_silent(tmp_path: Path) -> None:
    tests = written()
    assert len(tests) == 10
    assert passes(tmp_path, of_the_canary(), tests) == ""


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ('agreement=~"stricter|milder"', 'agreement=~"milder"'),
        ('agreement=~"stricter|milder"', 'agreement!="same"'),
        ("+ 2 * sqrt(", "+ 0 * sqrt("),
        ("> on (evaluator, version) evaluator_version:ragmonitor_canary_tolerance_ratio:max", "> 0.07"),
        ("> 1.5", "> 0.5"),
    ],
)
def test_the_written_tests_notice_a_rule_that_is_broken(sound: str, broken: str, tmp_path: Path) -> None:
    rules = of_the_canary()
    assert sound in rules
    tests = written()
    assert passes(tmp_path, rules.replace(sound, broken), tests) != ""


def test_it_says_how_many_moved_of_how_many_and_in_which_direction(tmp_path: Path) -> None:
    of = 'evaluator="grounded", version="1+aa"'
    series = [
        {"series": f'ragmonitor_canary_verdicts_total{{{of}, agreement="same"}}', "values": "0 0+19x3"},
        {"series": f'ragmonitor_canary_verdicts_total{{{of}, agreement="stricter"}}', "values": "0 0+4x3"},
        {"series": f'ragmonitor_canary_verdicts_total{{{of}, agreement="milder"}}', "values": "0 0+1x3"},
        {"series": f'ragmonitor_canary_verdicts_total{{{of}, agreement="unscored"}}', "values": "0 0+9x3"},
        {"series": f"ragmonitor_canary_runs_total{{{of}}}", "values": "0 0+1x3"},
        {"series": f"ragmonitor_canary_tolerance_ratio{{{of}}}", "values": "0.05x4"},
    ]
    expected = {
        "exp_labels": {"evaluator": "grounded", "version": "1+aa", "severity": "warning"},
        "exp_annotations": {
            "summary": DRIFTED.summary,
            "description": (
                "15 of 72 canary verdicts of grounded in the last 1d differ from the baseline (at least 12.01%; up to"
                " 5% is noise): 12 stricter, 3 more lenient."
            ),
            "runbook_url": "https://e.org/RagJudgeDrifted.md",
        },
    }
    test = {
        "interval": "8h",
        "input_series": series,
        "alert_rule_test": [{"alertname": DRIFTED.name, "eval_time": "32h", "exp_alerts": [expected]}],
    }
    assert passes(tmp_path, of_the_canary("https://e.org"), [test]) == ""


def test_rules_and_engine_agree_after_every_run(tmp_path: Path) -> None:
    """Sixty runs of two evaluators whose judges waver, move and come back, looked at every hour."""
    rng = random.Random(5)
    clock = ManualClock(1_700_000_000.0)
    checks = SelfAlertChecks(Observed(clock))
    engine = AlertEngine([], Windows(clock), checks=checks)
    tolerances = {"calm": 0.05, "wild": 0.15}
    counters: dict[tuple[str, str], list[float]] = {
        (name, kind): [0.0] for name in tolerances for kind in ("same", "stricter", "milder", "runs")
    }
    expected = []
    for run in range(1, 61):
        clock.advance(HOUR - 60)  # a minute before the scrape, so that both see the same runs in every day
        for name, tolerance in tolerances.items():
            chance = tolerance + (0.25 if 20 < run < 30 or (name == "wild" and run > 45) else -0.04)
            moved = sum(rng.random() < chance for _ in range(24))
            stricter = rng.randint(0, moved)
            checks.on_canary_run(CanaryRun(clock.now(), name, "1", 24 - moved, stricter, moved - stricter, tolerance))
            added = {"same": 24 - moved, "stricter": stricter, "milder": moved - stricter, "runs": 1}
            for kind, number in added.items():
                counters[name, kind].append(counters[name, kind][-1] + number)
        clock.advance(60)
        for hour in range(8):
            clock.advance(HOUR if hour else 0)
            firing = {state.evaluator for state in engine.evaluate(clock.now()) if state.firing}
            expected.append((8 * run + hour, firing))
    assert {1, 2} <= {len(firing) for _, firing in expected}
    assert not expected[0][1]

    series = []
    for (name, kind), values in counters.items():
        of = f'evaluator="{name}", version="1"'
        metric = "runs" if kind == "runs" else "verdicts"
        more = "" if kind == "runs" else f', agreement="{kind}"'
        shown = " ".join(f"{value:g}" for value in values for _ in range(96))  # every five minutes
        series.append({"series": f"ragmonitor_canary_{metric}_total{{{of}{more}}}", "values": shown})
    for name, tolerance in tolerances.items():
        of = f'evaluator="{name}", version="1"'
        series.append({"series": f"ragmonitor_canary_tolerance_ratio{{{of}}}", "values": f"{tolerance}x{61 * 96}"})
    looks = [
        {
            "expr": f'ALERTS{{alertname="{DRIFTED.name}", alertstate="firing"}}',
            "eval_time": f"{hour}h",
            "exp_samples": [
                {
                    "labels": f'ALERTS{{alertname="{DRIFTED.name}", alertstate="firing", evaluator="{name}",'
                    ' version="1", severity="warning"}',
                    "value": 1,
                }
                for name in sorted(firing)
            ],
        }
        for hour, firing in expected
    ]
    test = {"interval": "5m", "input_series": series, "promql_expr_test": looks}
    assert passes(tmp_path, of_the_canary(), [test]) == ""
