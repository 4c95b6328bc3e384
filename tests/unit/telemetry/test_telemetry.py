from __future__ import annotations

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.telemetry import logs
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import OVERFLOW, Capped, Metrics


def test_a_label_from_outside_never_takes_more_than_its_cap():
    capped = Capped(3)
    assert capped(OVERFLOW) == OVERFLOW  # which takes the place of no other
    assert [capped(name) for name in "abcd"] == ["a", "b", "c", OVERFLOW]
    assert capped("b") == "b"


def test_a_sender_without_a_name_is_counted_as_unknown() -> None:
    assert Metrics().app("") == "unknown"
    assert Capped(3)("") == ""


def test_what_cannot_be_printed_is_a_question_mark_in_a_label_which_promql_can_look_up() -> None:
    assert Capped(3)("a\u200db\n") == "a?b?"


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=200), max_size=20))
def test_no_text_in_a_label_breaks_a_scrape(names):
    metrics = Metrics()
    for name in names:
        metrics.traces_received.labels(metrics.app(name), "otlp_http").inc()
    generate_latest(metrics.registry)
    list(text_string_to_metric_families(generate_openmetrics(metrics.registry).decode()))


def test_histograms_on_different_scales_are_one_family():
    metrics = Metrics()
    metrics.score("groundedness", (1, 2, 3, 4, 5)).labels("a", "groundedness", "2").observe(4)
    metrics.score("overlap", (0.5, 1.0)).labels("a", "overlap", "1").observe(0.7)
    text = generate_latest(metrics.registry).decode()
    assert text.count("# TYPE ragmonitor_evaluation_score histogram") == 1
    assert 'ragmonitor_evaluation_score_bucket{app="a",evaluator="overlap",le="0.5",version="1"} 0.0' in text
    assert 'ragmonitor_evaluation_score_bucket{app="a",evaluator="groundedness",le="4.0",version="2"} 1.0' in text


@pytest.mark.parametrize("hostile", ["a\r\nb", "\x1b[31mred", "line\u2028break", "\ud800", "\x00"])
@pytest.mark.parametrize("style", ["json", "text"])
def test_a_log_record_is_one_line_whatever_its_text_holds(hostile, style):
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        logs.configure("INFO", style, stream)
        Events(Metrics()).info(Event.STARTED, f"message {hostile}", field=hostile)
    finally:
        root.handlers[:] = before
    written = stream.getvalue()
    assert written.endswith("\n")
    assert len(written.splitlines()) == 1
    assert "\x1b" not in written
    if style == "json":
        assert json.loads(written)["event"] == "started"


def test_an_event_is_counted_when_it_is_logged():
    metrics = Metrics()
    Events(metrics).warning(Event.SPOOL_FULL, "full")
    assert metrics.registry.get_sample_value("ragmonitor_events_total", {"event": "spool_full"}) == 1


def test_not_ready_until_every_expected_part_is_up_and_never_while_stopping():
    health = Health()
    assert health.ready
    health.expect("spool", "replaying")
    assert not health.ready
    assert health.reasons == ("spool: replaying",)
    health.explain("queue", "the disk is slow")
    assert health.reasons == ("spool: replaying", "queue: the disk is slow")
    health.up("spool")
    assert health.ready
    assert not health.reasons
    health.explain("queue", "")
    health.stopping()
    assert health.reasons == ("stopping",)
