"""OTLP over HTTP, over real sockets. The numbers are those of the conformance statements for OTLP receivers."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import Parse
from google.rpc import code_pb2, error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse as Response

from monitor.errors import ConfigError, InvalidData, Overloaded
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.otlp import limits, wire
from tests.support.otlp import ScriptedIntake, Serving, as_otlp_json, log_request, serving, span_request
from tests.support.runtime import total
from tests.support.tools import PATIENCE, wait_until

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
GZIP = {"content-encoding": "gzip"}
BODY = span_request(2).SerializeToString()
TEXT = json.dumps(as_otlp_json(span_request(2))).encode()

ENCODINGS = pytest.mark.parametrize("kind", [PROTOBUF, JSON], ids=["protobuf", "json"])


@pytest.fixture
def intake() -> ScriptedIntake:
    return ScriptedIntake()


@pytest.fixture
def receiver(intake: ScriptedIntake) -> Iterator[Serving]:
    with serving(OtlpHttp(port=0), intake) as found:
        yield found


def post(
    at: Serving, content: Any = BODY, headers: dict[str, str] = PROTOBUF, path: str = "/v1/traces", method: str = "POST"
) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as client:
        # Without httpx's own headers: what is sent is what the test says.
        request = httpx.Request(method, at.url(path), content=content, headers=headers)
        return client.send(request)


def status_of(answer: httpx.Response) -> status_pb2.Status:
    if answer.headers["content-type"] == "application/x-protobuf":
        return status_pb2.Status.FromString(answer.content)
    assert answer.headers["content-type"] == "application/json"
    return Parse(answer.content, status_pb2.Status())


def exchange(at: Serving, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send raw bytes, and all that comes back until the server closes or says nothing for a second."""
    with socket.create_connection(("127.0.0.1", at.port), timeout=60) as sock:
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(pause)
        sock.settimeout(1)
        found = b""
        try:
            while data := sock.recv(65536):
                found += data
        except TimeoutError:
            pass
        return found


def head(*lines: str, length: int | None = len(BODY)) -> bytes:
    extra = [f"content-length: {length}"] if length is not None else []
    return "\r\n".join(
        ["POST /v1/traces HTTP/1.1", "host: x", "content-type: application/x-protobuf", *extra, *lines, "", ""]
    ).encode()


def test_2_18_spans_are_posted_to_a_path_that_is_configurable(receiver: Serving, intake: ScriptedIntake) -> None:
    assert post(receiver).status_code == 200
    with serving(OtlpHttp(port=0, traces_path="/otlp/t", logs_path="/otlp/l"), intake) as moved:
        assert post(moved, path="/otlp/t").status_code == 200
        assert post(moved, path="/otlp/l").status_code == 200
        assert post(moved).status_code == 404
    assert [(batch.source, batch.signal) for batch in intake.batches] == [
        ("otlp_http", "traces"),
        ("otlp_http", "traces"),
        ("otlp_http", "logs"),
    ]


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@ENCODINGS
def test_3_19_both_encodings_are_taken_on_one_port_plain_and_gzip(
    receiver: Serving, intake: ScriptedIntake, kind: dict[str, str], *, zipped: bool
) -> None:
    content = BODY if kind is PROTOBUF else TEXT
    answer = post(receiver, gzip.compress(content) if zipped else content, {**kind, **(GZIP if zipped else {})})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind["content-type"])
    assert wire.join(intake.batches[0].groups) == BODY


def test_logs_are_taken_in_both_encodings(receiver: Serving, intake: ScriptedIntake) -> None:
    request = log_request(2)
    assert post(receiver, request.SerializeToString(), path="/v1/logs").status_code == 200
    assert post(receiver, json.dumps(as_otlp_json(request)).encode(), JSON, path="/v1/logs").status_code == 200
    assert [batch.signal for batch in intake.batches] == ["logs", "logs"]
    assert len(intake.items) == 4


def test_4_21_full_success_is_200_with_the_encoded_response(receiver: Serving) -> None:
    answer = post(receiver)
    assert (answer.status_code, answer.content) == (200, b"")
    assert not Response.FromString(answer.content).HasField("partial_success")
    assert post(receiver, TEXT, JSON).content == b"{}"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", PROTOBUF),
        (b"{}", JSON),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[]}]},{}]}', JSON),
        (b"\n\0", PROTOBUF),
    ],
)
def test_5_an_empty_request_is_a_success(receiver: Serving, content: bytes, kind: dict[str, str]) -> None:
    assert post(receiver, content, kind).status_code == 200


