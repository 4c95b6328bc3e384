"""The Pipeline dashboard: the outcome of every trace, queues, and the monitor's own resources."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from grafana.board import Chosen, Row, made
from grafana.boards import kafka
from grafana.expressions import APP, INSTANCE, increase, per_second, quantile, selector
from grafana.panels import (
    BLUE,
    BYTES,
    COUNT,
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


def board() -> build.Dashboard:
    """Build the ledger, the queues and the process, in the order of the pipeline."""
    return made(
        "pipeline",
        "RAG quality / Pipeline",
        "The outcome of every trace received, queues, and the monitor's own health.",
        Chosen(of="ragmonitor_traces_received_total", many_apps=True, evaluators="", instance=True),
        [
            Row("", _figures()),
            Row("The ledger", [_ledger(), _balance(), _requests(), _spans()]),
            Row("Waiting", [_oldest(), _queues(), _pending(), _spool(), _durations(), _memory_of_traces()]),
            Row("The process", [_memory(), _cpu(), _events()]),
            Row("Sinks", [_sink_lag(), _sent(), _sinks()]),
            Row("Apache Kafka", kafka.panels()),
        ],
    )


def _figures() -> list[Panel]:
    received = increase("ragmonitor_traces_received_total", APP, INSTANCE, by="")
    lost = increase("ragmonitor_traces_total", APP, INSTANCE, 'outcome=~"expired|invalid|poison|too_large"', by="")
    waiting = selector("ragmonitor_oldest_pending_timestamp_seconds", INSTANCE)
    rows = selector("ragmonitor_spool_records", INSTANCE)
    return [
        figure(
            "Received",
            "Traces and rows received within the window, before sampling.",
            COUNT,
            Query(received),
            empty="nothing received",
        ),
        figure(
            "Lost",
            "Share of traces within the window that were unreadable, too large, expired in the spool, or set aside"
            " because workers died on them. Traces left out by head sampling are not lost: the weights account for"
            " them. Rough with few traces.",
            SHARE,
            Query(f"{lost} / ({received} > 0)"),
            steps=((None, GREEN), (0.001, ORANGE), (0.01, RED)),
            empty="nothing received",
        ),
        figure(
            "Oldest unfinished",
            "Age of the oldest unfinished trace. Alert: `RagLagHigh`.",
            SECONDS,
            Query(f"time() - min({waiting} > 0)"),
            steps=((None, GREEN), (300, ORANGE), (900, RED)),
            empty="nothing waits",
        ),
        figure(
            "Kafka lag",
            "Messages in all partitions that are not yet consumed.",
            COUNT,
            Query(f"sum({selector('ragmonitor_consumer_lag_messages', INSTANCE)})"),
            steps=((None, GREEN), (10_000, ORANGE), (1_000_000, RED)),
            empty="no Kafka",
        ),
        figure(
            "In the spool",
            "Unfinished deliveries on disk, over all replicas.",
            COUNT,
            Query(f"sum({rows})"),
            empty="no monitor",
        ),
        figure(
            "Replicas",
            "Monitors in the chosen jobs that Prometheus scrapes.",
            COUNT,
            Query(f"count({selector('ragmonitor_build_info', INSTANCE)})"),
            steps=((None, RED), (1, BLUE)),
            empty="no monitor",
        ),
    ]


def _ledger() -> Panel:
    traces = per_second("ragmonitor_traces_total", APP, INSTANCE, 'outcome!="read"', by="outcome")
    return curve(
        "Outcomes of requests and traces",
        "Requests in traces per second, and traces without a request, by outcome; each has exactly one. `sampled_out`"
        " and `filtered` follow from the configuration; docs/concepts.md explains all outcomes.",
        "cps",
        Query(f"{per_second('ragmonitor_requests_total', APP, INSTANCE, by='outcome')} > 0", "{{outcome}}"),
        Query(f"{traces} > 0", "{{outcome}}"),
        stacked=True,
        overrides=colours(
            {
                "evaluated": GREEN,
                "sampled_out": GREY,
                "filtered": "light-blue",
                "expired": RED,
                "invalid": "dark-red",
                "too_large": ORANGE,
                "too_many": ORANGE,
            }
        ),
        empty="nothing ended in this time",
    )


def _balance() -> Panel:
    received = f"sum({selector('ragmonitor_traces_received_total', APP, INSTANCE)})"
    pending = f"sum({selector('ragmonitor_traces_pending', APP, INSTANCE)})"
    ended = f"sum({selector('ragmonitor_traces_total', APP, INSTANCE)})"
    names = ("found_total", "total", "pending")
    of_requests = [f"sum({selector(f'ragmonitor_requests_{name}', APP, INSTANCE)})" for name in names]
    return curve(
        "Unaccounted traces and requests",
        "Received minus ended minus pending since the start of each replica: always 0. Any other value means silent"
        " loss, which is a bug in the monitor.",
        COUNT,
        Query(f"{received} - {ended} - {pending}", "unaccounted traces"),
        Query(" - ".join(of_requests), "unaccounted requests"),
        Query(pending, "pending"),
        least=None,
        overrides=colours({"unaccounted traces": RED, "unaccounted requests": RED, "pending": BLUE}),
        empty="nothing received",
    )


def _requests() -> Panel:
    return curve(
        "Requests to the receivers",
        "Requests per second by source and status (HTTP or gRPC). 429, 503 and RESOURCE_EXHAUSTED tell senders to"
        " retry later.",
        "reqps",
        Query(
            f"{per_second('ragmonitor_receiver_requests_total', INSTANCE, by='source, code')} > 0",
            "{{source}}: {{code}}",
        ),
        stacked=True,
        empty="no requests in this time",
    )


def _spans() -> Panel:
    return curve(
        "Spans, log records and rows",
        "Per second, by outcome. `late` arrived after their trace was closed.",
        "cps",
        Query(f"{per_second('ragmonitor_spans_total', INSTANCE, by='outcome')} > 0", "spans {{outcome}}"),
        Query(f"{per_second('ragmonitor_log_records_total', INSTANCE, by='outcome')} > 0", "log records {{outcome}}"),
        Query(f"{per_second('ragmonitor_rows_total', INSTANCE, by='outcome')} > 0", "rows {{outcome}}"),
        stacked=True,
        empty="none in this time",
    )


def _oldest() -> Panel:
    oldest = selector("ragmonitor_oldest_pending_timestamp_seconds", INSTANCE)
    kafka = selector("ragmonitor_consumer_oldest_pending_timestamp_seconds", INSTANCE)
    return curve(
        "Age of the oldest unfinished item",
        "The oldest unfinished trace and Kafka message of each replica. If it rises by one second per second,"
        " nothing is processed. The alert fires at 15 minutes.",
        SECONDS,
        Query(f"time() - ({oldest} > 0)", "{{instance}}: trace"),
        Query(f"time() - ({kafka} > 0)", "{{instance}}: message of {{topic}}"),
        empty="nothing waits",
    )


def _queues() -> Panel:
    items, limit = (selector(f"ragmonitor_queue_{name}", INSTANCE) for name in ("items", "limit_items"))
    return curve(
        "Queue usage",
        "Items as a share of the limit, by queue and replica. A full queue makes the stage before it wait or refuse.",
        SHARE,
        Query(f"{items}\n/\n({limit} > 0)", "{{instance}}: {{queue}}"),
        most=1.0,
        empty="no monitor",
    )


def _pending() -> Panel:
    return curve(
        "Pending",
        "Traces open, queued or being evaluated, and evaluations queued or in flight, over all replicas.",
        COUNT,
        Query(f"sum({selector('ragmonitor_traces_pending', APP, INSTANCE)})", "traces"),
        Query(f"sum({selector('ragmonitor_evaluations_pending', APP, INSTANCE)})", "evaluations"),
        empty="no monitor",
    )


def _spool() -> Panel:
    return curve(
        "Spool",
        "Bytes on disk, by replica. At `storage.max_size` the receivers refuse data.",
        BYTES,
        Query(selector("ragmonitor_spool_bytes", INSTANCE), "{{instance}}"),
        empty="no monitor",
    )


def _durations() -> Panel:
    return curve(
        "Evaluation time",
        "95th percentile within the window by evaluator, including the wait for the judge. With fewer than about 20"
        " evaluations it is the slowest evaluation.",
        SECONDS,
        Query(
            quantile(0.95, "ragmonitor_evaluation_duration_seconds", INSTANCE, by="evaluator"),
            "{{evaluator}}",
        ),
        empty="nothing evaluated in this time",
    )


def _memory_of_traces() -> Panel:
    return curve(
        "Open traces",
        "Memory held by incomplete traces, by replica; bounded by their share of `limits.memory`.",
        BYTES,
        Query(selector("ragmonitor_open_traces_bytes", INSTANCE), "{{instance}}"),
        empty="no monitor",
    )


def _memory() -> Panel:
    return curve(
        "Memory",
        "Resident memory of each replica with its worker processes, and its limit. Alert: `RagMemoryShort`.",
        BYTES,
        Query(selector("ragmonitor_memory_resident_bytes", INSTANCE), "{{instance}}"),
        Query(selector("ragmonitor_memory_limit_bytes", INSTANCE), "{{instance}} limit"),
        empty="no monitor",
    )


def _cpu() -> Panel:
    return curve(
        "CPU",
        "Cores used by each replica. One process uses one core: near 1, add a replica or sample less.",
        COUNT,
        Query(f"rate({selector('process_cpu_seconds_total', INSTANCE)}[$__rate_interval])\n{_OURS}", "{{instance}}"),
        empty="no monitor",
    )


_OURS = f"and on (job, instance) {selector('ragmonitor_build_info', INSTANCE)}"
"""Selects the monitors among the processes of the chosen jobs."""


def _events() -> Panel:
    return curve(
        "Log events",
        "Events within the window before each point, by name; the log has a line for each.",
        COUNT,
        Query(f"{increase('ragmonitor_events_total', INSTANCE, by='event')} > 0", "{{event}}"),
        stacked=True,
        empty="none",
    )


def _sink_lag() -> Panel:
    return curve(
        "Sinks: how far behind",
        "Age of the oldest result that a sink has yet to deliver, in the replica that is furthest behind. It grows"
        " while the receiver fails; the results wait in the history.",
        SECONDS,
        Query(f"max by (sink) ({selector('ragmonitor_sink_lag_seconds', INSTANCE)})", "{{sink}}"),
        empty="no sink follows the history",
    )


def _sent() -> Panel:
    return curve(
        "Sinks: results sent",
        "Results accepted by the receivers within the window before each point.",
        COUNT,
        Query(increase("ragmonitor_sink_results_total", INSTANCE, 'outcome="sent"', by="sink"), "{{sink}}"),
        empty="no sink follows the history",
    )


def _sinks() -> Panel:
    closed = increase("ragmonitor_sink_failures_total", INSTANCE, by="sink")
    lost = increase("ragmonitor_sink_results_total", INSTANCE, 'outcome!="sent"', by="sink, outcome")
    sent = increase("ragmonitor_notifications_total", INSTANCE, by="receiver, outcome")
    damaged = increase("ragmonitor_spool_damaged_records_total", INSTANCE, by="")
    return curve(
        "Sinks and notifications",
        "Within the window: results that a sink lost or refused, failed deliveries (repeated until they succeed),"
        " notifications by receiver and outcome, and damaged spool records.",
        COUNT,
        Query(f"{lost} > 0", "{{sink}}: {{outcome}}"),
        Query(f"{closed} > 0", "{{sink}}: failed deliveries"),
        Query(f"{sent} > 0", "{{receiver}}: {{outcome}}"),
        Query(f"{damaged} > 0", "spool records damaged"),
        empty="none",
    )
