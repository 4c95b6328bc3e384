"""A signal ends the process in time, also where something does not end."""

from __future__ import annotations

import signal
import subprocess
import sys

STUCK = """
import time, anyio
from monitor.operations.event_loop import stop_on_signal

async def main():
    async with stop_on_signal(within={within}) as stop:
        print("ready", flush=True)
        await stop.wait()
        time.sleep({stuck})

anyio.run(main)
print("finished", flush=True)
"""


def ended(within: float, stuck: float) -> tuple[int, str]:
    """The exit status after SIGTERM, and what was printed after that."""
    command = [sys.executable, "-c", STUCK.format(within=within, stuck=stuck)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        return process.wait(300), rest


def test_a_process_that_does_not_end_by_itself_ends_in_time() -> None:
    assert ended(within=0.2, stuck=3600) == (0, "")


def test_a_process_that_ends_in_time_ends_by_itself() -> None:
    assert ended(within=3600, stuck=0) == (0, "finished\n")


LEAVING = """
import atexit, sys, threading, time
from monitor.operations.event_loop import end_process

atexit.register(print, "finalized")
threading.Thread(target=time.sleep, args=(3600,)).start()
sys.stdout.write("said without an end of line")
end_process()
"""


def test_a_process_that_has_closed_everything_waits_for_no_thread_and_no_finalizer():
    ended = subprocess.run([sys.executable, "-c", LEAVING], stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert ended.stdout == "said without an end of line"