@ENCODINGS
def test_6_22_partial_success_is_200_and_says_how_many_and_why(kind: dict[str, str]) -> None:
    with serving(OtlpHttp(port=0), ScriptedIntake(Accepted(1, "a span id of 3 bytes"))) as receiver:
        answer = post(receiver, BODY if kind is PROTOBUF else TEXT, kind)
    made = Response.FromString(answer.content) if kind is PROTOBUF else Parse(answer.content, Response())
    assert answer.status_code == 200
    assert (made.partial_success.rejected_spans, made.partial_success.error_message) == (1, "a span id of 3 bytes")


@ENCODINGS
def test_7_a_warning_rejects_nothing_and_says_something(kind: dict[str, str]) -> None:
    with serving(OtlpHttp(port=0), ScriptedIntake(Accepted(0, "a warning"))) as receiver:
        answer = post(receiver, BODY if kind is PROTOBUF else TEXT, kind)
    made = Response.FromString(answer.content) if kind is PROTOBUF else Parse(answer.content, Response())
    assert (made.partial_success.rejected_spans, made.partial_success.error_message) == (0, "a warning")


def test_17_metrics_are_unimplemented_and_never_accepted(receiver: Serving, intake: ScriptedIntake) -> None:
    answer = post(receiver, path="/v1/metrics")
    assert (answer.status_code, status_of(answer).code) == (501, code_pb2.UNIMPLEMENTED)
    assert intake.calls == 0


def test_20_parameters_of_the_content_type_are_ignored(receiver: Serving) -> None:
    assert post(receiver, TEXT, {"content-type": "Application/JSON; charset=utf-8"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("POST", "/v1/traces", {"content-type": "text/plain"}, 415),
        ("POST", "/v1/traces", {}, 415),
        ("GET", "/v1/traces", PROTOBUF, 405),
        ("OPTIONS", "/v1/traces", PROTOBUF, 405),
        ("POST", "/v1/trace", PROTOBUF, 404),
        ("POST", "/v1/traces/", JSON, 404),
        ("GET", "/", {}, 404),
    ],
)
def test_20_23_other_types_methods_and_paths_are_refused_with_a_status(
    receiver: Serving, method: str, path: str, headers: dict[str, str], expected: int
) -> None:
    answer = post(receiver, BODY, headers, path, method)
    assert answer.status_code == expected
    assert status_of(answer).message
    assert answer.headers.get("allow") == ("POST" if expected == 405 else None)


@ENCODINGS
@pytest.mark.parametrize(
    ("script", "content", "expected"),
    [
        (Accepted(), b"\xff\xff", (400, code_pb2.INVALID_ARGUMENT)),
        (InvalidData("nothing of it"), None, (400, code_pb2.INVALID_ARGUMENT)),
        (Overloaded("the spool is full"), None, (503, code_pb2.UNAVAILABLE)),
        (RuntimeError("a secret prompt"), None, (503, code_pb2.UNAVAILABLE)),
    ],
    ids=["undecodable", "invalid", "overloaded", "fault"],
)
def test_8_23_24_27_every_refusal_is_a_status_in_the_requests_encoding(
    script: Any, content: bytes | None, expected: tuple[int, int], kind: dict[str, str]
) -> None:
    with serving(OtlpHttp(port=0), ScriptedIntake(always=script)) as receiver:
        answer = post(receiver, content or (BODY if kind is PROTOBUF else TEXT), kind)
    status = status_of(answer)
    assert answer.headers["content-type"] == kind["content-type"]
    assert (answer.status_code, status.code) == expected
    assert status.message
    assert "secret" not in status.message
    detail = error_details_pb2.BadRequest() if answer.status_code == 400 else error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(detail)


@pytest.mark.parametrize("zipped", [False, True])
def test_25_a_body_over_the_limit_is_413_before_or_after_decompression(intake: ScriptedIntake, *, zipped: bool) -> None:
    def sent(size: int) -> int:
        content = span_request(1, name="x" * size).SerializeToString()
        return post(
            receiver, gzip.compress(content) if zipped else content, {**PROTOBUF, **(GZIP if zipped else {})}
        ).status_code

    with serving(OtlpHttp(port=0, max_body_bytes="10kB"), intake) as receiver:
        assert sent(9_900) == 200
        assert sent(10_000) == 413
        assert sent(3_000_000) == 413
        assert post(receiver, iter([b"x" * 4_000] * 10)).status_code == 413  # chunked: no length to go by
    assert intake.calls == 1


