"""The monitor, Prometheus and Alertmanager of the Compose stack as containers: a bad answer becomes a notification."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import cache, containers
from tests.support.containers import Container
from tests.support.deploy import DEPLOY
from tests.support.prometheus import get_json
from tests.support.service import BAD, RagService
from tests.support.tools import free_port, wait_until

pytestmark = pytest.mark.timeout(3600)

_RECIPE = Path(__file__).parent / "podman-compose.txt"
_RECEIVER = """
import http.server
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Receiver).serve_forever()
"""


class Stack:
    """The services of `deploy/compose` that have a stand-in, and a receiver of notifications.

    They run as compose.yaml writes them: users, capabilities, memory, mounts, commands, names in the network, rules.
    Other than there: ports of this machine are free ones, the monitor takes OTLP itself, since there is no Kafka, and
    Alertmanager has a receiver.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"rag-{uuid.uuid4().hex[:8]}"
        self.ports = {
            "monitor": free_port(),
            "otlp": free_port(),
            "prometheus": free_port(),
            "alertmanager": free_port(),
        }
        self.folder = folder / "compose"
        shutil.copytree(DEPLOY / "compose", self.folder)
        self._changed("monitor.yaml", self._monitor)
        self._changed("alertmanager.yml", self._alertmanager)
        self._changed("compose.yaml", self._compose)

    def _changed(self, name: str, change: Any) -> None:
        path = self.folder / name
        written = yaml.safe_load(path.read_text())
        change(written)
        path.write_text(yaml.safe_dump(written))

    def _monitor(self, written: dict[str, Any]) -> None:
        written["sources"] = [{"type": "otlp_http", "host": "0.0.0.0", "insecure": True}]
        written["sinks"] = [one for one in written["sinks"] if one["type"] == "prometheus"]

    def _alertmanager(self, written: dict[str, Any]) -> None:
        written["receivers"][0]["webhook_configs"] = [{"url": "http://receiver:8000/"}]

    def _compose(self, written: dict[str, Any]) -> None:
        services, volumes = written["services"], written["volumes"]
        images = {
            "monitor": containers.monitor_image()[0],
            "prometheus": containers.stand_in("prometheus"),
            "alertmanager": containers.stand_in("alertmanager"),
        }
        published = {
            "monitor": [f"127.0.0.1:{self.ports['monitor']}:9464", f"127.0.0.1:{self.ports['otlp']}:4318"],
            "prometheus": [f"127.0.0.1:{self.ports['prometheus']}:9090"],
            "alertmanager": [f"127.0.0.1:{self.ports['alertmanager']}:9093"],
        }
        written["name"] = self.name
        written["volumes"] = {name: volumes[name] for name in images}
        written["services"] = {
            name: {key: value for key, value in services[name].items() if key not in {"build", "depends_on"}}
            | {"image": image, "ports": published[name]}
            for name, image in images.items()
        }
        receiver = {"image": containers.stand_in("python-run"), "command": ["/usr/bin/python3", "-c", _RECEIVER]}
        written["services"]["receiver"] = receiver

    def container(self, service: str) -> Container:
        return Container(f"{self.name}_{service}_1")

    def notified(self) -> list[dict[str, Any]]:
        """The alerts that the receiver was sent: what it printed, a line for each notification."""
        lines = self.container("receiver").printed().splitlines()
        return [alert for line in lines if line.strip() for alert in json.loads(line)["alerts"]]

    def run(self, *words: str, check: bool = True) -> None:
        """Run podman-compose on it."""
        program = cache.made_once("podman-compose", _RECIPE, _install) / "made" / "bin" / "podman-compose"
        variables = {**containers.environment(), "PYTHONPATH": str(program.parents[1])}
        done = subprocess.run(
            [sys.executable, program, *words],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    cache.run("podman-compose", [*pip, "--target", "made", "-r", str(_RECIPE)], cwd=folder)


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    stack = Stack(folder)
    try:
        stack.run("up", "--detach", "--no-build")
        yield stack
    finally:
        stack.run("down", "--volumes", "--timeout", "5", check=False)


def test_bad_answers_reach_the_receiver_of_alertmanager(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        for service in ("monitor", "prometheus", "alertmanager"):
            wait_until(stack.container(service).healthy, 60, f"the health check of {service}")
        prometheus = f"http://127.0.0.1:{stack.ports['prometheus']}"

        def up() -> bool:
            found = get_json(f"{prometheus}/api/v1/query", query="up")["data"]["result"]
            return [one["value"][1] for one in found] == ["1"]

        wait_until(up, 60, "a scrape of the monitor")
        rules = get_json(f"{prometheus}/api/v1/rules")["data"]["groups"]
        assert rules, "rules.yml is mounted and read"

        sender = RagService.over_http(stack.ports["otlp"])

        def notified() -> dict[str, str]:
            for _ in range(20):
                sender.ask(answer=BAD)
            sender.flush()
            firing = [one for one in stack.notified() if one["status"] == "firing"]
            found = [one["labels"] for one in firing if one["labels"]["alertname"] == "RagDefectRateHigh"]
            return found[0] if found else {}

        labels = wait_until(notified, 240, "the alert at the receiver")
        sender.close()
        assert isinstance(labels, dict)
        assert (labels["app"], labels["evaluator"]) == ("shop", "overlap_groundedness")
        alerts = get_json(f"http://127.0.0.1:{stack.ports['alertmanager']}/api/v2/alerts")
        assert any(one["labels"]["alertname"] == "RagDefectRateHigh" for one in alerts)
        assert stack.container("monitor").stop(30) == 0
