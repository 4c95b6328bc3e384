"""Encryption, client certificates and their rotation, for both receivers."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from tests.support.certificates import Authority
from tests.support.otlp import Serving, serving, span_request
from tests.support.runtime import runtime, total

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BODY = span_request(1).SerializeToString()
KINDS = pytest.mark.parametrize("kind", ["http", "grpc"])
Client = tuple[Path, Path] | None


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def source(kind: str, **options: Any) -> Any:
    return (OtlpHttp if kind == "http" else OtlpGrpc)(port=0, **options)


def sends(kind: str, at: Serving, ca: Path, client: Client = None) -> bool:
    """Whether a request gets through to the intake and back."""
    before = len(at.intake.items)
    try:
        if kind == "http":
            context = ssl.create_default_context(cafile=ca)
            if client is not None:
                context.load_cert_chain(*client)
            with httpx.Client(verify=context, trust_env=False, timeout=60) as http:
                headers = {"content-type": "application/x-protobuf"}
                http.post(f"https://{at.address}/v1/traces", content=BODY, headers=headers).raise_for_status()
        else:
            pair = (client[1].read_bytes(), client[0].read_bytes()) if client is not None else (None, None)
            credentials = grpc.ssl_channel_credentials(ca.read_bytes(), *pair)
            with grpc.secure_channel(at.address, credentials, [("grpc.enable_retries", 0)]) as channel:
                channel.unary_unary(EXPORT)(BODY, timeout=60)
    except (httpx.TransportError, grpc.RpcError):
        assert len(at.intake.items) == before
        return False
    assert len(at.intake.items) == before + 1
    return True


@KINDS
def test_traffic_is_encrypted_and_plain_text_is_refused(kind: str, authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    other = Authority(tmp_path, "other")
    with serving(source(kind, tls={"cert_file": certificate, "key_file": key})) as receiver:
        assert sends(kind, receiver, authority.ca)
        assert not sends(kind, receiver, other.ca)
        if kind == "http":
            with pytest.raises(httpx.TransportError):
                httpx.post(receiver.url(), content=BODY, trust_env=False, timeout=60)


@KINDS
def test_with_a_client_authority_only_its_clients_are_served(kind: str, authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    other = Authority(tmp_path, "other")
    tls = {"cert_file": certificate, "key_file": key, "client_ca_file": authority.ca}
    with serving(source(kind, tls=tls)) as receiver:
        assert sends(kind, receiver, authority.ca, authority.issue("client"))
        assert not sends(kind, receiver, authority.ca)
        assert not sends(kind, receiver, authority.ca, other.issue("stranger"))
        assert not sends(kind, receiver, authority.ca, authority.issue("expired", days=-1))


@KINDS
def test_certificates_and_client_authorities_are_rotated_without_a_restart(
    kind: str, authority: Authority, tmp_path: Path
) -> None:
    def install(by: Authority, name: str) -> None:
        for made, place in zip((*by.issue(name), by.ca), (certificate, key, client_ca), strict=True):
            shutil.copy(made, place)

    certificate, key, client_ca = (tmp_path / name for name in ("live.pem", "live.key", "live-ca.pem"))
    other = Authority(tmp_path, "other")
    client, newer_client = authority.issue("client"), other.issue("newer-client")
    install(authority, "first")
    clock = ManualClock()
    lent = runtime(clock)
    tls = {"cert_file": certificate, "key_file": key, "client_ca_file": client_ca}
    with serving(source(kind, tls=tls), runtime=lent) as receiver:
        assert sends(kind, receiver, authority.ca, client)
        install(other, "second")
        clock.advance(1)
        assert sends(kind, receiver, other.ca, newer_client)
        assert not sends(kind, receiver, authority.ca, client)
        assert not sends(kind, receiver, other.ca, client)
        key.write_text("nonsense")
        clock.advance(1)
        assert sends(kind, receiver, other.ca, newer_client)
    assert total(lent.metrics, "ragmonitor_events_total", event="reloaded") == 1
    assert total(lent.metrics, "ragmonitor_events_total", event="reload_failed") == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_whose_authority_is_gone_cannot_resume_a_session(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    certificate, key = authority.issue("server")
    client_ca = tmp_path / "live-ca.pem"
    shutil.copy(authority.ca, client_ca)
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(*authority.issue("client"))
    context.maximum_version = version
    clock = ManualClock()
    tls = {"cert_file": certificate, "key_file": key, "client_ca_file": client_ca}

    def answered(session: ssl.SSLSession | None = None) -> tuple[bytes, ssl.SSLSession | None]:
        plain = socket.create_connection(("127.0.0.1", receiver.port), timeout=60)
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as sock:
                sock.sendall(b"POST /v1/nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                return sock.recv(1000), sock.session
        except OSError:
            return b"", None

    with serving(source("http", tls=tls), runtime=runtime(clock)) as receiver:
        answer, session = answered()
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert answered(session)[0].startswith(b"HTTP/1.1 404 ")
        shutil.copy(Authority(tmp_path, "other").ca, client_ca)
        clock.advance(1)
        assert answered(session)[0] == b""


@pytest.mark.parametrize("lowest", ["1.2", "1.3"])
def test_nothing_older_than_the_configured_version_is_spoken(authority: Authority, lowest: str) -> None:
    certificate, key = authority.issue("server")
    tls = {"cert_file": certificate, "key_file": key, "min_version": lowest}

    def speaks(version: ssl.TLSVersion) -> bool:
        context = ssl.create_default_context(cafile=authority.ca)
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.maximum_version = version
        try:
            with (
                socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1"),
            ):
                return True
        except (ssl.SSLError, ConnectionResetError):
            return False

    with serving(OtlpHttp(port=0, tls=tls)) as receiver:
        assert speaks(ssl.TLSVersion.TLSv1_3)
        assert speaks(ssl.TLSVersion.TLSv1_2) == (lowest == "1.2")


@KINDS
def test_files_that_are_no_certificate_are_configuration_errors(
    kind: str, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("server")
    _, other_key = authority.issue("other")
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    good = {"cert_file": certificate, "key_file": key}
    wrong: list[tuple[dict[str, Path], str]] = [
        ({"cert_file": tmp_path / "none"}, "the certificate '.*none' cannot be read: No such file"),
        ({"key_file": tmp_path / "none"}, "the private key '.*none' cannot be read"),
        ({"cert_file": nonsense}, "are not a certificate and its key"),
        ({"key_file": other_key}, "are not a certificate and its key"),
        ({"client_ca_file": nonsense}, "contains no certificate"),
    ]
    for change, message in wrong:
        with pytest.raises(ConfigError, match=message), serving(source(kind, tls={**good, **change})):
            pass


def test_both_receivers_work_on_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    exports: dict[str, Callable[[Serving], object]] = {
        "http": lambda at: httpx.post(at.url(), content=b"{}", trust_env=False, timeout=60).status_code,
        "grpc": lambda at: grpc.insecure_channel(at.address).unary_unary(EXPORT)(BODY, timeout=60),
    }
    for kind, export in exports.items():
        with serving(source(kind, host="::1")) as receiver:
            assert receiver.address.startswith("[::1]:")
            export(receiver)
