"""Compare this product with others on one machine in one run.

    python -m benchmarks.peers [--only traces|judging] [--folder FOLDER] [--traces 600] [--cases 100] [--runs 3]

*Traces*: the same OTLP/HTTP bytes (`benchmarks.traffic`, 64 spans a request, gzip) go to this product, which keeps and
scores every trace locally, to Arize Phoenix and MLflow, which store them, and to an OpenTelemetry Collector, which
writes them to a file. *Judging*: one judgement of faithfulness by this product, Ragas and DeepEval, with the same
scripted judge on loopback, and the same call with a bare litellm. The others are installed from PyPI, and the Collector
is built with Go, in `--folder` (by default one that is removed afterwards). Usage reporting is off in all of them. Only
Linux.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.ingest import spread
from benchmarks.peers import judging, tracing


def main() -> None:
    """Print the tables."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--only", choices=("traces", "judging"))
    ask.add_argument("--products", help="only these, such as ours,bare")
    ask.add_argument("--folder", type=Path, help="where the environments are made, and found by the next run")
    ask.add_argument("--traces", type=int, default=600)
    ask.add_argument("--cases", type=int, default=100)
    ask.add_argument("--runs", type=int, default=3)
    options = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="rag-monitor-peers-") as made:
        folder = Path(options.folder or made).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        console = Console(width=180)
        if options.only != "judging":
            console.print(_traces(folder, options, _chosen(options.products, tracing.DOES)))
        if options.only != "traces":
            console.print(_judgements(folder, options, _chosen(options.products, judging.DOES)))


def _chosen(asked: str | None, known: Sequence[str] | dict[str, str]) -> list[str]:
    return [name for name in known if asked is None or name in asked.split(",")]


def _traces(folder: Path, options: argparse.Namespace, products: list[str]) -> Table:
    table = Table("product", "version", title=f"{options.traces} traces of six spans over OTLP/HTTP, gzip")
    for name in ("CPU ms a trace", "traces/s a core", "idle MB", "peak MB", "disk kB a trace"):
        table.add_column(name, justify="right")
    table.add_column("what it does")
    for one in tracing.measure(products, folder, traces=options.traces, runs=options.runs):
        rate = f"{1e3 / statistics.median(one.cpu_ms):,.0f}"
        memory = f"{one.idle_mb:,.0f}", f"{one.peak_mb:,.0f}"
        disk = f"{one.disk_kb:,.1f}"
        table.add_row(one.product, one.version, spread(one.cpu_ms, 2), rate, *memory, disk, tracing.DOES[one.product])
    return table


def _judgements(folder: Path, options: argparse.Namespace, products: list[str]) -> Table:
    table = Table(
        "product", "version", title="One judgement of faithfulness, six claims, five documents of 800 characters"
    )
    for name in ("calls", "tokens in", "tokens out", "CPU ms"):
        table.add_column(name, justify="right")
    table.add_column("what it does")
    for one in judging.measure(products, folder, cases=options.cases, runs=options.runs):
        table.add_row(
            one.product, one.version, f"{one.calls:.1f}", f"{one.tokens_in:,.0f}", f"{one.tokens_out:,.0f}",
            spread(one.cpu_ms, 2), judging.DOES[one.product],
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
