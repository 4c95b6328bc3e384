from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from monitor.errors import InvalidData, Overloaded, TooLarge, Unauthenticated
from monitor.model.span import Signal
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.otlp.limits import Lease
from monitor.transport.otlp.receiver import MAX_MESSAGE_BYTES, Reception, Refusal, refusal_of, shortened, success
from tests.support.otlp import ScriptedIntake
from tests.support.runtime import runtime
from tests.support.virtual_time import LoopClock, VirtualTimeLoop

RNG = random.Random(1)


@pytest.mark.parametrize(
    ("error", "http", "code", "again"),
    [
        (Overloaded("full"), 503, "UNAVAILABLE", True),
        (InvalidData("bad"), 400, "INVALID_ARGUMENT", False),
        (TooLarge("big"), 413, "RESOURCE_EXHAUSTED", False),
        (RuntimeError("a prompt"), 503, "UNAVAILABLE", True),
        (OSError("No space left"), 503, "UNAVAILABLE", True),
    ],
)
def test_13_27_only_what_cannot_pass_later_is_refused_for_good(
    error: Exception, http: int, code: str, *, again: bool
) -> None:
    refusal = refusal_of(error, RNG)
    assert (refusal.http, refusal.code, refusal.retry_delay is not None) == (http, code, again)
    assert "prompt" not in refusal.message


@pytest.mark.parametrize("asked", [0, 1.0, 1.5, 2.0, 30.0])
def test_11_26_the_retry_delay_is_one_to_two_seconds_and_jittered(asked: float) -> None:
    refusals = [refusal_of(Overloaded("full", asked), RNG) for _ in range(200)]
    delays = {refusal.retry_delay or 0 for refusal in refusals}
    assert min(delays) >= min(max(asked, 1), 2)
    assert max(delays) <= 2
    assert len(delays) > 100 or asked >= 2
    assert {dict(refusal.http_headers())[b"retry-after"] for refusal in refusals} <= {b"1", b"2"}


@pytest.mark.parametrize("error", [Overloaded("full"), InvalidData("bad"), TooLarge("big")])
def test_23_24_both_encodings_of_a_refusal_say_the_same(error: Exception) -> None:
    refusal = refusal_of(error, RNG)
    binary = status_pb2.Status.FromString(refusal.body("protobuf"))
    text = Parse(refusal.body("json"), status_pb2.Status())
    assert (binary.code, binary.message) == (text.code, text.message)
    assert [detail.type_url for detail in binary.details] == [detail.type_url for detail in text.details]
    assert bool(binary.details) == (not isinstance(error, TooLarge))


def test_11_the_delay_stands_in_both_places_of_the_trailers() -> None:
    trailers = dict(Refusal(503, "UNAVAILABLE", "full", retry_delay=1.25).trailers())
    plain = error_details_pb2.RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
    packed = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(packed)
    assert plain.retry_delay.ToMilliseconds() == packed.retry_delay.ToMilliseconds() == 1250


def test_9_12_a_refusal_for_size_says_nothing_of_a_retry() -> None:
    assert "google.rpc.retryinfo-bin" not in dict(refusal_of(TooLarge("big"), RNG).trailers())


@pytest.mark.parametrize(
    ("signal", "response"), [("traces", ExportTraceServiceResponse), ("logs", ExportLogsServiceResponse)]
)
@pytest.mark.parametrize("accepted", [Accepted(), Accepted(3, "bad ids"), Accepted(0, "a warning"), Accepted(2)])
def test_4_6_7_partial_success_stands_only_where_there_is_something_to_say(
    signal: Signal, response: type, accepted: Accepted
) -> None:
    binary = response.FromString(success(signal, accepted, "protobuf"))
    assert Parse(success(signal, accepted, "json"), response()) == binary
    assert binary.HasField("partial_success") == (accepted != Accepted())
    partial = binary.partial_success
    rejected = partial.rejected_spans if signal == "traces" else partial.rejected_log_records
    assert rejected == accepted.rejected
    assert bool(partial.error_message) == (accepted != Accepted())


def test_21_full_success_is_an_empty_response_in_either_encoding() -> None:
    assert (success("traces", Accepted(), "protobuf"), success("traces", Accepted(), "json")) == (b"", b"{}")


@pytest.mark.parametrize("text", ["x" * 5000, "\N{EURO SIGN}" * 5000, "\ud800" * 2000])
def test_16_messages_are_cut_to_a_kibibyte_between_characters(text: str) -> None:
    short = shortened(text)
    assert 1000 < len(short.encode()) <= MAX_MESSAGE_BYTES
    assert short.endswith("...")
    assert len(success("logs", Accepted(1, text), "protobuf")) < 1100
    assert len(json.loads(Refusal(400, "INVALID_ARGUMENT", text).body("json"))["message"].encode()) <= MAX_MESSAGE_BYTES
    assert shortened("short") == "short"


def reception() -> Reception:
    return Reception("otlp_http", OtlpHttp(), ScriptedIntake(), runtime(LoopClock()), ("200",))


def lease_of(at: Reception, size: int) -> Lease:
    lease = at.in_flight.lease()
    lease.expect(size)
    return lease


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Run it; return the seconds that it took."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())
        return runner.get_loop().time()


@pytest.mark.parametrize("error", [TooLarge("big"), InvalidData("bad"), Overloaded("full")])
def test_large_requests_that_are_refused_one_after_the_other_are_answered_ten_times_a_second(error: Exception) -> None:
    async def refuse() -> None:
        at, refusal = reception(), refusal_of(error, RNG)
        for _ in range(10):
            await at.pace(refusal, lease_of(at, 5_000_000))
        assert asyncio.get_running_loop().time() == 0, "the first ones are answered at once"
        for _ in range(50):
            await at.pace(refusal, lease_of(at, 5_000_000))

    assert in_virtual_time(refuse) == pytest.approx(5.0)


def test_however_many_large_requests_are_refused_none_is_answered_later_than_after_two_seconds() -> None:
    async def refuse() -> None:
        at, refusal = reception(), refusal_of(TooLarge("big"), RNG)
        await asyncio.gather(*(at.pace(refusal, lease_of(at, 0)) for _ in range(500)))
        assert asyncio.get_running_loop().time() == pytest.approx(2.0)
        await asyncio.sleep(10.0)
        await at.pace(refusal, lease_of(at, 0))  # what was long ago delays nothing

    assert in_virtual_time(refuse) == pytest.approx(12.0)


@pytest.mark.parametrize("error", [InvalidData("bad"), Overloaded("full"), Unauthenticated("who?", "Bearer")])
def test_small_requests_are_refused_at_once_however_many_there_are(error: Exception) -> None:
    async def refuse() -> None:
        at, refusal = reception(), refusal_of(error, RNG)
        for _ in range(500):
            await at.pace(refusal, lease_of(at, 100_000))

    assert in_virtual_time(refuse) == 0
