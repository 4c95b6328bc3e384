"""Incidents on pages and as JSON, and notes: taken from the page itself and from programs only, and audited."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import httpx
import pytest

from monitor.privacy.audit import Audit
from monitor.web import overview
from monitor.web.incidents import IncidentPages
from monitor.web.settings import UiSettings
from tests.support.incidents import keep_incident
from tests.support.page import Site

pytestmark = pytest.mark.anyio
ID = "20231114-0000000a"
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}


async def seen(site: Site, path: str) -> str:
    found = await site.get(path)
    assert found.status == 200
    return html.unescape(re.sub(r"<[^>]+>", "", found.body.decode())).replace("\u00a0", " ")


async def token(site: Site) -> str:
    body = (await site.get(f"/incidents/{ID}")).body.decode()
    found = re.search(r'name="token" value="([^"]+)"', body)
    assert found
    return found[1]


async def test_the_list_leads_to_the_incident_that_tells_all(tmp_path: Path):
    site = Site(tmp_path)
    assert "No incidents" in await seen(site, "/incidents")
    keep_incident(tmp_path, ID)
    keep_incident(tmp_path, "20231114-0000000b", open_=True)
    body = (await site.get("/incidents")).body.decode()
    assert f'href="incidents/{ID}"' in body
    for words in ("1 open", "1 over", "31 %", "about 2,500 bad answers", "prompt 3 -> 4", "The rate fell back."):
        assert words in await seen(site, "/incidents"), words
    for words in (
        "2023-11-14T21:58:20Z (between 2023-11-14T21:53:20Z",
        "2,200 to 2,800",
        "Diagnosis at its height",
        "Diagnosis at its end",
        "tenant = acme",
        "How long is the label valid?",
        "The context says 30 days.",
        "user anna",
        "The index was empty.",
    ):
        assert words in await seen(site, f"/incidents/{ID}"), words


async def test_the_json_is_the_same(tmp_path: Path):
    site = Site(tmp_path)
    keep_incident(tmp_path, ID)
    listed = json.loads((await site.get("/api/v1/incidents")).body)["incidents"]
    one = json.loads((await site.get(f"/api/v1/incidents/{ID}")).body)
    assert [one["incident"]] == listed
    assert (listed[0]["end"], listed[0]["peak"]["rate"], listed[0]["impact"]["judged"]) == ("fell_back", 0.31, 900)
    assert [answer["level"] for answer in one["answers"]] == ["ungrounded", "ungrounded"]
    assert "user" not in one["answers"][0]


@pytest.mark.parametrize("path", ["/incidents/20231114-0000000f", "/incidents/" + "x" * 600, "/incidents/%00"])
async def test_one_that_is_not_there_is_not_found(tmp_path: Path, path: str):
    site = Site(tmp_path)
    keep_incident(tmp_path, ID)
    assert (await site.get(path)).status == 404
    assert (await site.get(f"/api/v1{path}")).status == 404


async def test_a_note_by_form_is_kept_audited_and_leads_back_to_the_incident(tmp_path: Path):
    site = Site(tmp_path)
    site.runtime.events.also(Audit(tmp_path, site.clock).on_event)
    keep_incident(tmp_path, ID)
    fields = {"incident": ID, "token": await token(site), "text": "<b>rolled</b> back \u202e"}
    given = await site.pages.post("/note", FORM, str(httpx.QueryParams(fields)).encode())
    assert (given.status, given.headers["location"]) == (303, f"incidents/{ID}")
    body = (await site.get(f"/incidents/{ID}")).body.decode()
    assert "&lt;b&gt;rolled&lt;/b&gt; back" in body
    assert "\u202e" not in body
    noted = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [one["incident"] for one in noted if one["event"] == "incident_noted"] == [ID]
    assert "rolled" not in (tmp_path / "audit.jsonl").read_text()


async def test_a_note_as_json_gives_the_incident(tmp_path: Path):
    site = Site(tmp_path)
    keep_incident(tmp_path, ID)
    given = await site.pages.post("/api/v1/notes", JSON, json.dumps({"incident": ID, "text": "seen"}).encode())
    assert given.status == 200
    assert {note["text"] for note in json.loads(given.body)["notes"]} == {"The index was empty.", "seen"}


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (JSON, {"incident": "20231114-0000000f", "text": "x"}, 404),
        (JSON, {"incident": "../../etc", "text": "x"}, 400),
        (JSON, {"incident": ID, "text": " \n"}, 400),
        (JSON, {"incident": ID, "text": "x" * 4001}, 400),
        (JSON, {"incident": ID, "text": "x", "who": "the boss"}, 400),
        ({**JSON, "sec-fetch-site": "cross-site"}, {"incident": ID, "text": "x"}, 403),
        (FORM, {"incident": ID, "text": "x"}, 415),
    ],
)
async def test_a_note_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path: Path, headers: dict[str, str], body: dict[str, str], status: int
):
    site = Site(tmp_path)
    keep_incident(tmp_path, ID)
    assert (await site.pages.post("/api/v1/notes", headers, json.dumps(body).encode())).status == status
    assert len(json.loads((await site.get(f"/api/v1/incidents/{ID}")).body)["notes"]) == 1


async def test_a_form_of_another_page_adds_no_note(tmp_path: Path):
    site = Site(tmp_path)
    keep_incident(tmp_path, ID)
    for given in ({"token": "x"}, {}):
        fields = {"incident": ID, "text": "noted", **given}
        answered = await site.pages.post("/note", FORM, str(httpx.QueryParams(fields)).encode())
        assert answered.status == 403
    other = IncidentPages(site.context, UiSettings(), site.pages._audit)
    fields = {"incident": ID, "text": "noted", "token": await token(site)}
    assert (await other.post("/note", FORM, str(httpx.QueryParams(fields)).encode())).status == 403


async def test_texts_that_are_shown_are_audited_once(tmp_path: Path):
    site = Site(tmp_path)
    site.runtime.events.also(Audit(tmp_path, site.clock).on_event)
    keep_incident(tmp_path, ID)
    for _ in range(3):
        await site.get(f"/incidents/{ID}")
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["path"] == "/incidents"


async def test_warning_and_critical_of_one_rate_are_one_alarm_that_leads_to_its_incident(tmp_path: Path):
    site = Site(tmp_path)
    await site.store([])
    site.judge("shop", "overlap_groundedness", good=50, bad=50)
    site.look()
    await site.keeper.catch_up()
    view = overview.alerts(site.context)
    assert len([one for one in view.alerts if one.status == "firing"]) == 2
    ((first, second),) = overview.by_rate(view.alerts)
    assert (first.severity, second.severity) == ("critical", "warning")
    assert first.incident == second.incident
    shown = await seen(site, "/alerts")
    assert "1 firing" in shown
    assert re.search(r"Also:\s+warning", shown)
    start = await seen(site, "/")
    assert start.count("RagDefectRateHigh") == 1
    assert re.search(r"Also:\s+warning \(above .*\)\.", start)
    assert f"incidents/{first.incident}" in (await site.get("/")).body.decode()
    assert (await site.get(f"/incidents/{first.incident}")).status == 200


async def test_alerts_on_other_rates_stand_apart(tmp_path: Path):
    site = Site(tmp_path)
    site.judge("shop", "overlap_groundedness", good=50, bad=50)
    site.judge("docs", "overlap_groundedness", good=50, bad=50)
    site.look()
    assert len(overview.by_rate(overview.alerts(site.context).alerts)) == 2
