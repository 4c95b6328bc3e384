"""The templates of the release gate: written by the code, and deciding in PromQL as the command does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.prometheus import release_gate
from monitor.alerts.prometheus.promtool import REPLICAS, counter_values, input_series
from monitor.alerts.prometheus.rules import render
from monitor.statistics.gating import Base, GateDecision, at_most_times, below
from monitor.statistics.rates import Sums
from tests.support.prometheus import promtool

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = {
    "argo-rollouts/analysis-template.yaml": release_gate.argo_rollouts,
    "flagger/metric-template.yaml": release_gate.flagger,
}
STEPS = 6  # of five minutes in the window of half an hour
STATE = {GateDecision.FAIL: 1, GateDecision.PASS: -1, GateDecision.NOT_ENOUGH_DATA: 0}

# By version of the service: good and defective answers a step in each replica, the weight of either, and how many of
# either make a session.
SIDES = {
    "good": (64, 1, 10.0, 4.0, 1),
    "worse": (64, 8, 10.0, 4.0, 1),
    "worse, in sessions": (64, 8, 10.0, 4.0, 8),
    "bad": (16, 16, 10.0, 10.0, 1),
    "bad, in sessions": (16, 16, 10.0, 10.0, 16),
    "few": (1, 0, 10.0, 10.0, 1),
    "some": (8, 0.5, 25.0, 4.0, 1),
    "clean": (64, 0, 10.0, 10.0, 1),
    "idle": (0, 0, 10.0, 10.0, 1),
}


@pytest.mark.parametrize("name", FILES)
def test_the_template_in_deploy_is_what_the_command_writes(name: str) -> None:
    assert (DEPLOY / name).read_text() == FILES[name](), f"rag-monitor gate --template {Path(name).parent}"


def filled(query: str, values: Mapping[str, str]) -> str:
    """A template's query with its arguments, as the controller fills them in."""
    for name, value in values.items():
        for form in (f"{{{{args.{name}}}}}", f"{{{{ variables.{name} }}}}"):
            query = query.replace(form, value)
    query = query.replace("{{ interval }}", values["window"])
    assert "{{" not in query
    return query


@cache
def templates(kind: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / kind).read_text()))


def queries(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    """By the name of the template."""
    found = {}
    for one in templates(kind):
        spec = one["spec"]
        query = spec["query"] if "query" in spec else spec["metrics"][0]["provider"]["prometheus"]["query"]
        found[one["metadata"]["name"]] = filled(query, values)
    return found


def series() -> list[dict[str, str]]:
    """Each side as an app of its own, and as a version of the one app `shop`."""
    made = []
    for side, (good, defects, of_good, of_defects, per_session) in SIDES.items():
        for replica in REPLICAS:
            labels = {"evaluator": "groundedness", "version": "1", "instance": replica}
            bad_products, good_products = defects * of_defects**2 * per_session, good * of_good**2 * per_session
            products = {"defects": bad_products, "all": bad_products + good_products, "both": bad_products}
            for of, product in products.items():
                values = counter_values([(60, product)])
                whole, part = (f"ragmonitor_{kind}evaluation_session_products_total" for kind in ("", "slice_"))
                made.append(input_series(whole, {"app": side, **labels, "of": of}, values))
                sliced = {"app": "shop", "slice": "service.version", "value": side}
                made.append(input_series(part, {**sliced, **labels, "of": of}, values))
            for defect, number, weight in (("false", good, of_good), ("true", defects, of_defects)):
                for counted, each in (("s", 1.0), ("_weight", weight), ("_weight_squares", weight**2)):
                    labels = {"evaluator": "groundedness", "version": "1", "defect": defect, "instance": replica}
                    values = counter_values([(60, number * each)])
                    whole, part = (f"ragmonitor_{kind}evaluation{counted}_total" for kind in ("", "slice_"))
                    made.append(input_series(whole, {"app": side, "level": "any", **labels}, values))
                    sliced = {"app": "shop", "slice": "service.version", "value": side}
                    made.append(input_series(part, {**sliced, **labels}, values))
    return made


def sums(side: str) -> Sums:
    good, defects, of_good, of_defects, per_session = SIDES[side]
    good, defects = (round(one * STEPS * len(REPLICAS)) for one in (good, defects))
    bad_squares, good_squares = defects * of_defects**2, good * of_good**2
    return Sums(
        good + defects, defects, good * of_good + defects * of_defects, defects * of_defects, bad_squares, good_squares,
        0.0, bad_squares * per_session, (bad_squares + good_squares) * per_session, bad_squares * per_session,
    )  # fmt: skip


def expected(name: str, values: Mapping[str, str]) -> int:
    if name == "rag-defect-rate":
        return STATE[below(sums(values["app"]), float(values["limit"])).answer]
    base = Base(sums(values["stable"]))
    return STATE[at_most_times(sums(values["canary"]), base, float(values["times"])).answer]


@pytest.mark.parametrize("kind", FILES)
def test_in_prometheus_the_templates_decide_as_the_command_does(kind: str, tmp_path: Path) -> None:
    common = {"evaluator": "groundedness", "window": "30m", "prometheus": "http://prometheus:9090",
              "slice": "service.version", "times": "2"}  # fmt: skip
    checks: list[dict[str, Any]] = []
    states = set()
    for limit in ("0.02", "0.05", "0.2"):
        for side in (*SIDES, "unknown"):
            values = {**common, "app": side, "limit": limit, "canary": side, "stable": side}
            state = 0 if side == "unknown" else expected("rag-defect-rate", values)
            checks.append(check(queries(kind, values)["rag-defect-rate"], state))
            states.add(("rate", state))
    for canary in SIDES:
        for stable in SIDES:
            values = {**common, "app": "shop", "limit": "0.05", "canary": canary, "stable": stable}
            state = expected("rag-defect-ratio", values)
            checks.append(check(queries(kind, values)["rag-defect-ratio"], state))
            states.add(("ratio", state))
    assert states == {(kind, state) for kind in ("rate", "ratio") for state in (-1, 0, 1)}
    assert at_most_times(sums("worse"), Base(sums("worse")), 2.0).answer is GateDecision.PASS
    assert at_most_times(sums("worse"), Base(sums("worse, in sessions")), 2.0).answer is GateDecision.NOT_ENOUGH_DATA
    test = {"interval": "5m", "input_series": series(), "promql_expr_test": checks}
    rules = render([])
    order = [group["name"] for group in yaml.safe_load(rules)["groups"]]
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "5m", "group_eval_order": order, "tests": [test]}
    (tmp_path / "rules.yml").write_text(rules)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    ended = promtool("test", "rules", tmp_path / "test.yml")
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-3000:]


def check(query: str, state: int) -> dict[str, Any]:
    return {"expr": query, "eval_time": "1h", "exp_samples": [{"labels": "{}", "value": state}]}
