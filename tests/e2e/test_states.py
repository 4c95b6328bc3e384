"""Each thing broken on purpose in a real monitor: the state that is told, why, what to do, and what the others do."""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor import app, config
from monitor.alerts.self_alerts.evaluator_paused import NAME
from monitor.judge.pause import FIRST_PROBE
from monitor.pipeline.introspection.evaluator_status import State
from tests.support.command import command
from tests.support.llm import Asked, LLMServer, Reply, Script, bad_key, hang, no_quota, not_found, status, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import free_port, wait_until


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        yield server


def fine() -> Reply:
    return verdict(observations=["it answers"], explanation="it answers the question", score=5)


def judge(llm: LLMServer, **more: Any) -> dict[str, Any]:
    return {"model": "openai/scripted", "api_base": llm.url, "recheck_share": 0, **more}


def monitored(folder: Path, llm: LLMServer, **more: Any) -> MonitorProcess:
    chosen = {
        "judge": judge(llm, api_key="none"),
        "evaluators": [{"type": "overlap_groundedness"}, {"type": "relevance"}],
    }
    return MonitorProcess(folder, {**chosen, "alerts": [], "canary": {"interval": None}, **more})


def ask(monitor: MonitorProcess, first: int, number: int) -> None:
    service = RagService.over_http(monitor.http)
    for day in range(first, first + number):
        service.ask(f"Can I get my money back after {day} days?")
    service.flush()
    service.close()


def standing(monitor: MonitorProcess, evaluator: str = "relevance") -> dict[str, str]:
    """As the API tells it; the metric and the page say the same."""
    found = json.loads(monitor.get("/api/v1/overview"))["evaluators"]
    return next(one for one in found if one["name"] == evaluator)


def is_in(monitor: MonitorProcess, state: str, evaluator: str = "relevance") -> bool:
    return monitor.total("ragmonitor_evaluator_state", evaluator=evaluator, state=state) == 1


def until_it_is(
    monitor: MonitorProcess, state: str, evaluator: str = "relevance", seconds: float = 40
) -> dict[str, str]:
    wait_until(lambda: is_in(monitor, state, evaluator), seconds, f"{evaluator} to be {state}")
    found = standing(monitor, evaluator)
    assert found["state"] == state
    page = monitor.get("/")
    assert f'<td class="status {state}">' in page
    return found


def before_a_probe(llm: LLMServer) -> list[Asked]:
    """The calls before the first probe of a paused judge may have been due."""
    return [one for one in llm.requests if one.at < llm.requests[0].at + FIRST_PROBE]


def events(monitor: MonitorProcess, name: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in monitor.log.read_text().splitlines() if line.startswith("{"))
    return [one for one in lines if one.get("event") == name]


def test_a_refused_key_pauses_until_another_one_is_written_into_its_file(tmp_path, llm):
    """No call but the first and the probes; all that is missed is told; no restart."""
    key = tmp_path / "key"
    key.write_text("old\n")
    llm.always(lambda asked: fine() if asked.headers["authorization"] == "Bearer new" else bad_key())
    with monitored(tmp_path, llm, judge=judge(llm, api_key_file=str(key))) as monitor:
        assert standing(monitor)["state"] == "never_run"
        ask(monitor, 0, 1)
        found = until_it_is(monitor, "paused")
        assert "rejects the key" in found["why"]
        assert "judge.api_key_file" in found["remedy"]
        ask(monitor, 10, 20)
        missed = {"evaluator": "relevance", "reason": "paused"}
        wait_until(lambda: monitor.total("ragmonitor_unscored_total", **missed) == 21, 20, "the missed ones")
        assert len(before_a_probe(llm)) == 1
        assert is_in(monitor, "ok", "overlap_groundedness")
        assert monitor.total("ragmonitor_evaluations_total", evaluator="overlap_groundedness") == 21
        assert_balanced(monitor.samples())
        key.write_text("new\n")
        days = itertools.count(100)

        def traffic_goes_on() -> bool:
            """A probe is a real question, so one must come after the file was looked at."""
            ask(monitor, next(days), 1)
            time.sleep(0.3)
            return is_in(monitor, "ok")

        wait_until(traffic_goes_on, 40, "the judge to answer again")
        found = until_it_is(monitor, "ok")
        assert "missed in a pause that is over" in found["why"]
        resumed = events(monitor, "judge_resumed")
        assert len(resumed) == 1
        assert resumed[0]["missed"] >= 21
        assert "rag-monitor backfill --missed" in resumed[0]["message"]
        assert len(events(monitor, "judge_paused")) == 1
        assert "old" not in monitor.log.read_text()


def why(monitor: MonitorProcess) -> str:
    return command("why", "--evaluator", "relevance", "--url", f"http://127.0.0.1:{monitor.metrics_port}").stdout