def test_26_overload_is_503_with_retry_after_of_one_or_two_seconds() -> None:
    with serving(OtlpHttp(port=0), ScriptedIntake(always=Overloaded("the spool is full"))) as receiver:
        answers = [post(receiver) for _ in range(20)]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["retry-after"] for answer in answers} <= {"1", "2"}
    # One line of the log for all of them.
    assert total(receiver.runtime.metrics, "ragmonitor_events_total", event="request_refused") == 1
    assert total(receiver.runtime.metrics, "ragmonitor_receiver_requests_total", source="otlp_http", code="503") == 20


@pytest.mark.parametrize(
    ("content", "encoding", "expected"),
    [
        (BODY, "br", 415),
        (zlib.compress(BODY), "deflate", 415),
        (gzip.compress(BODY)[:-3], "gzip", 400),
        (b"", "gzip", 400),
        (BODY, "gzip", 400),
        (gzip.compress(BODY)[:-5] + b"wrong", "gzip", 400),
        (gzip.compress(BODY[:20]) + gzip.compress(BODY[20:]), "gzip", 200),
        (gzip.compress(BODY), "GZIP", 200),
        (BODY, "identity", 200),
    ],
)
def test_28_gzip_of_any_number_of_members_is_decoded_and_nothing_else(
    receiver: Serving, intake: ScriptedIntake, content: bytes, encoding: str, expected: int
) -> None:
    answer = post(receiver, content, {**PROTOBUF, "content-encoding": encoding})
    assert answer.status_code == expected
    assert len(intake.items) == (2 if expected == 200 else 0)


def test_29_chunked_bodies_and_kept_connections_work(receiver: Serving, intake: ScriptedIntake) -> None:
    chunked = head("transfer-encoding: chunked", length=None)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(BODY[at : at + 7]), BODY[at : at + 7]) for at in range(0, len(BODY), 7))
    pieces = [chunked, chunks, b"0\r\n\r\n", head() + BODY, head(length=1), b"x", head() + BODY]
    assert re.findall(rb"HTTP/1.1 (\d+)", exchange(receiver, *pieces)) == [b"200", b"200", b"400", b"200"]
    assert len(intake.batches) == 3


def test_29_expect_100_continue_is_answered_before_the_body(receiver: Serving) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as sock:
        sock.sendall(head("expect: 100-continue"))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(BODY)
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
    # One that is refused anyway is spared the body.
    refused = exchange(receiver, head("expect: 100-continue", length=10**9))
    assert refused.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in refused


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
def test_29_an_offer_to_go_on_in_another_protocol_is_not_taken_and_costs_nothing(
    receiver: Serving, intake: ScriptedIntake, offer: str
) -> None:
    # Each request of Java's HTTP client over plain HTTP has it, unless it is told to speak HTTP/1.1.
    offering = head("connection: Upgrade, HTTP2-Settings", f"upgrade: {offer}", "http2-settings: AAEAAEAAAAIAAAAB")
    pieces = [offering + BODY, offering, BODY[:9], BODY[9:] + offering + BODY + head() + BODY]
    assert re.findall(rb"HTTP/1.1 (\d+)", exchange(receiver, *pieces, pause=0.05)) == [b"200"] * 4
    assert len(intake.items) == 4 * 2
    closing = head("connection: close, upgrade", f"upgrade: {offer}")
    assert b"connection: close" in exchange(receiver, closing + BODY)


def test_29_a_sender_whose_large_body_is_refused_comes_to_read_why() -> None:
    with serving(OtlpHttp(port=0, max_body_bytes="1MB", auth={"token": "t"})) as receiver:
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=60)
        for _ in range(2):  # on one connection
            connection.request("POST", "/v1/traces", bytes(900_000), PROTOBUF)
            answer = connection.getresponse()
            assert answer.status == 401
            answer.read()
        connection.close()


