"""One list of addresses that nothing of ours may call, whatever sends."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from monitor.config import parse
from monitor.errors import ConfigError
from monitor.transport.http.client import RefusedAddressError, checked_addresses, checked_connections
from tests.support.tools import leading_to

REFUSED = [
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "169.254.43518",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "[fd00:ec2::254]",
    "[fd00:ec2::23]",
    "[fd20:ce::254]",
    "[fe80::1]",
    "[::ffff:169.254.169.254]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "metadata",
    "METADATA.google.internal.",
    "instance-data.ec2.internal",
    "\uff11\uff16\uff19.254.169.254",
    "169\u3002254.169.254",
    "0.0.0.0",
    "[::]",
]
ALLOWED = ["127.0.0.1", "localhost", "[::1]", "10.0.0.7", "192.168.1.1", "[fd12::1]", "llm.svc", "api.example.com"]
SENDERS: dict[str, Any] = {
    "webhook": lambda url: {"notify": [{"type": "webhook", "url": url}]},
    "alertmanager": lambda url: {"notify": [{"type": "alertmanager", "url": url}]},
    "judge": lambda url: {"judge": {"model": "openai/m", "api_base": url}},
    "classifier": lambda url: {
        "judge": {"model": "classifier/m", "api_base": url},
        "evaluators": [{"type": "hhem"}],
        "alerts": [],
    },
    "phoenix": lambda url: {"sinks": [{"type": "phoenix", "url": url}]},
    "langfuse": lambda url: {"sinks": [{"type": "langfuse", "url": url, "public_key": "p", "secret_key": "s"}]},
    "mlflow": lambda url: {"sinks": [{"type": "mlflow", "url": url}]},
    "telemetry": lambda url: {"telemetry": {"endpoint": url, "protocol": "http"}},
}


@pytest.mark.parametrize("host", REFUSED)
@pytest.mark.parametrize("sender", SENDERS)
def test_d11_no_sender_takes_an_address_that_hands_out_credentials_however_it_is_written(
    sender: str, host: str
) -> None:
    with pytest.raises(ConfigError, match=r"metadata address|only for listening|not a URL"):
        parse(SENDERS[sender](f"http://{host}"))


@pytest.mark.parametrize("host", ALLOWED)
@pytest.mark.parametrize("sender", SENDERS)
def test_addresses_of_this_machine_and_network_stay_allowed(sender: str, host: str) -> None:
    parse(SENDERS[sender](f"http://{host}:8080"))


def test_a_judge_may_be_at_a_link_local_address_if_the_option_says_so() -> None:
    parse({"judge": {"model": "openai/m", "api_base": "http://169.254.1.1:8000", "allow_link_local": True}})


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200"])
def test_s13_a_connection_goes_to_no_metadata_address_whatever_name_leads_there(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    with leading_to(monkeypatch, address):
        with pytest.raises(RefusedAddressError), checked_connections():
            socket.create_connection(("collector.example", 4318), timeout=0.01)
        with pytest.raises(RefusedAddressError):
            checked_addresses("collector.example")
    with pytest.raises(RefusedAddressError), checked_connections(), socket.socket() as plain:
        plain.connect((address, 80))
    with pytest.raises(RefusedAddressError), checked_connections(), socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"x", (address, 514))


def test_only_connections_of_the_thread_and_of_that_time_are_checked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with checked_connections():
            socket.create_connection(server.getsockname(), timeout=60).close()
        found: list[BaseException | None] = []

        def connect() -> None:
            with socket.socket() as one:
                one.settimeout(0.001)
                try:
                    one.connect(("169.254.169.254", 80))
                except OSError as error:
                    found.append(error)

        with checked_connections():
            other = threading.Thread(target=connect)
            other.start()
            other.join()
        connect()
        assert not any(isinstance(one, RefusedAddressError) for one in found)


def test_the_addresses_of_a_name_come_in_the_order_of_the_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [(socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*both, both[0]])
    assert checked_addresses("both.example") == ("::1", "127.0.0.1")


def test_a_name_that_does_not_resolve_is_for_the_caller_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert checked_addresses("no.such.example") == ()
