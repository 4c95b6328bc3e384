"""`rag-monitor top` at a real monitor: on a terminal, into a pipe, for machines, and where it is turned away."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.command import command, start
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, GOOD, RagService
from tests.support.terminal import Terminal
from tests.support.tools import free_port, wait_until

CONFIG = {
    "evaluators": [{"type": "overlap_groundedness"}],
    "alerts": [{"evaluator": "overlap_groundedness", "warning": "10%", "critical": "30%"}],
}
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """One that has judged 60 answers, a third of them bad."""
    with MonitorProcess(tmp_path_factory.mktemp("top"), CONFIG) as running:
        ask(running, 60)
        yield running


def ask(monitor: MonitorProcess, number: int) -> None:
    before = monitor.total("ragmonitor_requests_total", outcome="evaluated")
    service = RagService.over_http(monitor.http)
    for one in range(number):
        service.ask(f"Can I get my money back after {one} days?", GOOD if one % 3 else BAD)
    service.close()
    monitor.wait_for_total(before + number, "ragmonitor_requests_total", outcome="evaluated")


def url(monitor: MonitorProcess) -> str:
    return f"http://127.0.0.1:{monitor.metrics_port}"


def interrupt(running: subprocess.Popen[str], by: signal.Signals = signal.SIGINT) -> str:
    """End a command, which must be content with it; what it says on standard error."""
    running.send_signal(by)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 0
    return said or ""


def test_once_prints_how_it_stands_in_plain_text(monitor: MonitorProcess) -> None:
    shown = command("top", "--once", "--url", url(monitor))
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.stdout
    for part in (
        "shop",
        "overlap_groundedness",
        "since start",
        "33 %",
        "60",
        "traces received 60: evaluated 60",
        "context of answers",
    ):
        assert part in shown.stdout
    assert shown.stderr == ""


def test_for_machines_it_is_one_object_a_look(monitor: MonitorProcess) -> None:
    running = start("top", "--json", "--interval", "0.5", "--url", url(monitor))
    assert running.stdout is not None
    looks = [json.loads(running.stdout.readline()) for _ in range(3)]
    assert interrupt(running) == ""
    assert [one["window_seconds"] is None for one in looks] == [True, False, False]
    (rate,) = looks[0]["rates"]
    assert (rate["app"], rate["evaluator"]) == ("shop", "overlap_groundedness")
    assert (rate["since_start"]["evaluated"], rate["since_start"]["defects"]) == (60, 20)
    assert rate["since_start"]["lower"] < 1 / 3 < rate["since_start"]["upper"]
    assert looks[1]["ledger"]["evaluated"] == 60
    assert looks[1]["contexts"]["shop"]["retrieved"] == 1
    assert looks[1]["received_per_second"] == 0


def test_on_a_terminal_it_is_drawn_anew_until_interrupted(tmp_path: Path) -> None:
    """What comes meanwhile shows; the last picture stays, the cursor comes back, the exit status is 0.

    Without the page states are told from the counters.
    """
    with MonitorProcess(tmp_path, {**CONFIG, "ui": {"enabled": False}}) as monitor, Terminal() as terminal:
        ask(monitor, 30)
        running = terminal.start("top", "--interval", "0.5", "--url", url(monitor), streams=("stdout",))
        wait_until(lambda: "traces received 30" in plain(terminal.drawn), 30, "the first picture")
        ask(monitor, 30)
        wait_until(lambda: "traces received 60" in plain(terminal.drawn), 30, "the traces that came meanwhile")
        wait_until(lambda: "traces/s in" in plain(terminal.drawn), 10, "the throughput")
        wait_until(
            lambda: "WARNING" in plain(terminal.drawn), 30, "the state, after the monitor has looked at its alerts"
        )
        assert interrupt(running) == ""
        terminal.close()
    assert COLOUR.search(terminal.drawn)
    assert terminal.drawn.rfind("\x1b[?25h") > terminal.drawn.rfind("\x1b[?25l") >= 0


def test_no_color_is_honoured(monitor: MonitorProcess) -> None:
    with Terminal() as terminal:
        running = terminal.start("top", "--url", url(monitor), streams=("stdout",), NO_COLOR="1")
        wait_until(lambda: "traces received" in plain(terminal.drawn), 30, "the picture")
        assert interrupt(running, signal.SIGTERM) == ""
        terminal.close()
    assert not COLOUR.search(terminal.drawn)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monitor: MonitorProcess) -> None:
    with Terminal() as terminal:
        running = terminal.start("top", "--url", url(monitor), streams=("stdout",), TERM="dumb")
        wait_until(lambda: "shop overlap_groundedness: 33 % defective" in terminal.drawn, 30, "the line")
        assert interrupt(running) == ""
        terminal.close()
    assert "\x1b" not in terminal.drawn


def test_into_a_pipe_there_is_a_line_for_each_change(monitor: MonitorProcess) -> None:
    wait_until(lambda: "firing" in monitor.get("/api/v1/alerts"), 30, "the alert, after which nothing changes")
    running = start("top", "--interval", "0.5", "--url", url(monitor))
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(2)]
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert "shop overlap_groundedness: 33 % defective" in lines[1]
    assert rest == ""


def test_a_monitor_that_is_started_anew_is_waited_for(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, CONFIG) as monitor:
        ask(monitor, 9)
        running = start("top", "--interval", "0.5", "--url", url(monitor))
        assert running.stdout is not None
        assert "version" in running.stdout.readline()
        assert monitor.terminate() == 0
        said = iter(running.stdout.readline, "")
        assert next(line for line in said if "no response" in line)
        monitor.start()
        assert next(line for line in said if "version" in line)
        assert interrupt(running) == ""


def test_a_token_is_taken_from_a_variable_an_option_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = MonitorProcess(tmp_path, CONFIG)
    monitor.config["sinks"] = [{"type": "prometheus", "port": monitor.metrics_port, "auth": {"token": "s3cret"}}]
    monitor.spawn()
    try:
        wait_until(lambda: "listening" in monitor.log.read_text() and _healthy(monitor), 20, "the monitor")
        at = ("--once", "--json", "--url", url(monitor))
        without = command("top", *at)
        assert (without.exit_code, without.stdout) == (1, "")
        assert "a token is needed" in without.stderr
        assert "RAG_MONITOR_TOKEN" in without.stderr
        assert "the token is not accepted" in command("top", *at, "--token", "wrong").stderr
        assert "wrong" not in command("top", *at, "--token", "wrong").output
        assert command("top", *at, "--token", "s3cret").exit_code == 0
        file = tmp_path / "token"
        file.write_text("# the monitor's\ns3cret\n")
        assert command("top", *at, "--token-file", file).exit_code == 0
        monkeypatch.setenv("RAG_MONITOR_TOKEN", "s3cret")
        assert command("top", *at).exit_code == 0
        assert command("coverage", "--url", url(monitor)).stderr == "no request has been read yet\n"
    finally:
        monitor.kill()


def _healthy(monitor: MonitorProcess) -> bool:
    try:
        return monitor.get("/-/healthy") == "healthy\n"
    except OSError:
        return False


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """Somebody else's server, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization', '')}".strip())
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_where_nobody_listens_it_says_so() -> None:
    shown = command("top", "--once", "--url", f"127.0.0.1:{free_port()}")
    assert shown.exit_code == 1
    assert "no monitor responds: Connection refused" in shown.stderr


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"go_goroutines 7\n"), (404, b""), (200, b"\xff<html>"), (500, b"x")]
)
def test_what_is_no_monitor_is_not_taken_for_one(status: int, body: bytes) -> None:
    with answering(status, body) as (at, _):
        shown = command("top", "--once", "--url", at)
    assert shown.exit_code == 1
    assert "not with the metrics of a monitor" in shown.stderr


def test_a_token_does_not_follow_a_redirect() -> None:
    with (
        answering(200, b"ragmonitor_build_info 1\n") as (other, stolen),
        answering(302, b"", Location=f"{other}/metrics") as (at, asked),
    ):
        shown = command("top", "--once", "--url", at, "--token", "s3cret")
    assert shown.exit_code == 1
    assert asked == ["/metrics Bearer s3cret"]
    assert stolen == []


def plain(drawn: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
