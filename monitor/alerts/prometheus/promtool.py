"""Makes test cases for `promtool test rules`: the series exported by two replicas, and the alerts that must fire."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor.alerts.prometheus.promql import DEFECT_RULE, RateSeries, quoted

STEP = 5
"""Minutes between two samples."""
HOUR, DAY = 60, 1440
"""In minutes."""
REPLICAS = ("a", "b")

VERSION, OTHER = "1", "2"
"""Versions of an evaluator: the usual one, and a second one."""

Series = dict[str, str]
Test = dict[str, Any]


def input_series(metric: str, labels: Mapping[str, str], values: str) -> Series:
    """Make one series; `values` are in promtool's notation."""
    shown = ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())
    return {"series": f"{metric}{{{shown}}}", "values": values}


def counter_values(
    pieces: Sequence[tuple[int, float]], *, since: int = 0, reset_at: int | None = None, until: int | None = None
) -> str:
    """Write a counter from the minute `since` on; each piece is its length in minutes and its rise per step.

    It restarts from 0 at the minute `reset_at`, and is gone after the minute `until`.
    """
    values, total, minute = ["_"] * (since // STEP) + ["0"], 0.0, since
    for minutes, step in pieces:
        for _ in range(minutes // STEP):
            minute += STEP
            total = step if minute == reset_at else total + step
            values.append(f"{total:.15g}" if until is None or minute <= until else "_")
    return " ".join(_shortened(values))


def _shortened(values: Sequence[str]) -> Iterator[str]:
    """Write runs of equal differences in the short notation: `0+5x60`."""
    start = 0
    while start < len(values):
        end = start + 1
        if values[start] == "_":
            while end < len(values) and values[end] == "_":
                end += 1
            yield f"_x{end - start}"
        else:
            numbers = [float(value) for value in values[start : start + 2] if value != "_"]
            step = numbers[1] - numbers[0] if len(numbers) > 1 else 0.0
            while end < len(values) and values[end] != "_":
                if not math.isclose(float(values[end]) - float(values[end - 1]), step, rel_tol=1e-9, abs_tol=1e-9):
                    break
                end += 1
            sign = "-" if step < 0 else "+"
            yield f"{values[start]}{sign}{abs(step):.15g}x{end - start - 1}"
        start = end


def evaluation_counters(
    app: str,
    evaluator: str,
    pieces: Sequence[tuple[int, float, float]],
    *,
    weight: float = 10.0,
    version: str = VERSION,
    rule: str = "",
    since: int = 0,
    reset_at: int | None = None,
    gone_at: int | None = None,
) -> list[Series]:
    """Make the counters of two replicas; each piece is its minutes, the scored answers per step and the defect rate.

    They are by the defect rule `rule`, or by the evaluator's own. They begin at the minute `since`. Both restart at the
    minute `reset_at`; the second replica is gone from `gone_at` on.
    """
    by = RateSeries(by_rule=bool(rule))
    found = []
    for replica in REPLICAS:
        until = gone_at if replica == REPLICAS[-1] else None
        for defect in ("true", "false"):
            shares = [(minutes, judged * (rate if defect == "true" else 1 - rate)) for minutes, judged, rate in pieces]
            labels = {"app": app, "evaluator": evaluator, "version": version, "level": "any", "defect": defect}
            labels |= {**({DEFECT_RULE: rule} if rule else {}), "instance": replica}
            for metric, factor in (("", 1.0), ("_weight", weight), ("_weight_squares", weight**2)):
                scaled = [(minutes, share * factor) for minutes, share in shares]
                values = counter_values(scaled, since=since, reset_at=reset_at, until=until)
                found.append(input_series(by.counter(f"evaluation{metric or 's'}"), labels, values))
    return found


def unscored_counter(
    app: str, evaluator: str, reason: str, pieces: Sequence[tuple[int, float]], *, reset_at: int | None = None
) -> list[Series]:
    """Make one replica's counter of evaluations without a score; each piece is its minutes and its rise per step."""
    labels = {"app": app, "evaluator": evaluator, "reason": reason}
    return [input_series("ragmonitor_unscored_total", labels, counter_values(pieces, reset_at=reset_at))]


def gauge_series(metric: str, labels: Mapping[str, str], value: float, minutes: int) -> list[Series]:
    """Make a gauge that both replicas export for `minutes`."""
    shown = f"{value:g}x{minutes // STEP}"
    return [input_series(metric, {**labels, "instance": replica}, shown) for replica in REPLICAS]


def expect_firing(name: str, minute: int, *labels: Mapping[str, str]) -> Test:
    """Check that the alerts of this name that fire at a minute are those with these labels."""
    samples = [
        {
            "labels": "ALERTS{"
            + ", ".join(f"{k}={quoted(v)}" for k, v in {"alertname": name, "alertstate": "firing", **one}.items())
            + "}",
            "value": 1,
        }
        for one in labels
    ]
    return {
        "expr": f'ALERTS{{alertname="{name}", alertstate="firing"}}',
        "eval_time": f"{minute}m",
        "exp_samples": samples,
    }


def promtool_test(name: str, exported: Sequence[Series], checks: Sequence[Test]) -> Test:
    """Make one test: what is exported, and what is checked."""
    return {"name": name, "interval": f"{STEP}m", "input_series": list(exported), "promql_expr_test": list(checks)}
