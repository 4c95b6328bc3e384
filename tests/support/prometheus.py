"""Real Prometheus and Alertmanager on free loopback ports, promtool, and a webhook that records its requests."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml

from tests.support.tools import free_port, require, wait_until

_LONGEST: Final = 3600  # seconds: a week of rules takes promtool one minute, and many on a busy machine

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy


def get_json(url: str, **query: str) -> Any:
    """Return the JSON at a loopback address."""
    with _direct.open(f"{url}?{urlencode(query)}" if query else url, timeout=60) as answer:
        return json.load(answer)


def await_scrapes(address: str, number: int = 2) -> None:
    """Wait until the Prometheus at `address` has successfully scraped each of its targets `number` more times."""

    def scrapes() -> dict[str, float]:
        found = get_json(f"{address}/api/v1/query", query="timestamp(up) * up")["data"]["result"]
        return {one["metric"]["instance"]: float(one["value"][1]) for one in found}

    for _ in range(number):
        before = scrapes()

        def again(before: dict[str, float] = before) -> bool:
            found = scrapes()
            return bool(found) and all(at > before.get(one, 0) for one, at in found.items())

        wait_until(again, 30, "a scrape")


def promtool(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool; the caller checks the exit status."""
    command = [require("promtool", "prometheus"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_LONGEST, check=False)


def amtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run amtool; the caller checks the exit status."""
    command = [require("amtool", "prometheus-alertmanager"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, check=False)


@contextmanager
def prometheus(
    folder: Path,
    targets: Sequence[str],
    *,
    rules: str = "",
    alertmanagers: Sequence[str] = (),
    interval: str = "1s",
    port: int | None = None,
) -> Iterator[str]:
    """Prometheus that scrapes `targets` (`host:port`) every `interval`, with exemplars; yields its base address.

    `rules` is the text of a rules file, `alertmanagers` are `host:port` too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.yml").write_text(rules or "groups: []\n")
    config = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "rag-monitor", "static_configs": [{"targets": list(targets)}]}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]},
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = port or free_port()
    arguments = [
        require("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
    ]
    with _running(arguments, port, folder / "prometheus.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def alertmanager(
    folder: Path, webhook: str, *, inhibit_rules: Sequence[Any] = (), port: int | None = None
) -> Iterator[str]:
    """Alertmanager that posts every change to `webhook` within a second or so; yields its base address."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "route": {
            "receiver": "test",
            "group_by": ["alertname", "app", "evaluator"],
            "group_wait": "3s" if inhibit_rules else "200ms",  # inhibiting alerts arrive a moment later
            "group_interval": "500ms",
            "repeat_interval": "1h",
        },
        "receivers": [{"name": "test", "webhook_configs": [{"url": webhook, "send_resolved": True}]}],
        "inhibit_rules": list(inhibit_rules),
    }
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    port = port or free_port()
    arguments = [
        require("prometheus-alertmanager"),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with _running(arguments, port, folder / "alertmanager.log"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(arguments: Sequence[str], port: int, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output)
    try:

        def ready() -> bool:
            if process.poll() is not None:
                pytest.fail(f"{arguments[0]} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
            try:
                with _direct.open(f"http://127.0.0.1:{port}/-/ready", timeout=60):
                    return True
            except (urllib.error.URLError, OSError):
                return False

        wait_until(ready, 30, f"{arguments[0]} being ready")
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Webhook:
    """Alertmanager's notifications: for each one its alerts as (severity, status), and the whole body."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.bodies: list[Any] = []

    @property
    def notified(self) -> list[list[tuple[str, str]]]:
        return [
            sorted((alert["labels"].get("severity", ""), alert["status"]) for alert in body["alerts"])
            for body in list(self.bodies)
        ]


@contextmanager
def webhook() -> Iterator[Webhook]:
    """An HTTP server that records the JSON bodies posted to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept = Webhook(f"http://127.0.0.1:{server.server_address[1]}/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join(60)
