"""The page of a real monitor: what came in by OTLP is there to be read, and alerts lead to it."""

from __future__ import annotations

import json
import urllib.error

import pytest

from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until

CONFIG = {
    "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness", "optional": True}],
    "alerts": [{"evaluator": "overlap_groundedness", "warning": "5%", "windows": [{"window": "1m", "z": 2}]}],
    "slices": ["gen_ai.request.model", "tenant"],
    "ui": {"url": "http://monitor.example", "trace_url": "https://traces.example/{trace_id}"},
}


@pytest.fixture(scope="module")
def monitor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    kept = {"path": str(folder / "state"), "texts": "all"}
    with MonitorProcess(folder, {**CONFIG, "storage": kept}) as running:
        service = RagService.over_http(running.http)
        running.bad = [service.ask(answer=BAD) for _ in range(20)]
        running.good = service.ask(answer=GOOD)
        service.flush()
        service.close()
        running.wait_for_total(21, "ragmonitor_requests_total", outcome="evaluated")
        yield running


def api(monitor, path):
    return json.loads(monitor.get(f"/api/v1/{path}"))


def test_what_came_in_is_on_the_overview_with_its_alert(monitor):
    wait_until(lambda: api(monitor, "overview")["state"] == "warning", 30, "the alert")
    (app,) = api(monitor, "overview?window=10m")["apps"]
    (rate,) = app["rates"]
    assert (app["received"], app["ended"], rate["evaluated"], rate["defects"]) == (21, {"evaluated": 21}, 21, 20)
    assert rate["firing"][0]["name"] == "RagDefectRateHigh"
    assert "RagDefectRateHigh" in monitor.get("/?window=10m")


def test_a_rate_stands_there_by_slice_too_and_a_case_says_its_own(monitor):
    (app,) = api(monitor, "overview?window=10m")["apps"]
    (by_model,) = app["rates"][0]["slices"]  # nobody has stated a tenant
    (one,) = by_model["values"]
    assert (by_model["name"], one["evaluated"], one["defects"], one["enough"]) == ("gen_ai.request.model", 21, 20, True)
    assert api(monitor, f"cases/{monitor.bad[0]}")["slices"] == {"gen_ai.request.model": one["value"], "tenant": ""}
    assert "By gen_ai.request.model" in monitor.get("/?window=10m")


def test_an_evaluator_without_a_judge_is_shown_as_off(monitor):
    found = {one["name"]: one["works"] for one in api(monitor, "overview")["evaluators"]}
    assert found == {"overlap_groundedness": True, "groundedness": False}


def test_a_case_has_a_link_of_its_own_with_question_context_and_answer(monitor):
    case = api(monitor, f"cases/{monitor.bad[0]}")
    assert case["response"] == BAD
    assert case["question"]
    assert case["documents"]
    assert case["trace_url"] == f"https://traces.example/{monitor.bad[0]}"
    assert case["results"][0]["defect"]
    text = monitor.get(f"/case/{monitor.bad[0]}")
    assert "<mark" in text
    assert f"https://traces.example/{monitor.bad[0]}" in text


def test_the_bad_answers_are_found_and_the_good_one_is_not_among_them(monitor):
    defects = api(monitor, "answers?since=1h")["answers"]
    assert sum(1 + one["duplicates"] for one in defects) == 20
    everything = api(monitor, "answers?outcome=score&limit=200")["answers"]
    assert monitor.good in {one["trace_id"] for one in everything}


def test_an_unknown_case_is_not_found(monitor):
    with pytest.raises(urllib.error.HTTPError) as refused:
        monitor.get("/case/" + "0" * 32)
    assert refused.value.code == 404
    refused.value.close()


def test_switched_off_there_is_no_page(tmp_path):
    with MonitorProcess(tmp_path, {"ui": {"enabled": False}}) as running:
        assert running.get("/").startswith("rag-monitor serves /metrics")
        with pytest.raises(urllib.error.HTTPError) as refused:
            running.get("/answers")
        assert refused.value.code == 404
        refused.value.close()
