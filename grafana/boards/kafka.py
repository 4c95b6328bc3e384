"""The panels on Apache Kafka, on the Pipeline dashboard."""

from __future__ import annotations

from grafana.expressions import INSTANCE, increase, per_second, selector
from grafana.panels import COUNT, ORANGE, RED, Panel, Query, colours, curve


def panels() -> list[Panel]:
    """Build the panels; they are empty without a source or sink `kafka`."""
    return [_lag(), _unfinished(), _messages(), _rebalances(), _dead(), _producer()]


def _lag() -> Panel:
    return curve(
        "Consumer lag",
        "Messages not yet consumed, by topic, over all replicas. If it grows for hours, add replicas, up to the"
        " number of partitions, or sample less.",
        COUNT,
        Query(f"sum by (topic) ({selector('ragmonitor_consumer_lag_messages', INSTANCE)})", "{{topic}}"),
        width=8,
        empty="no Kafka source",
    )


def _unfinished() -> Panel:
    return curve(
        "Uncommitted messages",
        "Messages consumed but not yet committed, by replica. After a crash they are received again.",
        COUNT,
        Query(selector("ragmonitor_consumer_unfinished_messages", INSTANCE), "{{instance}}"),
        width=8,
        empty="no Kafka source",
    )


def _messages() -> Panel:
    return curve(
        "Messages consumed",
        "Messages per second, by topic and outcome.",
        "cps",
        Query(
            f"{per_second('ragmonitor_consumer_messages_total', INSTANCE, by='topic, outcome')} > 0",
            "{{topic}}: {{outcome}}",
        ),
        width=8,
        empty="no messages in this time",
    )


def _rebalances() -> Panel:
    rebuilds = increase("ragmonitor_consumer_rebuilds_total", INSTANCE, by="reason")
    failed = increase("ragmonitor_consumer_commits_total", INSTANCE, 'outcome="failed"', by="")
    return curve(
        "Rebalances, rebuilds, failed commits",
        "Within the window before each point. Investigate `lost` partitions and rebuilds for `poll_stuck`; a few"
        " rebalances during a rollout are normal.",
        COUNT,
        Query(increase("ragmonitor_consumer_rebalances_total", INSTANCE, by="kind"), "partitions {{kind}}"),
        Query(f"{rebuilds} > 0", "rebuilt: {{reason}}"),
        Query(failed, "commits failed"),
        width=8,
        overrides=colours({"partitions lost": RED, "commits failed": ORANGE}),
        empty="no Kafka source",
    )


def _dead() -> Panel:
    dead = increase("ragmonitor_dead_letters_total", INSTANCE, by="topic, reason")
    expired = increase("ragmonitor_consumer_expired_messages_total", INSTANCE, by="topic")
    return curve(
        "Dead letters and expired messages",
        "Messages within the window that could not be read, by reason, and messages that the topic's retention"
        " deleted before they were read. Expired messages count in no rate.",
        COUNT,
        Query(f"{dead} > 0", "{{topic}}: {{reason}}"),
        Query(f"{expired} > 0", "{{topic}}: expired"),
        width=8,
        stacked=True,
        empty="none",
    )


def _producer() -> Panel:
    sent = increase("ragmonitor_producer_records_total", INSTANCE, by="topic, outcome")
    return curve(
        "Records written to Kafka",
        "Results and dead letters within the window, by topic and outcome.",
        COUNT,
        Query(f"{sent} > 0", "{{topic}}: {{outcome}}"),
        width=8,
        stacked=True,
        empty="nothing is written to Kafka",
    )
