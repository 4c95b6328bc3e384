"""How soon the monitor listens: seconds from the start of the process until each port accepts a connection.

    python -m benchmarks.startup [--starts 5]

Each row is a separate start; "CPU" is the processor time until all ports listen (only Linux). The first start may have
to compile; if no bytecode may be written, every start does.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.running import cpu_seconds, free_port

_LONGEST = 20.0


def measure(folder: Path) -> list[float]:
    """Return the seconds of one start until gRPC, HTTP and metrics listen, and the processor time until all do.

    Raises `SystemExit` if one of them does not.
    """
    ports = [free_port() for _ in range(3)]
    config = folder / "startup.yaml"
    config.write_text(
        f"sources: [{{type: otlp_grpc, port: {ports[0]}}}, {{type: otlp_http, port: {ports[1]}}}]\n"
        f"sinks: [{{type: prometheus, port: {ports[2]}}}]\nstorage: {{path: {folder}/state}}\nlog: {{level: ERROR}}\n"
    )
    began = time.monotonic()
    monitor = subprocess.Popen([sys.executable, "-m", "monitor", "run", "-c", str(config)])
    heard: dict[int, float] = {}
    try:
        while len(heard) < len(ports):
            if time.monotonic() - began > _LONGEST or monitor.poll() is not None:
                raise SystemExit(f"only {len(heard)} of {len(ports)} ports listen")
            for port in ports:
                with socket.socket() as probe:
                    if port not in heard and probe.connect_ex(("127.0.0.1", port)) == 0:
                        heard[port] = time.monotonic() - began
            time.sleep(0.005)
        used = cpu_seconds(monitor.pid)
    finally:
        monitor.terminate()
        monitor.wait(15)
    return [*(heard[port] for port in ports), used]


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--starts", type=int, default=5)
    starts = ask.parse_args().starts
    compiles = " (no bytecode is written)" if os.environ.get("PYTHONDONTWRITEBYTECODE") else ""
    table = Table("start", title=f"seconds until it listens{compiles}")
    for name in ("gRPC", "HTTP", "metrics", "CPU"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, starts + 1):
            table.add_row(str(number), *(f"{seconds:.2f}" for seconds in measure(Path(folder))))
    Console().print(table)


if __name__ == "__main__":
    main()
