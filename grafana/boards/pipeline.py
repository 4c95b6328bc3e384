"""Pipeline: where every trace went, what waits, and what the monitor itself needs."""

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
    """The way through the house, in its order."""
    return made(
        "pipeline",
        "RAG quality / Pipeline",
        "Every trace that came in, the place it ended in, what waits, and the monitor's own health.",
        Chosen(of="ragmonitor_traces_received_total", many_apps=True, evaluators="", instance=True),
        [
            Row("", _figures()),
            Row("The ledger", [_ledger(), _balance(), _requests(), _spans()]),
            Row("Waiting", [_oldest(), _queues(), _pending(), _spool(), _durations(), _memory_of_traces()]),
            Row("The process", [_memory(), _cpu(), _events(), _sinks()]),
            Row("Apache Kafka", kafka.panels()),
        ],
    )


def _figures() -> list[Panel]:
    received = increase("ragmonitor_traces_received_total", APP, INSTANCE, by="")
    lost = increase("ragmonitor_traces_total", APP, INSTANCE, 'outcome=~"expired|invalid|too_large"', by="")
    waiting = selector("ragmonitor_oldest_pending_timestamp_seconds", INSTANCE)
    rows = selector("ragmonitor_spool_records", INSTANCE)
    return [
        figure(
            "Received",
            "Traces and rows that came in within the window, before sampling.",
            COUNT,
            Query(received),
            empty="nothing received",
        ),
        figure(
            "Lost",
            "Share of them given up within the window: not readable, too large, or shed after too long in the spool."
            " What head sampling left out is not lost: it is in the weights. Of few traces it says little.",
            SHARE,
            Query(f"{lost} / ({received} > 0)"),
            steps=((None, GREEN), (0.001, ORANGE), (0.01, RED)),
            empty="nothing received",
        ),
        figure(
            "Oldest unfinished",
            "How long the oldest trace that is not yet done has waited. `RagLagHigh` watches it.",
            SECONDS,
            Query(f"time() - min({waiting} > 0)"),
            steps=((None, GREEN), (300, ORANGE), (900, RED)),
            empty="nothing waits",
        ),
        figure(
            "Behind on Kafka",
            "Messages of all partitions that nobody has taken up yet.",
            COUNT,
            Query(f"sum({selector('ragmonitor_consumer_lag_messages', INSTANCE)})"),
            steps=((None, GREEN), (10_000, ORANGE), (1_000_000, RED)),
            empty="no Kafka",
        ),
        figure(
            "In the spool",
            "Deliveries on disk that are not yet done with.",
            COUNT,
            Query(f"sum({rows})"),
            empty="no monitor",
        ),
        figure(
            "Replicas",
            "Monitors that Prometheus scrapes, of the chosen jobs.",
            COUNT,
            Query(f"count({selector('ragmonitor_build_info', INSTANCE)})"),
            steps=((None, RED), (1, BLUE)),
            empty="no monitor",
        ),
    ]


def _ledger() -> Panel:
    return curve(
        "Where traces ended",
        "Traces a second by the one place each ended in. `evaluated` and `no_context` were evaluated; `sampled_out` and"
        " `filtered` by your configuration; for the others see the ledger in docs/metrics.md.",
        "cps",
        Query(f"{per_second('ragmonitor_traces_total', APP, INSTANCE, by='outcome')} > 0", "{{outcome}}"),
        stacked=True,
        overrides=colours(
            {
                "evaluated": GREEN,
                "no_context": "semi-dark-green",
                "sampled_out": GREY,
                "filtered": "light-blue",
                "expired": RED,
                "invalid": "dark-red",
                "too_large": ORANGE,
            }
        ),
        empty="nothing ended in this time",
    )


def _balance() -> Panel:
    received = f"sum({selector('ragmonitor_traces_received_total', APP, INSTANCE)})"
    pending = f"sum({selector('ragmonitor_traces_pending', APP, INSTANCE)})"
    ended = f"sum({selector('ragmonitor_traces_total', APP, INSTANCE)})"
    return curve(
        "Received less ended less pending",
        "Since the start of each replica, at every scrape: always 0. Anything else is a trace that was lost without a"
        " word, and a defect of the monitor.",
        COUNT,
        Query(f"{received} - {ended} - {pending}", "unaccounted for"),
        Query(pending, "pending"),
        least=None,
        overrides=colours({"unaccounted for": RED, "pending": BLUE}),
        empty="nothing received",
    )


