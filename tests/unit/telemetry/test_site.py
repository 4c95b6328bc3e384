"""The mount point on the metrics port: which names it answers to, and who comes in."""

from __future__ import annotations

import base64
import contextlib
import threading

import anyio
import httpx
import pytest
from pydantic import SecretStr

from monitor.telemetry.site import Site as Mount
from monitor.transport.http.auth import Auth
from monitor.web.settings import UiSettings
from tests.support.page import Site


def test_two_pages_cannot_be_mounted():
    mount = Mount()

    async def nothing(*_):
        return None

    mount.mount(nothing)
    with pytest.raises(ValueError, match="mounted already"):
        mount.mount(nothing)


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()}


def test_a_foreign_name_gets_neither_metrics_nor_texts_but_says_that_it_lives(tmp_path):
    with (
        Site(tmp_path).served() as url,
        httpx.Client(trust_env=False, timeout=60, headers={"Host": "evil.example"}) as client,
    ):
        assert client.get(f"{url}/-/healthy").status_code == 200
        for path in ("/metrics", "/answers", "/none"):
            refused = client.get(url + path)
            assert (refused.status_code, "set `hosts`" in refused.text) == (421, True), path


def test_the_public_name_is_served(tmp_path):
    site = Site(tmp_path, settings=UiSettings(url="https://monitor.example.com/quality"))
    with (
        site.served() as url,
        httpx.Client(trust_env=False, timeout=60, headers={"Host": "monitor.example.com"}) as client,
    ):
        assert client.get(f"{url}/alerts").status_code == 200


def test_behind_a_token_a_browser_is_asked_for_it_and_served_under_any_name(tmp_path):
    with (
        Site(tmp_path).served(auth=Auth(token=SecretStr("s3cret"))) as url,
        httpx.Client(trust_env=False, timeout=60, headers={"Host": "monitor.example.org"}) as client,
    ):
        asked = client.get(f"{url}/alerts")
        assert asked.status_code == 401
        assert [one.split()[0] for one in asked.headers.get_list("www-authenticate")] == ["Bearer", "Basic"]
        assert client.get(f"{url}/alerts", headers=basic("s3cret")).status_code == 200
        assert client.get(f"{url}/alerts", headers={"Authorization": "Bearer s3cret"}).status_code == 200
        for wrong in (basic("wrong"), {"Authorization": "Basic ???"}, {"Authorization": "Basic"}, basic("")):
            assert client.get(f"{url}/alerts", headers=wrong).status_code == 401


def test_the_page_is_only_read(tmp_path):
    with Site(tmp_path).served() as url, httpx.Client(trust_env=False, timeout=60) as client:
        assert client.post(f"{url}/answers").status_code == 405
        head = client.head(f"{url}/alerts")
        assert (head.status_code, head.text) == (200, "")
        assert int(head.headers["content-length"]) > 1000


def _get(url: str) -> None:
    with contextlib.suppress(httpx.HTTPError):
        httpx.get(url, trust_env=False, timeout=60)


def test_a_scrape_does_not_wait_for_a_page(tmp_path):
    site = Site(tmp_path)
    asked = threading.Event()

    async def hanging(*_):
        asked.set()
        await anyio.sleep_forever()

    site.runtime.site._get = hanging
    with site.served() as url, httpx.Client(trust_env=False, timeout=60) as client:
        waiting = threading.Thread(target=_get, args=(f"{url}/answers",))
        waiting.start()
        assert asked.wait(60)
        assert client.get(f"{url}/metrics", timeout=60).status_code == 200
    waiting.join(60)
