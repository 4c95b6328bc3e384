"""The form that tries an evaluator: whom it lets in, and that a result goes with its case."""

from __future__ import annotations

import html
import re
import sqlite3
from dataclasses import replace

import anyio
import httpx
import pytest
from pydantic import SecretStr

from monitor.jobs.trial.queue import TrialQueue
from monitor.telemetry.site import WebResponse
from monitor.transport.http.auth import Auth
from monitor.web.pages import Pages
from monitor.web.post_guard import PostGuard, RefusedError, TrialRequest
from monitor.web.settings import UiSettings
from monitor.web.trials import TrialPages
from monitor.web.view_audit import ViewAudit
from tests.support.page import NOW, Site, answer, assigned

NAME = "overlap_groundedness"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def body(guard: PostGuard, **change: str) -> bytes:
    fields = {"token": guard.token, "case": "a", "evaluator": NAME, "times": "2", **change}
    return str(httpx.QueryParams(fields)).encode()


@pytest.mark.parametrize(
    ("headers", "in_"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, True),
        ({"origin": "http://10.0.0.7:9464", "host": "10.0.0.7:9464"}, True),
        ({"origin": "https://Monitor.example.com", "host": "127.0.0.1:9464"}, True),
        ({"origin": "http://10.0.0.7:9465", "host": "10.0.0.7:9464"}, False),
        ({"origin": "null", "host": "null"}, False),
        ({"origin": "", "host": ""}, False),
        ({"origin": "file://", "host": ""}, False),
        ({"origin": "https://monitor.example.com.evil.example", "host": "127.0.0.1"}, False),
        ({"origin": "https://monitor.example.com", "sec-fetch-site": "cross-site"}, False),
    ],
)
def test_only_the_page_itself_and_programs_are_let_in(headers, in_):
    guard = PostGuard(["monitor.example.com"])
    if in_:
        assert guard.admit({**FORM, **headers}, body(guard), TrialRequest, json=False).times == 2
    else:
        with pytest.raises(RefusedError, match="another website"):
            guard.admit({**FORM, **headers}, body(guard), TrialRequest, json=False)


def test_the_token_of_another_process_is_none():
    with pytest.raises(RefusedError, match="reload the page"):
        PostGuard([]).admit(FORM, body(PostGuard([])), TrialRequest, json=False)


@pytest.mark.anyio
async def test_a_result_is_gone_with_the_texts_of_its_case(tmp_path):
    site = Site(tmp_path)
    tries = TrialQueue(9, [assigned(NAME)], {}, runtime=site.runtime)
    pages = TrialPages(replace(site.context, trials=tries), tries, site.settings, ViewAudit(site.runtime))
    one = answer(1)
    await site.store([one])
    async with anyio.create_task_group() as beside:
        beside.start_soon(tries.run)
        posted = await pages.post("/try", FORM, body(pages._guard, case=one.case.request_id))
        beside.cancel_scope.cancel()
    assert posted.status == 303
    name = posted.headers["location"].removeprefix("tried/")
    shown = await pages.page(name)
    assert isinstance(shown, WebResponse)
    assert b"All 2 results agree" in shown.body
    with sqlite3.connect(tmp_path / "history.db") as db:
        db.execute("DELETE FROM results")
    db.close()
    assert await pages.page(name) is None


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["../../etc/?a=b&c#d", "\"'><script>x</script>", "a b\u00e9\u202e{{7*7}}", "a%2f+b"])
async def test_the_form_of_a_case_tries_that_case_whatever_its_id_holds(tmp_path, name):
    site = Site(tmp_path)
    tries = TrialQueue(9, [assigned(NAME)], {}, runtime=site.runtime)
    pages = Pages(replace(site.context, trials=tries), site.settings, started_at=NOW)
    await site.store([answer(1, trace_id=name)])
    page = (await pages(f"/case/{name}", "", {})).body.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    sent = {key: html.unescape(value) for key, value in fields.items()} | {"evaluator": NAME, "times": "1"}
    async with anyio.create_task_group() as beside:
        beside.start_soon(tries.run)
        posted = await pages.post("/try", FORM, str(httpx.QueryParams(sent)).encode())
        beside.cancel_scope.cancel()
    assert posted.status == 303
    shown = await pages(f"/{posted.headers['location']}", "", {})
    assert shown.status == 200
    assert b"<script" not in shown.body


@pytest.mark.anyio
async def test_a_history_that_cannot_be_read_is_said(tmp_path):
    site = Site(tmp_path)
    tries = TrialQueue(9, [assigned(NAME)], {}, runtime=site.runtime)
    pages = TrialPages(replace(site.context, trials=tries), tries, site.settings, ViewAudit(site.runtime))
    found = await pages.post("/try", FORM, body(pages._guard))
    assert found.status == 503


def test_behind_a_token_nobody_posts_without_it(tmp_path):
    site = Site(tmp_path, settings=UiSettings(url="https://monitor.example.com"))

    async def take(path, headers, body):
        return WebResponse(200, "text/plain", b"taken")

    site.runtime.site.mount_post(take, ["/try"])
    with site.served(auth=Auth(token=SecretStr("s3cret"))) as url, httpx.Client(trust_env=False, timeout=60) as client:
        assert client.post(f"{url}/try", content=b"x").status_code == 401
        taken = client.post(f"{url}/try", content=b"x", headers={"Authorization": "Bearer s3cret"})
        assert (taken.status_code, taken.text) == (200, "taken")
        assert client.post(f"{url}/metrics", headers={"Authorization": "Bearer s3cret"}).status_code == 405
