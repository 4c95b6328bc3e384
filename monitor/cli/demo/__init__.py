"""`rag-monitor demo`: watch the monitor on recorded traffic that gets worse."""

from __future__ import annotations

from monitor.cli.demo.embedded import start
from monitor.cli.demo.show import run_demo


def demo() -> None:
    """Watch the monitor detect that recorded traffic gets worse, until Ctrl-C. Needs no key and no network."""
    run_demo(start)
