"""Receivers: what they are sent, what they survive, and what a configuration may say of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from monitor.alerts.notify import (
    Alertmanager,
    Inbox,
    Log,
    Notifier,
    ScheduledMessage,
    Webhook,
    read_notifier,
    read_notifiers,
)
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock, SystemClock
from monitor.errors import ConfigError
from monitor.stages import Runtime
from tests.support.alerts import answer, counted, receiver, running, state
from tests.support.runtime import runtime
from tests.support.tools import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("monitor.alerts.notify.receiver.FIRST_RETRY", 0.05)


def made(entry: dict[str, Any]) -> Notifier:
    return read_notifier(entry, "notify[0]")


async def test_a_webhook_gets_the_documented_json_once_for_each_change() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        webhook = made({"type": "webhook", "url": f"{there.address}/hook?a=b", "token": "s3cret"})
        async with running(lambda: webhook.run(inbox, lent)):
            inbox.put([state(), state(severity="warning")])
            await there.until(1)
            inbox.put([state(), state(severity="warning")])
            inbox.put([state(False), state(False, "warning")])
            await until(lambda: counted(lent, "webhook", "sent") == 2)
    (line, headers, fired), (_, _, resolved) = there.posts
    assert line == "POST /hook?a=b HTTP/1.1"
    assert headers["authorization"] == "Bearer s3cret"
    assert headers["content-type"] == "application/json"
    assert fired == {
        "version": 1,
        "alerts": [
            {
                "status": "firing",
                "labels": {
                    "alertname": "RagDefectRateHigh",
                    "app": "shop",
                    "evaluator": "grounded",
                    "severity": "critical",
                },
                "annotations": {"summary": "The share is high.", "description": "30 % are defective."},
                "startsAt": "2023-11-14T22:13:20.000Z",
                "endsAt": None,
                "threshold": 0.1,
                "rate": 0.3,
                "lower": 0.2,
                "upper": 0.4,
                "evaluated": 200,
                "defects": 60,
                "window_seconds": 3600.0,
            }
        ],
    }
    (alert,) = resolved["alerts"]
    assert alert["status"] == "resolved"
    assert alert["endsAt"] > alert["startsAt"]


@pytest.mark.parametrize("refusal", ["500 Internal Server Error", "404 Not Found", "429 Too Many Requests"])
async def test_a_webhook_that_refuses_is_tried_again_and_nothing_is_lost(
    refusal: str, caplog: pytest.LogCaptureFixture
) -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        there.answers = [answer(refusal)]
        webhook = made({"type": "webhook", "url": f"{there.address}/secret-path"})
        async with running(lambda: webhook.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: counted(lent, "webhook", "sent"))
    assert len(there.posts) == 2
    assert counted(lent, "webhook", "failed") == 1
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "notification_failed"]
    assert refusal[:3] in record.getMessage()
    assert "secret-path" not in f"{record.__dict__}"


async def test_a_receiver_may_learn_of_one_severity_only() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        webhook = made({"type": "webhook", "url": there.address, "severity": "critical"})
        async with running(lambda: webhook.run(inbox, lent)):
            inbox.put([state(severity="warning")])
            inbox.put([state(severity="warning"), state(app="bank")])
            await until(lambda: counted(lent, "webhook", "sent"))
            inbox.put([state(severity="warning"), state(False, app="bank")])
            await until(lambda: counted(lent, "webhook", "sent") == 2)
    told = [(one["labels"]["app"], one["status"]) for _, _, body in there.posts for one in body["alerts"]]
    assert told == [("bank", "firing"), ("bank", "resolved")]


async def test_a_redirect_is_not_followed() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there, receiver() as elsewhere:
        there.answers = [answer("302 Found", f"Location: {elsewhere.address}/")]
        webhook = made({"type": "webhook", "url": there.address, "token": "s3cret"})
        async with running(lambda: webhook.run(inbox, lent)):
            inbox.put([state()])
            await there.until(2)
        assert elsewhere.posts == []
    assert counted(lent, "webhook", "failed") == 1


async def test_a_receiver_that_hangs_is_given_up_in_time_and_delays_no_other() -> None:
    lent = runtime(SystemClock())
    slow, quick = Inbox(), Inbox()
    async with receiver() as hanging, receiver() as there:
        hanging.silent = True
        one = made({"type": "webhook", "url": hanging.address, "timeout": "300ms"})
        other = made({"type": "alertmanager", "url": there.address})
        async with running(lambda: one.run(slow, lent)), running(lambda: other.run(quick, lent)):
            slow.put([state()])
            quick.put([state()])
            await until(lambda: counted(lent, "alertmanager", "sent") == 1)
            await until(lambda: counted(lent, "webhook", "failed") >= 1)


async def test_a_receiver_that_is_not_there_hears_how_things_stand_when_it_is() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as gone:
        address = gone.address
    webhook = made({"type": "webhook", "url": address})
    async with running(lambda: webhook.run(inbox, lent)):
        inbox.put([state(app="bank"), state(app="shop")])
        await until(lambda: counted(lent, "webhook", "failed") >= 2)
        inbox.put([state(False, app="bank"), state(app="shop")])
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(address.rsplit(":", 1)[1]))
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, gone.handle)
            await until(lambda: counted(lent, "webhook", "sent") == 1)
            tasks.cancel_scope.cancel()
    ((_, _, body),) = gone.posts
    assert [(alert["labels"]["app"], alert["status"]) for alert in body["alerts"]] == [("shop", "firing")]
    assert counted(lent, "webhook", "superseded") == 1


async def life(notifiers: Sequence[Notifier], lent: Runtime, states: Sequence[AlertState], sent: int) -> Runtime:
    """Run receivers with one configuration until so many notifications were sent; what the next life is lent."""
    inboxes = [Inbox() for _ in notifiers]
    async with AsyncExitStack() as stack:
        for one, inbox in zip(notifiers, inboxes, strict=True):
            await stack.enter_async_context(running(partial(one.run, inbox, lent)))
        for inbox in inboxes:
            inbox.put(states)
        await until(lambda: sum(counted(lent, kind, "sent") for kind in ("webhook", "apprise")) == sent)
    return replace(lent, carried=lent.carried.next(failed=False))


@pytest.mark.parametrize(("kind", "paths"), [("webhook", ("A", "B")), ("apprise", ("A", "B")), ("webhook", ("A", "A"))])
async def test_after_a_reload_each_of_two_receivers_at_one_address_learns_of_the_end_and_of_what_is_new(
    kind: str, paths: Sequence[str]
) -> None:
    async with receiver() as there:
        urls = [f"{there.address}/{path}" for path in paths]
        if kind == "apprise":
            both = [made({"type": kind, "urls": [url.replace("http:", "json:")]}) for url in urls]
        else:
            both = [made({"type": kind, "url": url}) for url in urls]
        lent = await life(both, runtime(SystemClock()), [state()], 2)
        lent = await life(both, lent, [state()], 2)
        lent = await life(both, lent, [state(app="bank")], 6)
    heard = Counter(line.split()[1] for line, _, body in there.posts for _ in body.get("alerts", [body]))
    assert heard == Counter([f"/{path}" for path in paths] * 3)


async def test_services_of_apprise_are_told_nothing_after_a_reload_until_the_alerts_were_checked() -> None:
    async with receiver() as there:
        one = made({"type": "apprise", "urls": [there.address.replace("http:", "json:")]})
        lent = await life([one], runtime(SystemClock()), [state()], 1)
        inbox = Inbox()
        async with running(partial(one.run, inbox, lent)):
            await anyio.wait_all_tasks_blocked()
            inbox.put([state(), state(app="bank")])
            await until(lambda: counted(lent, "apprise", "sent") == 2)
    assert [body["type"] for _, _, body in there.posts] == ["failure", "failure"]


async def test_a_receiver_that_took_an_alert_and_answered_too_late_learns_of_its_end() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        there.silent = True
        webhook = made({"type": "webhook", "url": there.address, "timeout": "300ms"})
        async with running(lambda: webhook.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: there.posts and counted(lent, "webhook", "failed"))
            there.silent = False
            inbox.put([])
            await until(lambda: counted(lent, "webhook", "sent") >= 1)
    assert [alert["status"] for _, _, body in there.posts for alert in body["alerts"]][-1] == "resolved"


@pytest.mark.parametrize(
    ("kind", "status", "learns"),
    [
        ("webhook", "502 Bad Gateway", True),
        ("webhook", "504 Gateway Timeout", True),
        ("apprise", "504 Gateway Timeout", True),
        ("webhook", "500 Internal Server Error", False),
        ("webhook", "503 Service Unavailable", False),
        ("webhook", "404 Not Found", False),
        ("apprise", "500 Internal Server Error", False),
    ],
)
async def test_an_answer_of_a_gateway_may_mean_that_the_alert_has_arrived_and_a_refusal_does_not(
    kind: str, status: str, learns: bool
) -> None:
    clock = ManualClock()
    lent, inbox = runtime(clock), Inbox()
    async with receiver() as there:
        there.answers = [answer(status)]
        url = {"url": there.address} if kind == "webhook" else {"urls": [there.address.replace("http:", "json:")]}
        one = made({"type": kind, **url})
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: counted(lent, kind, "failed") == 1)
            inbox.put([])  # before it is tried again
            await anyio.wait_all_tasks_blocked()
            clock.advance(1.0)
            inbox.put([])
            await until(lambda: counted(lent, kind, "sent" if learns else "superseded") == 1)
    assert len(there.posts) == (2 if learns else 1)


async def test_a_receiver_that_cannot_be_reached_does_not_learn_of_the_end_of_what_it_was_not_told() -> None:
    lent = runtime(SystemClock())
    async with receiver() as gone:
        address = gone.address
    for kind, entry in (
        ("webhook", {"url": address}),
        ("apprise", {"urls": [address.replace("http:", "json:")]}),
    ):
        inbox = Inbox()
        one = made({"type": kind, **entry})
        async with running(partial(one.run, inbox, lent)):
            inbox.put([state()])
            await until(lambda kind=kind: counted(lent, kind, "failed") >= 1)
            inbox.put([])
            await until(lambda kind=kind: counted(lent, kind, "superseded") == 1)


async def test_a_body_has_its_length_and_comes_in_one_piece() -> None:
    async with receiver() as there:
        webhook = made({"type": "webhook", "url": there.address})
        await webhook.deliver(ScheduledMessage("Answers", ["A"], {}))
    ((_, headers, _),) = there.posts
    assert int(headers["content-length"]) > 0
    assert "transfer-encoding" not in headers


async def test_alertmanager_is_sent_both_severities_with_an_end_that_lies_ahead_and_again() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        alertmanager = made({"type": "alertmanager", "url": f"{there.address}/prefix/", "resend_interval": "1s"})
        async with running(lambda: alertmanager.run(inbox, lent)):
            inbox.put([state(), state(severity="warning")])
            await there.until(2)
            inbox.put([])
            await there.until(3)
    (line, _, first), (_, _, again), (_, _, last) = there.posts
    assert line == "POST /prefix/api/v2/alerts HTTP/1.1"
    assert [alert["labels"]["severity"] for alert in first] == ["critical", "warning"]
    assert [alert["labels"] for alert in again] == [alert["labels"] for alert in first]
    assert again[0]["startsAt"] == first[0]["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert again[0]["endsAt"] > first[0]["endsAt"]
    assert last[0]["endsAt"] < first[0]["endsAt"]


async def test_the_log_says_once_that_an_alert_fires_and_once_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "monitor")
    lent, inbox = runtime(SystemClock()), Inbox()

    async with running(lambda: Log().run(inbox, lent)):
        inbox.put([state(), state(severity="warning")])
        await until(lambda: len(caplog.records) == 1)
        inbox.put([replace(state(), annotations={"diagnosis": "Since 14:05 UTC."})])
        await until(lambda: len(caplog.records) == 2)
        inbox.put([state(False), state(False, "warning")])
        await until(lambda: len(caplog.records) == 3)
    fired, late, over = caplog.records
    assert (late.levelname, late.event, late.getMessage()) == ("INFO", "alert_diagnosed", "Since 14:05 UTC.")  # type: ignore[attr-defined]
    assert (fired.levelname, fired.event, fired.getMessage()) == ("ERROR", "alert_firing", "30 % are defective.")  # type: ignore[attr-defined]
    assert over.event == "alert_resolved"  # type: ignore[attr-defined]
    assert fired.fields["app"] == "shop"  # type: ignore[attr-defined]


def test_the_log_is_a_receiver_whether_or_not_it_is_named() -> None:
    assert read_notifiers([]) == (Log(),)
    assert read_notifiers([{"type": "log"}]) == (Log(),)
    both = read_notifiers([{"type": "alertmanager", "url": "http://alertmanager:9093"}])
    assert [type(one) for one in both] == [Log, Alertmanager]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, r"notify\[0\]: needs a `type`, one of: log, webhook, alertmanager"),
        ({"type": "pager"}, "given: 'pager'"),
        ({"type": "log", "level": 3}, r"notify\[0\].level: unknown key"),
        ({"type": "webhook"}, "url: is required"),
        (
            {"type": "webhook", "url": "http://a", "retries": 3},
            "retries: unknown key; allowed: name, url, token, severity, timeout",
        ),
        ({"type": "webhook", "url": "http://a", "timeout": "2m"}, "timeout: must be at most 60"),
        ({"type": "alertmanager", "url": "http://a", "resend_interval": 0}, "resend_interval: must be at least 1"),
    ],
)
def test_a_receiver_that_cannot_be_is_refused_with_place_and_what_is_allowed(
    entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(entry)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://receiver/",
        "file:///etc/passwd",
        "receiver:9093",
        "http://",
        "http://user:hunter2@receiver/",
        "http://receiver/#part",
        "http://receiver/a b",
        "http://receiver:99999/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://169.254.43518/",
        "http://metadata.google.internal./",
        "http://0.0.0.0/",
        "http://[::1/",
    ],
)
def test_an_address_that_is_no_receiver_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="url: ") as refused:
        made({"type": "webhook", "url": url})
    assert "hunter2" not in str(refused.value)
    assert "given" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9093", "http://[::1]:9093/x", "https://hooks.example.org/T0/B0?x=1", "http://10.0.0.7"]
)
def test_an_address_that_is_one_is_taken(url: str) -> None:
    taken = made({"type": "webhook", "url": url})
    assert isinstance(taken, Webhook)
    assert taken.url == url


def test_a_token_is_not_shown() -> None:
    assert "s3cret" not in repr(made({"type": "webhook", "url": "http://a", "token": "s3cret"}))


async def test_a_message_with_half_a_surrogate_pair_is_delivered_all_the_same() -> None:
    async with receiver() as there:
        webhook = made({"type": "webhook", "url": f"{there.address}/hook"})
        await webhook.deliver(ScheduledMessage("Answers", ["A \u00e9."], {"documents": ["kb/\ud800"]}))
    ((_, headers, body),) = there.posts
    assert (body["digest"], body["text"]) == ({"documents": ["kb/?"]}, "A \u00e9.")
    assert {name.lower(): value for name, value in headers.items()}["content-type"] == "application/json"
