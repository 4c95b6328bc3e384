"""The button of the page that tries an evaluator: as `rag-monitor try`, and apart from all that is live."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support import llm as say
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.command import command
from tests.support.llm import LLMServer
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

HOSTILE = "</bdi></details><script>document.body.id='run'</script><img src=x onerror=alert(1)>\u202e {{7*7}}"
OWN = ("ragmonitor_trials_total", "ragmonitor_trials_cost_dollars_total")


def scored(score: int, explanation: str = "scripted") -> say.Reply:
    return say.verdict(claims=[], explanation=explanation, score=score)


@pytest.fixture(scope="module")
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        server.always(scored(5))
        yield server


def settings(llm: LLMServer, folder: Path, **ui: Any) -> dict[str, Any]:
    price = {"input_per_million": 5.0, "output_per_million": 25.0}  # $0.001 a call
    return {
        "judge": {
            "model": "openai/scripted",
            "api_key": "none",
            "api_base": llm.url,
            "price": price,
            "max_attempts": 1,
        },
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness", "sample": "100%"}],
        "storage": {"path": str(folder / "state"), "texts": "all"},
        "ui": ui,
    }


@pytest.fixture(scope="module")
def monitor(tmp_path_factory, llm) -> Iterator[MonitorProcess]:
    folder = tmp_path_factory.mktemp("monitor")
    with MonitorProcess(folder, settings(llm, folder)) as running:
        service = RagService.over_http(running.http)
        running.bad, running.good = service.ask(answer=BAD), service.ask(answer=GOOD)
        service.flush()
        service.close()
        wait_until(lambda: running.total("ragmonitor_evaluations_total") == 4, 60, "4 verdicts")
        wait_until(
            lambda: running.total("ragmonitor_request_log_records_total", outcome="kept") == 2,
            20,
            "both trails on disk",
        )
        yield running


@pytest.fixture
def client(monitor) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{monitor.metrics_port}", trust_env=False, timeout=60) as made:
        yield made


def form(client: httpx.Client, trace_id: str) -> dict[str, str]:
    page = client.get(f"/case/{trace_id}").text
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {**dict(found), "evaluator": "groundedness", "times": "1"}


def tried(client: httpx.Client, trace_id: str, evaluator: str = "groundedness", times: int = 1) -> dict[str, Any]:
    answer = client.post("/api/v1/try", json={"trace_id": trace_id, "evaluator": evaluator, "times": times})
    assert answer.status_code == 200, answer.text
    return answer.json()


def live(monitor: MonitorProcess) -> dict[str, Any]:
    """All series of the monitor but those of tries, of its events, of which a try is one, and of its memory."""
    own = {*OWN, "ragmonitor_events_total", "ragmonitor_memory_resident_bytes"}
    return {
        name: sorted((sorted(labels.items()), value) for labels, value in samples)
        for name, samples in monitor.samples().items()
        if name.startswith("ragmonitor_") and name not in own
    }


def test_a_try_shows_prompt_reply_verdict_cost_and_flips_as_the_command_does(monitor, llm, client, tmp_path):
    llm.then(scored(5), scored(1, "It is not there."), scored(4))
    before = len(llm.requests)
    found = tried(client, monitor.bad, times=3)
    assert [one.body["messages"] for one in llm.requests[before:]] == [
        one["calls"][0]["messages"] for one in found["times"]
    ]
    assert [one["score"] for one in found["times"]] == [5, 1, 4]
    assert (found["scored"], found["defects"], found["flips"], found["finished"]) == (3, 1, 1, True)
    assert found["dollars"] == pytest.approx(0.003)
    assert json.loads(found["times"][1]["calls"][0]["reply"]["text"])["explanation"] == "It is not there."

    llm.then(scored(5), scored(1, "It is not there."), scored(4))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(monitor.config))
    ended = command("try", "groundedness", "--case", monitor.bad, "-c", tmp_path / "config.yaml", "-k", 3, "--json")
    told = json.loads(ended.stdout)
    for name in ("evaluator", "version", "model", "trace_id", "scored", "flips", "dollars"):
        assert told[name] == found[name], name
    for ours, theirs in zip(found["times"], told["times"], strict=True):
        for name in ("outcome", "score", "level", "defect", "explanation"):
            assert ours[name] == theirs[name], name
        assert ours["calls"][0]["reply"]["text"] == theirs["calls"][0]["reply"]["text"]


def test_it_touches_no_live_series_and_is_counted_in_its_own(monitor, llm, client):
    wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0, 60, "the end of what was sent")
    before, own = live(monitor), {name: monitor.total(name) for name in OWN}
    tried(client, monitor.bad, times=2)
    llm.then(say.bad_key())
    assert tried(client, monitor.bad)["times"][0]["reason"] == "auth"
    monitor.wait_for_total(own[OWN[0]] + 3, OWN[0])
    assert live(monitor) == before
    assert monitor.total(OWN[0], evaluator="groundedness", outcome="scored") >= 2
    assert monitor.total(OWN[1]) - own[OWN[1]] == pytest.approx(0.002)
    results = json.loads(monitor.get(f"/api/v1/cases/{monitor.bad}"))["results"]
    assert len(results) == 2  # nor is it among the results


def test_a_judge_that_refuses_a_try_does_not_pause_the_live_one(monitor, llm, client):
    llm.then(say.bad_key())
    tried(client, monitor.bad)
    states = {one["name"]: one["state"] for one in json.loads(monitor.get("/api/v1/overview"))["evaluators"]}
    assert "paused" not in states.values()


def test_who_tried_what_is_in_the_audit_file_without_its_text(monitor, client):
    tried(client, monitor.good, "overlap_groundedness")
    lines = (monitor.folder / "state" / "audit.jsonl").read_text().splitlines()
    line = next(one for one in map(json.loads, reversed(lines)) if one["event"] == "texts_tried")
    assert (line["requests"], line["evaluator"], line["times"]) == ([monitor.good], "overlap_groundedness", 1)
    assert line["peer"] == "127.0.0.1"
    assert GOOD not in "".join(lines)


def test_a_local_evaluator_is_tried_without_a_call(monitor, llm, client):
    before = len(llm.requests)
    found = tried(client, monitor.bad, "overlap_groundedness", 5)
    assert len(llm.requests) == before
    assert (len(found["times"]), found["flips"], found["dollars"], found["model"]) == (5, 0, 0.0, "")


def test_a_form_leads_to_a_result_that_can_be_loaded_again_without_paying_again(monitor, llm, client):
    before = len(llm.requests)
    posted = client.post("/try", data=form(client, monitor.bad), headers={"Sec-Fetch-Site": "same-origin"})
    assert posted.status_code == 303
    assert posted.headers["location"].startswith("tried/")
    for _ in range(2):
        page = client.get(f"/{posted.headers['location']}")
        assert page.status_code == 200
        assert "Prompt as sent" in page.text
    assert len(llm.requests) == before + 1
    assert client.get("/tried/unknown").status_code == 404


CROSS = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://[::1"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_another_website_sends_is_refused_even_with_the_token(monitor, llm, client, headers, as_json):
    before, fields = len(llm.requests), form(client, monitor.bad)
    if as_json:
        body = {"trace_id": monitor.bad, "evaluator": "groundedness", "times": 1}
        refused = client.post("/api/v1/try", json=body, headers=headers)
    else:
        refused = client.post("/try", data=fields, headers=headers)
    assert refused.status_code == 403
    assert "ui.url" in refused.text
    assert len(llm.requests) == before


def test_an_origin_of_its_own_is_let_in_where_a_browser_says_no_more(monitor, client):
    fields = {**form(client, monitor.bad), "evaluator": "overlap_groundedness"}
    origin = {"Origin": f"http://127.0.0.1:{monitor.metrics_port}"}
    assert client.post("/try", data=fields, headers=origin).status_code == 303


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 32])
def test_a_form_without_the_token_of_this_process_is_refused(monitor, client, token):
    refused = client.post("/try", data={**form(client, monitor.bad), "token": token})
    assert (refused.status_code, "reload the page" in refused.text) == (403, True)
    missing = form(client, monitor.bad)
    del missing["token"]
    assert client.post("/try", data=missing).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "", "application/x-www-form-urlencoded"]
)
def test_json_is_read_only_where_it_is_called_json(monitor, llm, client, kind):
    before = len(llm.requests)
    body = json.dumps({"trace_id": monitor.bad, "evaluator": "groundedness", "times": 1})
    refused = client.post("/api/v1/try", content=body, headers={"Content-Type": kind})
    assert refused.status_code == 415
    assert client.post("/try", content=body, headers={"Content-Type": "application/json"}).status_code == 415
    assert len(llm.requests) == before


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"times": 0}, 400),
        ({"times": 6}, 400),
        ({"times": "3"}, 400),
        ({"times": 2.5}, 400),
        ({"evaluator": "nobody"}, 400),
        ({"evaluator": 7}, 400),
        ({"evaluator": HOSTILE}, 400),
        ({"trace_id": ""}, 400),
        ({"trace_id": "x" * 513}, 400),
        ({"trace_id": HOSTILE}, 404),
        ({"trace_id": "0" * 32}, 404),
        ({"more": 1}, 400),
    ],
)
def test_what_is_wrong_is_said(monitor, client, change, status):
    answer = client.post(
        "/api/v1/try", json={"trace_id": monitor.bad, "evaluator": "groundedness", "times": 1, **change}
    )
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff\xfe", b"token=%ff", b"a=1&a=2", b"&" * 50, b"token=" + b"x" * 9000]
)
def test_a_body_that_is_no_request_is_refused(client, body):
    as_json = client.post("/api/v1/try", content=body, headers={"Content-Type": "application/json"})
    assert as_json.status_code == 400
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/try", content=body, headers=kind).status_code in (400, 403)


def test_a_body_that_is_too_large_is_not_read(client):
    assert client.post("/try", content=b"x" * 100_000).status_code == 413


def test_nothing_else_can_be_posted(monitor, client):
    for path in ("/", "/metrics", f"/case/{monitor.bad}", "/api/v1/overview", "/-/healthy", "/tried/x"):
        assert client.post(path).status_code == 405
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert client.request(method, "/try").status_code == 405


def test_a_foreign_name_may_post_nothing(monitor, client):
    body = {"trace_id": monitor.bad, "evaluator": "groundedness", "times": 1}
    assert client.post("/api/v1/try", json=body, headers={"Host": "evil.example"}).status_code == 421


def test_there_is_one_try_at_a_time_and_its_page_renews_itself_until_it_is_over(monitor, llm, client):
    looked = threading.Event()
    llm.then(replace(scored(5), after=looked))
    posted = client.post("/try", data=form(client, monitor.bad))
    where = f"/{posted.headers['location']}"
    assert '<meta http-equiv="refresh" content="2">' in client.get(where).text
    busy = client.post("/api/v1/try", json={"trace_id": monitor.bad, "evaluator": "groundedness", "times": 1})
    assert (busy.status_code, int(busy.headers["retry-after"]) > 0) == (429, True)
    looked.set()
    wait_until(lambda: "http-equiv" not in client.get(where).text, 15, "the end of the try")


def test_texts_that_a_judge_replies_are_text(monitor, llm, client):
    llm.then(scored(1, HOSTILE))
    posted = client.post("/try", data=form(client, monitor.bad))
    page = client.get(f"/{posted.headers['location']}").text
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_a_click_on_the_button_shows_what_came_of_it_without_scripts(monitor, llm):
    llm.then(scored(5), scored(1, HOSTILE), scored(5))
    root = f"http://127.0.0.1:{monitor.metrics_port}"
    with Browser() as browser:
        for size in (PHONE, DESKTOP):
            browser.look(size)
            browser.open(f"{root}/case/{monitor.bad}")
            assert browser.value("document.documentElement.scrollWidth") <= size[0]
        assert browser.value("document.querySelector('.try select').value") == "groundedness"
        browser.value("document.querySelector('.try [name=times]').value = '3'")
        browser.value("document.querySelector('.try button').click()")
        said = "The result flips in 1 of 3"
        wait_until(lambda: said in browser.value("document.querySelector('.tried')?.innerText ?? ''"), 20, said)
        assert "Cost: $0.00300" in browser.value("document.querySelector('.because').innerText")
        assert browser.value("document.querySelectorAll('article.result').length") == 3
        assert "BEGIN" in browser.value("document.querySelector('.call').textContent")
        assert browser.value("document.body.id") == ""
        assert [one for one in browser.complaints if "favicon" not in one] == []
        browser.look(PHONE)
        assert browser.value("document.documentElement.scrollWidth") <= PHONE[0]


def test_beyond_the_number_of_an_hour_nothing_is_tried(tmp_path, llm):
    with MonitorProcess(tmp_path, settings(llm, tmp_path, max_trials_per_hour=1)) as running:
        trace = one_answer(running)
        with httpx.Client(base_url=f"http://127.0.0.1:{running.metrics_port}", trust_env=False, timeout=60) as client:
            tried(client, trace, "overlap_groundedness")
            body = {"trace_id": trace, "evaluator": "overlap_groundedness", "times": 1}
            refused = client.post("/api/v1/try", json=body)
            assert refused.status_code == 429
            assert 3000 < int(refused.headers["retry-after"]) <= 3600
            assert "ui.max_trials_per_hour" in refused.json()["error"]


def test_without_texts_the_page_says_which_setting_keeps_them(tmp_path, llm):
    config = settings(llm, tmp_path)
    config["storage"]["texts"] = "explanations"
    with MonitorProcess(tmp_path, config) as running:
        trace = one_answer(running)
        with httpx.Client(base_url=f"http://127.0.0.1:{running.metrics_port}", trust_env=False, timeout=60) as client:
            page = client.get(f"/case/{trace}").text
            assert "storage.texts: all" in page
            assert "<form" not in page
            refused = client.post(
                "/api/v1/try", json={"trace_id": trace, "evaluator": "overlap_groundedness", "times": 1}
            )
            assert (refused.status_code, "storage.texts: all" in refused.json()["error"]) == (409, True)


def test_switched_off_there_is_no_button_and_nobody_takes_it(tmp_path, llm):
    with MonitorProcess(tmp_path, settings(llm, tmp_path, max_trials_per_hour=0)) as running:
        trace = one_answer(running)
        with httpx.Client(base_url=f"http://127.0.0.1:{running.metrics_port}", trust_env=False, timeout=60) as client:
            assert "<form" not in client.get(f"/case/{trace}").text
            assert client.post("/api/v1/try", json={"trace_id": trace, "evaluator": "x", "times": 1}).status_code == 405
            assert client.get("/tried/x").status_code == 404


def one_answer(running: MonitorProcess) -> str:
    service = RagService.over_http(running.http)
    trace = service.ask(answer=BAD)
    service.flush()
    service.close()
    running.wait_for_total(1, "ragmonitor_requests_total", outcome="evaluated")
    return trace