def _requests() -> Panel:
    return curve(
        "Requests to the receivers",
        "Requests a second by source and answer: HTTP status or gRPC status. 429, 503 and RESOURCE_EXHAUSTED tell"
        " senders to come again later.",
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
        "A second, by what became of them. `late` came after their trace was closed.",
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
        "How long the oldest has waited",
        "Trace, and Kafka message, not yet done with, of each replica. Rising one second a second: nothing gets done."
        " The alert is at 15 minutes.",
        SECONDS,
        Query(f"time() - ({oldest} > 0)", "{{instance}}: trace"),
        Query(f"time() - ({kafka} > 0)", "{{instance}}: message of {{topic}}"),
        empty="nothing waits",
    )


def _queues() -> Panel:
    items, limit = (selector(f"ragmonitor_queue_{name}", INSTANCE) for name in ("items", "limit_items"))
    return curve(
        "How full the queues are",
        "Items over the limit, of each queue and replica. A full queue makes what is before it wait, or refuse.",
        SHARE,
        Query(f"{items}\n/\n({limit} > 0)", "{{instance}}: {{queue}}"),
        most=1.0,
        empty="no monitor",
    )


def _pending() -> Panel:
    return curve(
        "Pending",
        "Traces open, queued or being judged; and evaluations queued or in flight, over all replicas.",
        COUNT,
        Query(f"sum({selector('ragmonitor_traces_pending', APP, INSTANCE)})", "traces"),
        Query(f"sum({selector('ragmonitor_evaluations_pending', APP, INSTANCE)})", "evaluations"),
        empty="no monitor",
    )


def _spool() -> Panel:
    return curve(
        "Spool",
        "Bytes of data on disk, of each replica. It may grow to `storage.max_size`; then receivers refuse.",
        BYTES,
        Query(selector("ragmonitor_spool_bytes", INSTANCE), "{{instance}}"),
        empty="no monitor",
    )


def _durations() -> Panel:
    return curve(
        "How long an evaluation takes",
        "19 of 20 within the window took at most so long, waiting for the judge included, by evaluator. Of fewer than"
        " some twenty it is nothing but the slowest.",
        SECONDS,
        Query(
            quantile(0.95, "ragmonitor_evaluation_duration_seconds", INSTANCE, by="evaluator"),
            "{{evaluator}}",
        ),
        empty="nothing judged in this time",
    )


def _memory_of_traces() -> Panel:
    return curve(
        "Open traces",
        "Memory held by traces that are not yet complete, of each replica; bounded by `assembly`.",
        BYTES,
        Query(selector("ragmonitor_open_traces_bytes", INSTANCE), "{{instance}}"),
        empty="no monitor",
    )


def _memory() -> Panel:
    return curve(
        "Memory",
        "Resident memory of each replica, as the kernel counts it.",
        BYTES,
        Query(f"{selector('process_resident_memory_bytes', INSTANCE)}\n{_OURS}", "{{instance}}"),
        empty="no monitor",
    )


def _cpu() -> Panel:
    return curve(
        "CPU",
        "Cores that each replica uses. One process is one core: near 1 it is time for another replica, or for less"
        " sampling.",
        COUNT,
        Query(f"rate({selector('process_cpu_seconds_total', INSTANCE)}[$__rate_interval])\n{_OURS}", "{{instance}}"),
        empty="no monitor",
    )


_OURS = f"and on (job, instance) {selector('ragmonitor_build_info', INSTANCE)}"
"""Of the chosen jobs those processes that are monitors."""


def _events() -> Panel:
    return curve(
        "Occurrences worth a log line",
        "Within the window before each point, by name; each has a line in the log that says more.",
        COUNT,
        Query(f"{increase('ragmonitor_events_total', INSTANCE, by='event')} > 0", "{{event}}"),
        stacked=True,
        empty="none",
    )


def _sinks() -> Panel:
    closed = increase("ragmonitor_sink_failures_total", INSTANCE, by="sink")
    told = increase("ragmonitor_notifications_total", INSTANCE, by="receiver, outcome")
    damaged = increase("ragmonitor_spool_damaged_records_total", INSTANCE, by="")
    return curve(
        "Sinks and notifications",
        "Within the window: results that a sink did not take, notifications by receiver and outcome, and spool records"
        " that could not be read back.",
        COUNT,
        Query(f"{closed} > 0", "{{sink}}: not taken"),
        Query(f"{told} > 0", "{{receiver}}: {{outcome}}"),
        Query(f"{damaged} > 0", "spool records damaged"),
        empty="none",
    )
