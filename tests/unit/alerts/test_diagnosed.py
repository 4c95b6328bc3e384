"""What alerts say about their cause: a line for each rate that is too high, and never an alert that waits for long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import pytest

from monitor.alerts import diagnosed
from monitor.alerts.diagnosed import AGAIN, SOON, DiagnosedAlerts, DiagnosisLine
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock
from monitor.stages import Runtime
from tests.support.alerts import state
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


SAID = DiagnosisLine("Since 14:05.")


@dataclass
class Doctor:
    """Diagnoses with what the test says."""

    said: DiagnosisLine | None = SAID
    asked: list[AlertState] = field(default_factory=list)
    first: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    async def __call__(self, one: AlertState) -> DiagnosisLine | None:
        self.asked.append(one)
        await self.first()
        return self.said


@asynccontextmanager
async def alerts(doctor: Doctor, lent: Runtime | None = None) -> AsyncIterator[Callable[..., Awaitable[list[str]]]]:
    """A function that returns the lines of alerts, empty ones where there is none."""
    made = DiagnosedAlerts(doctor, lent if lent is not None else runtime())

    async with anyio.create_task_group() as tasks:

        async def lines(*states: AlertState) -> list[str]:
            return [one.annotations.get("diagnosis", "") for one in await made.annotated(states, tasks)]

        yield lines
        tasks.cancel_scope.cancel()


async def test_an_alert_that_begins_to_fire_has_its_line_at_once() -> None:
    async with alerts(Doctor()) as lines:
        assert await lines(state()) == ["Since 14:05."]


async def test_warning_and_critical_of_one_rate_share_one_diagnosis() -> None:
    doctor = Doctor()
    async with alerts(doctor) as lines:
        assert await lines(state(), state(severity="warning")) == ["Since 14:05."] * 2
    assert len(doctor.asked) == 1


async def test_only_firing_alerts_about_the_rate_of_an_app_are_diagnosed() -> None:
    doctor, other = Doctor(), state()
    other = replace(other, labels={**other.labels, "alertname": "RagLagHigh"})
    async with alerts(doctor) as lines:
        assert await lines(state(firing=False), other, state(app="")) == ["", "", ""]
    assert doctor.asked == []


async def test_a_diagnosis_that_takes_long_delays_no_alert_and_is_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosed, "PATIENCE", 0.01)
    ready = anyio.Event()
    doctor = Doctor(first=ready.wait)
    async with alerts(doctor) as lines:
        assert await lines(state()) == [""]
        ready.set()
        found: list[str] = []
        while found != ["Since 14:05."]:
            await anyio.sleep(0.001)
            found = await lines(state())
    assert len(doctor.asked) == 1


async def test_an_error_leaves_the_alert_without_a_line_and_is_an_event() -> None:
    async def broken() -> None:
        raise RuntimeError("out of ink")

    lent = runtime()
    async with alerts(Doctor(first=broken), lent) as lines:
        assert await lines(state()) == [""]
    named = {"event": "diagnosis_failed"}
    assert lent.metrics.registry.get_sample_value("ragmonitor_events_total", named) == 1.0


@pytest.mark.parametrize(("looked", "wait"), [(True, AGAIN), (False, SOON)])
async def test_it_is_diagnosed_again_after_some_minutes_and_sooner_before_the_first_look(
    looked: bool, wait: float
) -> None:
    clock, doctor = ManualClock(), Doctor(DiagnosisLine("Since 14:05.", looked=looked))
    async with alerts(doctor, runtime(clock)) as lines:
        await lines(state())
        doctor.said = DiagnosisLine("Since 14:00.")
        clock.advance(wait - 1)
        assert await lines(state()) == ["Since 14:05."]
        assert len(doctor.asked) == 1
        clock.advance(1)
        await lines(state())
        await anyio.wait_all_tasks_blocked()
        assert await lines(state()) == ["Since 14:00."]


async def test_a_line_stays_while_a_later_diagnosis_has_nothing_to_say() -> None:
    clock, doctor = ManualClock(), Doctor()
    async with alerts(doctor, runtime(clock)) as lines:
        await lines(state())
        doctor.said = None
        clock.advance(AGAIN)
        await lines(state())
        await anyio.wait_all_tasks_blocked()
        assert await lines(state()) == ["Since 14:05."]


async def test_an_alert_that_fires_a_second_time_gets_a_line_of_its_own() -> None:
    doctor = Doctor()
    async with alerts(doctor) as lines:
        await lines(state())
        await lines(state(firing=False))
        doctor.said = DiagnosisLine("Since 18:00.")
        assert await lines(state()) == ["Since 18:00."]
