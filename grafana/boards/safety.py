"""The Safety dashboard: severity of harm, attacks, and how many succeed."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, WINDOW, Rate, increase, selector, threshold
from grafana.panels import COUNT, FEW, GREEN, GREY, ORANGE, RED, SHARE, YELLOW, Panel, Query, band, colours, curve
from grafana.tables import Column, few, rows
from monitor.model.severe import SevereCall

_LEVELS = "medium|high|succeeded|followed|attack|secret"
"""A scale with one of these levels measures harm: the built-in evaluators, and your rubrics with the same levels."""

_SEVERITY = colours(
    {
        **dict.fromkeys(("very_low", "none"), GREEN),
        "low": YELLOW,
        **dict.fromkeys(("medium", "suspicious", "resisted", "planted", "personal"), ORANGE),
        **dict.fromkeys(("high", "attack", "succeeded", "followed", "secret"), RED),
    }
)
_ATTACK = 'level="attack"'
_INJECTION = 'evaluator="injection_pattern"'
_JAILBREAK = 'evaluator="jailbreak"'


def board() -> build.Dashboard:
    """Build the panels on attacks and their success, then the severities of each evaluator of harm."""
    return made(
        "safety",
        "RAG quality / Safety",
        "Harmful answers by severity, attacks on the service, and how often attacks succeed.",
        Chosen(levels=_LEVELS),
        [
            Row("Attacks", [_attacks(), _jailbreaks(), _attacked(), _attacked_table()]),
            Row("Severe cases", [_severe_verdicts(), _severe_cases()]),
            Row("$evaluator", [_rate(), _levels()], repeat="evaluator"),
        ],
    )


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Defect rate",
        "Share of all traffic at or above the severity that counts as a defect, each point over the window before"
        " it, with its 95 % interval. Harm is rare: with no defect in n scored answers, the upper limit is about 3.7"
        " / n. During a rollout, shows the version with the most scores.",
        Query(rate.leading(rate.rate), "rate"),
        Query(rate.leading(rate.lower), "lower"),
        Query(rate.leading(rate.upper), "upper"),
        Query(threshold("warning", ONE_APP), "warning"),
        Query(threshold("critical", ONE_APP), "critical"),
    )


def _levels() -> Panel:
    return curve(
        "Scores by severity",
        "Scores within the window before each point, by level. Unweighted: with boosted sampling the shares are not"
        " those of all traffic.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by="level"), "{{level}}"),
        stacked=True,
        height=9,
        overrides=_SEVERITY,
        empty="nothing scored in this time",
    )


def _attacks() -> Panel:
    rate = Rate(matchers=(ONE_APP, _INJECTION), defect=_ATTACK)
    return band(
        "Attack rate",
        "Share of the traffic that `injection_pattern` finds to be an attack, in request or documents, with its 95 %"
        " interval. It detects known patterns and misses others. It scores every kept case, but with few cases the"
        " band is wide.",
        Query(rate.leading(rate.rate), "rate"),
        Query(rate.leading(rate.lower), "lower"),
        Query(rate.leading(rate.upper), "upper"),
        height=8,
    )


def _jailbreaks() -> Panel:
    attempts = selector("ragmonitor_evaluation_weight_total", ONE_APP, _JAILBREAK, 'level=~"resisted|succeeded"')
    succeeded = selector("ragmonitor_evaluation_weight_total", ONE_APP, _JAILBREAK, 'level="succeeded"')
    by = "by (app, version)"
    rate = Rate(matchers=(ONE_APP, _JAILBREAK))
    return curve(
        "Successful jailbreaks",
        "Share of all traffic (solid, as in alerts) and share of attempts (dashed), by the evaluator `jailbreak`."
        " Attempts are few: the dashed line has no interval and jumps by chance.",
        SHARE,
        Query(rate.leading(rate.rate), "of all traffic"),
        Query(rate.leading(rate.upper), "of all traffic, at most"),
        Query(
            f"sum {by} (increase({succeeded}[{WINDOW}]))\n/\n(sum {by} (increase({attempts}[{WINDOW}])) > 0)",
            "of attempts",
        ),
        overrides={
            "of all traffic": {"color": {"mode": "fixed", "fixedColor": RED}, "custom.lineWidth": 2},
            "of all traffic, at most": {"color": {"mode": "fixed", "fixedColor": GREY}},
            "of attempts": {
                "color": {"mode": "fixed", "fixedColor": ORANGE},
                "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            },
        },
        empty="the evaluator jailbreak scored nothing",
    )


def _severe_verdicts() -> Panel:
    return curve(
        "Severe answers, judged a second time",
        "Live answers judged severe within the window, for alerts with `severe`, by what the second judgement said."
        " `refuted` and `unscored` page no one. If nearly all are confirmed, the second judge may repeat the first"
        " one's errors: configure a different one.",
        COUNT,
        Query(
            increase("ragmonitor_severe_verdicts_total", ONE_APP, by="evaluator, outcome"), "{{evaluator}}: {{outcome}}"
        ),
        stacked=True,
        overrides=colours({"*: confirmed": RED, "*: refuted": GREEN, "*: unscored": GREY}),
        empty="no alert has `severe`, or no answer was judged severe",
    )


def _severe_cases() -> Panel:
    def called(call: SevereCall) -> str:
        return increase("ragmonitor_severe_called_total", ONE_APP, f'call="{call}"', by="evaluator", window="30d")

    return rows(
        "Confirmed severe cases of 30 days",
        "Sessions with an answer that was judged severe twice in the last 30 days, and what people called them. Those"
        " not called right count as false, and raise the number of sessions within an hour that it takes to page."
        " Alert: `RagSevereCase`.",
        Column("evaluator"),
        Column(
            "confirmed",
            increase("ragmonitor_severe_confirmed_total", ONE_APP, by="evaluator", window="30d"),
            COUNT,
            {"decimals": 0},
        ),
        Column("called right", called(SevereCall.RIGHT), COUNT, {"decimals": 0}),
        Column("called wrong", called(SevereCall.WRONG), COUNT, {"decimals": 0}),
        width=12,
        sort=("confirmed",),
    )


def _of_attacks() -> Rate:
    return Rate(matchers=(ONE_APP, EVALUATOR, 'slice="request.attack"', 'value!=""'), sliced="value")


def _attacked() -> Panel:
    rate = _of_attacks()
    return curve(
        "Harm in answers to attacks and to other requests",
        "Defect rates by the label of `injection_pattern` for the request: `none`, `suspicious`, `attack`. The gap"
        " shows the effect of attacks. Needs `slices: [request.attack]`. Without intervals: attacks are few, so see"
        " the table.",
        SHARE,
        Query(rate.rate, "{{evaluator}}: {{value}}"),
        overrides={
            **colours({"*: none": GREEN, "*: suspicious": ORANGE, "*: attack": RED}),
        },
        empty="no slices by request.attack",
    )


def _attacked_table() -> Panel:
    rate = _of_attacks()
    return rows(
        "Harm in answers to attacks, with intervals",
        "The same over the window, with 95 % intervals. If those of `none` and `attack` overlap, the data show no"
        " effect of attacks. Few: under 30 scored.",
        Column("evaluator"),
        Column("value"),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("scored", f"{rate.scored} > 0", COUNT, few(FEW)),
        width=12,
        sort=("rate",),
        hide=("app", "version"),
    )
