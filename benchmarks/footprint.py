"""What a monitor uses besides processor time: memory, disk and series. The figures of `rag-monitor plan`.

    python -m benchmarks.footprint [--traces 400]

Each row is a separate monitor that gets RAG traces of six spans (`benchmarks.traffic`), all kept, and asks a scripted
judge that answers at once. *Idle* is resident memory including workers when it is ready (with a judge: when litellm is
loaded), before the first trace; *once* counts library pages only once that several of its processes share. *History*
and *request log* are the growth of their files per kept trace. *Series* are those of `/metrics`: before the first
trace, and the increase with the first service and with the second. Only Linux (it reads /proc).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.ingest import Row, send
from benchmarks.running import all_ended, get, megabytes, megabytes_once, running, wait_for
from benchmarks.traffic import Service
from tests.support.llm import Asked, LLMServer, Reply, verdict

_ONE: Final = ("overlap_groundedness",)
_SIX: Final = (
    *_ONE, "retrieval_overlap", "refusal_pattern", "injection_pattern", "pii_leak", "response_length"
)  # fmt: skip
_JUDGED: Final = ("groundedness",)
_SEND: Final = Row("http", 60, "100%", "overlap", 0)
_FILES: Final = ("history", "request_log")


class Circumstances(NamedTuple):
    """What is measured: evaluators, worker processes, and which texts the history keeps."""

    evaluators: tuple[str, ...]
    processes: int
    judged: bool = False
    texts: str = "explanations"


ROWS: Final = (
    Circumstances(_ONE, 0),
    Circumstances(_ONE, 1),
    Circumstances(_SIX, 1),
    Circumstances(_SIX, 1, texts="all"),
    Circumstances((*_ONE, *_JUDGED), 0, judged=True),
)


class Footprint(NamedTuple):
    """Megabytes, bytes per kept trace, and numbers of series."""

    idle_mb: float
    idle_once_mb: float
    peak_mb: float
    history: float
    request_log: float
    base_series: int
    first_app: int
    next_app: int


def reply(asked: Asked) -> Reply:
    """Return a verdict of ordinary length: six claims, quoted from the response."""
    response = asked.data.get("response", "")
    quotes = [one for one in response.split(". ") if one][:6]
    claims = [{"quote": one, "note": "document 1 says so", "verdict": "supported"} for one in quotes]
    return verdict(claims=claims, explanation="Every claim is supported by the first document.", score=5)


def measure(row: Circumstances, traces: int, judge: str) -> Footprint:
    """Run a monitor and load it."""
    with tempfile.TemporaryDirectory(prefix="rag-monitor-footprint-") as folder:
        config: dict[str, Any] = {
            "evaluators": [{"type": name} for name in row.evaluators],
            "alerts": [],
            "context_rates": False,
            "storage": {"path": folder, "texts": row.texts},
            "assembly": {"grace_period": "1s"},
        }
        if row.judged:
            config["judge"] = {"model": "openai/gpt-4o-mini", "api_key": "none", "api_base": judge}
        with running(config, processes=row.processes) as monitor:
            port = monitor.ports["metrics"]
            if row.judged:
                wait_for(lambda: _ready(port), 120, "the judge")
            time.sleep(2)  # a scrape may be a second old
            idle, once, base = megabytes(monitor.pid, "VmRSS"), megabytes_once(monitor.pid), _series(port)
            http = monitor.ports["otlp_http"]
            found = [_loaded(http, port, app, number, traces) for number, app in enumerate("ab", 1)]
            peak = megabytes(monitor.pid, "VmHWM")
            time.sleep(2)  # the history is written a moment later
        history, log = (_size(Path(folder), name) / (2 * traces) for name in _FILES)
    return Footprint(idle, once, peak, history, log, base, found[0] - base, found[1] - found[0])


def _loaded(http: int, metrics: int, app: str, number: int, traces: int) -> int:
    requests = Service(number).requests(traces, _SEND.batch, app=app)
    send(_SEND, http, [one.SerializeToString() for one in requests])
    wait_for(lambda: all_ended(metrics, number * traces), 600, "the end of all traces", every=1.0)
    time.sleep(2)  # a scrape may be a second old
    return _series(metrics)


def _ready(port: int) -> bool:
    return 'ragmonitor_events_total{event="judge_ready"} 1.0' in get(port, "/metrics")


def _series(port: int) -> int:
    return sum(1 for line in get(port, "/metrics").splitlines() if line and not line.startswith("#"))


def _size(folder: Path, name: str) -> int:
    """Return the bytes of a closed database, whose write-ahead log is empty."""
    return sum(path.stat().st_size for path in folder.glob(f"{name}.db*"))


def figures(traces: int) -> Iterator[tuple[Circumstances, Footprint]]:
    """Measure each row."""
    with LLMServer() as llm:
        llm.always(reply)
        for row in ROWS:
            yield row, measure(row, traces, llm.url)


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--traces", type=int, default=400, help="of each of two services")
    table = Table("evaluators", "workers", "texts", title="What a monitor takes")
    for name in (
        *("idle MB", "once, MB", "peak MB", "history, bytes a kept trace", "request log, bytes", "series at start"),
        *("first service", "each further"),
    ):
        table.add_column(name, justify="right")
    console = Console(width=160)
    for row, got in figures(ask.parse_args().traces):
        console.print(json.dumps([row, got]), style="dim")
        local = len(row.evaluators) - (len(_JUDGED) if row.judged else 0)
        kinds = f"{local} local" + (f", {len(_JUDGED)} judged" if row.judged else "")
        table.add_row(
            kinds, str(row.processes), row.texts, f"{got.idle_mb:.0f}", f"{got.idle_once_mb:.0f}", f"{got.peak_mb:.0f}",
            f"{got.history:,.0f}", f"{got.request_log:,.0f}", *map(str, got[-3:]),
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
