"""The regression rule in PromQL beside the same rule in Python: eleven days of two replicas, to four decimals.

The defects of the app `talks` come in sessions of several answers.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

import yaml

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.rules import render
from monitor.clock import ManualClock
from monitor.quantities import format_duration
from monitor.statistics.change import FAMILIES, RateChange, fired
from monitor.statistics.rates import Sums
from monitor.statistics.session_products import SessionMemory
from monitor.statistics.windows import Windows
from tests.support.prometheus import promtool

HOURS = 11 * 24 + 12
LOOKS = (100, 150, 200, 231, 250, HOURS)
START = 19_675 * 86_400.0  # promtool's time begins at a midnight, and so must ours
POLICIES = [
    AlertPolicy.model_validate({"evaluator": "grounded", "critical": "90%", "regression": True}),
    AlertPolicy.model_validate({"evaluator": "grounded", "app": "big", "critical": "90%", "regression": "strict"}),
    AlertPolicy.model_validate(
        {"evaluator": "grounded", "app": "small", "regression": "sensitive", "regression_severity": "critical"}
    ),
]


class Fortnight:
    """Verdicts five minutes after each scrape, as the windows see them and as the counters of two replicas."""

    # In ten minutes, at most.
    judged: ClassVar = {"big": 60, "small": 3, "calm": 20, "spotless": 12, "incident": 50, "held": 40, "talks": 60}

    def __init__(self) -> None:
        self.rng = random.Random(6)
        self.clock = ManualClock(START)
        self.windows = Windows(self.clock, baselines=True)
        self.sessions = SessionMemory(self.clock)
        self.counters: dict[tuple[str, ...], list[float]] = {
            (metric, app, replica, label): [0.0]
            for metric, labels in {
                **dict.fromkeys(
                    ("evaluations", "evaluation_weight", "evaluation_weight_squares"),
                    ('defect="true"', 'defect="false"'),
                ),
                "evaluation_session_products": ('of="defects"', 'of="all"', 'of="both"'),
            }.items()
            for app in self.judged
            for replica in "ab"
            for label in labels
        }

    def pass_hour(self, hour: int) -> None:
        for _ in range(6):
            self.clock.advance(300)
            added: dict[tuple[str, ...], float] = defaultdict(float)
            for app, most in self.judged.items():
                left, defect, session, of_session = 0, False, b"", 6 if app == "talks" else 1
                for _ in range(self.rng.randrange(most)):
                    weight = self.rng.choice([10.0, 20.0])
                    if not left:
                        defect, session = self.rng.random() < self.rate(app, hour), self.rng.randbytes(8)
                    left = (left or of_session) - 1
                    one = Sums.of(
                        weight, defect=defect, products=self.sessions.add(session, (app,), weight, defect=defect)
                    )
                    self.windows.add_sums(app, "grounded", self.clock.now(), one)
                    replica = self.rng.choice("ab")
                    key = (app, replica, f'defect="{str(defect).lower()}"')
                    added["evaluations", *key] += 1
                    added["evaluation_weight", *key] += weight
                    added["evaluation_weight_squares", *key] += weight**2
                    for of, product in zip(
                        ("defects", "all", "both"),
                        (one.defect_products, one.every_products, one.both_products),
                        strict=True,
                    ):
                        added["evaluation_session_products", app, replica, f'of="{of}"'] += product
            self.clock.advance(300)
            for key, values in self.counters.items():
                values.append(values[-1] + added[key])

    @staticmethod
    def rate(app: str, hour: int) -> float:
        day = 0.02 * (1.25 if hour % 24 < 12 else 0.75)
        if app == "spotless":
            return 0.0 if hour < 200 else 0.05
        if app == "incident" and 120 <= hour < 132:
            return 0.1
        if app == "held" and hour >= 190:
            return 0.12 if hour < 196 else 0.032
        if app == "talks" and hour >= 226:
            return 0.3
        return {"big": 0.05, "small": 0.15, "incident": 0.035}.get(app, day) if hour >= 226 else day

    def fires(self, app: str) -> bool:
        family = FAMILIES[{"big": "strict", "small": "sensitive"}.get(app, "default")]
        return bool(fired(self.windows.changes(app, "grounded", self.clock.now())[0], family))

    def series(self) -> list[dict[str, str]]:
        return [
            {
                "series": f'ragmonitor_{metric}_total{{app="{app}", evaluator="grounded", version="2", level="l",'
                f' {label}, instance="{replica}"}}',
                "values": " ".join(f"{value:.12g}" for value in values),
            }
            for (metric, app, replica, label), values in self.counters.items()
        ]


def expected(name: str, values: dict[str, dict[float, RateChange]], of: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Expressions for one series of every window, rounded to four decimals, and what they must be."""
    found = []
    for window in FAMILIES["default"]:
        samples = [
            {"labels": f'{{app="{app}", evaluator="grounded", version="2"}}', "value": round(1e4 * value)}
            for app, changes in values.items()
            if window in changes and (value := getattr(changes[window], of)) is not None
            if of != "ratio" or value > 0
        ]
        series = f"app_evaluator_version:ragmonitor_defect_ratio:{name}{format_duration(window)}"
        found.append((f"round(1e4 * {series})", samples))
    return found


