"""The Retrieval dashboard: whether the retrieved context is good, and whether the monitor sees it."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.expressions import EVALUATOR, ONE_APP, Rate, context_share, increase, quantile, threshold
from grafana.panels import BLUE, COUNT, GREY, ORANGE, RED, SECONDS, SHARE, Panel, Query, band, colours, curve, heat

_EVALUATORS = ".*(retrieval|context|chunk|document|recall).*"


def board() -> build.Dashboard:
    """Build the evaluators of retrieved documents, then the data in the traces."""
    return made(
        "retrieval",
        "RAG quality / Retrieval",
        "Whether retrieved documents are relevant and sufficient, and whether they reach the monitor.",
        Chosen(evaluators=_EVALUATORS),
        [
            Row("$evaluator", [_rate(), _mean(), _scores(), _judged()], repeat="evaluator"),
            Row("Data in the traces", [_context(), _seen(), _without(), _skipped(), _seconds(), _tokens()]),
        ],
    )


def _rate() -> Panel:
    rate = Rate((ONE_APP, EVALUATOR))
    return band(
        "Defect rate of retrieval",
        "Share of the traffic with documents that are a defect, each point over the window before it, with its 95 %"
        " interval. Dashed: thresholds. With few scored answers the band is wide.",
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
        "Mean score above the lowest of the scale",
        "Weighted mean over all traffic of the score minus the lowest score: 0 to 4 on a scale from 1 to 5. A mean"
        " hides a few very bad answers, and with few scored answers it moves by chance. Alerts use the rate.",
        COUNT,
        Query(rate.leading(f"{scored}\n/\n({rate.weight} > 0)"), "mean"),
        empty="nothing scored in this time",
    )


def _scores() -> Panel:
    buckets = increase("ragmonitor_evaluation_score_bucket", ONE_APP, EVALUATOR, by="le", window="$__rate_interval")
    return heat(
        "Scores",
        "Scores per step of the graph, unweighted. A column with few scores is pale.",
        COUNT,
        Query(buckets, "{{le}}", exemplars=True),
    )


def _judged() -> Panel:
    return curve(
        "Outcomes",
        "Evaluations behind each point of the rate. With fewer than 30 scores a rate means little.",
        COUNT,
        Query(increase("ragmonitor_evaluations_total", ONE_APP, EVALUATOR, by=""), "scored"),
        Query(increase("ragmonitor_skipped_total", ONE_APP, EVALUATOR, by=""), "skipped"),
        Query(increase("ragmonitor_unscored_total", ONE_APP, EVALUATOR, by=""), "unscored"),
        empty="nothing scored in this time",
    )


def _context() -> Panel:
    return curve(
        "Retrieval outcomes",
        "Shares of all answers within the window, estimated for all traffic. An answer after a retrieval that found"
        " nothing counts in all rates; evaluators of the context skip answers without a retrieval, and answers whose"
        " retrieval was not recorded. Alerts: `RagRetrievalEmptyHigh` and `RagContextNotRecorded`. With few answers,"
        " shares are rough.",
        SHARE,
        Query(context_share(ONE_APP), "{{status}}"),
        stacked=True,
        most=1.0,
        overrides=colours({"retrieved": BLUE, "retrieved_nothing": RED, "no_retrieval": GREY, "not_recorded": ORANGE}),
        empty="no answers",
    )


def _seen() -> Panel:
    by = "convention, field"
    fields = increase("ragmonitor_extracted_fields_total", ONE_APP, by=by)
    read = increase("ragmonitor_extracted_requests_total", ONE_APP, by="convention")
    return curve(
        "Requests with each field",
        "Share of the requests read within the window that have question, context, answer and so on, by the dialect"
        " of their traces. Missing fields cannot be evaluated; `rag-monitor coverage` shows how to send them.",
        SHARE,
        Query(f"{fields}\n/ on (convention) group_left ()\n({read} > 0)", "{{convention}}: {{field}}"),
        most=1.0,
        empty="no requests",
    )


def _without() -> Panel:
    missing = increase("ragmonitor_requests_total", ONE_APP, 'outcome="content_missing"', by="outcome")
    requests = increase("ragmonitor_requests_found_total", ONE_APP, by="")
    without = increase("ragmonitor_traces_total", ONE_APP, 'outcome=~"no_request|incomplete"', by="outcome")
    traces = increase("ragmonitor_traces_received_total", ONE_APP, by="")
    return curve(
        "Requests and traces without a case",
        "Share of the requests within the window without texts (`content_missing`), and of the traces that"
        " answered no question (`no_request`) or lack a part (`incomplete`). With few of them, shares are rough.",
        SHARE,
        Query(f"{missing}\n/ on () group_left ()\n({requests} > 0)\n> 0", "{{outcome}}"),
        Query(f"{without}\n/ on () group_left ()\n({traces} > 0)\n> 0", "{{outcome}}"),
        empty="none",
    )


def _skipped() -> Panel:
    return curve(
        "Skipped evaluations by reason",
        "Evaluations within the window that do not apply, for the chosen evaluators. An unexpected `no_retrieval`"
        " means that the trace does not show the retrieval; `context_not_recorded` means that it lacks the texts.",
        COUNT,
        Query(f"{increase('ragmonitor_skipped_total', ONE_APP, EVALUATOR, by='reason')} > 0", "{{reason}}"),
        stacked=True,
        empty="none skipped",
    )


def _seconds() -> Panel:
    name = "ragmonitor_service_answer_seconds"
    return curve(
        "Answer time of the service",
        "Median and 95th percentile of the sampled requests within the window. With fewer than about 20 requests the"
        " upper line is the slowest request.",
        SECONDS,
        Query(quantile(0.5, name, ONE_APP), "p50"),
        Query(quantile(0.95, name, ONE_APP), "p95"),
        width=6,
        empty="no answers",
    )


def _tokens() -> Panel:
    return curve(
        "Tokens used by the service",
        "Estimate for all traffic within the window, from the weights of sampled requests; none if traces carry no"
        " usage. Rough with few requests.",
        COUNT,
        Query(f"{increase('ragmonitor_service_tokens_total', ONE_APP, by='direction')} > 0", "{{direction}}"),
        stacked=True,
        width=6,
        empty="no usage in the traces",
    )
