"""The loop: it looks at once, shows what it sees, tells everybody, and exports thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from pydantic import PrivateAttr

from monitor.alerts.engine import AlertEngine, run_alerts
from monitor.alerts.notify import Inbox, Notifier
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.state import AlertState, AlertStatus
from monitor.clock import ManualClock
from monitor.stages import Runtime
from monitor.statistics.windows import Windows
from tests.support.alerts import running
from tests.support.runtime import runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio
HEARD: list[Sequence[AlertState]] = []


class Ear(Notifier):
    """Hears one look, and is then busy until `_done` is set."""

    _done: anyio.Event = PrivateAttr(default_factory=anyio.Event)

    async def run(self, inbox: Inbox, runtime: Runtime) -> None:
        while True:
            await inbox.wait(60)
            HEARD.append(inbox.states)
            await self._done.wait()


async def test_every_look_is_shown_and_a_slow_receiver_gets_the_latest() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    engine = AlertEngine([AlertPolicy(evaluator="grounded", critical=0.1)], windows)
    lent = runtime(clock)
    shown: list[Sequence[AlertState]] = []
    HEARD.clear()
    ear = Ear()
    async with running(lambda: run_alerts(engine, [ear], lent, every=0.01, show=shown.append)):
        await until(lambda: shown and HEARD)
        assert shown[0] == []
        for _ in range(100):
            windows.add("shop", "grounded", clock.now(), 1.0, True)
        await until(lambda: len(shown) >= 5 and shown[-1])
        ear._done.set()
        await until(lambda: HEARD[-1:] == [shown[-1]])
    assert shown[-1][0].status is AlertStatus.FIRING
    assert len(HEARD) < len(shown)
    labels = {"app": "shop", "evaluator": "grounded", "severity": "critical"}
    assert lent.metrics.registry.get_sample_value("ragmonitor_alert_threshold_ratio", labels) == 0.1
