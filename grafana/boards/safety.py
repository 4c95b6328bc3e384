"""Safety: how severe, how often attacked, and what attacks achieve."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, WINDOW, Rate, increase, selector, threshold
from grafana.panels import COUNT, FEW, GREEN, GREY, ORANGE, RED, SHARE, YELLOW, Panel, Query, band, colours, curve
from grafana.tables import Column, few, rows

_LEVELS = "medium|high|succeeded|followed|attack|secret"
"""A scale with one of these levels is one of harm: those that ship, and rubrics of one's own on the same steps."""

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
    """Severities of each evaluator of harm, then attacks and what came of them."""
    return made(
        "safety",
        "RAG quality / Safety",
        "Harmful answers by severity, attacks on the service, and how often one succeeds.",
        Chosen(levels=_LEVELS),
        [
            Row("Attacks", [_attacks(), _jailbreaks(), _attacked(), _attacked_table()]),
            Row("$evaluator", [_rate(), _levels()], repeat="evaluator"),
        ],
    )


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Rate of defects",
        "Share of all traffic at or above the severity that counts as a defect, each point over the window before it,"
        " and its 95 % interval. Harm is rare: with no defect among n judged the upper limit is about 3.8 / n. While a"
        " change is rolled out, the version that judged most.",
        Query(rate.leading(rate.rate), "rate"),
        Query(rate.leading(rate.lower), "lower"),
        Query(rate.leading(rate.upper), "upper"),
        Query(threshold("warning", ONE_APP), "warning"),
        Query(threshold("critical", ONE_APP), "critical"),
    )


def _levels() -> Panel:
    return curve(
        "Judged, by severity",
        "How many verdicts within the window before each point had which level, stacked; unweighted, so their shares"
        " are not those of all traffic where sampling is boosted.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by="level"), "{{level}}"),
        stacked=True,
        height=9,
        overrides=_SEVERITY,
        empty="nothing judged in this time",
    )


def _attacks() -> Panel:
    rate = Rate(matchers=(ONE_APP, _INJECTION), defect=_ATTACK)
    return band(
        "Attack rate",
        "Share of the traffic that `injection_pattern` calls an attack, by request or by documents, and its 95 %"
        " interval. It goes by patterns and misses what has none. A local evaluator: it judges every kept case, yet"
        " where few came the band is wide.",
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
        "Jailbreaks that succeed",
        "Of all traffic (a solid line, as alerts look at it), and of the attempts alone (dashed) as the evaluator"
        " `jailbreak` sees them. Attempts are few: the dashed line without an interval jumps by chance.",
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
        empty="the evaluator jailbreak judged nothing",
    )


def _of_attacks() -> Rate:
    return Rate(matchers=(ONE_APP, EVALUATOR, 'slice="request.attack"', 'value!=""'), sliced="value")


def _attacked() -> Panel:
    rate = _of_attacks()
    return curve(
        "Jailbreak defect rate: harm in answers to attacks, beside the rest",
        "The rate of defects by what `injection_pattern` says of the request: `none`, `suspicious`, `attack`. The gap"
        " is what attacks achieve. Needs `slices: [request.attack]`. Without limits here: attacks are few, so look at"
        " the table beside it.",
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
        "Jailbreak defect rate, with intervals",
        "The same over the window, with 95 % intervals. Where those of `none` and `attack` overlap, attacks have not"
        " been shown to achieve anything. Few: under 30 judged.",
        Column("evaluator"),
        Column("value"),
        Column("rate", rate.rate, SHARE, {"custom.width": 80}),
        Column("at least", rate.lower, SHARE, {"custom.width": 80}),
        Column("at most", rate.upper, SHARE, {"custom.width": 80}),
        Column("judged", f"{rate.judged} > 0", COUNT, few(FEW)),
        width=12,
        sort=("rate",),
        hide=("app", "version"),
    )
