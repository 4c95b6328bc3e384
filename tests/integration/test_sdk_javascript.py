"""The OpenTelemetry SDK for JavaScript, from npm, as a client of both receivers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.errors import Overloaded
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.otlp import wire
from tests.support.otlp import ScriptedIntake, serving
from tests.support.tools import require, unavailable

FOLDER = Path(__file__).parent.parent / "support" / "javascript"
COUNT = 600  # more than one batch
Send = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def send() -> Send:
    """Run the client; what its exporter said of each batch."""
    node, npm = require("node", "nodejs"), require("npm", "npm")
    if not (FOLDER / "node_modules" / "@opentelemetry" / "sdk-trace").is_dir():
        command = [npm, "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
        if subprocess.run(command, cwd=FOLDER, check=False, capture_output=True, timeout=300).returncode:
            unavailable("the OpenTelemetry SDK for JavaScript (npm install failed)")

    def run(*arguments: object) -> list[dict[str, Any]]:
        command = [node, "send.cjs", *map(str, arguments)]
        done = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True, timeout=300)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


def source_and_url(transport: str, **options: Any) -> tuple[Any, Callable[[str], str]]:
    if transport == "grpc":
        return OtlpGrpc(port=0, **options), "http://{}".format
    path = "logs" if transport == "logs" else "traces"
    return OtlpHttp(port=0, **options), lambda address: f"http://{address}/v1/{path}"


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("transport", ["http", "proto", "grpc", "logs"])
def test_everything_that_the_sdk_sends_is_taken(send: Send, transport: str, compression: str) -> None:
    source, url = source_and_url(transport)
    with serving(source) as receiver:
        said = send(transport, url(receiver.address), compression, COUNT)
    assert {batch["code"] for batch in said} == {0}
    assert len(receiver.intake.items) == COUNT
    if transport == "logs":
        return
    spans = receiver.intake.spans
    assert {span.name for span in spans} == {f"span {index}" for index in range(COUNT)}
    assert all(wire.trace_id_of(item) and wire.span_part(item, b"", b"") for item in receiver.intake.items)
    values = {one.key: one.value for one in spans[0].attributes}
    assert values["input.value"].string_value == "wörter"
    assert [value.double_value or value.int_value for value in values["list"].array_value.values] == [1.5, 2]


@pytest.mark.parametrize("transport", ["http", "proto"])
def test_an_overload_of_some_seconds_loses_nothing(send: Send, transport: str) -> None:
    begun: list[float] = []

    def overloaded(_batch: object) -> Any:
        begun.append(time.monotonic())
        return Overloaded("the spool is full") if time.monotonic() - begun[0] < 2 else Accepted()

    source, url = source_and_url(transport)
    with serving(source, ScriptedIntake(always=overloaded)) as receiver:
        said = send(transport, url(receiver.address), "gzip", COUNT)
    assert {batch["code"] for batch in said} == {0}
    assert len({span.name for span in receiver.intake.spans}) == COUNT
    assert receiver.intake.calls > len(receiver.intake.batches)


def test_the_grpc_exporter_gives_up_at_once_and_reports_what_was_lost(send: Send) -> None:
    """This exporter retries nothing, whatever a receiver says. What it was refused it must at least know of."""
    source, url = source_and_url("grpc")
    with serving(source, ScriptedIntake(always=Overloaded("the spool is full"))) as receiver:
        said = send("grpc", url(receiver.address), "none", COUNT)
    assert sum(batch["items"] for batch in said if "UNAVAILABLE: the spool is full" in batch["error"]) == COUNT
    assert receiver.intake.calls == len(said)


@pytest.mark.parametrize("transport", ["http", "proto", "grpc"])
def test_the_sdk_shows_its_token_and_learns_that_it_is_wrong(send: Send, transport: str) -> None:
    source, url = source_and_url(transport, auth={"token": "right"})
    with serving(source) as receiver:
        assert [batch["code"] for batch in send(transport, url(receiver.address), "none", 1, "right")] == [0]
        assert [batch["code"] for batch in send(transport, url(receiver.address), "none", 1, "wrong")] == [1]
    assert len(receiver.intake.items) == 1
