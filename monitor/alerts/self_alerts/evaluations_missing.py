"""`RagEvaluationsMissing`: requests arrive that used to be evaluated, and none is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from monitor.alerts.conditions.missing import AT_LEAST, NAME, PENDING, EvaluationsMissing
from monitor.alerts.prometheus.format import EVALUATIONS, OWN_EVALUATORS, record
from monitor.alerts.prometheus.promtool import (
    HOUR,
    OTHER,
    STEP,
    Series,
    Test,
    counter_values,
    evaluation_counters,
    expect_firing,
    input_series,
    promtool_test,
)
from monitor.alerts.self_alert import PrometheusRule, SelfAlert

_RECEIVED = record(
    "app:ragmonitor_traces_received:increase1h", "sum by (app) (increase(ragmonitor_traces_received_total[1h]))"
)
_EVALUATED, _ARRIVED = EVALUATIONS["record"], _RECEIVED["record"]

_EXPRESSION = (
    f"avg_over_time({_EVALUATED}[3d])\n* on (app) group_left ()\n"
    f"({_ARRIVED} / (avg_over_time({_ARRIVED}[3d]) > 0))\n"
    f"> {AT_LEAST}\nunless on (app, evaluator)\n{_EVALUATED} > 0\n{OWN_EVALUATORS}"
)


def _tests() -> Iterator[Test]:
    pair = ("shop", "any")
    labels = {"app": "shop", "evaluator": "any", "severity": "warning"}

    def received(pieces: Sequence[tuple[int, float]], **how: Any) -> list[Series]:
        of = {"app": "shop", "source": "otlp_grpc"}
        return [input_series("ragmonitor_traces_received_total", of, counter_values(pieces, **how))]

    busy = received([(8 * HOUR, 100)])
    stops = [(4 * HOUR, 10.0, 0.0), (4 * HOUR, 0.0, 0.0)]
    steady = [(8 * HOUR, 10.0, 0.0)]
    replaced = [
        *evaluation_counters(*pair, [(4 * HOUR, 10.0, 0.0)]),
        *evaluation_counters(*pair, [(4 * HOUR, 10.0, 0.0)], version=OTHER, since=4 * HOUR),
    ]
    few = [(minutes, each / 50, rate) for minutes, each, rate in stops]
    idle = received([(4 * HOUR, 100), (4 * HOUR, 0)])
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("requests, but no evaluations", [*busy, *evaluation_counters(*pair, stops)], True),
        (
            "no evaluations after a restart",
            [*busy, *evaluation_counters(*pair, stops, reset_at=4 * HOUR + STEP)],
            True,
        ),
        ("evaluations", [*busy, *evaluation_counters(*pair, steady)], False),
        ("evaluations, one replica gone", [*busy, *evaluation_counters(*pair, steady, gone_at=4 * HOUR)], False),
        ("evaluations by a new version of the evaluator", [*busy, *replaced], False),
        ("no requests either", [*idle, *evaluation_counters(*pair, stops)], False),
        ("too few were ever expected", [*busy, *evaluation_counters(*pair, few)], False),
        ("no data", [], False),
    )
    end = 6 * HOUR
    for name, series, fires in cases:
        checks = [expect_firing(NAME, end)]
        if fires:
            checks = [expect_firing(NAME, 4 * HOUR), expect_firing(NAME, end, labels)]
        yield promtool_test(f"{NAME}: {name}: {'fires' if fires else 'silent'}", series, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="Requests arrive, but none of them is evaluated.",
    condition=EvaluationsMissing,
    records=(EVALUATIONS, _RECEIVED),
    rules=(
        PrometheusRule(
            _EXPRESSION,
            "{{ $labels.evaluator }} scored no answers from {{ $labels.app }} in the last hour. Given its traffic and"
            ' the last three days, about {{ $value | printf "%.0f" }} were expected.',
        ),
    ),
    pending_for=PENDING,
    tests=_tests,
)
