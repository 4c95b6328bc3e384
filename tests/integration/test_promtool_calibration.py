"""The corrected rate in PromQL beside the same in Python: a week of two replicas, to more than four digits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.promtool import REPLICAS, STEP, counter_values, input_series
from monitor.alerts.prometheus.rules import render
from monitor.statistics.correction import (
    CorrectedRate,
    LabelledResult,
    by_difference,
    by_quality,
    quality,
    surely_corrected,
)
from monitor.statistics.rates import Estimate, Sums, effective_judged
from tests.support.prometheus import promtool

DAYS = 7
LOOK = DAYS * 24  # hours
JUDGED = 100 / 64  # a step, by each replica: so that sums have no rounding that would look like a reset
NEEDED = ("ragmonitor-rates-1h", "ragmonitor-rates-1d", "ragmonitor-rates-1w", "ragmonitor-calibration")
LIMITS = ("rate", "lower", "upper")


def labels(rng: random.Random, found: float, passed: float, defects: int, good: int) -> list[LabelledResult]:
    """So many of each kind, of results that were boosted: what looks bad weighs less."""
    made = []
    for number, truth, share in ((defects, True, found), (good, False, 1 - passed)):
        for _ in range(number):
            verdict = rng.random() < share
            made.append(
                LabelledResult(rng.choice([4.0, 10.0]) if verdict else rng.choice([10.0, 25.0]), verdict, truth)
            )
    return made


RNG = random.Random(12)
LABELLED = {
    ("groundedness", "2+ab"): labels(RNG, 0.8, 0.97, 120, 300),
    ("relevance", "1"): labels(RNG, 0.65, 0.9, 100, 100),
    ("few", "1"): labels(RNG, 0.8, 0.97, 99, 300),
    ("coin", "1"): labels(RNG, 0.4, 0.48, 150, 150),
    ("strict", "1"): labels(RNG, 1.0, 0.7, 100, 100),
}
# By app, evaluator and version, the percentage of defects on each of the days.
TRAFFIC = {
    ("shop", "groundedness", "2+ab"): (25, 30, 20, 50, 30, 30, 40),
    ("bank", "groundedness", "2+ab"): (10,) * 6 + (18,),
    ("calm", "groundedness", "2+ab"): (0,) * 7,
    ("talks", "groundedness", "2+ab"): (20, 25, 20, 25, 20, 25, 30),
    ("quiet talks", "groundedness", "2+ab"): (0,) * 7,
    ("shop", "groundedness", "3+cd"): (5,) * 7,
    ("shop", "relevance", "1"): (20, 25, 20, 25, 20, 25, 30),
    ("shop", "few", "1"): (10,) * 7,
    ("shop", "coin", "1"): (50,) * 7,
    ("shop", "strict", "1"): (31,) * 6 + (100,),
    ("shop", "unlabelled", "1"): (10,) * 7,
}


def per_session(app: str) -> int:
    """How many answers a session has, all of them bad or all good."""
    return 10 if "talks" in app else 1


def weights(app: str) -> tuple[int, int]:
    """Of defects and of good answers: these weigh more where boosting works, and less where it does harm."""
    return (20, 5) if app == "bank" else (5, 20)


def sums(app: str, days: tuple[int, ...]) -> Sums:
    """What two replicas have judged on some days."""
    bad, fine = weights(app)
    judged = 24 * 60 / STEP * len(REPLICAS) * JUDGED / 100
    defects, good = judged * sum(days), judged * sum(100 - day for day in days)
    each = per_session(app)
    return Sums(
        round(defects + good),
        round(defects),
        bad * defects + fine * good,
        bad * defects,
        bad**2 * defects,
        fine**2 * good,
        0.0,
        each * bad**2 * defects,
        each * (bad**2 * defects + fine**2 * good),
        each * bad**2 * defects,
    )


def series() -> Iterator[dict[str, str]]:
    for (app, evaluator, version), days in TRAFFIC.items():
        for replica in REPLICAS:
            for defect, weight in zip(("true", "false"), weights(app), strict=True):
                shares = [JUDGED / 100 * (day if defect == "true" else 100 - day) for day in days]
                names = {"app": app, "evaluator": evaluator, "version": version, "level": "any"}
                for metric, factor in (("s", 1), ("_weight", weight), ("_weight_squares", weight**2)):
                    values = counter_values([(24 * 60, share * factor) for share in shares])
                    more = {"defect": defect, "instance": replica}
                    yield input_series(f"ragmonitor_evaluation{metric}_total", {**names, **more}, values)
            bad, fine = (per_session(app) * one**2 for one in weights(app))
            for of, one in (("defects", (bad, 0)), ("all", (bad, fine)), ("both", (bad, 0))):
                values = counter_values(
                    [(24 * 60, JUDGED / 100 * (one[0] * day + one[1] * (100 - day))) for day in days]
                )
                names = {"app": app, "evaluator": evaluator, "version": version, "of": of, "instance": replica}
                yield input_series("ragmonitor_evaluation_session_products_total", names, values)
    yield from exported(LABELLED)


def exported(labelled: dict[tuple[str, str], list[LabelledResult]], hours: int = LOOK) -> Iterator[dict[str, str]]:
    """What both replicas export of the labels: the same."""
    held = f"x{hours * 60 // STEP}"
    for (evaluator, version), found in labelled.items():
        for verdict, truth in ((True, True), (True, False), (False, True), (False, False)):
            weights = [one.weight for one in found if (one.verdict, one.truth) == (verdict, truth)]
            said = {"verdict": "defect" if verdict else "good", "truth": "defect" if truth else "good"}
            sums_of = {"": len(weights), "_weight": sum(weights), "_weight_squares": sum(one**2 for one in weights)}
            for metric, value in sums_of.items():
                name = "ragmonitor_calibration_labels" if not metric else f"ragmonitor_calibration_label{metric}"
                for replica in REPLICAS:
                    names = {"evaluator": evaluator, "version": version, **said, "instance": replica}
                    yield input_series(name, names, f"{value:.17g}{held}")


def millionths(record: str, values: dict[str, float], hour: int = LOOK) -> dict[str, Any]:
    """A look at an hour; `values` by the labels in PromQL."""
    return {
        "expr": f"round(1e6 * {record})",
        "eval_time": f"{hour}h",
        "exp_samples": [{"labels": f"{{{names}}}", "value": round(1e6 * value)} for names, value in values.items()],
    }


def check(
    folder: Path,
    rules: str,
    exported_series: list[dict[str, str]],
    looks: list[dict[str, Any]],
    *,
    needed: tuple[str, ...] = NEEDED,
) -> None:
    groups = [group for group in yaml.safe_load(rules)["groups"] if group["name"] in needed]
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1h",
        "group_eval_order": [group["name"] for group in groups] if needed is NEEDED else list(needed),
        "tests": [
            {
                "interval": f"{STEP}m",
                "input_series": exported_series,
                "promql_expr_test": looks,
            }
        ],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    (folder / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000))
    ended = promtool("test", "rules", "test.yml", cwd=folder)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[:4000]


WEEK_OF_ITS_OWN = AlertPolicy.model_validate(
    {"evaluator": "groundedness", "warning": "5%", "windows": [{"window": "7d", "z": 2.33}]}
)


@pytest.mark.parametrize("policies", [[], [WEEK_OF_ITS_OWN]], ids=["default windows", "a policy that has the week"])
def test_rate_and_limits_are_those_of_python_for_the_versions_with_labels_enough(
    policies: list[AlertPolicy], tmp_path: Path
) -> None:
    looks = []
    for span, days in (("1d", 1), ("1w", 7)):
        corrected: dict[str, CorrectedRate] = {}
        effective = {}
        for (app, evaluator, version), rates in TRAFFIC.items():
            raw, names = sums(app, rates[-days:]), f'app="{app}", evaluator="{evaluator}", version="{version}"'
            effective[names] = effective_judged(raw) / 1e6
            found = by_quality(raw, quality(LABELLED.get((evaluator, version), [])))
            if found is not None:
                corrected[names] = found
        assert [names.split(", v")[0] for names in corrected] == [
            'app="shop", evaluator="groundedness"',
            'app="bank", evaluator="groundedness"',
            'app="calm", evaluator="groundedness"',
            'app="talks", evaluator="groundedness"',
            'app="quiet talks", evaluator="groundedness"',
            'app="shop", evaluator="relevance"',
            'app="shop", evaluator="strict"',
        ]
        looks.append(millionths(f"app_evaluator_version:ragmonitor_effective_judged:increase{span} / 1e6", effective))
        for limit in LIMITS:
            record = f"app_evaluator_version:ragmonitor_corrected_defect_ratio:{limit}{span}"
            looks.append(millionths(record, {names: getattr(one, limit) for names, one in corrected.items()}))
        held = [one for one in corrected.values() if 0 < one.lower < one.rate < one.upper < 1]
        assert len(held) >= 2, "limits that no clamp has made"
    check(tmp_path, render(policies), list(series()), looks)


AUDITED = {
    "1": ([*labels(RNG, 0.8, 0.97, 40, 360)], Sums(4000, 300, 60_000.0, 2_400.0, 21_000.0, 1_000_000.0)),
    "2": ([LabelledResult(1.0, False, False)] * 200, Sums(200, 0, 200.0, 0.0, 0.0, 200.0)),
    "3": ([LabelledResult(1.0, True, True)] * 199, Sums(4000, 300, 60_000.0, 2_400.0, 21_000.0, 1_000_000.0)),
    "4": ([*labels(RNG, 0.8, 0.9, 150, 150)], Sums(800, 30, 900.0, 300.0, 3_000.0, 2_000.0)),
}


def test_random_audits_give_the_rate_of_the_results_that_they_were_drawn_from(tmp_path: Path) -> None:
    held, found = f"x{60 // STEP}", {}
    rows = list(exported({("groundedness", version): one for version, (one, _) in AUDITED.items()}, hours=1))
    for version, (audits, raw) in AUDITED.items():
        corrected = by_difference(raw, audits)
        if corrected is not None:
            found[f'evaluator="groundedness", version="{version}"'] = corrected
        results = {
            "defect": (raw.defects, raw.defect_weight, raw.defect_weight_squares),
            "good": (raw.judged - raw.defects, raw.weight - raw.defect_weight, raw.good_weight_squares),
        }
        for verdict, values in results.items():
            for name, value in zip(("results", "result_weight", "result_weight_squares"), values, strict=True):
                names = {"evaluator": "groundedness", "version": version, "verdict": verdict}
                rows.append(input_series(f"ragmonitor_calibration_{name}", names, f"{value:.17g}{held}"))
    assert len(found) == 3
    looks = [
        millionths(
            f"evaluator_version:ragmonitor_audited_defect_ratio:{limit}",
            {names: getattr(one, limit) for names, one in found.items()},
            hour=1,
        )
        for limit in LIMITS
    ]
    check(tmp_path, render([]), rows, looks)


def test_labels_without_the_results_they_were_drawn_from_are_no_audits(tmp_path: Path) -> None:
    looks = [millionths(f"evaluator_version:ragmonitor_audited_defect_ratio:{limit}", {}, hour=1) for limit in LIMITS]
    check(tmp_path, render([]), list(exported(LABELLED, hours=1)), looks)


CORRECTED = AlertPolicy.model_validate(
    {"evaluator": "any", "warning": "5%", "rate": "corrected", "windows": [{"window": "1h", "z": 2.33}]}
)
JUDGED_RATES = {  # of the judge, by app: lower limit, rate, upper limit
    "high": (0.2, 0.25, 0.3),
    "as the judge errs": (0.06, 0.07, 0.09),
    "calm": (0.0, 0.01, 0.02),
}


def test_an_alert_on_the_corrected_rate_fires_by_the_limits_of_python_and_else_by_those_of_the_judge(
    tmp_path: Path,
) -> None:
    """A judge that calls 5 % of good answers defective shows a rate of 6 % where there is nothing."""
    rng = random.Random(3)
    known = {"1": labels(rng, 0.9, 0.95, 120, 300), "2": labels(rng, 0.9, 0.95, 20, 300)}
    held = f"x{60 // STEP}"
    rows = list(exported({("any", version): one for version, one in known.items()}, hours=1))
    lower: dict[str, float] = {}
    for app, (low, rate, high) in JUDGED_RATES.items():
        of_app = {"app": app, "evaluator": "any", "severity": "warning"}
        rows.append(input_series("ragmonitor_alert_threshold_ratio", of_app, f"0.05{held}"))
        for version, found in known.items():
            names = {"app": app, "evaluator": "any", "version": version}
            recorded = "app_evaluator_version:ragmonitor_defect_ratio"
            rows.append(input_series("ragmonitor_evaluations_total", names, f"100{held}"))
            rows.append(input_series(f"{recorded}:lower1h", {**names, "z": "2.33"}, f"{low}{held}"))
            rows.append(input_series(f"{recorded}:upper1h", {**names, "z": "1.645"}, f"{high}{held}"))
            one = surely_corrected(Estimate(rate, low, high, 100, 10), quality(found))
            assert (one is None) == (version == "2")
            if one is not None:
                lower[f'app="{app}", evaluator="any", version="1", z="2.33"'] = one.lower
    looks = [millionths("app_evaluator_version:ragmonitor_surely_corrected_defect_ratio:lower1h", lower, hour=1)]
    expr = 'count by (app, version) (ALERTS{alertname="RagDefectRateHigh", alertstate="firing"})'
    fires = [("high", "1"), ("high", "2"), ("as the judge errs", "2")]
    assert lower['app="high", evaluator="any", version="1", z="2.33"'] > 0.05
    looks.append(
        {
            "expr": expr,
            "eval_time": "1h",
            "exp_samples": [{"labels": f'{{app="{app}", version="{version}"}}', "value": 1} for app, version in fires],
        }
    )
    check(tmp_path, render([CORRECTED]), rows, looks, needed=("ragmonitor-calibration", "ragmonitor-alerts"))
