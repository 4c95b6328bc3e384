"""Requests made to exhaust a receiver: refused, within bounded memory, while others are served (bars S5 to S8)."""

from __future__ import annotations

import gc
import gzip
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from monitor.sources.otlp_grpc import OtlpGrpc
from tests.support.otlp import ReceiverProcess, as_otlp_json, length_delimited, serving, span_request

MIB = 1024**2
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
GOOD = span_request(64, name="x" * 2000).SerializeToString()
PROTOBUF = {"content-type": "application/x-protobuf"}
GZIP = {**PROTOBUF, "content-encoding": "gzip"}


@pytest.fixture(scope="module")
def http() -> Iterator[ReceiverProcess]:
    with ReceiverProcess("otlp_http") as process:
        for _ in range(5):  # warm
            assert post(process, gzip.compress(GOOD)) == 200
            assert post(process, json.dumps(as_otlp_json(span_request(50))).encode(), kind="application/json") == 200
        yield process


@pytest.fixture(scope="module")
def grpc_() -> Iterator[ReceiverProcess]:
    with ReceiverProcess("otlp_grpc") as process:
        assert export(process, GOOD) == "OK"
        yield process


def post(at: ReceiverProcess, body: bytes, kind: str = "") -> int:
    headers = {"content-type": kind} if kind else GZIP
    return httpx.post(at.url(), content=body, headers=headers, trust_env=False, timeout=60).status_code


def export(at: ReceiverProcess, body: bytes) -> str:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(at.address, options, grpc.Compression.Gzip) as channel:
        try:
            channel.unary_unary(EXPORT)(body, timeout=120)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def test_s5_a_gzip_bomb_is_413_and_memory_stays(http: ReceiverProcess) -> None:
    bomb = gzip.compress(bytes(200 * MIB))
    with http.growth() as growth, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: post(http, bomb), range(8))) == {413}
    assert max(growth()) < 32 * MIB


def test_s5_a_gzip_bomb_over_grpc_is_exhausted_and_memory_stays(grpc_: ReceiverProcess) -> None:
    bomb = bytes(60 * MIB)
    with grpc_.growth() as growth, ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: export(grpc_, bomb), range(4))) == {"RESOURCE_EXHAUSTED"}
    assert growth()[1] < 32 * MIB


BOMBS = {
    "spans": length_delimited(1, length_delimited(2, b"\x12\x00" * 2_000_000)),
    "scopes": length_delimited(1, b"\x12\x00" * 2_000_000),
    "resources": b"\x0a\x00" * 2_000_000,
    "spans in many requests' size": length_delimited(1, length_delimited(2, b"\x12\x00" * 500_000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_s6_a_bomb_of_empty_spans_is_refused_before_it_is_decoded(http: ReceiverProcess, name: str) -> None:
    small = gzip.compress(BOMBS[name])
    assert len(small) < 8192
    with http.growth() as growth, ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: post(http, small), range(16))) == {413}
    assert max(growth()) < 64 * MIB


def test_s6_a_bomb_of_empty_spans_over_grpc_is_refused_before_it_is_decoded(grpc_: ReceiverProcess) -> None:
    with grpc_.growth() as growth, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: export(grpc_, BOMBS["spans"]), range(16))) == {"RESOURCE_EXHAUSTED"}
    assert max(growth()) < 64 * MIB


def test_refused_grpc_messages_are_let_go_without_the_garbage_collector() -> None:
    def resident() -> int:
        return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) * 1024

    bomb = BOMBS["scopes"]
    options = [("grpc.max_send_message_length", -1)]
    with serving(OtlpGrpc(port=0)) as receiver, grpc.insecure_channel(receiver.address, options) as channel:
        send = channel.unary_unary(EXPORT)
        gc.collect()
        gc.disable()
        try:
            for count in range(15):
                with pytest.raises(grpc.RpcError):
                    send(bomb, timeout=120)
                if count == 4:
                    before = resident()
            assert resident() - before < 5 * len(bomb)  # of the ten sent since
        finally:
            gc.enable()


SPAN = length_delimited(1, bytes(15) + b"\x01") + length_delimited(2, bytes(7) + b"\x01")
HOSTILE_RESOURCES = {
    "millions of empty attributes": b"\x0a\x00" * 9_500_000,
    "a hundred thousand attributes": b"\x0a\x00" * 100_000,
    "megabytes of text": length_delimited(1, length_delimited(1, b"x" * 3_000_000)),
}


@pytest.mark.parametrize("name", HOSTILE_RESOURCES)
@pytest.mark.parametrize("what", ["resource", "scope"])
def test_s6_a_resource_or_scope_without_measure_is_refused_before_it_is_decoded(
    http: ReceiverProcess, name: str, what: str
) -> None:
    hostile = length_delimited(1, HOSTILE_RESOURCES[name])
    span = length_delimited(2, SPAN)
    if what == "resource":
        body = length_delimited(1, hostile + length_delimited(2, span))
    else:
        body = length_delimited(1, length_delimited(2, hostile + span))
    small = gzip.compress(body)
    before = http.cpu_seconds()
    with http.growth() as growth:
        for _ in range(5):
            assert post(http, small) == 400
    assert http.cpu_seconds() - before < 4  # one such request took more than that
    assert max(growth()) < max(
        64 * MIB, 5 * len(body)
    )  # a request in work is in memory three to four times, not thirty


HOSTILE = {
    "a million attributes": SPAN + length_delimited(9, b"") * 1_000_000,
    "ten megabytes of text": SPAN + length_delimited(5, b"x" * 10_000_000),
    "json: nested": b'{"resourceSpans":' + b"[" * 200_000,
    "json: a million attributes": b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[%s{}]}]}]}]}'
    % (b"{}," * 999_999),
    "json: ten million values": b'{"odd":[' + b"0," * 9_999_999 + b"0]}",
    "json: a million spans": b'{"resourceSpans":[{"scopeSpans":[{"spans":[%s{}]}]}]}' % (b"{}," * 400_000),
    "json: a million duplicates": b"{" + b'"a":1,' * 400_000 + b'"a":1}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_s7_absurd_content_is_refused_quickly_and_the_worker_lives(http: ReceiverProcess, name: str) -> None:
    body = HOSTILE[name]
    if name.startswith("json"):
        kind = "application/json"
    else:
        kind, body = PROTOBUF["content-type"], length_delimited(1, length_delimited(2, length_delimited(2, body)))
    before = http.cpu_seconds()
    assert post(http, body, kind) in (400, 413)
    assert http.cpu_seconds() - before < 3
    assert post(http, gzip.compress(GOOD)) == 200


@pytest.mark.lengthy
def test_s8_a_thousand_half_open_connections_do_not_keep_others_out(http: ReceiverProcess) -> None:
    halves = (b"", b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n")
    body = (
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 9999\r\n\r\nx"
    )
    port = int(http.address.rpartition(":")[2])
    sockets = []
    try:
        for index in range(900):
            sockets.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            sockets[-1].sendall((*halves, body)[index % 3])
        for _ in range(20):
            assert post(http, gzip.compress(GOOD)) == 200
    finally:
        for one in sockets:
            one.close()
    assert http.alive
