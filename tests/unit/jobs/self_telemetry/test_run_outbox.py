"""What waits to be sent: bounded, in order, and never in the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError, Overloaded
from monitor.jobs.self_telemetry import run as outbox
from monitor.jobs.self_telemetry.run import LIMIT, Outbox
from monitor.telemetry.metrics import Metrics
from monitor.transport.otlp.exporter import Target
from tests.support.runtime import total

pytestmark = pytest.mark.anyio
TARGET = Target("http://127.0.0.1:1", "grpc", {}, 1.0, gzip=False)


class Sending:
    """In the place of `Sender`: does the next step of the script, then takes everything."""

    def __init__(self, *script: Exception) -> None:
        self.script = list(script)
        self.taken: list[Any] = []
        self.attempts = 0

    def __call__(self, *_: object) -> Sending:
        return self

    async def send(self, batch: Sequence[Any]) -> None:
        self.attempts += 1
        if self.script:
            raise self.script.pop(0)
        self.taken += batch

    def close(self) -> None:
        pass


class House:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *script: Exception) -> None:
        self.sender = Sending(*script)
        monkeypatch.setattr(outbox, "OtlpSender", self.sender)
        self.clock, self.metrics = ManualClock(), Metrics()
        self.told: list[MonitorError | None] = []
        self.box = Outbox(
            "logs", TARGET, clock=self.clock, metrics=self.metrics, on_attempt=lambda _, error: self.told.append(error)
        )

    def count(self, outcome: str) -> float:
        return total(self.metrics, "ragmonitor_telemetry_items_total", signal="logs", outcome=outcome)


async def test_everything_that_waits_is_sent_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(monkeypatch)
    for item in range(1200):
        house.box.put(item)  # type: ignore[arg-type] # anything will do
    await house.box.send()
    assert house.sender.taken == list(range(1200))
    assert (house.count("sent"), house.count("dropped")) == (1200, 0)


async def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(monkeypatch)
    for item in range(LIMIT + 7):
        house.box.put(item)  # type: ignore[arg-type]
    await house.box.send()
    assert (house.count("sent"), house.count("dropped")) == (LIMIT, 7)


async def test_while_the_receiver_is_away_attempts_get_rarer_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(monkeypatch, *(Overloaded("away") for _ in range(3)))
    house.box.put("a")  # type: ignore[arg-type]
    house.box.put("b")  # type: ignore[arg-type]
    tried = []
    for second in range(12):
        before = house.sender.attempts
        await house.box.send()
        tried += [second] * (house.sender.attempts - before)
        house.clock.advance(1.0)
    assert tried == [0, 1, 3, 7]
    assert house.sender.taken == ["a", "b"]
    assert [error is None for error in house.told] == [False, False, False, True]


@pytest.mark.parametrize("error", [MonitorError("refused"), RuntimeError("the SDK fell over")])
async def test_what_is_refused_is_not_sent_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    house = House(monkeypatch, error)
    house.box.put("bad")  # type: ignore[arg-type]
    await house.box.send()
    house.clock.advance(10.0)
    house.box.put("good")  # type: ignore[arg-type]
    await house.box.send()
    assert house.sender.taken == ["good"]
    assert (house.count("sent"), house.count("dropped")) == (1, 1)


async def test_what_still_waits_at_the_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(monkeypatch, Overloaded("away"))
    house.box.put("a")  # type: ignore[arg-type]
    await house.box.send()
    house.box.close()
    assert house.count("dropped") == 1
