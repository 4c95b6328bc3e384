"""The cost of a scrape of `/metrics`, and how long an OTLP export waits meanwhile.

    python -m benchmarks.scrape [--apps 1,10,50,200] [--judged]

Each row starts `rag-monitor run` as a separate process, sends it one trace for each service name, and scrapes it 20
times in the format that Prometheus requests, while another connection exports spans continuously. Then it measures the
processor time of all of the monitor's threads over as many scrapes without exports, and subtracts that without scrapes:
this figure stays the same on a busy machine. 200 is the limit of service names; further ones share the label
`__other__`. `--judged` adds two judged evaluators, which choose next to nothing.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console
from rich.table import Table

from benchmarks.running import free_port, get, pending, wait_for

_SCRAPES = 20
_ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
_PAUSE = 0.02  # seconds between exports
_JUDGED = """
judge: {model: openai/none, api_key: none, api_base: "http://127.0.0.1:9"}
evaluators:
- type: overlap_groundedness
- {type: groundedness, sample: 0.001%}
- {type: relevance, sample: 0.001%}
"""
_LEAST = 1.5  # seconds between scrapes: each encodes again


class Figures(NamedTuple):
    """Series and megabytes of a scrape; milliseconds of processor time, scrapes, exports without and with scrapes."""

    series: int
    megabytes: float
    processor: float
    scrapes: list[float]
    alone: list[float]
    beside: list[float]


def _export(service: str, number: int) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    scoped = resource.scope_spans.add()
    scoped.scope.name = "openinference.instrumentation.langchain"
    now, trace_id = time.time_ns(), number.to_bytes(16, "big")
    kinds = ("CHAIN", "RETRIEVER", "LLM")
    for place, kind in enumerate(kinds):
        span = scoped.spans.add(
            trace_id=trace_id,
            span_id=(place + 1).to_bytes(8, "big"),
            parent_span_id=b"" if place == 0 else (1).to_bytes(8, "big"),
            name=kind,
            start_time_unix_nano=now,
            end_time_unix_nano=now + 1000,
        )
        texts = {"openinference.span.kind": kind, "input.value": "How tall is it?", "output.value": "324 metres."}
        if kind == "RETRIEVER":
            texts["retrieval.documents.0.document.content"] = "The tower is 324 metres tall."
        for key, value in texts.items():
            span.attributes.add(key=key).value.string_value = value
    encoded: bytes = request.SerializeToString()
    return encoded


class _Connection:
    """One connection, kept open."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def timed(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[float, bytes]:
        """Return the milliseconds until the whole answer has arrived, and the answer. Raises for any status but 200."""
        began = time.perf_counter()
        self._http.request(method, path, body, headers)
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: HTTP {answer.status}")
        return (time.perf_counter() - began) * 1000, content


def measure(apps: int, *, judged: bool) -> Figures:
    """Start a monitor, send it a trace from each of `apps` services, and scrape it."""
    ports = {"http": free_port(), "metrics": free_port()}
    evaluators = _JUDGED if judged else ""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "bench.yaml")
        config.write_text(
            f"sources: [{{type: otlp_http, port: {ports['http']}}}]\nsinks: [{{type: prometheus, port: "
            f"{ports['metrics']}}}]\nassembly: {{grace_period: 300ms}}\n{evaluators}storage: {{path: {folder}/state}}\n"
            "log: {level: ERROR}\n"
        )
        monitor = subprocess.Popen([sys.executable, "-m", "monitor", "run", "-c", str(config)])
        try:
            return _measured(ports, apps, monitor.pid)
        finally:
            monitor.terminate()
            monitor.wait(15)


def _processor(pid: int) -> float:
    """Return the processor seconds used by a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measured(ports: dict[str, int], apps: int, pid: int) -> Figures:
    posted = {"Content-Type": "application/x-protobuf"}
    scraper, exporter = _Connection(ports["metrics"]), _Connection(ports["http"])
    wait_for(lambda: get(ports["metrics"], "/-/ready") == "ready\n", 120, "readiness")
    for number in range(apps):
        exporter.timed("POST", "/v1/traces", _export(f"service-{number}", number + 1), posted)
    wait_for(lambda: pending(ports["metrics"]) == 0, 300, "the end of all pending traces")
    time.sleep(_LEAST)
    alone: list[float] = []
    beside: list[float] = []
    scraping, stopped = threading.Event(), threading.Event()

    def export() -> None:
        number = 1_000_000
        while not stopped.is_set():
            number += 1
            began_in_scrape = scraping.is_set()
            took, _ = exporter.timed("POST", "/v1/traces", _export("service-0", number), posted)
            (beside if began_in_scrape or scraping.is_set() else alone).append(took)
            time.sleep(_PAUSE if not scraping.is_set() else 0)

    sender = threading.Thread(target=export)
    sender.start()
    times, content = [], b""
    for _ in range(_SCRAPES):
        time.sleep(_LEAST)
        scraping.set()
        took, content = scraper.timed("GET", "/metrics", None, {"Accept": _ACCEPT})
        scraping.clear()
        times.append(took)
    stopped.set()
    sender.join()
    spent = [_processor(pid)]
    for scrapes in (False, True):
        for _ in range(_SCRAPES):
            time.sleep(_LEAST)
            if scrapes:
                scraper.timed("GET", "/metrics", None, {"Accept": _ACCEPT})
        spent.append(_processor(pid))
    without, having = (after - before for before, after in pairwise(spent))
    processor = (having - without) / _SCRAPES * 1000
    series = sum(not line.startswith(b"#") for line in content.splitlines())
    return Figures(series, len(content) / 1e6, processor, times, alone, beside)


def _p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--apps", default="1,10,50,200", help="numbers of service names, with commas")
    ask.add_argument("--judged", action="store_true", help="with two judged evaluators as well")
    options = ask.parse_args()
    table = Table("services", title="Scrapes of /metrics, milliseconds")
    for name in ("series", "MB", "processor time", "scrape", "export alone", "export beside a scrape"):
        table.add_column(name, justify="right")
    for apps in map(int, options.apps.split(",")):
        got = measure(apps, judged=options.judged)
        times = (f"{median(one):.0f} (95 %: {_p95(one):.0f})" for one in (got.scrapes, got.alone, got.beside))
        table.add_row(str(apps), f"{got.series:,}", f"{got.megabytes:.2f}", f"{got.processor:.0f}", *times)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
