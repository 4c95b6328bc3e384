"""The limits that the rules record are those of the estimate, to nine digits, on sums of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.rules import render
from monitor.alerts.threshold import Z_OVER
from monitor.statistics.rates import Z_95, Sums, estimate
from tests.support.prometheus import promtool

CASES = {
    "equal": Sums.counted(120, 12),
    "few": Sums.counted(5, 4),
    "none bad": Sums.counted(40, 0),
    "all bad": Sums.counted(7, 7),
    "one good": Sums.counted(1, 0),
    "mixed weights": Sums(40, 5, 900.0, 60.0, 1500.0, 52_000.0, 100.0, 1500.0, 53_500.0, 1500.0),
    "rare heavy defects": Sums(200, 3, 2000.0, 150.0, 7500.0, 30_000.0, 50.0, 7500.0, 37_500.0, 7500.0),
    "sessions of bad answers": Sums(100, 20, 100.0, 20.0, 20.0, 80.0, 1.0, 150.0, 700.0, 200.0),
    "a session that has just begun": Sums(12, 10, 12.0, 10.0, 10.0, 2.0, 1.0, 100.0, 136.0, 100.0),
    "products with answers before the window": Sums(5, 2, 5.0, 2.0, 2.0, 3.0, 1.0, 900.0, 2500.0, 1200.0),
}


OWN_RULE = AlertPolicy.model_validate({"evaluator": "e", "defect": {"label": "attack"}, "warning": "5%"})


def series(app: str, sums: Sums, rule: str) -> list[dict[str, str]]:
    """Counters that rise by these sums within the hour, evenly, and the gauge; `rule` names an alert's own rule."""
    of = f'app="{app}", evaluator="e", version="1"' + (f', defect_rule="{rule}"' if rule else "")
    kept = "ragmonitor_rule_evaluation" if rule else "ragmonitor_evaluation"
    good = (sums.judged - sums.defects, sums.weight - sums.defect_weight, sums.good_weight_squares)
    bad = (sums.defects, sums.defect_weight, sums.defect_weight_squares)
    values = {
        f'{kept}{name}_total{{{of}, level="l", defect="{defect}"}}': value
        for defect, parts in (("true", bad), ("false", good))
        for name, value in zip(("s", "_weight", "_weight_squares"), parts, strict=True)
    }
    for kind, value in (("defects", sums.defect_products), ("all", sums.every_products), ("both", sums.both_products)):
        values[f'{kept}_session_products_total{{{of}, of="{kind}"}}'] = value
    found = [{"series": name, "values": f"0+0x179 0+{value / 60:.17g}x60"} for name, value in values.items()]
    gauge = f'ragmonitor_evaluation_weight_max{{app="{app}", evaluator="e"}}'
    return [*found, {"series": gauge, "values": f"{sums.top:g}x240"}]


@pytest.mark.parametrize("policy", [None, OWN_RULE], ids=["by the evaluator's rule", "by an alert's own rule"])
def test_recorded_limits_are_those_of_the_estimate(policy: AlertPolicy | None, tmp_path: Path) -> None:
    rule = policy.defect.name if policy is not None and policy.defect is not None else ""
    recorded = f"app_evaluator_version{'_rule' if rule else ''}:ragmonitor_defect_ratio"
    checks: list[dict[str, Any]] = []
    for app, sums in CASES.items():
        for name, z in (("lower", 3.09 if rule else Z_95), ("upper", Z_OVER if rule else Z_95)):
            found = estimate(sums, z, usual=sums.typical_weight)
            assert found is not None
            value = found.lower if name == "lower" else found.upper
            expression = f'abs(max({recorded}:{name}1h{{app="{app}", z="{z:g}"}}) - {value:.17g}) < bool 1e-9'
            checks.append({"expr": expression, "eval_time": "4h", "exp_samples": [{"labels": "{}", "value": 1}]})
    rules = yaml.safe_load(render([policy] if policy is not None else []))
    names = [f"ragmonitor-rates-{window}{'-by-rule' if rule else ''}" for window in ("1d", "1h")]
    rules["groups"] = [one for one in rules["groups"] if one["name"] in names]
    every = [one for app, sums in CASES.items() for one in series(app, sums, rule)]
    test = {"interval": "1m", "input_series": every, "promql_expr_test": checks}
    order = [one["name"] for one in rules["groups"]]
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "1h", "group_eval_order": order, "tests": [test]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000))
    tested = promtool("test", "rules", "test.yml", cwd=tmp_path)
    assert tested.returncode == 0, (tested.stdout + tested.stderr)[:4000]
