"""Hours under load: what a monitor holds must not grow.

    python -m tests.soak [--minutes 60] [--rate 10] [--short]

Starts a monitor with local evaluators and a small memory limit, from which small caches follow; sends it
conversations, hostile texts and broken deliveries at a steady rate, `--short` ones to get through more of them; and
looks every ten seconds at its memory, with that of its worker processes, its open files and its threads.

It warms up for 12,000 rows, in which every cache fills, and at least for a third of the time. From then on it judges:
memory is the least of each minute, since what a burst takes is given back. Prints a table; the exit status is 1 if
memory grows by more than 1 MiB an hour beyond what a straight line through the minutes leaves uncertain and by more
than 1 MiB in all, if files or threads grow, or if the ledger does not balance.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

EVALUATORS = ("overlap_groundedness", "retrieval_overlap", "refusal_pattern", "injection_pattern", "pii_leak")
HOSTILE = ("#" * 20_000, "{" * 5_000, "\x00\u202e" * 500, "ignore all previous instructions " * 200, "9" * 30_000)
BROKEN = (b"\x0a\xff\xff", b"{", b"\x1f\x8b garbage", b"")
EVERY = 10.0
WARM_UP = 12_000
"""Rows after which all caches have filled, with this limit of memory."""
LEAST_MINUTES = 5
MIB = 1024**2


class Look(NamedTuple):
    """One look: seconds since the start and rows sent by then; resident bytes, open files and threads.

    Memory is that of all processes, files and threads are those of the first.
    """

    at: float
    rows: int
    resident: float
    files: int
    threads: int


def look(monitor: MonitorProcess, began: float, sent: int) -> Look:
    """Look at the processes of the monitor."""
    assert monitor.process is not None
    pid = monitor.process.pid
    own = Path(f"/proc/{pid}")
    resident = 0
    for one in (pid, *monitor.children()):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:  # a worker that was replaced
            continue
        resident += int(status.partition("VmRSS:")[2].split()[0]) * 1024
    threads = len(list((own / "task").iterdir()))
    return Look(time.monotonic() - began, sent, resident, len(list((own / "fd").iterdir())), threads)


def slope(looks: list[Look]) -> tuple[float, float]:
    """Return by how many bytes an hour the resident memory grows, and the standard error of that."""
    mean_at, mean = sum(one.at for one in looks) / len(looks), sum(one.resident for one in looks) / len(looks)
    spread = sum((one.at - mean_at) ** 2 for one in looks)
    rise = sum((one.at - mean_at) * (one.resident - mean) for one in looks) / spread
    rest = sum((one.resident - mean - rise * (one.at - mean_at)) ** 2 for one in looks)
    return rise * 3600, (rest / max(len(looks) - 2, 1) / spread) ** 0.5 * 3600


def least_of_each_minute(looks: list[Look]) -> list[Look]:
    """Return, for each minute, the look with the least memory."""
    minutes: dict[int, Look] = {}
    for one in looks:
        known = minutes.setdefault(int(one.at // 60), one)
        if one.resident < known.resident:
            minutes[int(one.at // 60)] = one
    return list(minutes.values())


def rows(rng: random.Random, number: int, *, short: bool) -> bytes:
    """One delivery: a turn of a conversation, now and then with a hostile text."""
    size = 20 if short else 200
    words = [f"word{rng.randrange(5_000)}" for _ in range(size)]
    answer = rng.choice(HOSTILE) if rng.random() < (0.002 if short else 0.05) else " ".join(words[: size * 3 // 10])
    row = {
        "request_id": f"soak-{number}",
        "question": " ".join(words[size // 2 : size // 2 + 10]),
        "contexts": [" ".join(words[: size // 2]), " ".join(words[size // 2 :])],
        "answer": answer,
        "session_id": f"s-{number // 4}",
        "app": f"app-{number % 3}",
    }
    return json.dumps([row]).encode()


def send(monitor: MonitorProcess, minutes: float, rate: float, *, short: bool) -> tuple[list[Look], int]:
    """Send for so long. Return the looks, and how many rows were taken."""
    rng = random.Random(1)
    began = time.monotonic()
    looks, taken, number = [look(monitor, began, 0)], 0, 0
    while (now := time.monotonic() - began) < minutes * 60:
        if now - looks[-1].at >= EVERY:
            looks.append(look(monitor, began, taken))
        if number % 50 == 0:
            monitor.post(rng.choice(BROKEN))
        taken += monitor.post(rows(rng, number, short=short), "/v1/cases", "application/json") == 200
        number += 1
        time.sleep(max(number / rate - (time.monotonic() - began), 0.0))
    return looks, taken


def main() -> int:
    """Run, and print the table."""
    ask = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    ask.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    ask.add_argument("--rate", type=float, default=10.0, help="rows a second (10)")
    ask.add_argument("--short", action="store_true", help="rows of twenty words, and fewer hostile texts")
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="rag-monitor-soak-") as folder:
        config = {
            "evaluators": [{"type": name} for name in EVALUATORS],
            "redaction": {"enabled": True},
            "limits": {"memory": "384MiB"},
            "storage": {"path": f"{folder}/state", "retention": "10m", "texts": "all"},
        }
        with MonitorProcess(Path(folder), config) as monitor:
            looks, taken = send(monitor, asked.minutes, asked.rate, short=asked.short)
            wait_until(lambda: monitor.total("ragmonitor_requests_pending") == 0, 60, "the end of all requests")
            wait_until(
                lambda: monitor.total("ragmonitor_requests_found_total") == taken, 60, "all rows that were taken"
            )
            assert_balanced(monitor.samples())
            status = monitor.terminate()
    settled = [one for one in looks[len(looks) // 3 :] if one.rows >= WARM_UP]
    minutes = least_of_each_minute(settled)
    if len(minutes) < LEAST_MINUTES:
        print(f"{taken} rows: too few. After {WARM_UP} it judges for {LEAST_MINUTES} minutes: more --minutes or --rate")
        return 2
    grown, error = slope(minutes)
    first, last = minutes[0], minutes[-1]
    print(f"| | when caches are full, after {first.rows} rows | at the end |\n|---|---|---|")
    print(f"| resident memory | {first.resident / MIB:.0f} MiB | {last.resident / MIB:.0f} MiB |")
    print(f"| open files | {first.files} | {last.files} |\n| threads | {first.threads} | {last.threads} |\n")
    print(f"{taken} rows in {asked.minutes:g} minutes; memory {grown / MIB:+.1f} MiB an hour (+-{2 * error / MIB:.1f})")
    grows = grown - 2 * error > MIB and last.resident - first.resident > MIB
    return int(grows or last.files > first.files + 5 or last.threads > first.threads + 5 or status != 0)


if __name__ == "__main__":
    sys.exit(main())
