"""`RagEvaluationsMissing` in process, through a real monitor whose clock is moved by hand."""

from __future__ import annotations

import functools
import json
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from monitor import app, config
from monitor.clock import ManualClock
from tests.support.alerts import looked_at
from tests.support.runtime import total
from tests.support.tools import free_port, until

MISSING = [("RagEvaluationsMissing", "overlap_groundedness")]
"""The configured evaluator: that those of `context_rates` have no answer to score either is the same outage."""


class Service:
    """A service that sends rows over HTTP, and the monitor beside it."""

    def __init__(self, folder: Path) -> None:
        self.port, self.clock = free_port(), ManualClock()
        self.config = config.parse(
            {
                "sources": [{"type": "otlp_http", "port": self.port}],
                "sinks": [{"type": "prometheus", "port": free_port()}],
                "storage": {"path": str(folder / "state")},
                "evaluators": [{"type": "overlap_groundedness"}],
                "alerts": [],
            }
        )
        self.sent = 0
        self.running: list[app.Running] = []

    def run(self, stop: anyio.Event) -> Any:
        return functools.partial(
            app.run, self.config, stop, clock=self.clock, started=self.running.append, alerts_every=0.02
        )

    async def hours(self, number: int, answer: str, each: int = 5) -> None:
        """So many hours with `each` requests every ten minutes."""
        for _ in range(6 * number):
            self.clock.advance(600)
            before = total(self.running[-1].runtime.metrics, "ragmonitor_traces_total")
            rows = []
            for _ in range(each):
                self.sent += 1
                rows.append(
                    {
                        "request_id": f"r{self.sent}",
                        "request": f"How warm is day {self.sent}?",
                        "response": answer,
                        "retrieved_context": [{"content": "It is warm on all days."}],
                        "app": "shop",
                    }
                )
            body = "\n".join(json.dumps(row) for row in rows).encode()
            await anyio.to_thread.run_sync(self._post, body)
            metrics = self.running[-1].runtime.metrics
            await until(lambda: total(metrics, "ragmonitor_traces_total") == before + each)  # noqa: B023 - awaited here
            await looked_at(self.running[-1])

    def _post(self, body: bytes) -> None:
        url = f"http://127.0.0.1:{self.port}/v1/cases"
        asked = urllib.request.Request(url, body, {"Content-Type": "application/x-ndjson"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200

    def firing(self) -> list[tuple[str, str]]:
        return sorted((state.name, state.evaluator) for state in self.running[-1].alerts if state.firing)


@pytest.mark.anyio
async def test_requests_whose_answers_are_no_longer_sent_raise_the_alert_until_they_are(tmp_path: Path) -> None:
    service, stop = Service(tmp_path), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run(stop))
        await until(lambda: service.running and service.running[-1].runtime.health.ready)
        await service.hours(3, "It is warm on all days.")
        assert service.firing() == []
        await service.hours(1, "")
        assert service.firing() == []
        await service.hours(1, "")
        await until(lambda: service.firing() == MISSING)
        await service.hours(1, "It is warm on all days.")
        await until(lambda: service.firing() == [])
        stop.set()


@pytest.mark.anyio
async def test_silence_that_begins_with_a_restart_is_noticed_by_the_history(tmp_path: Path) -> None:
    service, stop = Service(tmp_path), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run(stop))
        await until(lambda: service.running and service.running[-1].runtime.health.ready)
        await service.hours(4, "It is warm on all days.", each=20)
        stop.set()
    service.clock.advance(21 * 3600)
    service.running.clear()
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run(stop))
        await until(lambda: service.running and service.running[-1].runtime.health.ready)
        await service.hours(2, "")
        await until(lambda: service.firing() == MISSING)
        stop.set()
