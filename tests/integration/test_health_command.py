"""`rag-monitor health` at a real monitor: an exit status for whoever starts containers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.command import command
from tests.support.monitor import MonitorProcess
from tests.support.tools import free_port, wait_until

TOKEN = "a-token-of-the-port"


def url(monitor: MonitorProcess) -> str:
    return f"http://127.0.0.1:{monitor.metrics_port}"


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    """One that lives, asks for a token, and is not ready: its Kafka is not there."""
    monitor = MonitorProcess(tmp_path_factory.mktemp("health"))
    monitor.config["sources"] = [{"type": "kafka", "brokers": f"127.0.0.1:{free_port()}"}]
    monitor.config["sinks"][0]["auth"] = {"token": TOKEN}
    monitor.spawn()
    try:
        wait_until(lambda: command("health", "--url", url(monitor)).exit_code == 0, 20, "life")
        yield monitor
    finally:
        monitor.kill()


def test_a_monitor_that_lives_is_healthy_without_a_token(waiting: MonitorProcess) -> None:
    done = command("health", "--url", url(waiting))
    assert (done.exit_code, done.stdout) == (0, "healthy\n")


def test_one_that_waits_for_something_is_not_ready_and_says_for_what(waiting: MonitorProcess) -> None:
    ask = partial(command, "health", "--ready", "--token", TOKEN, "--url", url(waiting))
    done = ask()
    assert done.exit_code == 1
    assert done.stderr.startswith("not ready: kafka: starting")
    wait_until(lambda: "no broker answers" in ask().stderr, 60, "the reason")


def test_without_the_token_of_the_port_nobody_hears_what_it_waits_for(waiting: MonitorProcess) -> None:
    done = command("health", "--ready", "--url", url(waiting))
    assert done.exit_code == 1
    assert "kafka" not in done.stderr


def test_nobody_there_is_not_healthy() -> None:
    done = command("health", "--url", f"http://127.0.0.1:{free_port()}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no monitor responds" in done.stderr


def test_an_address_that_is_none_has_exit_status_1_too() -> None:
    """Docker gives 2 a meaning of its own."""
    assert command("health", "--url", "ftp://127.0.0.1").exit_code == 1
