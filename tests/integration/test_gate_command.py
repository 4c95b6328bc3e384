"""`rag-monitor gate` beside a monitor that runs: what it answers, as exit status, JSON and JUnit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import Result

from monitor.storage.history.reader import HistoryReader
from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.prometheus import await_scrapes, get_json, prometheus
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import free_port, wait_until

EVALUATOR = "overlap_groundedness"


def send(
    monitor: MonitorProcess, app: str, version: str, good: int, bad: int, *, begin: int = 0, ago: float = 0
) -> None:
    """So many answers of one version of a service, in one delivery; given so many seconds ago, else while judged."""
    timestamp = time.time() - (ago or -30)
    rows = [
        {"id": f"{app}-{version}-{begin + number}", "app": app, "question": "Can I get my money back?",
         "contexts": [CONTEXT], "response": BAD if number < bad else GOOD, "timestamp": timestamp,
         "attributes": {"service.version": version}}
        for number in range(good + bad)
    ]  # fmt: skip
    assert monitor.post("\n".join(map(json.dumps, rows)).encode(), "/v1/cases", "application/x-ndjson") == 200


def judged(monitor: MonitorProcess, number: int) -> None:
    """Until so many verdicts are in the history."""
    history = HistoryReader(monitor.folder / "state" / "history.db")
    wait_until(lambda: len(history.results(limit=-1)) == number, 60, f"{number} verdicts")


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """1.9 of the shop has answered well, 2.0 does not; support has two apps side by side; a little of `new`."""
    config = {"evaluators": [{"type": EVALUATOR}], "slices": ["service.version"]}
    with MonitorProcess(tmp_path_factory.mktemp("gate"), config) as running:
        send(running, "shop", "1.9", 195, 5, ago=600)
        judged(running, 200)
        send(running, "shop", "2.0", 60, 40)
        send(running, "support", "1", 300, 3)
        send(running, "support-canary", "2", 300, 1)
        send(running, "new", "1", 20, 0)
        judged(running, 200 + 100 + 303 + 301 + 20)
        yield running


def gate(monitor: MonitorProcess, *arguments: object) -> Result:
    return command("gate", *arguments, "-c", monitor.folder / "config.yaml")


def answered(ended: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["exit_status"] == ended.exit_code
    return found


@pytest.mark.parametrize(
    ("app", "rate", "status", "answer"),
    [("shop", "5%", 1, "fail"), ("support", "5%", 0, "pass"), ("new", "5%", 3, "not_enough_data"),
     ("unknown", "5%", 3, "not_enough_data")],
)  # fmt: skip
def test_three_answers_are_three_exit_statuses(
    monitor: MonitorProcess, app: str, rate: str, status: int, answer: str
) -> None:
    ended = gate(monitor, "--fail-on", f"{EVALUATOR}:{rate}", "--app", app, "--json")
    assert (ended.exit_code, answered(ended)["answer"]) == (status, answer)


def test_the_counts_are_those_of_the_answers_and_it_says_how_many_more_it_takes(monitor: MonitorProcess) -> None:
    (one,) = answered(gate(monitor, "--fail-on", f"{EVALUATOR}:5%", "--app", "new", "--json"))["checks"]
    assert (one["evaluated"], one["defects"], one["value"]) == (20, 0, 0.0)
    assert one["more"] > 20
    ended = gate(monitor, "--fail-on", f"{EVALUATOR}:5%", "--app", "new")
    assert f"{one['more']} more scored answers would decide" in ended.stdout


def test_one_app_that_fails_is_enough(monitor: MonitorProcess) -> None:
    found = answered(gate(monitor, "--fail-on", f"{EVALUATOR}:5%", "--json"))
    assert found["answer"] == "fail"
    assert {one["app"] for one in found["checks"]} == {"shop", "support", "support-canary", "new"}


def test_an_evaluator_that_nobody_knows_is_named(monitor: MonitorProcess) -> None:
    ended = gate(monitor, "--fail-on", "overlap_groundednes:10%", "--fail-on", f"{EVALUATOR}:90%")
    assert "no evaluator named overlap_groundednes is configured" in ended.stderr
    assert f"named {EVALUATOR} is" not in ended.stderr
    assert ended.exit_code == 3


def test_two_values_of_a_slice_are_compared_by_their_ratio(monitor: MonitorProcess) -> None:
    sides = ("--against", "stable", "--canary", "service.version=2.0", "--stable", "service.version=1.9")
    ended = gate(monitor, "--fail-on", EVALUATOR, *sides, "--app", "shop", "--json")
    (one,) = answered(ended)["checks"]
    assert (ended.exit_code, one["kind"], one["evaluated"], one["base"]["evaluated"]) == (1, "ratio", 100, 200)
    assert one["value"] == pytest.approx(16.0)
    assert one["lower"] > 2


def test_two_apps_are_compared_by_their_ratio(monitor: MonitorProcess) -> None:
    sides = ("--against", "stable", "--canary", "app=support-canary", "--stable", "app=support")
    found = answered(gate(monitor, "--fail-on", f"{EVALUATOR}:5%", *sides, "--times", "50", "--json"))
    rate, ratio = found["checks"]
    assert (rate["kind"], rate["app"], rate["answer"]) == ("rate", "support-canary", "pass")
    assert (ratio["kind"], ratio["evaluated"], ratio["base"]["evaluated"]) == ("ratio", 301, 303)
    assert found["answer"] == "pass"


def test_against_previous_a_service_without_another_generation_has_nothing_to_compare_with(
    monitor: MonitorProcess,
) -> None:
    ended = gate(monitor, "--fail-on", EVALUATOR, "--against", "previous", "--app", "support", "--json")
    assert ended.exit_code == 3
    assert "no previous version" in answered(ended)["notes"][0]


def test_junit_tells_failures_from_what_is_not_known(monitor: MonitorProcess, tmp_path: Path) -> None:
    ended = gate(monitor, "--fail-on", f"{EVALUATOR}:5%", "--junit", tmp_path / "gate.xml")
    assert ended.exit_code == 1
    suite = ET.parse(tmp_path / "gate.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("testsuite", "4", "1", "1")
    told = {one.get("name", "").split(",")[0]: [child.tag for child in one] for one in suite}
    assert told["shop"] == ["failure", "system-out"]
    assert told["new"] == ["error", "system-out"]
    assert told["support"] == ["system-out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--fail-on"),
        (("--fail-on", EVALUATOR), "--fail-on"),
        (("--fail-on", f"{EVALUATOR}:lots"), "--fail-on"),
        (("--fail-on", f"{EVALUATOR}:0"), "--fail-on"),
        (("--fail-on", f"{EVALUATOR}:5%", "--since", "soon"), "--since"),
        (("--fail-on", f"{EVALUATOR}:5%", "--against", "stable"), "--canary"),
        (("--fail-on", f"{EVALUATOR}:5%", "--against", "stable", "--canary", "a=1", "--stable", "b=1"), "--stable"),
        (("--fail-on", f"{EVALUATOR}:5%", "--prometheus", "localhost"), "--prometheus"),
        (("--fail-on", f"{EVALUATOR}:5%", "--junit", "/nowhere/at/all.xml"), "--junit"),
    ],
)
def test_a_wrong_option_is_named_with_exit_status_2(
    monitor: MonitorProcess, arguments: tuple[str, ...], said: str
) -> None:
    ended = gate(monitor, *arguments)
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_a_prometheus_that_does_not_answer_is_no_failed_release() -> None:
    ended = command("gate", "--fail-on", f"{EVALUATOR}:5%", "--prometheus", f"http://127.0.0.1:{free_port()}")
    assert ended.exit_code == 2
    assert "cannot query" in ended.stderr


def test_a_release_is_compared_with_the_generation_before_it(monitor: MonitorProcess) -> None:
    ended = gate(monitor, "--fail-on", EVALUATOR, "--against", "previous", "--app", "shop", "--json")
    (one,) = answered(ended)["checks"]
    assert (ended.exit_code, one["evaluated"], one["defects"]) == (1, 100, 40)
    assert one["base"] == {"evaluated": 200, "defects": 5, "of": "the 1d before service 1.9 -> 2.0"}


def test_prometheus_says_the_same_as_the_history(tmp_path: Path) -> None:
    """Two versions side by side in the shop, one after the other in the bank."""
    config = {"evaluators": [{"type": EVALUATOR}], "slices": ["service.version"]}
    with (
        MonitorProcess(tmp_path, config) as monitor,
        prometheus(tmp_path / "prometheus", [f"127.0.0.1:{monitor.metrics_port}"]) as address,
    ):

        def counted(number: int) -> None:
            def scraped() -> object:
                found = get_json(f"{address}/api/v1/query", query="sum(ragmonitor_evaluations_total)")["data"]["result"]
                return found and float(found[0]["value"][1]) == number

            wait_until(scraped, 60, "a scrape of all verdicts")
            await_scrapes(address)

        send(monitor, "shop", "1.9", 1, 1)  # what a series begins with, `increase` does not see
        send(monitor, "shop", "2.0", 1, 1)
        send(monitor, "bank", "1.9", 1, 1)
        counted(6)
        send(monitor, "shop", "1.9", 180, 20, begin=100)
        send(monitor, "shop", "2.0", 100, 100, begin=100)
        send(monitor, "bank", "1.9", 180, 20, begin=100, ago=300)
        counted(606)
        send(monitor, "bank", "2.0", 1, 1)
        counted(608)
        send(monitor, "bank", "2.0", 100, 100, begin=100)
        counted(808)
        stable = ("--against", "stable", "--canary", "service.version=2.0", "--stable", "service.version=1.9")
        for app, against in (("shop", stable), ("bank", ("--against", "previous", "--baseline", "1h"))):
            arguments = ("--fail-on", f"{EVALUATOR}:30%", *against, "--app", app, "--json")
            here = answered(gate(monitor, *arguments))
            there = answered(gate(monitor, *arguments, "--prometheus", address))
            assert here["answer"] == there["answer"] == "fail"
            for mine, theirs in zip(here["checks"], there["checks"], strict=True):
                assert mine["kind"] == theirs["kind"]
                assert theirs["value"] == pytest.approx(mine["value"], rel=0.2), (app, mine, theirs)
