"""The Judge dashboard: cost, failures, drift, and rates corrected for the judge's errors."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.boards import sampling
from grafana.expressions import APP, EVALUATOR, STEP, Rate, increase, quantile, selector
from grafana.panels import (
    BLUE,
    COUNT,
    DOLLARS,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SECONDS,
    SHARE,
    Panel,
    Query,
    colours,
    curve,
    figure,
)
from monitor.statistics.correction import LABELS_NEEDED

_MODEL = "by model"
_NOT_OK = 'state!="ok"'


def board() -> build.Dashboard:
    """Build cost and speed, then failures, then accuracy, then sampling."""
    return made(
        "judge",
        "RAG quality / Judge",
        "The judge model: cost, speed, failures, drift, and disagreement with people.",
        Chosen(many_apps=True),
        [
            Row("", _figures()),
            Row("Cost and speed", [_cost(), _tokens(), _seconds(), _lag()]),
            Row("Failures", [_states(), _outcomes(), _unscored()]),
            Row("Accuracy", [_canary(), _repeats(), _corrected(), _agreement()]),
            Row("Sampling and budget", sampling.panels()),
        ],
    )


def _figures() -> list[Panel]:
    asked = increase("ragmonitor_judge_requests_total", by="")
    cached = increase("ragmonitor_judge_requests_total", 'outcome="cached"', by="")
    failed = increase("ragmonitor_judge_requests_total", 'outcome!~"ok|cached"', by="")
    return [
        figure(
            "Spent in the last day",
            "US dollars over all models, by the price list or configured prices. On a monitor's first day, only"
            " the hours so far.",
            DOLLARS,
            Query(increase("ragmonitor_judge_cost_dollars_total", by="", window="1d")),
            empty="no judge",
        ),
        figure(
            "Calls",
            "Calls within the window, including those answered by the cache.",
            COUNT,
            Query(asked),
            empty="no judge",
        ),
        figure(
            "Cache hits",
            "Share of the calls within the window answered by the cache, at no cost. Rough with few calls.",
            SHARE,
            Query(f"{cached} / ({asked} > 0)"),
            empty="no calls",
        ),
        figure(
            "Failed calls",
            "Share of the calls within the window without a usable reply. Retries count separately. Rough with few"
            " calls.",
            SHARE,
            Query(f"{failed} / ({asked} > 0)"),
            steps=((None, GREEN), (0.02, ORANGE), (0.2, RED)),
            empty="no calls",
        ),
        figure(
            "Circuit breakers open",
            "Models whose calls are currently stopped because of failures.",
            COUNT,
            Query(f"sum({selector('ragmonitor_judge_breaker_open')})"),
            steps=((None, GREEN), (1, RED)),
            empty="no judge",
        ),
        figure(
            "Last canary run",
            "Time since the last run of the canary set. Runs are eight hours apart by default.",
            SECONDS,
            Query(f"time() - max({selector('ragmonitor_canary_last_run_timestamp_seconds')} > 0)"),
            steps=((None, BLUE), (100_000, ORANGE)),
            empty="never run",
        ),
    ]


def _cost() -> Panel:
    return curve(
        "Cost",
        f"US dollars within the window before each point, {_MODEL}.",
        DOLLARS,
        Query(increase("ragmonitor_judge_cost_dollars_total", by="model"), "{{model}}"),
        stacked=True,
        empty="no judge",
    )


def _tokens() -> Panel:
    return curve(
        "Tokens",
        "Tokens sent to the judge and received from it within the window before each point, over all models.",
        COUNT,
        Query(increase("ragmonitor_judge_tokens_total", by="direction"), "{{direction}}"),
        stacked=True,
        empty="no judge",
    )


def _seconds() -> Panel:
    name = "ragmonitor_judge_request_duration_seconds"
    return curve(
        "Call time",
        "Median and 95th percentile of the calls within the window, by model. With fewer than about 20 calls the"
        " upper line is the slowest call.",
        SECONDS,
        Query(quantile(0.5, name, by="model"), "{{model}}: p50"),
        Query(quantile(0.95, name, by="model"), "{{model}}: p95"),
        empty="no calls",
    )


def _lag() -> Panel:
    name = "ragmonitor_evaluation_lag_seconds"
    return curve(
        "Time from answer to result",
        "95th percentile of the time from the service's answer to its result, within the window, by evaluator."
        " Beyond `traffic.late_after` (15 minutes by default) results are late and no longer count. Rough with few"
        " results.",
        SECONDS,
        Query(quantile(0.95, name, EVALUATOR, by="evaluator"), "{{evaluator}}"),
        empty="nothing scored in this time",
    )


def _states() -> Panel:
    return curve(
        "Evaluator states",
        "Evaluators in each state other than `ok`; the worst state of all replicas. The UI shows the reason and the"
        " remedy: `paused` waits for a person.",
        COUNT,
        Query(
            "sum by (state) (max by (evaluator, state)"
            f" ({selector('ragmonitor_evaluator_state', EVALUATOR, _NOT_OK)}))",
            "{{state}}",
        ),
        overrides=colours({"paused": RED, "error": RED, "overloaded": ORANGE, "degraded": ORANGE, "never_run": GREY}),
    )


def _outcomes() -> Panel:
    return curve(
        "Calls by outcome",
        "Calls per second over all models. Any outcome other than `ok` and `cached` is the reason of a failure.",
        "reqps",
        Query(
            f"sum by (outcome) (rate({selector('ragmonitor_judge_requests_total')}[{STEP}])) > 0",
            "{{outcome}}",
        ),
        stacked=True,
        overrides=colours({"ok": GREEN, "cached": BLUE}),
        empty="no calls",
    )


def _unscored() -> Panel:
    return curve(
        "Unscored evaluations by reason",
        "Failed evaluations within the window before each point. They count in no rate, neither as good nor as"
        " defective. The runbook of `RagUnscoredHigh` explains each reason.",
        COUNT,
        Query(f"{increase('ragmonitor_unscored_total', APP, EVALUATOR, by='reason')} > 0", "{{reason}}"),
        stacked=True,
        empty="no evaluation failed",
    )


def _canary() -> Panel:
    by = "by (evaluator, version)"
    verdicts = "ragmonitor_canary_verdicts_total"
    moved = selector(verdicts, EVALUATOR, 'agreement=~"stricter|milder"')
    scored = selector(verdicts, EVALUATOR, 'agreement!="unscored"')
    tolerance = selector("ragmonitor_canary_tolerance_ratio", EVALUATOR)
    return curve(
        "Canary: results that differ from the reference",
        "Share of a day's results on the fixed set of cases that differ from the reference, and (dashed) the"
        " tolerated share. A rise means that the judge changed, not the service. 24 cases three times a day are few:"
        " `RagJudgeDrifted` allows for chance, but this line does not.",
        SHARE,
        Query(f"sum {by} (increase({moved}[1d]))\n/\n(sum {by} (increase({scored}[1d])) > 0)", "{{evaluator}}"),
        Query(f"max {by} ({tolerance})", "{{evaluator}}: tolerance"),
        overrides={
            "*: tolerance": {
                "color": {"mode": "fixed", "fixedColor": ORANGE},
                "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            }
        },
        empty="no canary set has run twice",
    )


def _repeats() -> Panel:
    return curve(
        "Rechecks: same result?",
        "Cases scored a second time within the last day, by whether both results agree on whether it is a defect. The"
        " share of `other` is the judge's own noise. Few cases are rechecked, so look at a whole day.",
        COUNT,
        Query(
            increase("ragmonitor_judge_rechecks_total", EVALUATOR, by="outcome", window="1d"),
            "{{outcome}}",
        ),
        stacked=True,
        overrides=colours({"same": GREEN, "other": RED, "unscored": GREY}),
        empty="no rechecks",
    )


def _agreement() -> Panel:
    name, by = "ragmonitor_feedback_agreement_total", "app, evaluator"

    def share(judge: str, user: str) -> str:
        of = increase(name, APP, EVALUATOR, f'user="{user}"', by=by, window="7d")
        both = increase(name, APP, EVALUATOR, f'judge="{judge}"', f'user="{user}"', by=by, window="7d")
        return f"{both}\n/\n({of} > 0)"

    return curve(
        "Agreement of judge and users",
        "Answers of the last seven days: share of the disliked ones that are a defect, and share of the liked ones"
        " that passed. Do not combine the two: disliked answers are evaluated more often. Rough with few votes.",
        SHARE,
        Query(share("defect", "down"), "{{app}} / {{evaluator}}: disliked and a defect"),
        Query(share("passed", "up"), "{{app}} / {{evaluator}}: liked and passed"),
        width=24,
        empty="no votes on scored answers",
    )


def _corrected() -> Panel:
    rate = Rate()
    cells = "ragmonitor_calibration_label_weight"
    by = "by (evaluator, version)"

    def summed(*matchers: str) -> str:
        largest = f"max by (evaluator, version, verdict, truth) ({cells}{{{', '.join((EVALUATOR, *matchers))}}})"
        return f"sum {by} ({largest})"

    found = f"({summed(_says('defect'), _is('defect'))} / ({summed(_is('defect'))} > 0))"
    spared = f"({summed(_says('good'), _is('good'))} / ({summed(_is('good'))} > 0))"
    labels = f"max by (evaluator, version, verdict, truth) (ragmonitor_calibration_labels{{{EVALUATOR}}})"
    enough = f"min {by} (sum by (evaluator, version, truth) ({labels})) >= {LABELS_NEEDED}"
    of_judge = "on (evaluator, version) group_left ()"
    recorded = "app_evaluator_version:ragmonitor_corrected_defect_ratio"
    return curve(
        "Defect rate corrected for judge errors",
        "Dotted: the raw rate of all traffic over the window. Solid: the rate without the judge's misses and false"
        " alarms, from human labels (`rag-monitor calibrate --save`; needs at least"
        f" {LABELS_NEEDED} of each kind). The limits, of a day, come from `rag-monitor rules`; with few labels they are"
        " wide. No alert uses it.",
        SHARE,
        Query(f"{rate.rate}\nand on (evaluator, version)\n{enough}", "{{app}} / {{evaluator}}: raw"),
        Query(
            f"clamp(\n  (({rate.rate}) + {of_judge} {spared} - 1)\n  / {of_judge} ({found} + {spared} - 1 > 0),\n"
            f"  0, 1\n)\nand on (evaluator, version)\n{enough}",
            "{{app}} / {{evaluator}}: corrected",
        ),
        Query(f"{recorded}:lower1d{{{APP}, {EVALUATOR}}}", "{{app}} / {{evaluator}}: corrected, at least"),
        Query(f"{recorded}:upper1d{{{APP}, {EVALUATOR}}}", "{{app}} / {{evaluator}}: corrected, at most"),
        width=24,
        height=9,
        overrides={
            "*: raw": {"custom.lineStyle": {"fill": "dash", "dash": [2, 4]}},
            "*: corrected": {"custom.lineWidth": 2},
            "*: corrected, at *": {"custom.lineWidth": 0.5, "custom.showPoints": "never"},
        },
        empty="too few labels for these versions",
    )


def _says(verdict: str) -> str:
    return f'verdict="{verdict}"'


def _is(truth: str) -> str:
    return f'truth="{truth}"'
