"""Alerts at the real Alertmanager: one notification when it fires, one when it is over, whatever happens between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from monitor.alerts.catalogue import inhibit_rules
from monitor.alerts.engine import AlertEngine, run_alerts
from monitor.alerts.notify import read_notifier
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.state import AlertState
from monitor.clock import SystemClock
from monitor.model.outcome import Unscored, UnscoredReason
from monitor.stages import Runtime
from monitor.statistics.windows import Windows
from tests.support.alerts import counted
from tests.support.prometheus import Webhook, alertmanager, amtool, get_json, webhook
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.tools import PATIENCE, free_port, until

pytestmark = pytest.mark.anyio
README = Path(__file__).parent.parent.parent / "docs" / "runbooks" / "README.md"


def documented_inhibition() -> list[Any]:
    (block,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    rules: list[Any] = yaml.safe_load(block)["inhibit_rules"]
    return rules


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


class Monitor:
    """One replica: verdicts go in, alerts go out."""

    def __init__(self, **policy: Any) -> None:
        options = {"evaluator": "grounded", "critical": 0.1, "resolve_after": 0, **policy}
        self.clock = SystemClock()
        self.windows = Windows(self.clock)
        self.checks = SelfAlertChecks(Observed(self.clock))
        self.engine = AlertEngine([AlertPolicy.model_validate(options)], self.windows, checks=self.checks)
        self.runtime: Runtime = runtime(self.clock)

    def judge(self, count: int, defects: int) -> None:
        for number in range(count):
            self.windows.add("shop", "grounded", self.clock.now(), 1.0, number < defects)

    def lose(self, count: int) -> None:
        """As many evaluations come to no verdict."""
        lost = judged(1, evaluator="grounded", outcome=Unscored(UnscoredReason.TIMEOUT), evaluated_at=self.clock.now())
        for _ in range(count):
            self.checks.on_result(lost, "shop")

    @property
    def sent(self) -> float:
        return counted(self.runtime, "alertmanager", "sent")

    @asynccontextmanager
    async def running(self, address: str, show: Callable[[Sequence[AlertState]], None] | None = None) -> Any:
        notifier = read_notifier({"type": "alertmanager", "url": address, "resend_interval": "2s"}, "notify[0]")
        async with anyio.create_task_group() as tasks:
            work = run_alerts(self.engine, [notifier], self.runtime, every=0.1, show=show)
            tasks.start_soon(lambda: work)
            yield
            tasks.cancel_scope.cancel()


async def test_an_alert_fires_once_is_sent_again_and_resolves_once(tmp_path: Path, hook: Webhook) -> None:
    monitor = Monitor()
    with alertmanager(tmp_path, hook.address) as address:
        async with monitor.running(address):
            monitor.judge(100, 50)
            await until(lambda: hook.notified)
            await until(lambda: monitor.sent >= 4)
            assert hook.notified == [[("critical", "firing")]]
            (held,) = get_json(f"{address}/api/v2/alerts")
            assert held["labels"] == {
                "alertname": "RagDefectRateHigh",
                "app": "shop",
                "evaluator": "grounded",
                "severity": "critical",
            }
            assert held["annotations"]["description"].startswith("50 % of the answers from shop")
            monitor.judge(3000, 0)
            await until(lambda: len(hook.notified) == 2)
            assert hook.notified[1] == [("critical", "resolved")]
            assert get_json(f"{address}/api/v2/alerts", active="true") == []
            told = -1.0
            with anyio.fail_after(10 * PATIENCE):  # what is over is not sent again; the last may be under way
                while monitor.sent != told:
                    told = monitor.sent
                    await anyio.sleep(3)
    assert len(hook.notified) == 2


async def test_two_replicas_make_one_alert(tmp_path: Path, hook: Webhook) -> None:
    one, other = Monitor(), Monitor()
    with alertmanager(tmp_path, hook.address) as address:
        async with one.running(address), other.running(address):
            one.judge(100, 50)
            await until(lambda: hook.notified)
            other.judge(200, 90)
            await until(lambda: one.sent >= 2 and other.sent >= 2)
            assert len(get_json(f"{address}/api/v2/alerts")) == 1
    assert hook.notified == [[("critical", "firing")]]


async def test_the_documented_rules_are_those_that_hold_in_process() -> None:
    assert documented_inhibition() == inhibit_rules()


async def test_the_documented_rule_inhibits_the_warning_of_a_critical_alert(tmp_path: Path, hook: Webhook) -> None:
    monitor = Monitor(warning=0.02)
    with alertmanager(tmp_path, hook.address, inhibit_rules=documented_inhibition()) as address:
        checked = amtool("check-config", tmp_path / "alertmanager.yml")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        async with monitor.running(address):
            monitor.judge(100, 50)
            await until(lambda: hook.notified and monitor.sent >= 4)
            alerts = get_json(f"{address}/api/v2/alerts")
    states = {alert["labels"]["severity"]: alert["status"]["state"] for alert in alerts}
    assert states == {"critical": "active", "warning": "suppressed"}
    assert hook.notified == [[("critical", "firing")]]


async def test_while_most_verdicts_are_missing_alerts_on_the_service_are_held_back(
    tmp_path: Path, hook: Webhook
) -> None:
    monitor = Monitor(warning=0.02)
    with alertmanager(tmp_path, hook.address, inhibit_rules=documented_inhibition()) as address:
        async with monitor.running(address):
            monitor.judge(100, 50)
            monitor.lose(900)
            await until(lambda: hook.notified and monitor.sent >= 8)
            alerts = get_json(f"{address}/api/v2/alerts")
    states = {(one["labels"]["alertname"], one["labels"]["severity"]): one["status"]["state"] for one in alerts}
    assert states == {
        ("RagUnscoredHigh", "critical"): "active",
        ("RagUnscoredHigh", "warning"): "suppressed",
        ("RagDefectRateHigh", "critical"): "suppressed",
        ("RagDefectRateHigh", "warning"): "suppressed",
    }
    assert hook.notified == [[("critical", "firing")]]


async def test_an_alertmanager_that_comes_late_hears_of_it_once(tmp_path: Path, hook: Webhook) -> None:
    monitor = Monitor()
    monitor.judge(100, 50)
    port = free_port()
    async with monitor.running(f"http://127.0.0.1:{port}"):
        await until(lambda: counted(monitor.runtime, "alertmanager", "failed") >= 1)
        with alertmanager(tmp_path, hook.address, port=port):
            await until(lambda: hook.notified and monitor.sent >= 2)
    assert hook.notified == [[("critical", "firing")]]


async def test_alerts_of_a_monitor_that_disappears_end_after_four_missed_resends(tmp_path: Path, hook: Webhook) -> None:
    monitor = Monitor()
    with alertmanager(tmp_path, hook.address) as address:
        async with monitor.running(address):
            monitor.judge(100, 50)
            await until(lambda: hook.notified)
        await until(lambda: len(hook.notified) == 2)
    assert hook.notified == [[("critical", "firing")], [("critical", "resolved")]]
