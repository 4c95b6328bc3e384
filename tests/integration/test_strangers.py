"""What the ports of a running monitor answer to websites, to senders without a token, and to calls that stall."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import threading
from collections.abc import Iterator

import grpc
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.monitor import MonitorProcess
from tests.support.otlp import as_otlp_json, span_request
from tests.support.tools import wait_until

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
JSON = {"Content-Type": "application/json"}
VOTE = json.dumps([{"trace_id": "1" * 32, "score": 0}]).encode()


def ask(
    port: int, path: str, *, method: str = "POST", body: bytes = b"{}", **headers: str
) -> tuple[int, dict[str, str], str]:
    """One request; headers with `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body if method == "POST" else None, {**JSON, **named})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture(scope="module")
def monitor(tmp_path_factory):
    with MonitorProcess(tmp_path_factory.mktemp("monitor")) as running:
        yield running


REBOUND = {"Host": "evil.example", "Origin": "http://evil.example"}


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/cases", "/v1/feedback"])
@pytest.mark.parametrize(
    "headers",
    [
        REBOUND,
        {"Host": "evil.example"},
        {"Host": "localhost", "Origin": "https://evil.example"},
        {"Host": "localhost", "Sec_Fetch_Site": "cross-site"},
        {"Host": "127.0.0.1.nip.io", "Sec_Fetch_Site": "same-origin"},
        {"Host": "localhost", "Origin": "null"},
    ],
)
def test_d12_no_website_can_send_through_the_browser_of_a_visitor(monitor, path, headers):
    status, _, said = ask(monitor.http, path, body=VOTE, **headers)
    assert status == 403
    assert "`hosts`" in said or "`cors_origins`" in said


def test_d12_metrics_and_ui_are_not_served_to_a_name_that_a_website_may_have(monitor):
    for path in ("/metrics", "/", "/api/v1/answers"):
        assert ask(monitor.metrics_port, path, method="GET", **REBOUND)[0] == 421
    assert ask(monitor.metrics_port, "/-/ready", method="GET", **REBOUND)[0] == 200
    for host in ("localhost", "127.0.0.1:9464", "[::1]", "rag-monitor", "rag-monitor.monitoring.svc.cluster.local:80"):
        assert ask(monitor.metrics_port, "/metrics", method="GET", Host=host)[0] == 200, host


@pytest.mark.parametrize("host", ["localhost:4318", "127.0.0.1", "[::1]:4318", "rag-monitor", "otel.shop.svc", ""])
def test_d12_programs_send_under_every_name_that_only_this_network_has(monitor, host):
    body = json.dumps(as_otlp_json(span_request(1))).encode()
    assert ask(monitor.http, "/v1/traces", body=body, Host=host)[0] == 200


def test_d12_the_name_of_a_proxy_and_the_origin_of_a_page_may_be_allowed(tmp_path):
    config = {
        "sources": [{"type": "otlp_http", "hosts": ["otel.example.com"], "cors_origins": ["https://shop.example.com"]}],
        "sinks": [{"type": "prometheus", "hosts": ["metrics.example.com"]}],
    }
    made = MonitorProcess(tmp_path)
    config["sources"][0]["port"], config["sinks"][0]["port"] = made.http, made.metrics_port
    made.config.update(config)
    with made as running:
        page = {"Host": "otel.example.com", "Origin": "https://shop.example.com", "Sec_Fetch_Site": "cross-site"}
        assert ask(running.http, "/v1/traces", **page)[0] == 200
        assert ask(running.http, "/v1/traces", Host="otel.example.com")[0] == 200
        assert ask(running.http, "/v1/traces", **{**page, "Host": "evil.example"})[0] == 403
        assert ask(running.metrics_port, "/metrics", method="GET", Host="metrics.example.com")[0] == 200


def test_d6_hostile_names_of_services_cost_a_bounded_number_of_labels_and_break_no_scrape(monitor):
    ends = ("", '"} 1', "\n# EOF", "\u202e\x00", "\\", "x" * 10_000)
    rows = [
        {
            "request_id": f"r{number}",
            "app": f"app {number}{ends[number % len(ends)]}",
            "question": "What?",
            "answer": "So.",
        }
        for number in range(300)
    ]
    known = monitor.total("ragmonitor_requests_total", outcome="evaluated")
    assert ask(monitor.http, "/v1/cases", body=json.dumps(rows).encode())[0] == 200
    wait_until(
        lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") >= known + 300, 60, "all evaluations"
    )
    text = monitor.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    apps = {one.labels["app"] for one in samples if "app" in one.labels}
    assert "__other__" in apps
    assert len(apps) <= 201
    wait_until(lambda: answered_during_a_scrape(monitor) >= 5, 60, "health checks that wait for no scrape")


def answered_during_a_scrape(monitor: MonitorProcess) -> int:
    """How many health checks, one after the other, are answered between a scrape and the first byte of its answer."""
    health = http.client.HTTPConnection("127.0.0.1", monitor.metrics_port, timeout=60)
    with contextlib.closing(health), socket.create_connection(("127.0.0.1", monitor.metrics_port)) as scrape:
        scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        number = 0
        while True:
            health.request("GET", "/-/healthy")
            assert health.getresponse().read() == b"healthy\n"
            if select.select([scrape], [], [], 0)[0]:
                break
            number += 1
        while scrape.recv(2**20):
            pass
    return number


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """With tokens, and limits of gRPC that a test can reach."""
    made = MonitorProcess(tmp_path_factory.mktemp("guarded"))
    auth = {"token": "right"}
    grpc_limits = {"body_timeout": "1s", "idle_timeout": "1s", "max_connections": 4}
    made.config["sources"] = [
        {"type": "otlp_http", "port": made.http, "auth": auth},
        {"type": "otlp_grpc", "port": made.grpc, "auth": auth, **grpc_limits},
    ]
    with made as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/none"), ("GET", "/v1/traces"), ("POST", "/v1/metrics"), ("PUT", "/v1/cases")]
)
@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer wrong"}])
def test_d19_without_the_token_no_path_is_told(guarded, method, path, shown):
    assert ask(guarded.http, path, method=method, **shown)[0] == 401


def test_d19_with_the_token_under_any_name_paths_are_told(guarded):
    for path, status in (("/none", 404), ("/v1/metrics", 501), ("/v1/traces", 200)):
        assert ask(guarded.http, path, Authorization="Bearer right", Host="evil.example")[0] == status


def call(port: int, path: str, token: str | None) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        metadata = [("authorization", f"Bearer {token}")] if token else None
        try:
            channel.unary_unary(path)(b"", timeout=30, metadata=metadata)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK


def test_d19_grpc_asks_for_the_token_first_as_well(guarded):
    assert call(guarded.grpc, "/none/None", None) is grpc.StatusCode.UNAUTHENTICATED
    assert call(guarded.grpc, "/none/None", "wrong") is grpc.StatusCode.UNAUTHENTICATED
    assert call(guarded.grpc, "/none/None", "right") is grpc.StatusCode.UNIMPLEMENTED
    assert call(guarded.grpc, EXPORT, "right") is grpc.StatusCode.OK


def test_d16_calls_that_never_send_their_message_are_ended(guarded):
    with grpc.insecure_channel(f"127.0.0.1:{guarded.grpc}") as channel:
        open_call = channel.stream_unary(EXPORT)

        ended = threading.Event()

        def silent() -> Iterator[bytes]:
            ended.wait()
            yield from ()

        future = open_call.future(silent(), metadata=[("authorization", "Bearer right")])
        wait_until(future.done, 60, "the end of a call without a message")
        ended.set()
        assert future.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it; what it sends is read."""
    connection.settimeout(0.01)
    try:
        return connection.recv(65536) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty settings


def test_d16_connections_without_calls_are_closed_and_others_find_room_again(guarded):
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", guarded.grpc), 30)) for _ in range(8)]
        for one in idle:
            with contextlib.suppress(OSError):
                one.sendall(_PREFACE)
        wait_until(lambda: all(closed(one) for one in idle), 60, "the end of all idle connections")
        wait_until(lambda: call(guarded.grpc, EXPORT, "right") is grpc.StatusCode.OK, 60, "room for a sender")