def test_without_a_key_the_judge_is_paused_from_the_start_and_everything_says_why(tmp_path, llm, monkeypatch):
    """The log, the page, the metric, `why`: and not one call goes out for nothing."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with monitored(tmp_path, llm, judge=judge(llm)) as monitor:
        found = until_it_is(monitor, "paused", seconds=5)
        said = "no API key is set: there is no judge.api_key, and the variable OPENAI_API_KEY is not set"
        assert said in found["why"]
        assert "judge.api_key, or OPENAI_API_KEY in its environment" in found["remedy"]
        (paused,) = events(monitor, "judge_paused")
        assert paused["cause"] == "no_key"
        assert not events(monitor, "judge_ready")
        ask(monitor, 0, 3)
        wait_until(lambda: monitor.total("ragmonitor_unscored_total", reason="paused") == 3, 20, "all to be missed")
        assert is_in(monitor, "ok", "overlap_groundedness")
        wait_until(lambda: "no API key is set" in why(monitor), 20, "the request log to be written")
        assert "To change it: judge.api_key" in why(monitor)
        assert not llm.requests
        assert_balanced(monitor.samples())


def test_an_address_at_which_nothing_listens_is_named_and_tried_again(tmp_path, llm):
    address = f"127.0.0.1:{free_port()}"
    closed = judge(llm, api_key="none", max_attempts=1) | {"api_base": f"http://{address}/v1"}
    with monitored(tmp_path, llm, judge=closed) as monitor:
        ask(monitor, 0, 6)
        found = until_it_is(monitor, "error")
        assert f"connection refused by {address}" in found["why"]
        assert "judge.api_base" in found["remedy"]
        assert "HTTP 500" not in monitor.log.read_text() + monitor.get("/")
        wait_until(lambda: f"connection refused by {address}" in why(monitor), 20, "the request log to be written")
        assert "To change it: judge.api_base" in why(monitor)


def test_the_breaker_says_what_it_met_first(tmp_path, llm):
    llm.always(lambda _: status(500, message="the disk is full") if len(llm.requests) == 1 else status(503))
    with monitored(tmp_path, llm, judge=judge(llm, api_key="none", max_attempts=1, max_concurrency=1)) as monitor:
        ask(monitor, 0, 25)
        wait_until(lambda: events(monitor, "judge_breaker_opened"), 40, "the breaker to open")
        (opened,) = events(monitor, "judge_breaker_opened")
        assert '(the provider failed (HTTP 500): "the disk is full")' in opened["message"]
        wait_until(lambda: "the disk is full" in standing(monitor)["why"], 10, "the first cause on the page")


@pytest.mark.parametrize(
    ("script", "why", "remedy"),
    [
        (no_quota(), "demands payment", "pay the provider"),
        (status(402, message="Insufficient Balance"), "demands payment", "Pay the provider"),
        (not_found(), "no such model", "judge.model"),
        (status(410, message="This deployment has been deleted"), "no such model", "judge.model"),
    ],
    ids=["429 quota", "402", "404", "410"],
)
def test_a_provider_that_wants_to_be_paid_or_has_no_such_model_pauses(tmp_path, llm, script: Script, why, remedy):
    llm.always(script)
    with monitored(tmp_path, llm) as monitor:
        ask(monitor, 0, 5)
        found = until_it_is(monitor, "paused")
        assert why in found["why"]
        assert remedy.lower() in found["remedy"].lower()
        wait_until(lambda: monitor.total("ragmonitor_unscored_total", reason="paused") == 5, 20, "all to be missed")
        assert not is_in(monitor, "paused", "overlap_groundedness")


def test_of_two_judges_the_one_that_is_not_refused_goes_on(tmp_path, llm):
    llm.always(lambda asked: bad_key() if asked.body["model"] == "refused" else fine())
    more = {"evaluators": [{"type": "relevance"}, {"type": "groundedness", "judge": "second"}]}
    judges = {"second": {**judge(llm, api_key="none"), "model": "openai/refused"}}
    with monitored(tmp_path, llm, judges=judges, **more) as monitor:
        ask(monitor, 0, 10)
        found = until_it_is(monitor, "paused", "groundedness")
        assert "judges.second.api_key" in found["remedy"]
        wait_until(lambda: monitor.total("ragmonitor_evaluations_total", evaluator="relevance") == 10, 30, "verdicts")
        until_it_is(monitor, "ok")
        wait_until(lambda: standing(monitor)["why"].startswith("It scored 10"), 20, "all ten in the state")
        assert monitor.total("ragmonitor_unscored_total", evaluator="relevance") == 0


def test_a_spent_budget_is_overloaded_and_a_failing_provider_an_error(tmp_path, llm):
    llm.always(fine())
    with monitored(tmp_path, llm, judge=judge(llm, api_key="none", budget={"evaluations_per_day": 3})) as monitor:
        ask(monitor, 0, 6)
        assert "budget" in until_it_is(monitor, "overloaded")["why"]
    llm.always(status(500))
    (tmp_path / "other").mkdir()
    with monitored(tmp_path / "other", llm, judge=judge(llm, api_key="none", max_attempts=1)) as monitor:
        ask(monitor, 0, 6)
        found = until_it_is(monitor, "error")
        wait_until(lambda: "6 of 6 evaluations" in standing(monitor)["why"], 20, "all six in the state")
        assert "provider's status" in found["remedy"]


def test_while_the_judge_is_paused_the_canary_set_tells_of_no_drift(tmp_path, llm):
    rows = [
        {"request": f"How warm is day {n}?", "response": f"It is {n}.", "retrieved_context": [{"content": "warm"}]}
        for n in range(4)
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    llm.always(bad_key())
    canary = {"interval": "200ms", "initial_delay": 0, "cases": str(tmp_path / "cases.jsonl")}
    with monitored(tmp_path, llm, canary=canary) as monitor:
        found = until_it_is(monitor, "paused")
        assert found["why"]
        runs = len(events(monitor, "canary_judged"))
        wait_until(lambda: len(events(monitor, "canary_judged")) >= runs + 3, 30, "canary runs")
        assert len(before_a_probe(llm)) <= 2
        assert monitor.total("ragmonitor_canary_runs_total") == 0
        alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
        assert not [one for one in alerts if one["name"] == "RagJudgeDrifted" and one["status"] == "firing"]


def test_a_judge_that_never_answers_fills_the_queue_and_is_overloaded(tmp_path, llm):
    """Two are asked, and hang; behind them wait 50 MiB of texts, which follow from the memory limit, and no more."""
    llm.always(hang())
    slow = judge(llm, api_key="none", max_concurrency=1, timeout="60s")
    given = {"judge": slow, "evaluators": [{"type": "relevance"}], "limits": {"memory": "1032MiB"}}
    with monitored(tmp_path, llm, **given) as monitor:
        for number in range(26):
            text = "x " * (10 if number < 2 else 1_500_000)
            row = {"request_id": f"{number:032x}", "request": "how?", "response": "so", "retrieved_context": [text]}
            assert monitor.post(json.dumps(row).encode(), "/v1/cases", "application/json") == 200
            if number == 1:
                wait_until(lambda: monitor.total("ragmonitor_evaluations_pending") == 2, 20, "two to be asked")
        found = until_it_is(monitor, "overloaded")
        assert "queue was full" in found["why"]
        assert "judge.max_concurrency" in found["remedy"]


def test_a_judge_whose_words_and_scores_disagree_is_counted_and_its_scores_stand(tmp_path, llm):
    llm.always(verdict(observations=["it answers"], explanation="The response directly answers the question.", score=1))
    with monitored(tmp_path, llm, evaluators=[{"type": "relevance"}]) as monitor:
        ask(monitor, 0, 3)
        judged = {"evaluator": "relevance", "defect": "true"}
        wait_until(lambda: monitor.total("ragmonitor_evaluations_total", **judged) == 3, 40, "the verdicts")
        counted = {"evaluator": "relevance", "counted": "defect"}
        wait_until(lambda: monitor.total("ragmonitor_contradictions_total", **counted) == 3, 20, "the contradictions")
        assert monitor.total("ragmonitor_contradictions_total", counted="passed") == 0
        answers = json.loads(monitor.get("/api/v1/answers"))["answers"]
        assert all(one["contradicts"] for found in answers for one in found["results"])


@pytest.mark.anyio
async def test_a_paused_judge_is_an_alert_in_process_from_the_first_look_to_the_end_of_the_pause(tmp_path, llm):
    """The canary set asks here; it is told apart by nothing, so it also is the probe."""
    row = {"request": "How warm is it?", "response": "It is 20.", "retrieved_context": [{"content": "20 degrees"}]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(row))
    key = tmp_path / "key"
    key.write_text("old")
    llm.always(lambda asked: fine() if asked.headers["authorization"] == "Bearer new" else bad_key())
    given = {
        "sources": [{"type": "otlp_http", "port": free_port()}],
        "sinks": [{"type": "prometheus", "port": free_port()}],
        "storage": {"path": str(tmp_path / "state")},
        "judge": judge(llm, api_key_file=str(key)),
        "evaluators": [{"type": "relevance"}],
        "alerts": [],
        "canary": {"interval": "50ms", "initial_delay": 0, "cases": str(tmp_path / "cases.jsonl")},
    }
    found: list[app.Running] = []
    stop = anyio.Event()

    def firing() -> list[str]:
        return [one.annotations["description"] for one in found[0].alerts if one.firing and one.name == NAME]

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            run = functools.partial(app.run, config.parse(given), stop, started=found.append, alerts_every=0.05)
            tasks.start_soon(run)
            while not (found and firing()):  # noqa: ASYNC110 - alerts have no event to wait for
                await anyio.sleep(0.02)
            assert "judge.api_key_file" in firing()[0]
            key.write_text("new")
            while firing():  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)
            assert found[0].statuses.current()["relevance"].state is not State.PAUSED
            stop.set()
