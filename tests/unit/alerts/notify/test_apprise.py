"""Services of Apprise: each notified for itself over real HTTP, in time, without a word of its URL in the log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.notify import Inbox, Notifier, apprise, read_notifier
from monitor.alerts.notify.apprise import without_parts
from monitor.clock import SystemClock
from monitor.errors import ConfigError
from monitor.transport.http import client
from tests.support.alerts import Receiver, answer, counted, receiver, running, state
from tests.support.runtime import runtime
from tests.support.tools import leading_to, until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("monitor.alerts.notify.receiver.FIRST_RETRY", 0.05)


def made(*urls: str, **options: Any) -> Notifier:
    return read_notifier({"type": "apprise", "urls": list(urls), **options}, "notify[0]")


def json_url(there: Receiver, path: str = "") -> str:
    return there.address.replace("http://", "json://") + path


async def test_it_fires_as_a_failure_or_a_warning_and_ends_as_a_success_with_the_same_title() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there:
        one = made(json_url(there))
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state(), state(severity="warning", app="bank")])
            await there.until(2)
            inbox.put([state(False), state(severity="warning", app="bank")])
            await until(lambda: counted(lent, "apprise", "sent") == 3)
    told = [(body["title"], body["type"]) for _, _, body in there.posts]
    page = "RagDefectRateHigh (critical): shop, grounded"
    assert told == [(page, "failure"), ("RagDefectRateHigh (warning): bank, grounded", "warning"), (page, "success")]
    assert there.posts[0][2]["message"] == "Firing: 30 % are defective."
    assert there.posts[2][2]["message"].startswith("Resolved after ")


async def test_a_service_that_refuses_is_asked_again_and_the_others_only_once(caplog: pytest.LogCaptureFixture) -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there, receiver() as refusing:
        refusing.answers = [answer("403 Forbidden")]
        one = made(json_url(there), json_url(refusing, "/s3cret-path?+X-Key=s3cret-key"))
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: counted(lent, "apprise", "sent") == 2)
    assert (len(there.posts), len(refusing.posts)) == (1, 2)
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "notification_failed"]
    assert "error=403" in record.getMessage()
    assert record.fields == {"receiver": "apprise", "address": "urls[1] (json)"}  # type: ignore[attr-defined]
    assert not any("s3cret" in f"{one.__dict__}" for one in caplog.records)


async def test_s13_nothing_is_sent_where_the_name_leads_to_a_metadata_address(monkeypatch: pytest.MonkeyPatch) -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    monkeypatch.setenv("NO_PROXY", "pager.example")
    async with receiver() as there:
        one = made(json_url(there).replace("127.0.0.1", "pager.example"))
        with leading_to(monkeypatch, "127.0.0.1"):
            monkeypatch.setattr(client, "is_metadata_address", lambda address: address == "127.0.0.1")
            async with running(lambda: one.run(inbox, lent)):
                inbox.put([state()])
                await until(lambda: counted(lent, "apprise", "failed") >= 1)
                assert there.posts == []
                monkeypatch.setattr(client, "is_metadata_address", lambda _: False)
                await until(lambda: counted(lent, "apprise", "sent") == 1)
    assert len(there.posts) == 1


async def test_a_redirect_is_not_followed() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as there, receiver() as elsewhere:
        there.answers = [answer("307 Temporary Redirect", f"Location: {elsewhere.address}/")]
        one = made(json_url(there))
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await there.until(2)
        assert elsewhere.posts == []


async def test_a_service_that_hangs_is_given_up_in_time_and_holds_up_no_other() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as hanging, receiver() as there:
        hanging.silent = True
        one = made(json_url(hanging, "?rto=600"), json_url(there), timeout="300ms")
        async with running(lambda: one.run(inbox, lent)):
            inbox.put([state()])
            await until(lambda: counted(lent, "apprise", "sent") == 1)
            await hanging.until(1)
            before = counted(lent, "apprise", "failed")
            await until(lambda: counted(lent, "apprise", "failed") >= before + 2)
            assert len(hanging.posts) == 1, "no second one before the first has ended"


async def test_a_service_that_answers_too_late_learns_of_the_end_however_the_time_ran_out() -> None:
    for options, late in (({"timeout": "300ms"}, "?rto=600"), ({}, "?rto=0.3")):
        lent, inbox = runtime(SystemClock()), Inbox()
        async with receiver() as there:
            there.silent = True
            one = made(json_url(there, late), **options)
            async with running(lambda one=one, inbox=inbox, lent=lent: one.run(inbox, lent)):  # type: ignore[misc]
                inbox.put([state()])
                await until(lambda lent=lent: counted(lent, "apprise", "failed") >= 1)  # type: ignore[misc]
                assert len(there.posts) >= 1
                inbox.put([])
                await until(lambda lent=lent: counted(lent, "apprise", "failed") >= 3)  # type: ignore[misc]
                assert counted(lent, "apprise", "superseded") == 0


async def test_stopping_does_not_wait_for_a_service_that_hangs() -> None:
    lent, inbox = runtime(SystemClock()), Inbox()
    async with receiver() as hanging:
        hanging.silent = True
        one = made(json_url(hanging, "?rto=2"))
        with anyio.fail_after(120):
            async with running(lambda: one.run(inbox, lent)):
                inbox.put([state()])
                await hanging.until(1)


async def test_pagerduty_closes_the_incident_that_it_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, Any]] = []

    def post(_url: str, data: str, **_more: Any) -> Any:
        events.append(json.loads(data))
        return SimpleNamespace(status_code=202, content=b"")

    monkeypatch.setattr("requests.post", post)
    monkeypatch.setattr("apprise.plugins.pagerduty.NotifyPagerDuty.request_rate_per_sec", 0)
    lent, inbox = runtime(SystemClock()), Inbox()
    one = made("pagerduty://integration@key?action=map")
    async with running(lambda: one.run(inbox, lent)):
        inbox.put([state()])
        await until(lambda: counted(lent, "apprise", "sent") == 1)
        inbox.put([state(False)])
        await until(lambda: counted(lent, "apprise", "sent") == 2)
    fired, resolved = events
    assert (fired["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert fired["dedup_key"] == resolved["dedup_key"]
    assert fired["payload"]["severity"] == "critical"
    assert "Firing: 30 % are defective." in fired["payload"]["summary"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("telegam://s3cret/s3cret", r"urls\[0\]: Apprise has no service for this URL"),
        ("tgrm://s3cret/s3cret", r"did you mean 'tgram'"),
        ("s3cret", "has no service"),
        ("https://hooks.example/s3cret", "has no service"),
        ("pagerduty://s3cret", "refuses this pagerduty:// URL"),
        ("json://169.254.169.254/s3cret", "link-local or metadata address"),
        ("jsons://user:s3cret@metadata.google.internal/x", "link-local or metadata address"),
        ("xml://2852039166/s3cret", "link-local or metadata address"),
    ],
)
def test_a_url_that_cannot_be_is_refused_and_not_repeated(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        made(url)
    assert "s3cret" not in str(refused.value)
    assert str(refused.value).startswith("notify[0].urls[0]: ")


@pytest.mark.parametrize(("urls", "said"), [([], "must not be empty"), ("json://s3cret", "must be a list")])
def test_urls_are_a_list(urls: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_notifier({"type": "apprise", "urls": urls}, "notify[0]")
    assert "s3cret" not in str(refused.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"needs the extra `notify`: pip install 'rag-monitor\[notify\]'"):
        made("json://127.0.0.1/")


def test_the_urls_are_not_shown() -> None:
    assert "s3cret" not in repr(made("json://127.0.0.1/s3cret"))


def test_reading_a_configuration_without_it_imports_no_apprise() -> None:
    entries = "[{'type': 'slack', 'url': 'http://a'}]"
    code = f"import sys, monitor.alerts.notify as n; n.read_notifiers({entries}); sys.exit('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Failed to send to T0ken at Host.example: error=401.", "Failed to send to *** at ***: error=401."),
        ("no such user a b", "no such user ***"),
        ("Slack:\n\x1b[31mtimeout", "Slack: [31mtimeout"),
    ],
)
def test_a_reason_is_shown_without_the_parts_of_the_url(text: str, shown: str) -> None:
    assert without_parts(text, "slack://T0ken:pass@host.example/a%20b/?x=1") == shown


@given(st.text("abcXYZ%20/:@?&=.-", max_size=60), st.text("abcXYZ%20/:@?&=.- ", max_size=60))
def test_no_part_of_a_url_is_ever_left(rest: str, around: str) -> None:
    shown = without_parts(f"{around} {rest} {around}", f"json://{rest}")
    for part in re.split(r"[/:@?&=]", rest):
        assert len(part) < 3 or part.lower() not in shown.lower()
