"""What every sink keeps that writes to another product's HTTP API; shown with Langfuse, which takes one at a time."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from monitor import registry
from monitor.clock import SystemClock
from monitor.errors import ConfigError, InvalidData, MonitorError, Overloaded
from monitor.sinks.langfuse import LangfuseSink
from monitor.sinks.phoenix import Phoenix
from monitor.stages import Sink
from tests.support.following import followed
from tests.support.http_api import Asked, HttpApi, Says
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.tools import PATIENCE, free_port

pytestmark = pytest.mark.anyio
SECRET = "sk-lf-very-secret"


def langfuse(url: str, **options: Any) -> LangfuseSink:
    return LangfuseSink.model_validate({"url": url, "public_key": "pk-lf-1", "secret_key": SECRET, **options})


async def deliver(sink: Sink, *numbers: int) -> None:
    async with sink.open(runtime(SystemClock())) as deliver_one:
        for number in numbers or (1,):
            await deliver_one([judged(number)])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_an_answer_that_may_change_is_asked_for_again(status: int, tmp_path: Path) -> None:
    with HttpApi(Says(status), Says(status), Says()) as api:
        async with followed(tmp_path, langfuse(api.url)) as at:
            await at.write(judged(1))
            await at.done(1)
        assert len(api.asked) == 3
        assert len({asked.content for asked in api.asked}) == 1


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidData), (422, InvalidData), (401, MonitorError)])
async def test_an_answer_that_will_not_change_is_not_asked_for_again(status: int, kind: type[Exception]) -> None:
    with HttpApi(Says(status, {"message": "prompt text"})) as api:
        with pytest.raises(kind, match=f"^langfuse: 127.0.0.1:[0-9]+ answered {status}$"):
            await deliver(langfuse(api.url))
        assert len(api.asked) == 1


async def test_a_redirect_is_not_followed() -> None:
    with HttpApi() as other, HttpApi(Says(307, headers={"location": other.url})) as api:
        with pytest.raises(MonitorError, match="answered 307"):
            await deliver(langfuse(api.url))
        assert not other.asked


async def test_a_page_for_people_is_no_success() -> None:
    page = Says(200, content=b"<html>Please log in</html>", headers={"content-type": "text/html"})
    with HttpApi(page) as api, pytest.raises(MonitorError, match="is `url` the address of its API"):
        await deliver(langfuse(api.url))


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_read_in_both_its_forms(form: str) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with HttpApi(Says(429, headers={"retry-after": "3600" if form == "seconds" else soon})) as api:
        with pytest.raises(Overloaded, match="answered 429") as caught:
            await deliver(langfuse(api.url))
        assert 3000 < caught.value.retry_after <= 3600
        assert len(api.asked) == 1


async def test_retry_after_with_a_date_of_too_many_digits_is_left_out() -> None:
    absurd = f"Mon, {'9' * 20} Jan 2026 00:00:00 GMT"
    with HttpApi(Says(429, headers={"retry-after": absurd})) as api:
        with pytest.raises(Overloaded, match="answered 429") as caught:
            await deliver(langfuse(api.url))
        assert caught.value.retry_after == 0.0


async def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    with HttpApi(Says(429, headers={"retry-after": "1"}), Says()) as api:
        async with followed(tmp_path, langfuse(api.url)) as at:
            began = time.monotonic()
            await at.write(judged(1))
            await at.done(1)
            assert time.monotonic() - began > 0.7
        assert len(api.asked) == 2


async def test_a_server_that_does_not_answer_costs_no_more_than_the_timeout() -> None:
    with HttpApi(Says(seconds=2.0)) as api, pytest.raises(Overloaded, match=r"langfuse: not delivered within 0\.2 s"):
        await deliver(langfuse(api.url, timeout=0.2))


async def test_a_server_that_is_not_there_is_named_with_what_happened() -> None:
    port = free_port()
    with pytest.raises(Overloaded, match=f"langfuse: 127.0.0.1:{port}: ConnectError"):
        await deliver(langfuse(f"http://127.0.0.1:{port}"))


async def test_many_at_a_time_are_under_way_together(tmp_path: Path) -> None:
    second = threading.Event()

    def say(_asked: Asked) -> Says:
        if len(api.asked) > 1:
            second.set()
        return Says(held=lambda: second.wait(10 * PATIENCE))  # the first is answered when the second is there

    with HttpApi(say) as api:
        async with followed(tmp_path, langfuse(api.url)) as at:
            await at.write(*(judged(number) for number in range(40)))
            await at.done(40)
        assert len(api.asked) == 40
        assert 2 <= api.at_once <= LangfuseSink.in_flight


@pytest.mark.parametrize("name", ["otel_events", "phoenix", "langfuse", "mlflow"])
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254",
        "http://[fe80::1]:80",
        "http://2852039166",
        "http://[::ffff:169.254.169.254]",
        "http://metadata.google.internal",
        "ftp://host",
        "http://user:sk-lf-very-secret@host",
        "http://host/?key=sk-lf-very-secret",
        "//host",
        "http://h\nost",
    ],
)
async def test_an_address_that_results_must_not_go_to_is_refused_and_not_repeated(name: str, url: str) -> None:
    keys = {"public_key": "pk", "secret_key": SECRET} if name == "langfuse" else {}
    entry = {"type": name, "endpoint" if name == "otel_events" else "url": url, **keys}
    with pytest.raises(ConfigError, match="the address") as caught:
        registry.read("sinks", entry, Sink, "sinks[0]")
    assert SECRET not in str(caught.value)


async def test_a_wrong_option_does_not_repeat_a_key() -> None:
    entry = {"type": "langfuse", "url": "http://h", "public_key": "pk", "secret_key": [SECRET]}
    with pytest.raises(ConfigError, match="secret_key") as caught:
        registry.read("sinks", entry, Sink, "sinks[0]")
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(langfuse("http://h"))


@pytest.mark.parametrize("key", ["k\u00e4y", "key\n", "key\r\nx-other: 1"])
async def test_a_key_that_no_header_can_hold_is_told_before_anything_is_sent(key: str) -> None:
    with HttpApi() as api:
        with pytest.raises(ConfigError, match=r"^a key must be plain ASCII") as caught:
            await deliver(Phoenix.model_validate({"url": api.url, "api_key": key}))
        assert key not in str(caught.value)
        assert not api.asked


async def test_encryption_is_checked_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="https"):
        langfuse("http://h", tls={"ca_file": tmp_path / "ca.pem"})
    with pytest.raises(ValidationError, match="set both"):
        langfuse("https://h", tls={"cert_file": tmp_path / "c.pem"})
    with pytest.raises(ConfigError, match=r"^tls: .*ca\.pem"):
        await deliver(langfuse("https://h", tls={"ca_file": tmp_path / "ca.pem"}))