def test_30_a_slow_head_a_slow_body_and_an_idle_connection_are_cut() -> None:
    source = OtlpHttp(port=0, head_timeout=0.3, body_timeout=0.3, idle_timeout=0.3)
    with serving(source) as receiver:
        for pieces in ([], [b"POST /v1/tra"], [head()[:-4]], [head() + BODY[:5]], [head() + BODY, b"POST /"]):
            with socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as sock:
                for piece in pieces:
                    sock.sendall(piece)
                    time.sleep(0.05)
                begun = time.monotonic()
                try:
                    while sock.recv(1000):
                        pass
                except ConnectionResetError:
                    pass
                assert time.monotonic() - begun < 3 * PATIENCE  # by default a minute

        def answered_and_cut() -> bool:
            with socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as sock:
                sock.sendall(head() + BODY)
                return sock.recv(1000).startswith(b"HTTP/1.1 200") and sock.recv(1000) == b""

        wait_until(answered_and_cut, 20, "a request that is sent before its time is over")


def test_30_a_sender_that_never_reads_its_answers_is_cut() -> None:
    with serving(OtlpHttp(port=0, write_timeout=0.3)) as receiver:
        sock = socket.create_connection(("127.0.0.1", receiver.port), timeout=0.5)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = head(length=3) + b"\xff\xff\xff"
        deadline = time.monotonic() + 30 * PATIENCE
        cut = False
        while not cut and time.monotonic() < deadline:
            try:
                sock.sendall(request * 500)
            except TimeoutError:
                time.sleep(0.1)
            except (ConnectionResetError, BrokenPipeError):
                cut = True
        sock.close()
        assert cut


def test_30_an_endless_head_is_cut(receiver: Serving) -> None:
    try:
        answer = exchange(receiver, b"POST / HTTP/1.1\r\n", *[b"x: " + b"y" * 8000 + b"\r\n"] * 20, pause=0.01)
    except OSError:
        answer = b""
    assert not answer.startswith(b"HTTP/1.1 2")
    assert post(receiver).status_code == 200


