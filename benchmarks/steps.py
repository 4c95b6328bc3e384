"""Divide the samples of a profile of the monitor among the steps that a request goes through."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from benchmarks.running import Stacks

_WORKER: Final = "monitor.pipeline.workers.process"

_STEPS: Final = (
    ("inflate", ("inflate (monitor/transport/otlp/limits", "inflated_size (", "_inflate_members (")),
    ("read JSON", ("(monitor/transport/otlp/json_",)),
    ("cut into spans, check sizes", ("split (monitor/transport/otlp/wire", "(monitor/transport/otlp/limits")),
    ("join what is kept", ("join (monitor/transport/otlp/wire",)),
    ("head sampling, check spans", ("(monitor/pipeline/ingest/head", "(monitor/statistics/consistent", "/otlp/wire")),
    ("spool", ("(monitor/storage/spool",)),
    ("assembly", ("(monitor/pipeline/assembly",)),
    ("decode", ("(monitor/transport/otlp/decode",)),
    ("extraction", ("(monitor/extraction", "(monitor/conventions")),
    ("evaluators", ("(monitor/evaluators",)),
    ("redaction", ("(monitor/privacy",)),
    ("history, request log", ("(monitor/storage", "(monitor/sinks")),
    ("/metrics", ("(monitor/telemetry/exposition", "(monitor/web", "(prometheus_client/exposition")),
    ("counting", ("(monitor/pipeline/metrics", "(monitor/telemetry", "(monitor/pipeline/ledger")),
    ("to and from workers", ("(monitor/pipeline/workers",)),
    ("Kafka client", ("(monitor/transport/kafka", "(kafka/", "(monitor/sources/_kafka", "(monitor/sources/kafka")),
    ("HTTP", ("(monitor/transport/http", "(monitor/transport/otlp", "(uvicorn/", "(starlette/", "(h11/")),
    ("gRPC", ("(grpc/", "grpc_server")),
    ("take in", ("(monitor/pipeline/ingest", "(monitor/sources")),
    ("rest of the pipeline", ("(monitor/pipeline", "(monitor/stages", "(monitor/samplers", "(monitor/alerts")),
)
"""Each step with the marks of its functions. The innermost marked function decides; the first step with it counts."""

_OTHER: Final = "the rest"
_WAITS: Final = ("(asyncio/runners", "_worker (concurrent/futures", "_next (monitor/pipeline/workers", "(threading")
"""The innermost functions of waiting threads, and of the event loop while it waits or works for no task."""


def shares(stacks: Stacks) -> list[tuple[str, tuple[float, float]]]:
    """Return each step's share of all samples, in the monitor's process and in its workers; the largest first.

    The event loop's own work (reading and writing sockets) cannot be distinguished from its waiting, and is left out.
    """
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for stack, count in stacks.items():
        if any(mark in stack[-1] for mark in _WAITS):
            continue
        in_worker = any(_WORKER in frame for frame in stack)  # in its command, which py-spy splits at semicolons
        found[_step(stack)][in_worker] += count
    total = max(1, sum(monitor + worker for monitor, worker in found.values()))
    ordered = sorted(found.items(), key=lambda pair: -sum(pair[1]))
    return [(step, (monitor / total, worker / total)) for step, (monitor, worker) in ordered]


def _step(stack: tuple[str, ...]) -> str:
    for frame in reversed(stack):
        for step, marks in _STEPS:
            if any(mark in frame for mark in marks):
                return step
    return _OTHER
