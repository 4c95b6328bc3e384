"""What receivers were told, over restarts of the whole set of them: each its own, no longer than it is configured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import pytest

from monitor.alerts.notify import Inbox, Log, Notifier, read_notifier
from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.alerts.notify.known import KnownAlerts
from monitor.alerts.state import AlertState
from monitor.clock import SystemClock
from monitor.stages import Runtime
from monitor.stages.kept_state import StateValue
from tests.support.alerts import Receiver, counted, receiver, running, state
from tests.support.runtime import RememberedState, runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio

Told = list[tuple[str, str, str]]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("monitor.alerts.notify.receiver.FIRST_RETRY", 0.05)


def webhooks(there: Receiver, *paths: str) -> list[Notifier]:
    return [read_notifier({"type": "webhook", "url": f"{there.address}/{path}"}, "notify[0]") for path in paths]


async def process(
    notifiers: Sequence[Notifier], kept: RememberedState, states: Sequence[AlertState], sent: int
) -> None:
    """One process, until so many notifications were sent and its receivers rest."""
    lent = runtime(SystemClock(), kept)
    known = KnownAlerts(lent, sum(one.places for one in notifiers))
    inboxes = [Inbox(known) for _ in notifiers]
    async with AsyncExitStack() as stack:
        for one, inbox in zip(notifiers, inboxes, strict=True):
            await stack.enter_async_context(running(partial(one.run, inbox, lent)))
        await anyio.wait_all_tasks_blocked()
        for inbox in inboxes:
            inbox.put(states)
        await until(lambda: total_sent(lent) >= sent)
        await anyio.wait_all_tasks_blocked()
        assert total_sent(lent) == sent
    kept.ended()


def total_sent(lent: Runtime) -> float:
    return sum(counted(lent, kind, "sent") for kind in ("log", "webhook", "alertmanager", "apprise"))


def told(there: Receiver) -> Told:
    return [
        (line.split()[1], alert["labels"]["app"], alert["status"])
        for line, _, body in there.posts
        for alert in body["alerts"]
    ]


async def test_each_receiver_learns_once_that_an_alert_fires_and_once_that_it_ends_over_any_number_of_restarts() -> (
    None
):
    kept = RememberedState()
    async with receiver() as there:
        both = webhooks(there, "A", "B")
        for states, sent in (([state()], 2), ([state()], 0), ([state(app="bank")], 4), ([state(app="bank")], 0)):
            await process(both, kept, states, sent)
    assert sorted(told(there)) == sorted(
        (path, *what)
        for path in ("/A", "/B")
        for what in (("shop", "firing"), ("shop", "resolved"), ("bank", "firing"))
    )


async def test_the_log_says_nothing_twice_over_a_restart() -> None:
    kept = RememberedState()
    for states, sent in (([state()], 1), ([state()], 0), ([], 1), ([], 0)):
        await process([Log()], kept, states, sent)


async def test_alertmanager_which_forgets_is_told_at_once_after_a_restart_and_of_the_end() -> None:
    kept = RememberedState()
    async with receiver() as there:
        one = read_notifier({"type": "alertmanager", "url": there.address, "resend_interval": "1h"}, "notify[0]")
        for states in ([state()], [state()], []):
            await process([one], kept, states, 1)
    ends = [alert["endsAt"] > alert["startsAt"] for _, _, body in there.posts for alert in body]
    began = {alert["startsAt"] for _, _, body in there.posts for alert in body}
    assert (ends, len(began)) == ([True] * 3, 1)
    assert there.posts[2][2][0]["endsAt"] < there.posts[1][2][0]["endsAt"]


async def test_services_of_apprise_are_told_once_over_a_restart() -> None:
    kept = RememberedState()
    async with receiver() as there:
        url = there.address.replace("http:", "json:")
        one = read_notifier({"type": "apprise", "urls": [f"{url}/A", f"{url}/B"]}, "notify[0]")
        for states, sent in (([state()], 2), ([state()], 0), ([], 2)):
            await process([one], kept, states, sent)
    assert [body["type"] for _, _, body in there.posts] == ["failure"] * 2 + ["success"] * 2


async def test_two_entries_with_the_same_url_are_two_receivers() -> None:
    kept = RememberedState()
    async with receiver() as there:
        await process(webhooks(there, "A", "A"), kept, [state()], 2)
        await process(webhooks(there, "A", "A"), kept, [state()], 0)
        await process(webhooks(there, "A", "A"), kept, [], 2)
    assert [status for _, _, status in told(there)] == ["firing"] * 2 + ["resolved"] * 2


async def test_what_a_receiver_was_told_is_dropped_once_it_is_no_longer_configured() -> None:
    kept = RememberedState()
    async with receiver() as there:
        await process(webhooks(there, "A", "B"), kept, [state()], 2)
        await process(webhooks(there, "A"), kept, [state()], 0)
        await process(webhooks(there, "A", "B"), kept, [], 1)
    assert told(there)[2:] == [("/A", "shop", "resolved")]


def begun(kept: RememberedState, receivers: int, *identities: str) -> KnownAlerts:
    """A process in which of so many receivers these have begun."""
    known = KnownAlerts(runtime(kept=kept), receivers)
    for one in identities:
        delivery = DeliveryState()
        known.begin("webhook", one, delivery)
        if not delivery.kept():
            delivery.update([state()], 0.0, 0.0)
            delivery.sending(delivery.due(0.0), 0.0, 0.0)
    return known


async def test_a_process_that_ends_before_all_its_receivers_have_begun_drops_nothing() -> None:
    kept = RememberedState()
    begun(kept, 2, "A", "B")
    kept.ended()
    for identities, known in (((), 2), (("A",), 2), (("A", "B"), 2), (("A", "C"), 2)):
        begun(kept, 2, *identities)
        kept.ended()
        assert len(rows(kept)) == known
    begun(kept, 1, "A")
    kept.ended()
    assert len(rows(kept)) == 1


def rows(kept: RememberedState) -> dict[str, Any]:
    found: Any = (kept.load("receivers") or {}).get("receivers")
    return dict(found)


async def test_no_part_of_a_url_is_kept() -> None:
    kept = RememberedState()
    begun(kept, 1, "critical https://hooks.example/services/T0/B0/s3cret")
    kept.ended()
    assert not any(part in json.dumps(rows(kept)) for part in ("hooks", "T0", "s3cret", "http"))


@pytest.mark.parametrize("value", [{}, {"receivers": []}, {"receivers": {"webhook x": 3}}, {"other": 1}])
async def test_a_value_that_is_no_record_of_receivers_is_ignored(value: StateValue) -> None:
    kept = RememberedState()
    kept.follow("receivers", lambda: value)
    kept.ended()
    async with receiver() as there:
        await process(webhooks(there, "A"), kept, [state()], 1)
        await process(webhooks(there, "A"), kept, [], 1)


class Hanging(RememberedState):
    """A disk that takes nothing and does not say so."""

    async def flush(self, name: str) -> None:
        await anyio.sleep_forever()


async def test_a_disk_that_hangs_keeps_no_alert_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.alerts.notify.known._LONGEST_WRITE", 0.01)
    async with receiver() as there:
        await process(webhooks(there, "A"), Hanging(), [state()], 1)


class Flushed(RememberedState):
    """Notes what was durable at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: list[StateValue] = []

    async def flush(self, name: str) -> None:
        self.durable.append(json.loads(json.dumps(self._followed[name]())))


async def test_a_delivery_is_on_the_disk_before_it_is_made() -> None:
    kept = Flushed()
    async with receiver() as there:
        there.silent = True
        lent = runtime(SystemClock(), kept)
        inbox = Inbox(KnownAlerts(lent, 1))
        (one,) = webhooks(there, "A")
        async with running(partial(one.run, inbox, lent)):
            inbox.put([state()])
            await there.until(1)
            (written,) = kept.durable
    assert len(written["receivers"]) == 1  # type: ignore[arg-type]
