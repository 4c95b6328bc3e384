"""Whether the cost of a span and of a kept trace depends on the number of spans, open traces, apps, evaluators or days.

    python -m benchmarks.growth [--traces 1000] [--runs 3] [--spans 100000000] [--plot growth.svg]

*Spans* is the cost of a span, with all that follows for the 0.1 % of traces that are kept, over the last tenth, or
million, before the monitor has received that many; `--spans` sets the total, which is sent once. *To the ack* is the
processor time of a span while that many other traces are open, or while the spans come from that many apps in turn, all
of them kept. *A kept trace* is the processor time of a trace until it is judged by that many local evaluators and
stored: by `overlap_groundedness` alone, with three that look at lengths and counts, with four that read the texts, and
with 22 judged ones that choose one trace in ten thousand. Then by `overlap_groundedness` with a history of that many
days of 5,000 results each. `benchmarks.ingest` explains how it is measured. Only Linux.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console
from rich.table import Table

from benchmarks import plot
from benchmarks.ingest import Row, send, spread
from benchmarks.running import all_ended, cpu_seconds, get, running, wait_for
from benchmarks.traffic import Service
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score
from monitor.stages import Runtime
from monitor.storage.files import HISTORY
from monitor.storage.history.settings import HistoryOptions
from monitor.storage.history.writer import Writer

_ROW: Final = Row("http", 60, "100%", "overlap", 1)
_TRACES_OF_REQUEST: Final = 10
_LOCAL: Final = (
    "overlap_groundedness", "response_length", "retrieval_empty", "context_not_recorded", "retrieval_overlap",
    "refusal_pattern", "injection_pattern", "pii_leak",
)  # fmt: skip
_JUDGED: Final = sorted(one.stem for one in Path(__file__).parents[1].glob("monitor/evaluators/rubrics/*.md"))
_WAITING: Final = {"grace_period": "30m", "idle_timeout": "1h", "max_age": "2h"}
_MILLION: Final = 1_000_000
_SAMPLED: Final = "0.1%"
_OPEN, _APPS, _EVALUATORS, _DAYS = (10, 1_000, 10_000, 100_000), (1, 20, 200), (1, 4, 8, 30), (0, 1, 30)
_RESULTS_A_DAY: Final = 5_000
_JUDGE_READY: Final = 'ragmonitor_events_total{event="judge_ready"} 1.0'


def _open(traces: int) -> Iterator[bytes]:
    """Yield requests with one span of each of this many traces; their root spans are never sent."""
    for start in range(0, traces, 500):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(start, min(start + 500, traces)):
            trace_id = b"open" + number.to_bytes(12, "big")
            spans.add(trace_id=trace_id, span_id=b"\1" * 8, parent_span_id=b"\2" * 8, name="waits", kind=1)
        yield request.SerializeToString()


def _requests(traces: int, apps: int) -> list[bytes]:
    services = [Service(seed) for seed in range(7, 7 + min(apps, 3))]
    made: list[bytes] = []
    for number in range(max(1, traces // _TRACES_OF_REQUEST)):
        service = services[number % len(services)]
        requests = service.requests(_TRACES_OF_REQUEST, _ROW.batch, f"app-{number % apps}")
        made += (one.SerializeToString() for one in requests)
    return made


def to_the_ack(traces: int, *, opened: int = 0, apps: int = 1) -> float:
    """Return the microseconds per span while `opened` traces are open, or with spans from `apps` services in turn."""
    bodies = _requests(traces, apps)
    config = {
        "assembly": _WAITING,
        "evaluators": [{"type": "overlap_groundedness"}],
        "limits": {"memory": "2GiB"},
    }
    with running(config) as monitor:
        port = monitor.ports[_ROW.port]
        send(_ROW, port, list(_open(opened)))
        send(_ROW, port, _requests(max(100, 2 * _TRACES_OF_REQUEST * apps), apps))
        time.sleep(2)
        before = cpu_seconds(monitor.pid)
        send(_ROW, port, bodies)
        return (cpu_seconds(monitor.pid) - before) / len(bodies) / _ROW.batch * 1e6


class _Stream:
    """Endless requests of ten traces each; every trace id is used once, the texts repeat."""

    def __init__(self, seed: int = 7) -> None:
        self._draw = random.Random(seed)
        self._templates: list[tuple[bytearray, list[list[int]]]] = []
        for body in _requests(100 * _TRACES_OF_REQUEST, 1):
            ids = dict.fromkeys(re.findall(rb"\x0a\x10(.{16})\x12\x08", body, re.DOTALL))
            self._templates.append((bytearray(body), [_places(body, one) for one in ids]))

    def bodies(self, number: int) -> list[bytes]:
        """Return the next requests."""
        made: list[bytes] = []
        for body, places in itertools.islice(itertools.cycle(self._templates), number):
            for those in places:
                trace_id = self._draw.randbytes(16)
                for place in those:
                    body[place : place + 16] = trace_id
            made.append(bytes(body))
        return made


def _places(body: bytes, trace_id: bytes) -> list[int]:
    return [one.start() for one in re.finditer(re.escape(trace_id), body)]


def as_they_come(spans: int) -> Iterator[tuple[int, float]]:
    """Yield, for each power of ten from a million to `spans`, the microseconds per span of the last tenth before it.

    At least a million are measured: with fewer, the monitor's work once a minute would weigh too much.
    """
    config = {
        "assembly": {"grace_period": "1s"},  # or the first million would end before any trace of it is judged
        "sampling": {"traces": _SAMPLED},
        "evaluators": [{"type": "overlap_groundedness"}],
    }
    stream, at_once = _Stream(), 500  # requests; 80 MB of them
    with running(config) as monitor:
        send(_ROW, monitor.ports[_ROW.port], stream.bodies(at_once))
        time.sleep(2)
        received = 0
        for mark in (_MILLION * 10**power for power in range(9)):
            if mark > spans:
                return
            before, begins = 0.0, mark - max(_MILLION, mark // 10)
            while received < mark:
                if received >= begins and not before:
                    before, begins = cpu_seconds(monitor.pid), received
                send(_ROW, monitor.ports[_ROW.port], stream.bodies(at_once))
                received += at_once * _ROW.batch
            yield mark, (cpu_seconds(monitor.pid) - before) / (received - begins) * 1e6


def _write_history(folder: Path, days: int) -> None:
    """Write a history of this many days: results of answers at even intervals."""
    folder.mkdir(mode=0o700)
    writer = Writer(folder / HISTORY, HistoryOptions(), Runtime.standalone())
    writer.open()
    now = time.time()
    for day in range(days):
        first = now - (day + 1) * 86_400
        times = (first + number * 86_400 / _RESULTS_A_DAY for number in range(_RESULTS_A_DAY))
        writer.write([_result(at) for at in times])
    writer.close()


def _result(at: float) -> EvaluationResult:
    words = "The guarantee covers the battery for two years and the display for one."
    case = Case.from_texts("How long is the guarantee?", words, [words], request_id=f"{int(at * 1e6):032x}")
    score = Score(0.8, "8 of 10 content words are in the context.", "supported")
    return EvaluationResult(
        case=case,
        evaluator="overlap_groundedness",
        version="1",
        outcome=score,
        weight=1.0,
        level="supported",
        evaluated_at=at,
    )


def kept_trace(traces: int, evaluators: int, *, days: int = 0) -> float:
    """Return the milliseconds per kept trace with this many evaluators and a history of this many days."""
    with tempfile.TemporaryDirectory(prefix="rag-monitor-growth-") as parent:
        folder = Path(parent, "state")
        _write_history(folder, days)
        return _kept_trace(traces, evaluators, folder)


def _kept_trace(traces: int, evaluators: int, folder: Path) -> float:
    configured: list[dict[str, Any]] = [{"type": name} for name in _LOCAL[:evaluators]]
    judged = _JUDGED[: max(0, evaluators - len(_LOCAL))]
    configured += ({"type": name, "sample": 0.0001} for name in judged)
    config: dict[str, Any] = {"assembly": {"grace_period": "5s"}, "storage": {"path": str(folder)}}
    if judged:  # nothing listens at this address: the few calls cost what they cost with a judge that is down
        config["judge"] = {"model": "openai/gpt-4o-mini", "api_key": "none", "api_base": "http://127.0.0.1:9"}
    bodies, warm = _requests(traces, 1), _requests(100, 1)[:10]
    with running(config | {"alerts": [], "evaluators": configured}) as monitor:
        port, metrics = monitor.ports[_ROW.port], monitor.ports["metrics"]
        send(_ROW, port, warm)
        expected = len(warm) * _TRACES_OF_REQUEST
        wait_for(lambda: all_ended(metrics, expected), 300, "the end of the first traces", every=1.0)
        bodies = bodies[len(warm) :]  # the first have the same trace ids
        if judged:
            wait_for(lambda: _JUDGE_READY in get(metrics, "/metrics"), 120, "litellm", every=1.0)
        before = cpu_seconds(monitor.pid)
        send(_ROW, port, bodies)
        expected += len(bodies) * _TRACES_OF_REQUEST
        wait_for(lambda: all_ended(metrics, expected), 600, "the end of all traces", every=2.0)
        time.sleep(1)
        return (cpu_seconds(monitor.pid) - before) / len(bodies) / _TRACES_OF_REQUEST * 1e3


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--traces", type=int, default=1000, help="traces of a run")
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--spans", type=int, default=10 * _MILLION, help="spans in all, of the first row")
    ask.add_argument("--plot", type=Path, help="draw the table into this file, as SVG")
    options = ask.parse_args()
    traces = options.traces
    acks = {
        **{("open traces", number): partial(to_the_ack, traces, opened=number) for number in _OPEN},
        **{("apps", number): partial(to_the_ack, traces, apps=number) for number in _APPS},
    }
    kept = {
        **{("evaluators", number): partial(kept_trace, traces, number) for number in _EVALUATORS},
        **{("days of history", number): partial(kept_trace, traces, 1, days=number) for number in _DAYS},
    }
    console, found = Console(width=110), defaultdict[tuple[str, int], list[float]](list)
    for mark, figure in as_they_come(options.spans):
        found["spans", mark].append(figure)
        console.print("spans", mark, figure, style="dim")
    for _ in range(options.runs):  # in rounds, so that other work on the machine affects all of them alike
        for of, measure in (acks | kept).items():
            found[of].append(measure())
            console.print(*of, found[of][-1], style="dim")
    table = Table("of", "number", title=f"median (lowest to highest) of {options.runs} runs, all traces kept")
    table.add_column("to the ack, us a span", justify="right")
    table.add_column("a kept trace, ms", justify="right")
    for of, figures in found.items():
        cells = ("", spread(figures, 2)) if of in kept else (spread(figures), "")
        table.add_row(of[0], f"{of[1]:,}", *cells)
    console.print(table)
    if options.plot:
        options.plot.write_text(plot.draw(list(_diagrams(found))))


def _diagrams(found: Mapping[tuple[str, int], Sequence[float]]) -> Iterator[plot.Diagram]:
    for name in dict.fromkeys(name for name, _ in found):
        unit = "ms a kept trace" if name in ("evaluators", "days of history") else "us a span"
        yield plot.Diagram(unit, name, {number: figures for (of, number), figures in found.items() if of == name})


if __name__ == "__main__":
    main()
