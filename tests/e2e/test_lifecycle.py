"""The whole monitor as a process: what it accepts it judges, across ends of every kind, and its ledger balances."""

from __future__ import annotations

import json
import random
import sqlite3

import pytest

from tests.support.llm import LLMServer, status
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, GOOD, RagService
from tests.support.tools import wait_until


def all_ended(monitor: MonitorProcess, number: int) -> bool:
    return assert_balanced(monitor.samples()) >= number and monitor.total("ragmonitor_traces_pending") == 0


def results(monitor: MonitorProcess) -> list[str]:
    """The trace ids of all results in the history, one for each result."""
    with sqlite3.connect(monitor.folder / "state" / "history.db") as database:
        return [row[0] for row in database.execute("select trace_id from results")]


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_what_a_real_exporter_sends_is_judged_and_the_ledger_balances_at_every_scrape(tmp_path, transport):
    with MonitorProcess(tmp_path) as monitor:
        service = RagService.over_http(monitor.http) if transport == "http" else RagService.over_grpc(monitor.grpc)
        for number in range(40):
            service.ask(answer=BAD if number % 4 == 0 else GOOD)
            assert_balanced(monitor.samples())
        service.flush()
        wait_until(lambda: all_ended(monitor, 40), 20, "the end of all traces")
        service.close()
        assert monitor.total("ragmonitor_requests_total", outcome="evaluated") == 40
        name = "overlap_groundedness"
        assert monitor.total("ragmonitor_evaluations_total", evaluator=name, defect="true") == 10
        assert monitor.total("ragmonitor_evaluation_weight_total", evaluator=name) == 40
        assert monitor.terminate() == 0


def test_every_series_of_an_app_is_there_at_zero_before_its_first_verdict_and_after_a_restart(tmp_path):
    def zeros(monitor: MonitorProcess) -> int:
        values = [value for at, value in monitor.samples()["ragmonitor_evaluations_total"] if at["app"] == "shop"]
        assert not any(values)
        return len(values)

    with MonitorProcess(tmp_path, {"assembly": {"grace_period": "8s"}}) as monitor:
        service = RagService.over_http(monitor.http)
        service.ask()
        service.flush()
        service.close()
        assert monitor.total("ragmonitor_traces_received_total") == 1
        assert zeros(monitor) >= 5
        wait_until(lambda: all_ended(monitor, 1), 20, "the verdict")
        assert monitor.terminate() == 0
        monitor.start()
        assert zeros(monitor) >= 5


def test_a_restart_with_another_version_begins_its_series_at_zero_and_leaves_none_of_the_one_before(tmp_path):
    """So an alert on the version before it has nothing left to fire for."""

    def counted(monitor: MonitorProcess) -> dict[str, float]:
        series = [at | {"value": value} for at, value in monitor.samples()["ragmonitor_evaluations_total"]]
        shop = [one for one in series if one["app"] == "shop"]
        return {version: sum(one["value"] for one in shop if one["version"] == version)
                for version in {one["version"] for one in shop}}  # fmt: skip

    with MonitorProcess(tmp_path, {"evaluators": [{"type": "response_length"}], "alerts": []}) as monitor:
        service = RagService.over_http(monitor.http)
        service.ask()
        service.flush()
        service.close()
        wait_until(lambda: all_ended(monitor, 1), 20, "the verdict")
        assert list(counted(monitor).values()) == [1]
        (before,) = counted(monitor)
        assert monitor.terminate() == 0
        monitor.config["evaluators"] = [{"type": "response_length", "shortest": 14}]
        monitor.start()
        (version,) = counted(monitor)
        assert version != before
        assert counted(monitor)[version] == 0


