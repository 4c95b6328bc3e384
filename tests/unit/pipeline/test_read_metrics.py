from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.extraction.coverage import FIELDS
from monitor.model.case import Case, ContextStatus, Document, Reading, ReadingStatus, Request, Traffic, Usage
from monitor.pipeline.read import ExtractionMetrics
from tests.support.runtime import runtime, total

WHOLE = Case(
    request_id="1" * 32,
    request=Request("Why?"),
    retrieved_context=(Document("One."),),
    response="So.",
    model="m",
    usage=Usage(30, 12, 42),
    session_id="s",
    app="shop",
    convention="openinference",
    probability=0.1,
    seconds=1.5,
)


def counted(*readings: Reading):
    metrics = runtime().metrics
    counting = ExtractionMetrics(metrics)
    for reading in readings:
        counting.count(reading)
    return metrics


def came(metrics, **labels: str) -> dict[str, float]:
    return {name: total(metrics, "ragmonitor_extracted_fields_total", field=name, **labels) for name in FIELDS}


def test_a_whole_request_counts_in_every_field():
    metrics = counted(Reading(ReadingStatus.READY, WHOLE))
    assert total(metrics, "ragmonitor_extracted_requests_total", app="shop", convention="openinference") == 1
    assert came(metrics, app="shop") == dict.fromkeys(FIELDS, 1)


def test_what_did_not_come_is_a_series_at_zero():
    bare = replace(WHOLE, request=Request(), retrieved_context=(), response="", session_id="", usage=Usage())
    metrics = counted(Reading(ReadingStatus.CONTENT_MISSING, bare))
    assert came(metrics) == {**dict.fromkeys(FIELDS, 0), "model": 1}


@pytest.mark.parametrize(
    ("status", "number"),
    [
        (ContextStatus.RETRIEVED_NOTHING, 1),
        (ContextStatus.NO_RETRIEVAL, 1),
        (ContextStatus.NOT_RECORDED, 0),
    ],
)
def test_only_a_context_that_was_not_recorded_did_not_come(status, number):
    metrics = counted(Reading(ReadingStatus.READY, replace(WHOLE, retrieved_context=(), context_status=status)))
    assert came(metrics)["context"] == number


@pytest.mark.parametrize("status", [ReadingStatus.FAILED_REQUEST, ReadingStatus.NO_REQUEST, ReadingStatus.INCOMPLETE])
def test_what_is_no_answered_request_is_not_counted(status):
    metrics = counted(Reading(status, WHOLE))
    assert total(metrics, "ragmonitor_extracted_requests_total") == 0


def test_answers_count_by_how_their_context_came_about_for_all_production_traffic():
    empty = replace(WHOLE, retrieved_context=(), context_status=ContextStatus.RETRIEVED_NOTHING, probability=0.5)
    metrics = counted(
        Reading(ReadingStatus.READY, WHOLE),
        Reading(ReadingStatus.READY, empty),
        Reading(ReadingStatus.READY, replace(empty, traffic=Traffic.SYNTHETIC)),
        Reading(ReadingStatus.CONTENT_MISSING, WHOLE),
    )
    found = {one: total(metrics, "ragmonitor_context_weight_total", app="shop", status=one) for one in ContextStatus}
    assert found == {"retrieved": 10, "retrieved_nothing": 2, "no_retrieval": 0, "not_recorded": 0}


def test_tokens_are_those_of_all_traffic_and_latency_is_that_of_the_sample():
    metrics = counted(
        Reading(ReadingStatus.READY, WHOLE), Reading(ReadingStatus.READY, replace(WHOLE, usage=Usage(), seconds=None))
    )
    assert total(metrics, "ragmonitor_service_tokens_total", app="shop", direction="input") == 300
    assert total(metrics, "ragmonitor_service_tokens_total", app="shop", direction="output") == 120
    assert total(metrics, "ragmonitor_service_answer_seconds_count", app="shop") == 1
    assert total(metrics, "ragmonitor_service_answer_seconds_sum", app="shop") == 1.5


def test_a_time_that_no_answer_can_take_is_in_no_sum():
    times = (1.5, None, -5.0, 0.0, 86_400.0, 86_400.1, 2**64 / 1e9)
    metrics = counted(*(Reading(ReadingStatus.READY, replace(WHOLE, seconds=one)) for one in times))
    assert total(metrics, "ragmonitor_service_answer_seconds_count") == 3
    assert total(metrics, "ragmonitor_service_answer_seconds_sum") == 86_401.5
    assert total(metrics, "ragmonitor_extracted_requests_total") == len(times)
