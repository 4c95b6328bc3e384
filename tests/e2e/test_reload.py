"""A running monitor takes up a changed configuration: nothing is lost, no sender is refused, a wrong file changes
nothing."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.prometheus import webhook
from tests.support.service import BAD, GOOD, RagService
from tests.support.slow_history import HELD, SlowHistory
from tests.support.tools import free_port, wait_until

HTTP = {"reload": {"http": True}}


def events(monitor: MonitorProcess, name: str) -> list[dict[str, Any]]:
    """The log lines of one event; a line that is still being written is left out."""
    found = []
    for line in monitor.log.read_text().splitlines(keepends=True):
        if line.endswith("\n") and line.startswith("{"):
            one = json.loads(line)
            if one.get("event") == name:
                found.append(one)
    return found


def reloads(monitor: MonitorProcess) -> list[dict[str, Any]]:
    return [one for one in events(monitor, "reloaded") if one["message"] == "the configuration was reloaded"]


def hang_up(monitor: MonitorProcess) -> None:
    assert monitor.process is not None
    monitor.process.send_signal(signal.SIGHUP)


def ids(monitor: MonitorProcess) -> list[str]:
    with sqlite3.connect(monitor.folder / "state" / "history.db") as database:
        return [row[0] for row in database.execute("select trace_id from results")]


def gauge(monitor: MonitorProcess, name: str) -> float:
    return monitor.total(f"ragmonitor_config_last_reload_{name}")


def rows(*names: str, answer: str = GOOD) -> bytes:
    given = [{"id": name, "question": "Money back?", "contexts": [GOOD], "response": answer} for name in names]
    return json.dumps(given).encode()


def overview(monitor: MonitorProcess) -> Any:
    return json.loads(monitor.get("/api/v1/overview"))


@pytest.mark.parametrize("how", ["reload", "restart"])
def test_a_changed_defect_rule_starts_a_new_version_with_a_rate_of_its_own(tmp_path: Path, how: str) -> None:
    """Answers that were defects by the old rule are in no rate by the new one, by which none of them is a defect."""
    half = "Annual plans can be refunded in full, and every customer wins a complimentary trip to sunny Lisbon."

    def rate() -> Any:
        (found,) = [one for app in overview(monitor)["apps"] for one in app["rates"]]
        return found

    def rule(below: float) -> list[dict[str, Any]]:
        return [{"type": "overlap_groundedness", "defect": {"below": below}}]

    alerts = [{"evaluator": "overlap_groundedness", "critical": "25%"}]
    with MonitorProcess(tmp_path, {"evaluators": rule(0.95), "alerts": alerts, **HTTP}) as monitor:
        assert monitor.post(rows(*map(str, range(40)), answer=half), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(40, "ragmonitor_evaluations_total", defect="true")
        before = overview(monitor)["evaluators"][0]["version"]
        assert (rate()["evaluated"], rate()["rate"]) == (40, 1)
        if how == "reload":
            assert monitor.reload(evaluators=rule(0.1)).startswith("200")
        else:
            assert monitor.terminate() == 0
            monitor.config["evaluators"] = rule(0.1)
            monitor.start()
        assert overview(monitor)["evaluators"][0]["version"] != before
        assert (rate()["evaluated"], rate()["rate"]) == (0, None)
        assert monitor.post(rows("a", "b", answer=half), "/v1/cases", "application/json") == 200
        wait_until(lambda: (rate()["evaluated"], rate()["rate"]) == (2, 0), 20, "the rate by the new rule alone")


def test_sighup_takes_up_evaluators_rubrics_sampling_slices_alerts_and_redaction(tmp_path: Path) -> None:
    rubric = tmp_path / "tone.md"
    shipped = Path("monitor/evaluators/rubrics/coherence.md").read_text()
    rubric.write_text(shipped.replace("name: coherence", "name: tone"))
    with MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}) as monitor:
        assert monitor.post(rows("a", "b"), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(2, "ragmonitor_requests_total", outcome="evaluated")
        monitor.write(
            evaluators=[
                {"type": "response_length"},
                {"type": "rubric", "file": "tone.md", "optional": True},
            ],
            alerts=[{"evaluator": "response_length", "warning": "7%"}],
            slices=["tenant"],
            redaction={"enabled": True},
            notify=[{"type": "webhook", "url": "http://127.0.0.1:9/"}],
        )
        hang_up(monitor)
        wait_until(lambda: len(reloads(monitor)) == 1, 20, "the reload")
        assert reloads(monitor)[0]["by"] == "SIGHUP"
        for name in ("evaluators", "alerts", "slices", "redaction", "notify"):
            assert name in reloads(monitor)[0]["changed"]
        assert monitor.post(rows("c"), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(1, "ragmonitor_evaluations_total", evaluator="response_length")
        assert not [
            labels
            for name, samples in monitor.samples().items()
            if name.startswith("ragmonitor_evaluation")
            for labels, _ in samples
            if labels.get("evaluator") == "overlap_groundedness"
        ], "series of an evaluator that is gone"
        shown = overview(monitor)
        assert shown["reload"]["ok"]
        assert "evaluators" in shown["reload"]["changed"]
        assert "Configuration reloaded" in monitor.get("/")
        names = {one["name"] for one in json.loads(monitor.get("/api/v1/overview"))["evaluators"]}
        assert {"response_length", "tone"} <= names
        rubric.write_text(rubric.read_text() + "\nBe kind.\n")
        hang_up(monitor)
        wait_until(lambda: len(reloads(monitor)) == 2, 20, "the reload for the rubric")
        assert reloads(monitor)[1]["changed"] == "evaluators[1].file"
        monitor.write(sampling={"traces": 0.0})
        hang_up(monitor)
        wait_until(lambda: len(reloads(monitor)) == 3, 20, "the reload of the rate")
        service = RagService.over_http(monitor.http)
        service.ask()
        service.close()
        monitor.wait_for_total(1, "ragmonitor_traces_total", outcome="sampled_out")
        assert_balanced(monitor.samples())
        assert sorted(set(ids(monitor))) == ["a", "b", "c"]
        assert monitor.terminate() == 0


def test_rates_and_alerts_that_fire_are_the_same_after_a_reload_and_no_receiver_is_notified_again(
    tmp_path: Path,
) -> None:
    policy = {"evaluator": "overlap_groundedness", "warning": "5%", "windows": [{"window": "1h", "z": 2}]}
    given = {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": [policy]}
    with webhook() as notified:
        given["notify"] = [{"type": "webhook", "url": notified.address}]
        with MonitorProcess(tmp_path, given) as monitor:

            def firing() -> list[Any]:
                return [
                    one for one in overview(monitor)["apps"][0]["rates"][0]["firing"] if one["severity"] == "warning"
                ]

            def incidents() -> list[str]:
                return [one["id"] for one in json.loads(monitor.get("/api/v1/incidents"))["incidents"]]

            assert monitor.post(rows(*map(str, range(60)), answer=BAD), "/v1/cases", "application/json") == 200
            monitor.wait_for_total(60, "ragmonitor_requests_total", outcome="evaluated")
            wait_until(firing, 40, "the alert")
            wait_until(lambda: notified.bodies, 20, "its notification")
            wait_until(incidents, 20, "its incident")
            rate, since, opened = overview(monitor)["apps"][0]["rates"][0], firing()[0]["since"], incidents()
            assert monitor.reload(slices=["tenant"]).startswith("200")
            wait_until(firing, 40, "the alert after the reload")
            again = overview(monitor)["apps"][0]["rates"][0]
            for figure in ("rate", "lower", "upper", "evaluated", "defects"):
                assert again[figure] == rate[figure], figure
            assert firing()[0]["since"] == since
            assert incidents() == opened
            assert monitor.reload(alerts=[]).startswith("200")
            wait_until(lambda: len(notified.bodies) == 2, 40, "the resolution")
            assert [body["alerts"][0]["status"] for body in notified.bodies] == ["firing", "resolved"]


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_senders_under_load_lose_nothing_across_ten_reloads(tmp_path: Path, transport: str) -> None:
    with MonitorProcess(tmp_path, {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": []}) as monitor:
        service = RagService.over_http(monitor.http) if transport == "http" else RagService.over_grpc(monitor.grpc)
        asked: list[str] = []
        enough = threading.Event()

        def send() -> None:
            while not enough.wait(0.02):
                asked.append(service.ask())

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for number in range(10):
                answer = monitor.reload(assembly={"grace_period": f"{300 + number}ms", "idle_timeout": "2s"})
                assert answer == ("200 Changed: assembly.grace_period.\n" if number else "200 Nothing has changed.\n")
        finally:
            enough.set()
            sender.join()
        service.flush()
        service.close()
        wait_until(lambda: set(ids(monitor)) == set(asked), 30, "a result for every trace")
        assert len(ids(monitor)) == len(asked), "something was judged twice"
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the end of all")
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0


@pytest.mark.parametrize("end", ["reload", "restart"])
def test_a_result_that_was_being_written_when_its_configuration_ended_is_not_counted_again(
    tmp_path: Path, end: str
) -> None:
    given = {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": []}
    with SlowHistory(tmp_path, given) as monitor:
        assert monitor.post(rows(HELD), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(1, "ragmonitor_evaluations_total")
        assert not ids(monitor)
        if end == "reload":
            assert monitor.reload(slices=["tenant"]) == "200 Changed: slices.\n"
        else:
            assert monitor.terminate() == 0
            monitor.start()
        assert ids(monitor) == [HELD], "it was written when the life before had ended"
        assert monitor.post(rows("after"), "/v1/cases", "application/json") == 200
        wait_until(lambda: HELD in ids(monitor) and "after" in ids(monitor), 20, "both results")
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the end of all")
        monitor.wait_for_total(1, "ragmonitor_evaluations_total")
        (rate,) = overview(monitor)["apps"][0]["rates"]
        assert rate["evaluated"] == 2
        assert sorted(ids(monitor)) == ["after", HELD]
        wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0, 20, "the end of the spool")
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0


def test_a_connection_that_is_kept_open_goes_on_after_a_reload(tmp_path: Path) -> None:
    import http.client

    with MonitorProcess(tmp_path, {**HTTP, "alerts": []}) as monitor:
        kept = http.client.HTTPConnection("127.0.0.1", monitor.http, timeout=60)
        for number in range(3):
            kept.request("POST", "/v1/cases", rows(f"row {number}"), {"Content-Type": "application/json"})
            assert kept.getresponse().read() is not None
            assert kept.sock is not None
            before = kept.sock
            assert monitor.reload(slices=[f"tenant{number}"]).startswith("200")
            assert kept.sock is before
        kept.close()


WRONG = {
    "an evaluator that there is not": (lambda it: it.write(evaluators=[{"type": "groundednes"}]), "groundednes"),
    "half of a file": (
        lambda it: (it.folder / "config.yaml").write_text("evaluators: [{type: overlap_groundedness"),
        "not valid YAML",
    ),
    "a variable that is not set": (lambda it: it.write(judge={"model": "${NO_SUCH_MODEL}"}), "NO_SUCH_MODEL"),
    "a token file that is not there": (
        lambda it: it.write(
            sources=[
                {**it.config["sources"][0], "auth": {"token_file": "/nowhere/tokens"}},
                *it.config["sources"][1:],
            ]
        ),
        "/nowhere/tokens",
    ),
    "another port": (
        lambda it: it.write(sources=[{**it.config["sources"][0], "port": free_port()}, *it.config["sources"][1:]]),
        "sources[0].port: changing this requires a restart",
    ),
    "one server less": (lambda it: it.write(sources=it.config["sources"][:1]), "requires a restart"),
    "another folder and another limit": (
        lambda it: it.write(storage={"path": "/elsewhere"}, limits={"memory": "1GiB"}),
        "limits.memory, storage.path: changing this requires a restart",
    ),
    "no file": (lambda it: (it.folder / "config.yaml").unlink(), "cannot be read: No such file"),
    "a folder": (lambda it: in_place(it).symlink_to(it.folder), "cannot be read: Is a directory"),
    "a pipe that nothing writes to": (lambda it: os.mkfifo(in_place(it)), "it is a pipe or a device, not a file"),
    "a device without an end": (lambda it: in_place(it).symlink_to("/dev/zero"), "it is a pipe or a device"),
    "ten megabytes": (
        lambda it: in_place(it).write_text("slices: [a]\n" + "# a\n" * 2_500_000),
        "it is larger than 1,048,576 bytes",
    ),
    "a megabyte of values": (
        lambda it: in_place(it).write_text(f"slices: [{'a, ' * 300_000}]"),
        "it has more than 20,000 values",
    ),
    "a program": (
        lambda it: in_place(it).write_bytes(Path(sys.executable).read_bytes()[:500_000]),
        "it is not UTF-8 text (byte ",
    ),
    "lists in lists": (lambda it: in_place(it).write_text("slices: " + "[" * 500_000), "nested more than 50 levels"),
    "aliases that stand for a billion values": (
        lambda it: in_place(it).write_text(
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 10}]\n" for n in range(1, 10))
        ),
        "it has more than 20,000 values, counting what each alias stands for",
    ),
    "ten thousand mistakes": (
        lambda it: in_place(it).write_text("".join(f"mistake_{n}: {n}\n" for n in range(9_000))),
        "8,980 more faults",
    ),
    "a rubric without an end": (
        lambda it: it.write(evaluators=[{"type": "rubric", "file": "/dev/zero"}]),
        "/dev/zero: cannot be read: it is a pipe or a device",
    ),
    "a rubric of lists in lists": (
        lambda it: (
            (it.folder / "deep.md").write_text("---\nname: " + "[" * 5_000 + "\n---\nScore.\n"),
            it.write(evaluators=[{"type": "rubric", "file": "deep.md"}]),
        ),
        "deep.md: the front matter is not valid: it is nested more than 50 levels deep",
    ),
    "a token file that is a pipe": (
        lambda it: (
            os.mkfifo(it.folder / "tokens"),
            it.write(
                sources=[
                    {**it.config["sources"][0], "auth": {"token_file": str(it.folder / "tokens")}},
                    *it.config["sources"][1:],
                ]
            ),
        ),
        "cannot be read: it is a pipe or a device",
    ),
}


def in_place(monitor: MonitorProcess) -> Path:
    """The path of its configuration, at which there is nothing now."""
    path = monitor.folder / "config.yaml"
    path.unlink(missing_ok=True)
    return path


def test_a_file_that_cannot_be_used_changes_nothing_and_the_reason_is_in_the_answer_the_log_the_page_and_the_metric(
    tmp_path: Path,
) -> None:
    given = {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": []}
    with MonitorProcess(tmp_path, given) as monitor:
        good, resident = dict(monitor.config), monitor.resident("VmHWM")
        began = gauge(monitor, "success_timestamp_seconds")
        assert gauge(monitor, "successful") == 1
        for name, (spoil, reason) in WRONG.items():
            spoil(monitor)
            request = urllib.request.Request(f"http://127.0.0.1:{monitor.metrics_port}/-/reload", b"", method="POST")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            assert refused.value.code == 500
            assert reason in refused.value.read().decode(), name
            assert reason in events(monitor, "reload_failed")[-1]["message"], name
            assert reason in overview(monitor)["reload"]["text"], name
            assert "was not reloaded" in monitor.get("/")
            monitor.config = dict(good)
        assert monitor.resident("VmHWM") - resident < 100 * 1024**2
        wait_until(lambda: gauge(monitor, "successful") == 0, 20, "the metric")
        assert gauge(monitor, "success_timestamp_seconds") == began
        assert not reloads(monitor)
        assert monitor.post(rows("a"), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(1, "ragmonitor_requests_total", outcome="evaluated")
        firing = lambda: "RagConfigReloadFailed" in monitor.get("/api/v1/alerts")  # noqa: E731
        wait_until(firing, 40, "the alert")
        assert monitor.reload() == "200 Nothing has changed.\n"
        wait_until(lambda: gauge(monitor, "successful") == 1, 20, "the metric after it was mended")
        assert overview(monitor)["reload"] is None
        assert monitor.terminate() == 0


def test_a_configuration_that_fails_only_when_it_begins_is_followed_by_the_one_before(tmp_path: Path) -> None:
    """The folder of a new sink cannot be written, which shows when it is opened."""
    given = {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": []}
    with MonitorProcess(tmp_path, given) as monitor:
        sinks = monitor.config["sinks"]
        answer = monitor.reload(sinks=[*sinks, {"type": "jsonl", "path": "/proc/nowhere/results.jsonl"}])
        assert answer.startswith("500")
        assert "sinks[1]" in answer
        assert monitor.post(rows("a"), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(1, "ragmonitor_requests_total", outcome="evaluated")
        assert gauge(monitor, "successful") == 0
        assert monitor.reload(sinks=sinks) == "200 Nothing has changed.\n"
        assert monitor.terminate() == 0


def test_signals_at_the_wrong_time_and_reloads_at_once(tmp_path: Path) -> None:
    monitor = MonitorProcess(tmp_path, {**HTTP, "evaluators": [{"type": "overlap_groundedness"}], "alerts": []})
    try:
        monitor.spawn()
        assert monitor.process is not None
        wait_until(lambda: b"monitor" in Path(f"/proc/{monitor.process.pid}/cmdline").read_bytes(), 10, "the process")
        ignored = lambda: int(  # noqa: E731
            Path(f"/proc/{monitor.process.pid}/status").read_text().partition("SigIgn:")[2].split()[0], 16
        )
        wait_until(lambda: ignored() & 1 or monitor.log.read_text(), 20, "that it does not end by SIGHUP")
        for _ in range(5):  # while it starts
            hang_up(monitor)
        wait_until(monitor.ready, 20, "readiness")
        answers: list[str] = []
        monitor.write(slices=["tenant"])
        at_once = [threading.Thread(target=lambda: answers.append(monitor.ask_to_reload())) for _ in range(4)]
        for one in at_once:
            one.start()
        for one in at_once:
            one.join()
        assert sorted(answers) == ["200 Changed: slices.\n", *["200 Nothing has changed.\n"] * 3]
        monitor.write(slices=["tenant", "region"])
        hang_up(monitor)
        assert monitor.terminate() == 0  # in the middle of it
        assert not [line for line in monitor.log.read_text().splitlines() if "Traceback" in line]
        monitor.start()
        assert monitor.post(rows("a"), "/v1/cases", "application/json") == 200
        monitor.process.send_signal(signal.SIGTERM)
        hang_up(monitor)  # while it stops
        assert monitor.terminate() == 0
        with monitor:
            monitor.wait_for_total(1, "ragmonitor_traces_received_total") if not ids(monitor) else None
            wait_until(lambda: set(ids(monitor)) == {"a"}, 20, "the row")
            assert monitor.terminate() == 0
    finally:
        monitor.kill()


def test_watch_takes_up_a_config_map_whose_link_is_exchanged(tmp_path: Path) -> None:
    """As the kubelet does it: the file is a link into `..data`, which is a link to a folder that is exchanged."""
    monitor = MonitorProcess(tmp_path, {"reload": {"watch": True}, "alerts": []})

    def mount(version: int, **changes: Any) -> None:
        folder = tmp_path / f"..version_{version}"
        folder.mkdir()
        monitor.config.update(changes)
        (folder / "config.yaml").write_text(yaml.safe_dump(monitor.config))
        (tmp_path / "..data_new").symlink_to(folder.name)
        (tmp_path / "..data_new").replace(tmp_path / "..data")

    mount(1)
    mounted = tmp_path / "mounted.yaml"
    mounted.symlink_to(Path("..data") / "config.yaml")
    monitor.write = lambda **_: mounted  # type: ignore[method-assign]
    with monitor:
        mount(2, slices=["tenant"])
        wait_until(lambda: len(reloads(monitor)) == 1, 20, "the reload")
        assert reloads(monitor)[0]["by"] == "a change of the file"
        assert reloads(monitor)[0]["changed"] == "slices"
        mount(3, evaluators=[{"type": "nonsense"}])
        wait_until(lambda: events(monitor, "reload_failed"), 20, "the refusal")
        mount(4, evaluators=[{"type": "overlap_groundedness"}])
        wait_until(lambda: len(reloads(monitor)) == 2, 20, "the next reload")
        assert len(events(monitor, "reload_failed")) == 1, "a wrong file is reported once"
        assert monitor.terminate() == 0


def test_a_reload_over_http_needs_the_token_and_a_post_that_no_website_sent(tmp_path: Path) -> None:
    def ask(monitor: MonitorProcess, method: str = "POST", **headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            f"http://127.0.0.1:{monitor.metrics_port}/-/reload", b"" if method == "POST" else None, given, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    with MonitorProcess(tmp_path, {"alerts": []}) as monitor:
        assert ask(monitor) == 403, "it is off"
        port = monitor.metrics_port
        monitor.write(**HTTP, sinks=[{"type": "prometheus", "port": port, "auth": {"token": "t0ken"}}])
        hang_up(monitor)
        wait_until(lambda: len(reloads(monitor)) == 1, 20, "the reload")
        token = {"Authorization": "Bearer t0ken"}
        assert ask(monitor) == 401
        assert ask(monitor, Authorization="Bearer wrong") == 401
        assert ask(monitor, "GET", **token) == 405
        assert ask(monitor, Origin="https://attacker.example", **token) == 403
        assert ask(monitor, Sec_Fetch_Site="cross-site", **token) == 403
        assert ask(monitor, Host="attacker.example", Origin="http://attacker.example", **token) == 403
        assert not [one for one in events(monitor, "reloaded") if one.get("by") == "POST /-/reload"]
        assert ask(monitor, **token) == 200
        assert monitor.terminate() == 0
