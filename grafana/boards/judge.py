"""Judge: what it costs, whether it answers, whether it has drifted, and what its rates are without its errors."""

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

_MODEL = "a line for each model"
_NOT_OK = 'state!="ok"'


def board() -> build.Dashboard:
    """Cost and speed first, then failures, then whether what it says can be trusted."""
    return made(
        "judge",
        "RAG quality / Judge",
        "The model behind the verdicts: money, time, failures, drift, and how far people disagree with it.",
        Chosen(many_apps=True),
        [
            Row("", _figures()),
            Row("Cost and speed", [_cost(), _tokens(), _seconds(), _lag()]),
            Row("Failures", [_states(), _outcomes(), _unscored()]),
            Row("Can it be trusted", [_canary(), _repeats(), _corrected(), _agreement()]),
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
            "US dollars, over all models, by the price list or the configured prices. Shown also for the first hours"
            " of a monitor, of which it knows less than a day.",
            DOLLARS,
            Query(increase("ragmonitor_judge_cost_dollars_total", by="", window="1d")),
            empty="no judge",
        ),
        figure(
            "Calls",
            "Calls to the provider within the window, answers from the cache included.",
            COUNT,
            Query(asked),
            empty="no judge",
        ),
        figure(
            "From the cache",
            "Share of the calls within the window that the cache answered: they cost nothing. Of few calls it says"
            " little.",
            SHARE,
            Query(f"{cached} / ({asked} > 0)"),
            empty="no calls",
        ),
        figure(
            "Calls that failed",
            "Share of the calls within the window that came back without a usable answer. Retries are calls of their"
            " own. Of few calls it says little.",
            SHARE,
            Query(f"{failed} / ({asked} > 0)"),
            steps=((None, GREEN), (0.02, ORANGE), (0.2, RED)),
            empty="no calls",
        ),
        figure(
            "Held back",
            "Models whose calls are held back now, after failures (circuit breaker).",
            COUNT,
            Query(f"sum({selector('ragmonitor_judge_breaker_open')})"),
            steps=((None, GREEN), (1, RED)),
            empty="no judge",
        ),
        figure(
            "Since the last canary run",
            "How long ago the canary set was judged last. A run is due every eight hours, unless configured otherwise.",
            SECONDS,
            Query(f"time() - max({selector('ragmonitor_canary_last_run_timestamp_seconds')} > 0)"),
            steps=((None, BLUE), (100_000, ORANGE)),
            empty="never run",
        ),
    ]


def _cost() -> Panel:
    return curve(
        "Cost",
        f"US dollars spent within the window before each point, {_MODEL}.",
        DOLLARS,
        Query(increase("ragmonitor_judge_cost_dollars_total", by="model"), "{{model}}"),
        stacked=True,
        empty="no judge",
    )


def _tokens() -> Panel:
    return curve(
        "Tokens",
        "Tokens sent to the judge and received from it within the window before each point, all models together.",
        COUNT,
        Query(increase("ragmonitor_judge_tokens_total", by="direction"), "{{direction}}"),
        stacked=True,
        empty="no judge",
    )


def _seconds() -> Panel:
    name = "ragmonitor_judge_request_duration_seconds"
    return curve(
        "How long a call takes",
        "Wall clock of the calls within the window: half were faster than the lower line of a model, 19 of 20 than the"
        " upper. Of fewer than some twenty calls the upper line is nothing but the slowest.",
        SECONDS,
        Query(quantile(0.5, name, by="model"), "{{model}}: half"),
        Query(quantile(0.95, name, by="model"), "{{model}}: 19 of 20"),
        empty="no calls",
    )


def _lag() -> Panel:
    name = "ragmonitor_evaluation_lag_seconds"
    return curve(
        "From answer to verdict",
        "Time from the service's answer to the verdict on it, 19 of 20 within the window, by evaluator. Where it nears"
        " `traffic.late_after` (15 minutes by default), verdicts become late and count no more. Of few it is rough.",
        SECONDS,
        Query(quantile(0.95, name, EVALUATOR, by="evaluator"), "{{evaluator}}"),
        empty="nothing judged in this time",
    )


