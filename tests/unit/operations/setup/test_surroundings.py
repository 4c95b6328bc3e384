"""What `rag-monitor init` finds on a host and in the environment, and what it does not take for a server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from monitor.errors import ConfigError
from monitor.judge.budget import tariff
from monitor.judge.settings import JudgeSettings
from monitor.operations.event_loop import run_async
from monitor.operations.setup import surroundings
from monitor.operations.setup.surroundings import JUDGES, PORTS, ServerFound
from tests.support.http_api import HttpApi, Says

PROMETHEUS = {"status": "success", "data": {"version": "2.42.0", "revision": "abc"}}
ALERTMANAGER = {"cluster": {"status": "disabled"}, "versionInfo": {"version": "0.25.0"}, "uptime": "2026-01-01"}
GRAFANA = {"commit": "abc", "database": "ok", "version": "12.0.1"}
PLENTY = 60.0


def look(kind: str, port: int, limit: float = PLENTY) -> list[ServerFound]:
    return run_async(partial(surroundings.servers, ports={kind: port}, limit=limit))


def port_of(api: HttpApi) -> int:
    return int(api.url.rpartition(":")[2])


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A server that does `answer` with each connection; yields its port."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                if over.is_set():
                    return
                try:
                    answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    port = server.getsockname()[1]
    try:
        yield port
    finally:
        over.set()
        with socket.create_connection(("127.0.0.1", port)):
            thread.join(60)
        server.close()


@pytest.mark.parametrize(
    ("kind", "answer", "version"),
    [("Prometheus", PROMETHEUS, "2.42.0"), ("Alertmanager", ALERTMANAGER, "0.25.0"), ("Grafana", GRAFANA, "12.0.1")],
)
def test_a_server_is_known_by_its_own_answer(kind: str, answer: dict[str, Any], version: str) -> None:
    with HttpApi(Says(data=answer)) as api:
        (found,) = look(kind, port_of(api))
        assert (found.kind, found.address) == (kind, api.url)
        assert version in found.why
        assert [one.method for one in api.asked] == ["GET"]


OTHERS = [
    Says(data={}),
    Says(data=[1, 2]),
    Says(content=b"<html>It works!</html>"),
    Says(content=b""),
    Says(content=b"\xff\xfe\x00"),
    Says(content=b"[" * 100_000),
    Says(content=b'{"a":' * 50_000),
    Says(content=b" " * 1_000_000 + b"{}"),
    Says(500, PROMETHEUS),
    Says(401),
    Says(data={"status": "success", "data": {"version": 1}, "versionInfo": [], "database": None}),
    Says(data={"status": "success", "data": {"version": "\u001b[2J"}, "versionInfo": {"version": "\u001b[2J"}}),
    Says(data={"status": "success", "data": {"version": "x" * 10_000}, "cluster": {}}),
]


@pytest.mark.parametrize("kind", ["Prometheus", "Alertmanager", "Grafana", "Kafka"])
@pytest.mark.parametrize("answer", OTHERS, ids=range(len(OTHERS)))
def test_another_server_on_the_port_is_not_taken_for_it(kind: str, answer: Says) -> None:
    with HttpApi(answer) as api:
        assert look(kind, port_of(api)) == []


@pytest.mark.parametrize("kind", ["Prometheus", "Alertmanager", "Grafana"])
def test_a_redirect_is_not_followed(kind: str) -> None:
    with HttpApi(Says(data={**PROMETHEUS, **ALERTMANAGER, **GRAFANA})) as other:
        elsewhere = Says(302, headers={"location": f"{other.url}/elsewhere"})
        with HttpApi(elsewhere) as api:
            assert look(kind, port_of(api)) == []
        assert other.asked == []


@pytest.mark.parametrize("kind", list(PORTS))
def test_a_server_that_never_answers_takes_no_longer_than_the_limit(kind: str) -> None:
    answered = threading.Event()
    with listening(lambda _connection: answered.wait(60)) as port:
        assert look(kind, port, limit=0.2) == []
        answered.set()


@pytest.mark.parametrize("kind", list(PORTS))
def test_a_server_that_answers_a_byte_at_a_time_for_ever_takes_no_longer_than_the_limit(kind: str) -> None:
    over = threading.Event()

    def dribble(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.wait(0.01):
            connection.sendall(b"{")

    with listening(dribble) as port:
        assert look(kind, port, limit=0.3) == []
        over.set()


def _broker(connection: socket.socket, *, body: bytes | None = None, shift: int = 0) -> None:
    asked = connection.recv(1024)
    (correlation,) = struct.unpack_from(">i", asked, 8)
    known = struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", 0, 0, 9, 1, 0, 13)
    answer = struct.pack(">i", correlation + shift) + (known if body is None else body)
    connection.sendall(struct.pack(">i", len(answer)) + answer)


def test_a_broker_is_known_by_its_answer_to_the_first_question_of_every_client() -> None:
    with listening(_broker) as port:
        (found,) = look("Kafka", port)
        assert found == ServerFound("Kafka", f"127.0.0.1:{port}", "it answers as a broker that knows 2 requests")


@pytest.mark.parametrize(
    "answer",
    [
        partial(_broker, shift=1),
        partial(_broker, body=struct.pack(">hi", 35, 2) + b"\0" * 12),
        partial(_broker, body=struct.pack(">hi", 0, -1) + b"\0" * 12),
        partial(_broker, body=struct.pack(">hi", 0, 2_000_000_000)),
        lambda connection: connection.sendall(b"\xff" * 100_000),
        lambda connection: connection.sendall(b"\0\0\0\1"),
        lambda connection: connection.close(),
    ],
)
def test_what_is_no_broker_is_not_taken_for_one(answer: Callable[[socket.socket], object]) -> None:
    with listening(answer) as port:
        assert look("Kafka", port) == []


def test_servers_are_looked_for_at_their_usual_ports() -> None:
    assert PORTS == {"Prometheus": 9090, "Alertmanager": 9093, "Grafana": 3000, "Kafka": 9092}


def test_where_nothing_listens_nothing_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert run_async(partial(surroundings.servers, ports=dict.fromkeys(PORTS, port), limit=PLENTY)) == []


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal", "a b", "user:secret@host", ""])
def test_a_host_that_must_not_be_called_is_an_error(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^host: "):
        run_async(partial(surroundings.servers, host, ports={}))


def test_a_key_is_found_by_its_variable_and_an_empty_one_is_none() -> None:
    found = surroundings.judges({"OPENAI_API_KEY": " ", "ANTHROPIC_API_KEY": "sk-ant", "MISTRAL_API_KEY": "x"})
    assert [one.variable for one in found] == ["ANTHROPIC_API_KEY", "MISTRAL_API_KEY"]
    assert "sk-ant" not in repr(found)


@pytest.mark.parametrize("model", JUDGES)
def test_every_model_that_is_proposed_has_a_known_price_and_key(model: str) -> None:
    assert tariff(JudgeSettings(model=model)) is not None
    assert surroundings.variables()[JUDGES.index(model)].endswith("_API_KEY")