def test_what_is_not_http_is_refused_and_cannot_fill_the_log(
    receiver: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        assert exchange(receiver, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert [one.getMessage() for one in caplog.records] == ["a request is not HTTP/1.1: is it TLS, or gRPC?"]


@pytest.mark.parametrize("last", [b"nonsense\r\n\r\n", b""], ids=["refused", "gone"])
def test_requests_that_nobody_waits_for_any_more_are_no_error(last: bytes, caplog: pytest.LogCaptureFixture) -> None:
    gone = threading.Event()

    async def held(_batch: Any) -> Accepted:
        while not gone.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return Accepted()

    intake = ScriptedIntake(held)
    with serving(OtlpHttp(port=0), intake, uvloop=True) as receiver:
        with socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as sock:
            sock.sendall((head() + BODY) * 2)
            wait_until(lambda: intake.calls == 1)
            if last:
                sock.sendall(last)
                assert sock.recv(1000).startswith(b"HTTP/1.1 400 ")
        gone.set()
        wait_until(lambda: intake.batches)
        time.sleep(0.2)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


def test_14_31_without_the_right_token_everything_is_401_and_nothing_is_stored(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("right\n")
    intake = ScriptedIntake()
    with serving(OtlpHttp(port=0, auth={"token_file": tmp_path / "tokens"}), intake) as receiver:
        for authorization in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic cmlnaHQ="}):
            for path in ("/v1/traces", "/v1/logs"):
                answer = post(receiver, headers={**PROTOBUF, **authorization}, path=path)
                assert (answer.status_code, status_of(answer).code) == (401, code_pb2.UNAUTHENTICATED)
                assert answer.headers["www-authenticate"].startswith("Bearer")
        assert intake.calls == 0
        assert post(receiver, headers={**PROTOBUF, "authorization": "Bearer right"}).status_code == 200


def test_32_pages_may_send_only_from_listed_origins_and_never_with_credentials(receiver: Serving) -> None:
    ask = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
    assert post(receiver, b"", ask, method="OPTIONS").status_code == 405
    with serving(OtlpHttp(port=0, cors_origins=["https://app.example.com"])) as listed:
        answer = post(listed, b"", ask, method="OPTIONS")
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, ask["origin"])
        assert "content-type" in answer.headers["access-control-allow-headers"]
        sent = post(listed, headers={**PROTOBUF, "origin": ask["origin"]})
        assert sent.headers["access-control-allow-origin"] == ask["origin"]
        other = post(listed, b"", {**ask, "origin": "https://evil.example.com"}, method="OPTIONS")
        assert other.status_code == 405
    with serving(OtlpHttp(port=0, cors_origins=["*"])) as every:
        wild = post(every, headers={**PROTOBUF, "origin": "https://any.example.com"})
        assert wild.headers["access-control-allow-origin"] == "*"
    for one in (answer, sent, other, wild):
        assert "access-control-allow-credentials" not in one.headers
    assert "access-control-allow-origin" not in other.headers


def test_34_an_id_of_wrong_length_reaches_intake_as_an_invalid_span(receiver: Serving, intake: ScriptedIntake) -> None:
    data = as_otlp_json(span_request(3))
    data["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = "abc"
    assert post(receiver, json.dumps(data).encode(), JSON).status_code == 200
    assert [bool(wire.trace_id_of(item)) for item in intake.items] == [True, False, True]


@pytest.mark.parametrize(
    "bad",
    [
        b"[" * 200_000,
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":"\\ud80"}',
        b'{"resourceSpans":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
    ids=lambda bad: repr(bad[:20]),
)
def test_40_absurd_json_is_400_and_the_receiver_lives(receiver: Serving, bad: bytes) -> None:
    assert post(receiver, bad, JSON).status_code == 400
    assert post(receiver).status_code == 200


def test_a_large_json_body_is_taken(receiver: Serving, intake: ScriptedIntake) -> None:
    request = span_request(500, name="x" * 1000)
    assert post(receiver, json.dumps(as_otlp_json(request)).encode(), JSON).status_code == 200
    assert wire.join(intake.batches[0].groups) == request.SerializeToString()


def test_41_a_repeated_request_is_a_success_and_handed_on_the_same(receiver: Serving, intake: ScriptedIntake) -> None:
    assert [post(receiver).status_code for _ in range(2)] == [200, 200]
    assert intake.batches[0] == intake.batches[1]


def test_42_ok_is_said_only_after_intake_has_made_the_data_safe() -> None:
    safe = threading.Event()

    async def slowly(_batch: object) -> Accepted:
        await asyncio.to_thread(safe.wait, 10)
        return Accepted()

    with (
        serving(OtlpHttp(port=0), ScriptedIntake(slowly)) as receiver,
        socket.create_connection(("127.0.0.1", receiver.port)) as sock,
    ):
        sock.sendall(head() + BODY)
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(100)
        safe.set()
        sock.settimeout(5)
        assert sock.recv(100).startswith(b"HTTP/1.1 200")


def test_requests_beyond_the_limits_in_work_are_asked_to_come_again() -> None:
    release = threading.Event()

    async def slowly(_batch: object) -> Accepted:
        await asyncio.to_thread(release.wait, 60)
        return Accepted()

    large = span_request(1, name="x" * 900).SerializeToString()
    for limit in ({"max_concurrent_requests": 1}, {"max_body_bytes": 1000, "max_in_flight_bytes": 1000}):
        release.clear()
        with (
            serving(OtlpHttp(port=0, **limit), ScriptedIntake(always=slowly)) as receiver,
            socket.create_connection(("127.0.0.1", receiver.port)) as first,
        ):
            first.sendall(head(length=len(large)) + large)
            wait_until(lambda at=receiver: at.intake.calls == 1)
            answer = post(receiver, large)
            assert (answer.status_code, answer.headers["retry-after"] in "12") == (503, True)
            release.set()
            assert first.recv(100).startswith(b"HTTP/1.1 200")
            assert post(receiver, large).status_code == 200


def test_while_there_is_no_room_a_request_is_refused_before_its_body_is_read(intake: ScriptedIntake) -> None:
    with serving(OtlpHttp(port=0), intake) as receiver:
        receiver.runtime.health.refusing = lambda: "memory: 9 of 10 bytes are in use"
        with socket.create_connection(("127.0.0.1", receiver.port)) as sock:
            sock.settimeout(30 * PATIENCE)
            # The sender asks first, as the protocol allows it, and sends nothing of the body.
            sock.sendall(head("expect: 100-continue", length=10_000_000))
            answer = sock.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: " in answer.lower()
        assert post(receiver, BODY).status_code == 503
        assert intake.calls == 0
        receiver.runtime.health.refusing = str
        assert post(receiver, BODY).status_code == 200


def test_what_would_inflate_to_more_than_is_left_is_not_inflated(intake: ScriptedIntake) -> None:
    small = {"max_body_bytes": "1MB", "max_in_flight_bytes": "1MB"}
    with serving(OtlpHttp(port=0, **small), intake) as receiver:
        bomb = gzip.compress(bytes(50_000_000))
        answer = post(receiver, bomb, {**PROTOBUF, "content-encoding": "gzip"})
        assert (answer.status_code, "exceeds 1000000 bytes" in status_of(answer).message) == (413, True)
        assert intake.calls == 0


def test_a_stream_whose_end_claims_little_is_inflated_in_a_thread(
    intake: ScriptedIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    inflated: list[tuple[bool, int]] = []

    def watched(body: bytes, limit: int) -> bytes:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            inflated.append((True, limit))
            return inflate(body, limit)
        inflated.append((False, limit))
        return inflate(body, limit)

    inflate = limits.inflate
    monkeypatch.setattr(limits, "inflate", watched)
    with serving(OtlpHttp(port=0, max_body_bytes="4MB"), intake) as receiver:
        headers = {**PROTOBUF, "content-encoding": "gzip"}
        bomb = gzip.compress(bytes(50_000_000)) + gzip.compress(b"!")
        assert post(receiver, bomb, headers).status_code == 413
        assert [(on_loop, limit <= 256 * 1024) for on_loop, limit in inflated] == [(True, True), (False, False)]
        inflated.clear()
        assert post(receiver, gzip.compress(BODY[:5]) + gzip.compress(BODY[5:]), headers).status_code == 200
        assert [on_loop for on_loop, _ in inflated] == [True]


def test_oversized_spans_are_rejected_and_counted_and_the_rest_is_kept(intake: ScriptedIntake) -> None:
    mixed = Traces.FromString(BODY)
    mixed.resource_spans[0].scope_spans[0].spans.add(name="x" * 3000)
    with serving(OtlpHttp(port=0, max_span_bytes="2kB"), intake) as receiver:
        answer = Response.FromString(post(receiver, mixed.SerializeToString()).content)
        assert answer.partial_success.rejected_spans == 1
        assert "larger than 2000 bytes" in answer.partial_success.error_message
        alone = post(receiver, span_request(1, name="x" * 3000).SerializeToString())
        assert (alone.status_code, "all" in status_of(alone).message) == (400, True)
    assert len(intake.items) == 2
    refused = [group for batch in intake.batches for group in batch.refused]
    assert [(len(group.items), group.why) for group in refused] == [(1, "larger than max_span_bytes")] * 2
    assert total(receiver.runtime.metrics, "ragmonitor_spans_total", outcome="too_large") == 2


def test_a_port_in_use_and_a_foreign_address_are_configuration_errors(receiver: Serving) -> None:
    for source in (OtlpHttp(port=receiver.port), OtlpHttp(port=0, host="192.0.2.1", insecure=True)):
        with pytest.raises(ConfigError, match="cannot listen on"), serving(source):
            pass
    with pytest.raises(ConfigError, match="not an address"), serving(OtlpHttp(host="no.invalid", insecure=True)):
        pass


def test_when_stopped_a_request_in_work_is_finished_and_one_too_slow_is_asked_to_come_again() -> None:
    for seconds, expected in ((0.3, b"HTTP/1.1 200"), (30.0, b"HTTP/1.1 503")):

        async def slowly(_batch: object, seconds: float = seconds) -> Accepted:
            await asyncio.sleep(seconds)
            return Accepted()

        with socket.socket() as sock:
            sock.settimeout(60)
            with serving(OtlpHttp(port=0), ScriptedIntake(slowly)) as receiver:
                sock.connect(("127.0.0.1", receiver.port))
                sock.sendall(head() + BODY)
                wait_until(lambda at=receiver: at.intake.calls)
                begun = time.monotonic()
            assert time.monotonic() - begun < 4 * PATIENCE  # less than the slow one takes
            assert sock.recv(1000).startswith(expected)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", receiver.port))


def test_all_codes_are_counted_from_zero(receiver: Serving) -> None:
    metrics = receiver.runtime.metrics
    assert total(metrics, "ragmonitor_receiver_requests_total") == 0
    post(receiver)
    post(receiver, b"\xff")
    for code in ("200", "400"):
        assert total(metrics, "ragmonitor_receiver_requests_total", source="otlp_http", code=code) == 1
    assert total(metrics, "ragmonitor_receiver_bytes_total", source="otlp_http") == len(BODY) + 1
