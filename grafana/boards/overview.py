"""The Overview dashboard: one row per app, the worst first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import APP, Rate, context_share, increase, selector, state, threshold
from grafana.panels import BLUE, COUNT, FEW, GREEN, ORANGE, RED, SECONDS, SHARE, Panel, Query, curve, figure
from grafana.tables import Column, as_state, few, link, rows
from monitor.model.case import ContextStatus

_VARIABLES = "${__url_time_range}&var-datasource=${datasource}&var-window=${window}"
_QUALITY, _RETRIEVAL = (f"/d/ragmonitor-{board}?{_VARIABLES}" for board in ("quality", "retrieval"))


def board() -> build.Dashboard:
    """Build the dashboard that shows whether anything is wrong, and where."""
    return made(
        "overview",
        "RAG quality / Overview",
        "One row per app: whether its defect rate is above the threshold, how certain that is, and the trend.",
        Chosen(many_apps=True),
        [
            Row("", [*_figures(), _apps(), _trends()]),
            Row("Every evaluator", [_evaluators()]),
            Row("Contexts", [_contexts()]),
        ],
    )


def _figures() -> list[Panel]:
    judged = increase("ragmonitor_evaluations_total", APP, by="")
    unscored = increase("ragmonitor_unscored_total", APP, by="")
    waiting = selector("ragmonitor_oldest_pending_timestamp_seconds")
    return [
        figure(
            "Alerts firing",
            "Alerts firing now. Needs the output of `rag-monitor rules` in Prometheus; without it, shows none.",
            COUNT,
            Query('count(ALERTS{alertname=~"Rag.+", alertstate="firing", app=~"$app|"})'),
            steps=((None, GREEN), (1, RED)),
        ),
        figure(
            "Answers received",
            "Traces and rows received within the window, from all sources, before sampling. A trace across several"
            " services counts for the service whose part came first.",
            COUNT,
            Query(increase("ragmonitor_traces_received_total", APP, by="")),
            empty="nothing received",
        ),
        figure(
            "Scores",
            "Evaluations with a score within the window. All rates below are based on these.",
            COUNT,
            Query(judged),
            steps=((None, ORANGE), (FEW, BLUE)),
            empty="nothing scored",
        ),
        figure(
            "Unscored",
            "Share of the evaluations within the window that failed. They count in no rate; the Judge dashboard shows"
            " the reasons. Alert: `RagUnscoredHigh`.",
            SHARE,
            Query(f"{unscored} / ({unscored} + {judged} > 0)"),
            steps=((None, GREEN), (0.05, ORANGE), (0.25, RED)),
            empty="nothing scored",
        ),
        figure(
            "Oldest unfinished",
            "Age of the oldest unfinished trace, over all replicas. Alert: `RagLagHigh`.",
            SECONDS,
            Query(f"time() - min({waiting} > 0)"),
            steps=((None, GREEN), (300, ORANGE), (900, RED)),
            empty="nothing waits",
        ),
        figure(
            "Replicas",
            "Monitors that Prometheus scrapes. Rates cover all of them.",
            COUNT,
            Query(f"count({selector('ragmonitor_build_info')})"),
            steps=((None, RED), (1, BLUE)),
            empty="no monitor",
        ),
    ]


def _columns() -> list[Column]:
    rate = Rate()
    scored = f"max by (app, evaluator) ({rate.scored})"  # limits are recorded: without the rules there are none
    return [
        Column("state", rate.leading(state(rate)), properties=as_state()),
        Column("rate", rate.leading(rate.rate), SHARE, {"custom.width": 80}),
        Column("at least", rate.leading(rate.lower), SHARE, {"custom.width": 80}, rows=scored),
        Column("at most", rate.leading(rate.upper), SHARE, {"custom.width": 80}, rows=scored),
        Column("scored", rate.leading(rate.scored), COUNT, few(FEW)),
        Column(
            "trend",
            rate.leading(rate.rate),
            SHARE,
            {"custom.cellOptions": {"type": "sparkline", "lineWidth": 1.5, "hideValue": True}, "min": 0},
            trend=True,
        ),
    ]


_MEANING = (
    " State: above critical or above warning if the whole 95 % interval is; within threshold if the interval is"
    " below it, or if enough answers were scored to reveal twice the threshold; otherwise too few to tell. During a"
    " rollout, shows the version with the most scores. Few: under 30 scored, so that one answer moves the rate by"
    " more than 3 points."
)


def _apps() -> Panel:
    link_ = link("Quality of this app", f"{_QUALITY}&var-app=${{__value.raw}}")
    return rows(
        "Apps",
        "One row per app, the worst first: its worst evaluator, the defect rate over the window estimated for all"
        " traffic, and the limits of its 95 % interval." + _MEANING,
        Column("app", properties=link_),
        Column("evaluator"),
        *_columns(),
        sort=("state", "rate"),
        first_of="app",
    )


def _trends() -> Panel:
    rate = Rate()
    return curve(
        "Defect rates",
        "For evaluators with a threshold; each point covers the window before it. Intervals are left out because they"
        " would overlap. With few scored answers, lines jump by chance. The Quality dashboard has intervals and all"
        " evaluators.",
        SHARE,
        Query(f"{rate.leading(rate.rate)}\nand on (app, evaluator)\n{threshold()}", "{{app}} / {{evaluator}}"),
        width=24,
        empty="no evaluator has a threshold, or nothing was scored",
    )


def _evaluators() -> Panel:
    return rows(
        "Apps and evaluators",
        "One row per app and evaluator." + _MEANING,
        Column("app", properties=link("Quality of this app", f"{_QUALITY}&var-app=${{__value.raw}}")),
        Column(
            "evaluator",
            properties=link(
                "Quality by this evaluator",
                f"{_QUALITY}&var-app=${{__data.fields.app}}&var-evaluator=${{__value.raw}}",
            ),
        ),
        *_columns(),
        sort=("state", "rate"),
        height=12,
    )


def _contexts() -> Panel:
    return rows(
        "Retrieval outcomes",
        "One row per app: the shares of its answers within the window by retrieval outcome, estimated for"
        " all traffic. Evaluators of the context skip answers without a retrieval, and answers whose retrieval was not"
        " recorded. With few answers, shares are rough.",
        Column("app", properties=link("Retrieval of this app", f"{_RETRIEVAL}&var-app=${{__value.raw}}")),
        *(
            Column(status.words, context_share(APP, f'status="{status}"'), SHARE, {"custom.width": 130})
            for status in ContextStatus
        ),
        sort=("found nothing",),
    )
