"""The text of /metrics is the one that the client library would write, without `_created`, and without the loop."""

from __future__ import annotations

import threading
from collections import Counter as Numbers

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import GCCollector
from prometheus_client import exposition as official
from prometheus_client.openmetrics import exposition as official_openmetrics

from monitor.clock import ManualClock
from monitor.telemetry import exposition
from monitor.telemetry.exposition import Exposition
from monitor.telemetry.metrics import Metrics

LABELS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.floats(min_value=0, allow_nan=False)


def filled(labels: list[tuple[str, str, float]]) -> Metrics:
    metrics = Metrics()
    GCCollector(registry=metrics.registry)
    for app, evaluator, value in labels:
        metrics.unscored.labels(app, evaluator, "timeout").inc(value, {"trace_id": evaluator[:5]})
        metrics.weight_max.labels(app, evaluator).set(-value)
        metrics.service_seconds.labels(app).observe(value, {"trace_id": '"1\\'})
        metrics.score("below zero", (-1.0, 0.0, 1.0)).labels(app, evaluator, "1").observe(value)
        metrics.score("share", (0.0, 0.5, 1.0)).labels(app, evaluator, "1").observe(value)
    return metrics


def text(shown: Exposition, *, openmetrics: bool = False) -> list[str]:
    async def ask() -> bytes:
        return await shown.text(openmetrics=openmetrics)

    return anyio.run(ask).decode().split("\n")


def lines_of(written: bytes) -> list[str]:
    """Without what stands in the creation times, and their families."""
    return [line for line in written.decode().split("\n") if "_created" not in line.split("{")[0]]


@pytest.mark.parametrize("openmetrics", [False, True])
@given(labels=st.lists(st.tuples(LABELS, LABELS, VALUES), max_size=5))
def test_any_labels_and_values_are_written_as_the_client_library_writes_them(openmetrics, labels):
    metrics = filled(labels)
    encoder = official_openmetrics.generate_latest if openmetrics else official.generate_latest
    expected = [line for line in lines_of(encoder(metrics.registry)) if not line.startswith("python_gc")]
    found = text(Exposition(metrics, ManualClock().monotonic), openmetrics=openmetrics)
    assert Numbers(line for line in found if not line.startswith("python_gc")) == Numbers(expected)
    assert found[-1] == ""


def test_series_that_come_and_go_between_two_scrapes_keep_their_own_values():
    metrics = filled([("a", "x", 1.0), ("b", "x", 2.0)])
    shown = Exposition(metrics, ManualClock().monotonic)
    text(shown)
    metrics.unscored.remove("a", "x", "timeout")
    metrics.unscored.labels("c", "x", "timeout").inc(3)
    metrics.unscored.labels("b", "x", "timeout").inc(10)
    found = [line for line in text(shown) if line.startswith("ragmonitor_unscored_total{")]
    assert found == [
        'ragmonitor_unscored_total{app="b",evaluator="x",reason="timeout"} 12.0',
        'ragmonitor_unscored_total{app="c",evaluator="x",reason="timeout"} 3.0',
    ]


@pytest.mark.anyio
async def test_the_event_loop_goes_on_while_a_scrape_is_written(monkeypatch):
    writing, loop_went_on = threading.Event(), threading.Event()
    write = exposition._write

    def slow(*given):
        writing.set()
        assert loop_went_on.wait(30), "the event loop stood still"
        return write(*given)

    monkeypatch.setattr(exposition, "_write", slow)
    shown = Exposition(Metrics(), ManualClock().monotonic)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: shown.text(openmetrics=False))
        await anyio.to_thread.run_sync(writing.wait)
        loop_went_on.set()


@pytest.mark.anyio
async def test_a_text_that_took_long_is_served_again_for_about_a_second(monkeypatch):
    clock, written = ManualClock(), []
    write = exposition._write

    def slow(*given):
        clock.advance(0.5)
        written.append(given)
        return write(*given)

    monkeypatch.setattr(exposition, "_write", slow)
    shown = Exposition(Metrics(), clock.monotonic)
    for seconds in (0.0, 0.6, 0.3, 0.2):
        clock.advance(seconds)
        await shown.text(openmetrics=False)
    assert len(written) == 2


@pytest.mark.anyio
async def test_a_text_that_took_no_time_is_written_again(monkeypatch):
    metrics = Metrics()
    shown = Exposition(metrics, ManualClock().monotonic)
    await shown.text(openmetrics=False)
    metrics.traces_closed.labels("late").inc()
    assert b'reason="late"} 1.0' in await shown.text(openmetrics=False)