def thresholds() -> list[dict[str, str]]:
    """What the monitors export."""
    of = {"big": ("strict", "warning"), "small": ("sensitive", "critical")}
    return [
        {
            "series": f'ragmonitor_alert_regression_z{{app="{app}", evaluator="grounded", severity="{severity}",'
            f' window="{format_duration(window)}"}}',
            "values": f"{z}x{6 * HOURS}",
        }
        for app in Fortnight.judged
        for family, severity in [of.get(app, ("default", "warning"))]
        for window, z in FAMILIES[family].items()
    ]


def test_promql_and_python_agree_on_every_z_and_fire_in_the_same_hours(tmp_path: Path) -> None:
    weeks = Fortnight()
    engine = AlertEngine(POLICIES, weeks.windows, versions={"grounded": "2"})
    checks: list[dict[str, Any]] = []
    changes: dict[str, dict[float, RateChange]] = {}
    ever: set[str] = set()
    held = 0
    for hour in range(1, HOURS + 1):
        weeks.pass_hour(hour - 1)
        now = weeks.clock.now()
        standing = engine.evaluate(now)
        firing = [
            'ALERTS{alertstate="firing", ' + ", ".join(f'{name}="{value}"' for name, value in s.labels.items()) + "}"
            for s in standing
            if s.firing
        ]
        ever.update(firing)
        held += sum(not weeks.fires(s.app) for s in standing if s.firing)
        checks.append(
            {
                "expr": 'ALERTS{alertname="RagDefectRateRegression", alertstate="firing"}',
                "eval_time": f"{hour}h",
                "exp_samples": [{"labels": labels, "value": 1} for labels in firing],
            }
        )
        if hour in LOOKS:
            changes = {app: weeks.windows.changes(app, "grounded", now)[0] for app in weeks.judged}
            for expression, samples in [
                *expected("regression_z", changes, "z"),
                *expected("ratio_to_base", changes, "ratio"),
            ]:
                checks.append({"expr": expression, "eval_time": f"{hour}h", "exp_samples": samples})
    assert {name.split('app="')[1].split('"')[0] for name in ever} >= {"big", "small", "incident", "held", "talks"}
    assert held >= 15, f"{held}: of the hours in which an alert stands, there must be some in which it is only held"
    assert (
        max(
            one.now.defect_session_squares / one.now.defect_weight_squares
            for one in changes["talks"].values()
            if one.now.defects
        )
        > 3
    )
    assert len([check for check in checks if "round" in check["expr"] and check["exp_samples"]]) >= 40

    rules = render(POLICIES, interval=3600.0)
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1h",
        "group_eval_order": [group["name"] for group in yaml.safe_load(rules)["groups"]],
        "tests": [
            {
                "interval": "10m",
                "input_series": [*weeks.series(), *thresholds()],
                "promql_expr_test": checks,
            }
        ],
    }
    (tmp_path / "rules.yml").write_text(rules)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000))
    tested = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:4000]
