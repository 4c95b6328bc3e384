from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.pipeline.ledger import Ledger, RequestOutcome, TraceOutcome
from tests.support.runtime import runtime, total

moves = st.lists(
    st.tuples(st.sampled_from(["received", "ended", "passed"]), st.sampled_from("ab"), st.sampled_from(TraceOutcome))
)


@given(moves)
def test_received_is_the_sum_of_all_fates_and_pending(sequence):
    metrics = runtime().metrics
    ledger = Ledger(metrics)
    waiting = {"a": 0, "b": 0}
    for move, app, outcome in sequence:
        if move == "received":
            ledger.received(app, "otlp_http")
            waiting[app] += 1
        elif move == "passed":
            ledger.passed(app, "otlp_http", outcome)
        elif waiting[app]:
            ledger.ended(app, "otlp_http", outcome)
            waiting[app] -= 1
        for each in "ab":
            received = total(metrics, "ragmonitor_traces_received_total", app=each)
            ended = total(metrics, "ragmonitor_traces_total", app=each)
            assert received == ended + total(metrics, "ragmonitor_traces_pending", app=each)
    assert ledger.pending == sum(waiting.values())


requests = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(RequestOutcome)))


@given(requests)
def test_requests_found_are_the_sum_of_their_outcomes_and_pending(sequence):
    metrics = runtime().metrics
    ledger, waiting = Ledger(metrics), 0
    for found, left_out, outcome in sequence:
        ledger.found("a", "otlp_http", found, left_out)
        waiting += found
        if waiting:
            ledger.request_ended("a", "otlp_http", outcome)
            waiting -= 1
        ended = total(metrics, "ragmonitor_requests_total", app="a")
        assert total(metrics, "ragmonitor_requests_pending", app="a") == waiting
        assert total(metrics, "ragmonitor_requests_found_total", app="a") == ended + waiting


def test_an_app_begins_with_what_usually_becomes_of_its_traces_at_zero_and_others_come_as_they_happen():
    metrics = runtime().metrics
    ledger = Ledger(metrics)
    ledger.received("shop", "otlp_grpc")
    labels = {"app": "shop", "source": "otlp_grpc"}

    def value(family: str, outcome: str) -> float | None:
        return metrics.registry.get_sample_value(f"ragmonitor_{family}_total", {**labels, "outcome": outcome})

    assert (value("traces", "read"), value("requests", "evaluated")) == (0, 0)
    assert (value("traces", "poison"), value("requests", "failed_request")) == (0, 0), "an increase may be asked for"
    assert value("traces", "own_telemetry") is None
    for outcome in TraceOutcome:
        ledger.received("shop", "otlp_grpc")
        ledger.ended("shop", "otlp_grpc", outcome)
        assert value("traces", outcome.value) == 1
    for kind in RequestOutcome:
        ledger.found("shop", "otlp_grpc", 1)
        ledger.request_ended("shop", "otlp_grpc", kind)
        assert value("requests", kind.value) == 1


def test_a_trace_without_a_service_name_is_counted_under_unknown():
    metrics = runtime().metrics
    Ledger(metrics).received("", "otlp_grpc")
    assert total(metrics, "ragmonitor_traces_received_total", app="unknown") == 1


class Told:
    def __init__(self):
        self.traces = []

    def on_received(self, app, traces):
        self.traces.append((app, traces))


def test_alerts_hear_of_each_trace_that_comes_in_and_of_none_that_ends():
    told = Told()
    ledger = Ledger(runtime().metrics, alerts=told)
    ledger.received("shop", "otlp_grpc")
    ledger.passed("", "otlp_grpc", TraceOutcome.SAMPLED_OUT, traces=7)
    ledger.ended("shop", "otlp_grpc", TraceOutcome.READ)
    assert told.traces == [("shop", 1), ("unknown", 7)]
