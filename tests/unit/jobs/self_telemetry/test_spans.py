"""What is recorded of the monitor's own work, and what a record of an event says."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from pydantic import ValidationError

from monitor.clock import ManualClock
from monitor.errors import ConfigError, JudgeError
from monitor.jobs.self_telemetry import TelemetrySettings
from monitor.jobs.self_telemetry.spans import RecordingTracer, plain, record
from monitor.model.outcome import UnscoredReason
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.tracing import NOTHING, Tracer

RESOURCE = Resource({"service.name": "rag-monitor"})


def tracer(rate: float = 1.0) -> tuple[RecordingTracer, list[ReadableSpan], ManualClock]:
    ended: list[ReadableSpan] = []
    clock = ManualClock()
    return RecordingTracer(ended.append, RESOURCE, rate=rate, clock=clock, rng=random.Random(1)), ended, clock


def test_by_default_nothing_is_recorded_and_no_object_is_made() -> None:
    plain_tracer = Tracer()
    assert plain_tracer.begin("case") is plain_tracer.whole("receive") is plain_tracer.part("read") is NOTHING


def test_of_what_is_not_sampled_no_part_is_recorded_either() -> None:
    own, ended, _ = tracer(rate=0.0)
    with own.begin("case") as work, own.part("read") as part:
        assert work is part is NOTHING
    assert ended == []


def test_the_configured_share_is_recorded() -> None:
    own, ended, _ = tracer(rate=0.1)
    for _ in range(5000):
        with own.whole("receive"):
            pass
    assert 400 < len(ended) < 600


def test_a_part_is_below_what_is_being_done_where_it_is_made() -> None:
    own, ended, clock = tracer()
    work = own.begin("case")
    with work:
        clock.advance(1.0)
        with own.part("read"), own.part("decode"):
            clock.advance(0.5)
    with own.part("of nothing") as nothing:
        assert nothing is NOTHING
    assert {one.name for one in ended} == {"decode", "read"}
    work.end()
    decode, read, case = ended
    assert decode.parent
    assert read.parent
    assert case.context
    assert read.context
    assert (decode.parent.span_id, read.parent.span_id) == (read.context.span_id, case.context.span_id)
    assert case.parent is None
    assert read.end_time is not None
    assert read.start_time is not None
    assert read.end_time - read.start_time == 500_000_000


@pytest.mark.anyio
async def test_work_goes_on_in_the_tasks_that_it_starts() -> None:
    own, ended, _ = tracer()

    async def later() -> None:
        await anyio.lowlevel.checkpoint()
        with own.part("judge"):
            pass

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            work = own.begin(name)
            with work:
                tasks.start_soon(later)
            work.end()
    roots = {one.context.span_id: one.name for one in ended if one.parent is None and one.context}
    assert sorted(roots[one.parent.span_id] for one in ended if one.parent) == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "why"),
    [(JudgeError(UnscoredReason.TIMEOUT, "secret words"), "timeout"), (KeyError("secret words"), "KeyError")],
)
def test_a_failure_is_told_by_a_word_and_never_by_its_message(error: Exception, why: str) -> None:
    own, ended, _ = tracer()
    with pytest.raises(type(error)), own.whole("call"):
        raise error
    assert ended[0].attributes == {"error.type": why}
    assert "secret" not in ended[0].to_json()


def test_the_switch_of_the_sdk_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    own, ended, _ = tracer()
    with own.whole("case") as work, own.part("read"):
        work.set({"a": 1})
        work.about("ab" * 16, "cd" * 8)
        work.fail("timeout")
    assert ended == []


def test_nothing_of_the_environment_decides_what_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    own, ended, _ = tracer()
    with own.whole("case"):
        pass
    assert len(ended) == 1


def test_a_file_that_cannot_work_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    given = {"endpoint": "https://h:4317", "tls": {"ca_file": str(tmp_path / "none.pem")}}
    with pytest.raises(ConfigError, match=r"telemetry.tls: .*none\.pem"):
        TelemetrySettings.model_validate(given).target("telemetry")


@pytest.mark.parametrize("ids", [("order-7", "1"), ("0" * 32, "0" * 16), ("", ""), ("ab" * 16, "")])
def test_a_row_that_is_no_trace_is_linked_to_nothing(ids: tuple[str, str]) -> None:
    own, ended, _ = tracer()
    with own.whole("case") as work:
        work.about(*ids)
    assert not ended[0].links


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=True), st.booleans(), st.binary(), st.none()))
def test_any_value_can_be_encoded(value: Any) -> None:
    """One that could not would hold up all that is sent with it."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    own, ended, _ = tracer()
    with own.whole("case") as work:
        work.set({"value": plain(value)})
    assert encode_spans(ended).SerializeToString()


@given(st.text(), st.one_of(st.text(), st.integers(), st.lists(st.text(), max_size=2), st.none()))
def test_any_event_can_be_encoded(message: str, value: Any) -> None:
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

    found = record(logging.ERROR, Event.STARTED, message, {"field": value}, at=1.5, resource=RESOURCE)
    assert encode_logs([found]).SerializeToString()


def test_an_event_says_what_its_line_says_and_where_it_happened() -> None:
    own, ended, _ = tracer()
    with own.whole("case"):
        found = record(logging.WARNING, Event.SPOOL_FULL, "full", {"bytes": 7}, at=1.5, resource=RESOURCE).log_record
    assert ended[0].context
    assert (found.trace_id, found.span_id) == (ended[0].context.trace_id, ended[0].context.span_id)
    assert (found.event_name, found.severity_text, found.body) == ("rag_monitor.spool_full", "WARN", "full")
    assert found.attributes == {"rag_monitor.bytes": 7}
    assert found.timestamp == 1_500_000_000


def test_events_are_heard_whatever_the_level_of_the_log() -> None:
    logger = logging.getLogger("tests.quiet")
    logger.setLevel(logging.CRITICAL)
    heard: list[tuple[object, ...]] = []
    events = Events(Metrics(), logger)
    events.also(lambda *told: heard.append(told))
    events.info(Event.STARTED, "starting", version="1")
    assert heard == [(logging.INFO, Event.STARTED, "starting", {"version": "1"})]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endpoint": "http://h:4318/v1/traces", "protocol": "http"}, "are appended"),
        ({"endpoint": "http://h:4317/x"}, "must not have a path"),
        ({"endpoint": "ftp://h"}, "address"),
        ({"tls": {}}, "https://"),
        ({"traces": "101%"}, "traces"),
        ({"trace": "1%"}, "trace"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TelemetrySettings.model_validate(options)


def test_it_is_off_by_default_and_then_records_one_in_a_hundred() -> None:
    assert TelemetrySettings().endpoint is None
    assert TelemetrySettings(endpoint="http://h:4317").traces == 0.01
