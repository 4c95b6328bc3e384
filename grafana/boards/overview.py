"""Overview: one row an app, the worst first."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import APP, Rate, increase, selector, state, threshold
from grafana.panels import BLUE, COUNT, FEW, GREEN, ORANGE, RED, SECONDS, SHARE, Panel, Query, curve, figure
from grafana.tables import Column, as_state, few, link, rows

_QUALITY = "/d/ragmonitor-quality?${__url_time_range}&var-datasource=${datasource}&var-window=${window}"


def board() -> build.Dashboard:
    """The board to keep open: is anything wrong, and where."""
    return made(
        "overview",
        "RAG quality / Overview",
        "One row an app: is the share of bad answers above its threshold, how sure is that, and where is it going.",
        Chosen(many_apps=True),
        [Row("", [*_figures(), _apps(), _trends()]), Row("Every evaluator", [_evaluators()])],
    )


def _figures() -> list[Panel]:
    judged = increase("ragmonitor_evaluations_total", APP, by="")
    unscored = increase("ragmonitor_unscored_total", APP, by="")
    waiting = selector("ragmonitor_oldest_pending_timestamp_seconds")
    return [
        figure(
            "Alerts firing",
            "Alerts of `rag-monitor rules` that fire now. Needs those rules in Prometheus: without them it shows none.",
            COUNT,
            Query('count(ALERTS{alertname=~"Rag.+", alertstate="firing", app=~"$app|"})'),
            steps=((None, GREEN), (1, RED)),
        ),
        figure(
            "Answers received",
            "Traces and rows that came in within the window, before sampling, of all sources.",
            COUNT,
            Query(increase("ragmonitor_traces_received_total", APP, by="")),
            empty="nothing received",
        ),
        figure(
            "Verdicts",
            "Evaluations that came to a score within the window. All rates below rest on these.",
            COUNT,
            Query(judged),
            steps=((None, ORANGE), (FEW, BLUE)),
            empty="nothing judged",
        ),
        figure(
            "Without a verdict",
            "Share of the evaluations due within the window that came to no score. They add to no rate; the Judge board"
            " says why. `RagUnscoredHigh` watches it.",
            SHARE,
            Query(f"{unscored} / ({unscored} + {judged} > 0)"),
            steps=((None, GREEN), (0.05, ORANGE), (0.25, RED)),
            empty="nothing judged",
        ),
        figure(
            "Oldest unfinished",
            "How long the oldest trace that is not yet done has waited, over all replicas. `RagLagHigh` watches it.",
            SECONDS,
            Query(f"time() - min({waiting} > 0)"),
            steps=((None, GREEN), (300, ORANGE), (900, RED)),
            empty="nothing waits",
        ),
        figure(
            "Replicas",
            "Monitors that Prometheus scrapes. Rates are sums over all of them.",
            COUNT,
            Query(f"count({selector('ragmonitor_build_info')})"),
            steps=((None, RED), (1, BLUE)),
            empty="no monitor",
        ),
    ]


def _columns() -> list[Column]:
    rate = Rate()
    return [
        Column("state", rate.leading(state(rate)), properties=as_state()),
        Column("rate", rate.leading(rate.rate), SHARE, {"custom.width": 80}),
        Column("at least", rate.leading(rate.lower), SHARE, {"custom.width": 80}),
        Column("at most", rate.leading(rate.upper), SHARE, {"custom.width": 80}),
        Column("judged", rate.leading(rate.judged), COUNT, few(FEW)),
        Column(
            "trend",
            rate.leading(rate.rate),
            SHARE,
            {"custom.cellOptions": {"type": "sparkline", "lineWidth": 1.5, "hideValue": True}, "min": 0},
            trend=True,
        ),
    ]


_MEANING = (
    " State: the whole 95 % interval is above the critical or warning threshold, or it is below, or enough were judged"
    " to see twice the threshold and did not show it; else there are too few to tell. While a change is rolled out, the"
    " version that judged most is shown. Few: under 30 judged, where one answer moves the rate by more than 3 points."
)


def _apps() -> Panel:
    link_ = link("Quality of this app", f"{_QUALITY}&var-app=${{__value.raw}}")
    return rows(
        "Apps",
        "One row an app, the worst first: the evaluator that looks worst, its rate of bad answers over the window as an"
        " estimate for all traffic, and the limits of its 95 % interval." + _MEANING,
        Column("app", properties=link_),
        Column("evaluator"),
        *_columns(),
        sort=("state", "rate"),
        first_of="app",
    )


def _trends() -> Panel:
    rate = Rate()
    return curve(
        "Rates of bad answers",
        "Of the evaluators that have a threshold, over time, each point over the window before it. Without limits, for"
        " they would cover each other: where few are judged these lines jump by chance. The Quality board has the"
        " intervals, and all evaluators.",
        SHARE,
        Query(f"{rate.leading(rate.rate)}\nand on (app, evaluator)\n{threshold()}", "{{app}} / {{evaluator}}"),
        width=24,
        empty="no evaluator has a threshold, or nothing was judged",
    )


def _evaluators() -> Panel:
    return rows(
        "Apps and evaluators",
        "A row for each app and evaluator." + _MEANING,
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
