from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from monitor import registry
from monitor.errors import ConfigError
from monitor.stages import Source
from monitor.transport.http.listener import in_words, is_loopback

TLS = {"cert_file": "c.pem", "key_file": "k.pem"}
MTLS = {**TLS, "client_ca_file": "ca.pem"}
AUTH = {"token": "t"}
BOTH = pytest.mark.parametrize("kind", ["otlp_http", "otlp_grpc"])


def made(kind: str, **options: Any) -> Any:
    return registry.read("sources", {"type": kind, **options}, Source, "sources[0]")


def test_2_the_ports_are_those_of_the_protocol_on_loopback_unless_configured() -> None:
    assert [(made(kind).host, made(kind).port) for kind in ("otlp_grpc", "otlp_http")] == [
        ("127.0.0.1", 4317),
        ("127.0.0.1", 4318),
    ]
    assert made("otlp_http", port=1234).port == made("otlp_grpc", port=1234).port == 1234


@BOTH
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "monitor.example.com", ""])
@pytest.mark.parametrize("unsafe", [{}, {"auth": AUTH}, {"tls": TLS}], ids=str)
def test_an_address_beyond_this_machine_needs_encryption_and_known_senders(
    kind: str, host: str, unsafe: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"sources\[0\].*reached from other machines"):
        made(kind, host=host, **unsafe)


@BOTH
@pytest.mark.parametrize("safe", [{"tls": TLS, "auth": AUTH}, {"tls": MTLS}, {"insecure": True}], ids=str)
def test_an_address_beyond_this_machine_is_taken_with_them_or_with_insecure(kind: str, safe: dict[str, Any]) -> None:
    assert made(kind, host="0.0.0.0", **safe)


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_nothing(kind: str, host: str) -> None:
    assert made(kind, host=host)
    assert is_loopback(host)


@BOTH
def test_10_limits_read_as_people_write_them_and_must_be_consistent(kind: str) -> None:
    assert made(kind, max_body_bytes="4MiB").max_body_bytes == 4 * 1024**2
    assert made(kind).max_body_bytes == 20 * 1024**2
    with pytest.raises(ConfigError, match="max_in_flight_bytes"):
        made(kind, max_body_bytes="1GiB")
    for wrong in ({"max_spans": 0}, {"max_body_bytes": "0"}, {"port": 65536}, {"max_concurrent_requests": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            made(kind, **wrong)


@pytest.mark.parametrize("origin", ["app.example.com", "https://", "ftp://a", "https://a/b", "null"])
def test_32_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="not an origin"):
        made("otlp_http", cors_origins=[origin])


@pytest.mark.parametrize(
    "paths", [{"traces_path": "v1"}, {"traces_path": "/x", "logs_path": "/x"}, {"cases_path": "/v1/logs"}]
)
def test_18_paths_begin_with_a_slash_and_differ(paths: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="traces_path, logs_path, cases_path and feedback_path"):
        made("otlp_http", **paths)


def test_grpc_cannot_be_held_to_the_latest_tls() -> None:
    assert made("otlp_http", tls={**TLS, "min_version": "1.3"})
    with pytest.raises(ConfigError, match="min_version must be"):
        made("otlp_grpc", tls={**TLS, "min_version": "1.3"})


def test_an_address_of_ipv6_is_bracketed() -> None:
    assert (in_words("::1", 1), in_words("127.0.0.1", 1)) == ("[::1]:1", "127.0.0.1:1")


def test_reading_the_configuration_imports_no_server() -> None:
    heavy = "{'grpc', 'uvicorn', 'starlette', 'httptools'}"
    code = f"import sys, monitor.sources.otlp_http, monitor.sources.otlp_grpc; print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