def _states() -> Panel:
    return curve(
        "States of evaluators",
        "Evaluators in each state that is not `ok`, of all replicas the one in the gravest. The page says why, and what"
        " to do: `paused` waits for a person.",
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
        "Calls a second to the provider, all models together. What is neither `ok` nor `cached` is the reason of a"
        " failure.",
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
        "Without a verdict, by reason",
        "Evaluations within the window before each point that were due and came to none. They add to no rate: no 0, no"
        " 1. The runbook of `RagUnscoredHigh` says what each reason means.",
        COUNT,
        Query(f"{increase('ragmonitor_unscored_total', APP, EVALUATOR, by='reason')} > 0", "{{reason}}"),
        stacked=True,
        empty="every evaluation came to a verdict",
    )


def _canary() -> Panel:
    by = "by (evaluator, version)"
    verdicts = "ragmonitor_canary_verdicts_total"
    moved = selector(verdicts, EVALUATOR, 'agreement=~"stricter|milder"')
    scored = selector(verdicts, EVALUATOR, 'agreement!="unscored"')
    tolerance = selector("ragmonitor_canary_tolerance_ratio", EVALUATOR)
    return curve(
        "Canary: verdicts that differ from the reference",
        "Share of the verdicts of a day on the fixed set of cases that are not those of the reference, and (dashed) the"
        " share that may differ. A rise means that the judge has changed, not the service. 24 cases three times a day"
        " are few: `RagJudgeDrifted` allows for chance, this line does not.",
        SHARE,
        Query(f"sum {by} (increase({moved}[1d]))\n/\n(sum {by} (increase({scored}[1d])) > 0)", "{{evaluator}}"),
        Query(f"max {by} ({tolerance})", "{{evaluator}}: may differ"),
        overrides={
            "*: may differ": {
                "color": {"mode": "fixed", "fixedColor": ORANGE},
                "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            }
        },
        empty="no canary set has run twice",
    )


def _repeats() -> Panel:
    return curve(
        "Judged twice: the same verdict?",
        "Cases that were judged a second time within the last day, by whether both verdicts agree on defect or not. The"
        " share of `other` is the judge's own noise. Few cases are repeated, so look at a whole day.",
        COUNT,
        Query(
            increase("ragmonitor_judge_rechecks_total", EVALUATOR, by="outcome", window="1d"),
            "{{outcome}}",
        ),
        stacked=True,
        overrides=colours({"same": GREEN, "other": RED, "unscored": GREY}),
        empty="nothing is judged twice",
    )


def _agreement() -> Panel:
    name, by = "ragmonitor_feedback_agreement_total", "app, evaluator"

    def share(judge: str, user: str) -> str:
        of = increase(name, APP, EVALUATOR, f'user="{user}"', by=by, window="7d")
        both = increase(name, APP, EVALUATOR, f'judge="{judge}"', f'user="{user}"', by=by, window="7d")
        return f"{both}\n/\n({of} > 0)"

    return curve(
        "Do judge and users agree?",
        "Of the answers of the last seven days that users disliked, the share that the evaluator calls a defect, too;"
        " of those that they liked, the share that it lets pass. Look at the two apart: disliked answers are judged"
        " more often. Of few votes it is rough.",
        SHARE,
        Query(share("defect", "down"), "{{app}} / {{evaluator}}: disliked, and a defect"),
        Query(share("passed", "up"), "{{app}} / {{evaluator}}: liked, and passed"),
        width=24,
        empty="no user has voted on an answer that was judged",
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
        "Rate without the judge's errors, beside the raw one",
        "Dotted the raw rate of all traffic over the window, and the same with the judge's misses and false alarms"
        f" taken out, by people's labels (`rag-monitor calibrate --save`; {LABELS_NEEDED} of each kind at least, or"
        " there is no line). The limits, of a day, are recorded by `rag-monitor rules`; from few labels they are"
        " wide. No alert rests on it.",
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
        empty="too few labels of these versions",
    )


def _says(verdict: str) -> str:
    return f'verdict="{verdict}"'


def _is(truth: str) -> str:
    return f'truth="{truth}"'