def test_sigterm_loses_nothing_and_nothing_is_judged_twice(tmp_path):
    rows = [{"id": f"row-{n}", "question": "Money back?", "contexts": [GOOD], "response": GOOD} for n in range(20)]
    monitor = MonitorProcess(tmp_path, {"assembly": {"grace_period": "10m", "idle_timeout": "10m"}}).start()
    assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
    monitor.wait_for_total(20, "ragmonitor_requests_total", outcome="evaluated")
    service = RagService.over_http(monitor.http)
    asked = {one["id"] for one in rows} | {service.ask() for _ in range(20)}
    service.flush()
    assert monitor.terminate(10) == 0  # these twenty are still open: too early to be complete
    service.close()
    monitor.config["assembly"] = {"grace_period": "300ms", "idle_timeout": "2s"}
    with monitor:
        wait_until(lambda: all_ended(monitor, 20), 20, "the end of what was left over")
        assert monitor.total("ragmonitor_requests_total", outcome="evaluated") == 20
        assert monitor.terminate() == 0
    found = results(monitor)
    assert sorted(found) == sorted(asked)


def test_it_stops_in_an_orderly_way_where_its_standard_streams_are_closed(tmp_path):
    monitor = MonitorProcess(tmp_path)
    monitor.around = lambda command: ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    with monitor:
        row = {"id": "row", "question": "Money back?", "contexts": [GOOD], "response": GOOD}
        assert monitor.post(json.dumps(row).encode(), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(1, "ragmonitor_requests_total", outcome="evaluated")
        assert monitor.terminate() == 0


def test_sigkill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path):
    rng = random.Random(5)
    monitor = MonitorProcess(tmp_path)
    asked = set()
    for _ in range(4):
        monitor.start()
        service = RagService.over_http(monitor.http)
        asked |= {service.ask() for _ in range(15)}
        service.flush()
        wait_until(lambda: monitor.total("ragmonitor_traces_total") >= rng.randint(0, 10), 20, "some verdicts")
        monitor.kill()
        service.close()
    with monitor:
        wait_until(lambda: set(results(monitor)) == asked, 20, "a verdict for every acknowledged trace")
        found = results(monitor)
        assert len(found) == len(set(found))
        assert_balanced(monitor.samples())


def test_no_text_of_a_case_and_no_secret_stands_in_the_log(tmp_path):
    secret = "sk-canary-5f1c"
    with LLMServer() as llm:
        llm.always(lambda asked: status(400, message=f"cannot read: {asked.prompt}", kind="invalid"))
        judge = {"model": "openai/none", "api_key": secret, "api_base": llm.url, "max_attempts": 1}
        config = {
            "log": {"level": "DEBUG"},  # at any level
            "judge": judge,
            "evaluators": [{"type": "overlap_groundedness"}, {"type": "relevance"}],
        }
        log = _log_of_faults(tmp_path, config)
    assert not [word for word in ("unicornquestion", "unicornanswer", secret) if word in log]
    for line in log.splitlines():
        json.loads(line)


def _log_of_faults(folder, config):
    """What a monitor logs whose judge repeats every prompt in an error, and that gets much that it cannot read."""
    with MonitorProcess(folder, config) as monitor:
        service = RagService.over_http(monitor.http)
        for _ in range(20):
            service.ask("What about unicornquestion?", "A unicornanswer.")
        service.flush()
        wait_until(lambda: monitor.total("ragmonitor_traces_received_total") == 20, 20, "the traces")
        service.close()
        monitor.wait_for_total(20, "ragmonitor_unscored_total", evaluator="relevance")
        assert monitor.post(b"unicornquestion is no protobuf") == 400
        for body in (b'[{"question": "unicornquestion', b'[{"question": {"unicornquestion": []}}]'):
            assert monitor.post(body, "/v1/cases", "application/json") in (200, 400)
        assert monitor.terminate(12) == 0
    return monitor.log.read_text()


def test_our_own_telemetry_is_counted_and_never_judged(tmp_path):
    with MonitorProcess(tmp_path) as monitor:
        service = RagService.over_http(monitor.http, name="rag-monitor")
        for _ in range(5):
            service.ask()
        service.flush()
        service.close()
        wait_until(
            lambda: monitor.total("ragmonitor_traces_total", outcome="own_telemetry") == 5, 10, "five traces of our own"
        )
        assert monitor.total("ragmonitor_evaluations_selected_total") == 0
        assert_balanced(monitor.samples())
