"""Who looks at texts leaves a line; what has no text, or is shown again by itself, leaves none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from monitor.clock import SystemClock
from monitor.model.outcome import EvaluationResult, Score
from monitor.privacy import audit
from monitor.privacy.audit import Audit
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.site import VIEWER, Viewer
from monitor.web.settings import UiSettings
from tests.support.page import NOW, Site
from tests.support.results import judged
from tests.support.runtime import total

pytestmark = pytest.mark.anyio

TRACE = f"{1:032x}"
PATHS = ["/", "/answers", f"/case/{TRACE}", "/api/v1/answers", f"/api/v1/cases/{TRACE}"]


def recent(number: int = 1, **fields: Any) -> EvaluationResult:
    return judged(number, 1.0, evaluated_at=NOW - 60, **fields)


async def site_of(folder: Path, *results: EvaluationResult, texts: bool = True) -> Site:
    site = Site(folder, texts=texts)
    await site.store(results or [recent()])
    site.runtime.events.also(Audit(folder, SystemClock()).on_event)
    return site


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / audit.NAME
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ask(url: str, **options: Any) -> int:
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.get(url, **options).status_code


@pytest.mark.parametrize("path", PATHS)
async def test_each_view_of_texts_is_one_line_that_says_who_what_when_and_where(tmp_path: Path, path: str) -> None:
    site = await site_of(tmp_path)
    token = VIEWER.set(Viewer("token 1a2b3c4d", "10.0.0.9"))
    await site.get(path)
    VIEWER.reset(token)
    (line,) = lines(tmp_path)
    assert (line["event"], line["who"], line["peer"]) == ("texts_viewed", "token 1a2b3c4d", "10.0.0.9")
    assert line["requests"] == [TRACE]
    assert path.startswith(line["path"])
    assert line["time"].endswith("Z")
    assert "warranty" not in json.dumps(line)
    assert total(site.runtime.metrics, "ragmonitor_events_total", event="texts_viewed") == 1
    assert (tmp_path / audit.NAME).stat().st_mode & 0o777 == 0o600


async def test_reasons_count_as_texts_and_verdicts_without_any_do_not(tmp_path: Path) -> None:
    bare = replace(recent(2), outcome=Score(1.0, ""))
    site = await site_of(tmp_path, recent(1), bare, texts=False)
    await site.get("/answers")
    assert [line["requests"] for line in lines(tmp_path)] == [[TRACE]]


async def test_a_page_that_renews_itself_is_one_view_an_hour(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    for _ in range(5):
        await site.get("/?window=24h")
        site.clock.advance(30)
    assert len(lines(tmp_path)) == 1
    site.clock.advance(3600)
    await site.get("/?window=24h")
    assert len(lines(tmp_path)) == 2


@pytest.mark.parametrize("path", ["/alerts", "/api/v1/overview", "/case/nobody", "/api/v1/openapi.json"])
async def test_what_shows_no_text_leaves_no_line(tmp_path: Path, path: str) -> None:
    await (await site_of(tmp_path)).get(path)
    assert lines(tmp_path) == []


async def test_over_http_the_viewer_is_the_token_by_its_hash_and_the_peer(tmp_path: Path) -> None:
    """A header cannot say otherwise, and a browser's password is a token, too."""
    site = await site_of(tmp_path)
    with site.served(auth={"token": "let-me-in"}) as base:
        ask(f"{base}/api/v1/cases/{TRACE}", headers={"authorization": "Bearer let-me-in", "x-who": "nobody"})
        ask(f"{base}/case/{TRACE}", auth=("ada", "let-me-in"))
        ask(f"{base}/answers")  # without a token nothing is shown
    assert [line["path"] for line in lines(tmp_path)] == ["/api/v1/cases", "/case"]
    assert {(line["who"], line["peer"]) for line in lines(tmp_path)} == {("token a3ee786b", "127.0.0.1")}


def test_the_file_is_begun_anew_when_it_is_full_and_the_one_before_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "AT_MOST", 1000)
    for number in range(20):
        Audit(tmp_path, SystemClock()).write(Event.TEXTS_VIEWED, number=number)
    texts = [(tmp_path / name).read_text() for name in ("audit.1.jsonl", audit.NAME)]
    kept = [json.loads(one)["number"] for text in texts for one in text.splitlines()]
    assert kept == list(range(kept[0], 20))
    assert kept[0] < 10


def test_where_the_file_cannot_be_written_the_log_says_so_once(tmp_path: Path) -> None:
    metrics = Metrics()
    events = Events(metrics)
    events.also(Audit(tmp_path / "gone", SystemClock(), events).on_event)
    for _ in range(3):
        events.info(Event.TEXTS_VIEWED, "texts of answers are shown", who="anonymous")
    assert total(metrics, "ragmonitor_events_total", event="audit_failed") == 1
    assert total(metrics, "ragmonitor_events_total", event="texts_viewed") == 3


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("rag-monitor.monitoring.svc.cluster.local", 200),
        ("RAG-Monitor.monitoring.svc.cluster.local.:9464", 200),
        ("monitor.example.com", 200),
        ("other.example.com", 421),
        ("evil.example", 421),
    ],
)
async def test_the_page_is_served_under_the_names_that_are_listed_and_no_other(
    tmp_path: Path, host: str, served: int
) -> None:
    site = Site(tmp_path, settings=UiSettings(url="https://monitor.example.com"))
    with site.served() as base:
        assert ask(f"{base}/alerts", headers={"host": host}) == served
