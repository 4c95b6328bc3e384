"""Retrieval: whether the context that answers rest on is any good, and whether the monitor sees it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, Rate, increase, quantile, threshold
from grafana.panels import COUNT, SECONDS, SHARE, Panel, Query, band, curve, heat

_EVALUATORS = ".*(retrieval|context|chunk|document|recall).*"


def board() -> build.Dashboard:
    """The evaluators that look at the retrieved documents, then what the traces say of retrieval and of the answers."""
    return made(
        "retrieval",
        "RAG quality / Retrieval",
        "What was retrieved: is it about the question, does it suffice, and does it reach the monitor at all.",
        Chosen(evaluators=_EVALUATORS),
        [
            Row("$evaluator", [_rate(), _mean(), _scores(), _judged()], repeat="evaluator"),
            Row("What the traces say", [_seen(), _without(), _skipped(), _seconds(), _tokens()]),
        ],
    )


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Rate of bad retrievals",
        "Share of the traffic whose documents the evaluator calls a defect, each point over the window before it, and"
        " its 95 % interval. Dashed: thresholds. Where few are judged the band is wide.",
        Query(rate.leading(rate.rate), "rate"),
        Query(rate.leading(rate.lower), "lower"),
        Query(rate.leading(rate.upper), "upper"),
        Query(threshold("warning", ONE_APP), "warning"),
        Query(threshold("critical", ONE_APP), "critical"),
        height=8,
    )


def _mean() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    scored = increase("ragmonitor_evaluation_score_weighted_total", ONE_APP, EVALUATOR, by="app, evaluator, version")
    return curve(
        "Mean score above the scale's lowest",
        "The weighted mean over all traffic of score less the lowest score of the scale: on a scale from 1 to 5 it"
        " reaches from 0 to 4. A mean hides a few very bad ones, and with few judged it moves by chance: the rate is"
        " what alerts look at.",
        COUNT,
        Query(rate.leading(f"{scored}\n/\n({rate.weight} > 0)"), "mean"),
        empty="nothing judged in this time",
    )


def _scores() -> Panel:
    buckets = increase("ragmonitor_evaluation_score_bucket", ONE_APP, EVALUATOR, by="le", window="$__rate_interval")
    return heat(
        "Scores",
        "How many verdicts had which score between two points of the graph; unweighted. A column with few is pale.",
        COUNT,
        Query(buckets, "{{le}}", exemplars=True),
    )


def _judged() -> Panel:
    return curve(
        "Judged",
        "How many verdicts each point of the rate rests on. With fewer than 30 it says little.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by=""), "judged"),
        Query(increase("ragmonitor_skipped_total", ONE_APP, EVALUATOR, by=""), "does not apply"),
        Query(increase("ragmonitor_unscored_total", ONE_APP, EVALUATOR, by=""), "no verdict"),
        empty="nothing judged in this time",
    )


def _seen() -> Panel:
    by = "convention, field"
    fields = increase("ragmonitor_extracted_fields_total", ONE_APP, by=by)
    read = increase("ragmonitor_extracted_requests_total", ONE_APP, by="convention")
    return curve(
        "Requests that came with each field",
        "Share of the requests read within the window that came with question, context, answer and so on, by the"
        " dialect of their traces. What does not come cannot be judged; `rag-monitor coverage` says how to send it.",
        SHARE,
        Query(f"{fields}\n/ on (convention) group_left ()\n({read} > 0)", "{{convention}}: {{field}}"),
        most=1.0,
        empty="nothing was read",
    )


def _without() -> Panel:
    outcome = increase(
        "ragmonitor_traces_total", ONE_APP, 'outcome=~"no_context|content_missing|not_rag|incomplete"', by="outcome"
    )
    every = increase("ragmonitor_traces_received_total", ONE_APP, by="")
    return curve(
        "Traces without context or content",
        "Share of what was received within the window that had no context, no content, was no RAG request or"
        " incomplete. Cases without context are still judged by the evaluators that need none.",
        SHARE,
        Query(f"{outcome}\n/ on () group_left ()\n({every} > 0)\n> 0", "{{outcome}}"),
        empty="all had both",
    )


def _skipped() -> Panel:
    return curve(
        "Evaluations that do not apply",
        "Within the window, by reason, of the chosen evaluators. `no_context` where a retrieval was expected means that"
        " it found nothing, or that the trace does not carry it.",
        COUNT,
        Query(f"{increase('ragmonitor_skipped_total', ONE_APP, EVALUATOR, by='reason')} > 0", "{{reason}}"),
        stacked=True,
        empty="none was skipped",
    )


def _seconds() -> Panel:
    name = "ragmonitor_service_answer_seconds"
    return curve(
        "How long the service took to answer",
        "Of the sampled requests within the window: half were faster than the lower line, 19 of 20 than the upper."
        " Of fewer than some twenty requests the upper line is nothing but the slowest.",
        SECONDS,
        Query(quantile(0.5, name, ONE_APP), "half"),
        Query(quantile(0.95, name, ONE_APP), "19 of 20"),
        width=6,
        empty="nothing answered",
    )


def _tokens() -> Panel:
    return curve(
        "Tokens that the service spends",
        "An estimate for all of its traffic within the window, from the sampled requests by their weight; 0 where"
        " traces do not carry the usage. From few requests it is rough.",
        COUNT,
        Query(f"{increase('ragmonitor_service_tokens_total', ONE_APP, by='direction')} > 0", "{{direction}}"),
        stacked=True,
        width=6,
        empty="no usage in the traces",
    )
