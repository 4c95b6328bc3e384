"""Makes the pictures of the docs from the running product: `make pictures`.

    python -m tests.support.pictures [NAME...]

    demo     demo.svg, a recording of `rag-monitor demo`
    pages    the overview, a case and the review, in a monitor on the demo's recorded traffic
    trial    a trial on the page of a case; its judge is scripted
    board    Grafana's overview dashboard, as `tests.record.panels` draws it: needs Prometheus and npm

Chromium takes a picture of each page, light and dark, into docs/images. All of it takes about ten minutes. Plots of
measurements are drawn by their benchmarks.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from monitor.cli.demo import feeder
from monitor.cli.demo.embedded import settings
from monitor.clock import SystemClock
from tests.record.panels import __main__ as panels
from tests.support import boards, recording
from tests.support.browser import Browser
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess
from tests.support.paths import DOCS
from tests.support.review import ANA, REVIEWERS
from tests.support.tools import free_port, wait_until

IMAGES = DOCS / "images"
MOST_BYTES = 100_000
"""Largest size of the recording: README loads it at once."""

EVALUATOR = "overlap_groundedness"
QUICKLY = feeder.Schedule(healthy=15, growing=15)
MORE = 300
"""Results after the alert, so that the trend shows the rise."""

BOARD_SECONDS = 240.0
WIDE, TALL = (1200, 760), (1200, 900)


@contextmanager
def fed(port: int) -> Iterator[None]:
    """Send the demo's traffic to a monitor, in a thread."""
    schedules = {**feeder.SCHEDULES, feeder.DEGRADING: QUICKLY}
    ended = threading.Event()

    async def until_ended() -> None:
        url = f"http://127.0.0.1:{port}/v1/traces"
        sending = asyncio.create_task(feeder.feed(url, SystemClock(), random.Random(7), schedules=schedules))
        await asyncio.to_thread(ended.wait)
        sending.cancel()

    thread = threading.Thread(target=asyncio.run, args=(until_ended(),))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def take(browser: Browser, name: str, url: str, size: tuple[int, int] = WIDE, at: str = "") -> None:
    """Write the two pictures of a page; `at` selects the element that is at the top."""
    for dark in (False, True):
        browser.look(size, dark=dark)
        browser.open(url)
        browser.value(f"document.querySelector({at!r}).scrollIntoView()" if at else "scrollTo(0, 0)")
        path = IMAGES / f"{name}-{'dark' if dark else 'light'}.png"
        path.write_bytes(browser.picture())
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def of_the_demo(folder: Path) -> None:
    """Take the overview, a case and the review, in a monitor configured as the demo is."""
    reviewers = folder / "reviewers"
    reviewers.write_text(REVIEWERS)
    reviewers.chmod(0o600)
    config = settings(folder / "state", [free_port(), free_port(), free_port()])
    monitor = MonitorProcess(
        folder, {**config, "review": {"enabled": True, "reviewers": {"token_file": str(reviewers)}}}
    )
    monitor.http, monitor.metrics_port = config["sources"][0]["port"], config["sinks"][0]["port"]
    with monitor, fed(monitor.http), Browser() as browser:
        site = f"http://127.0.0.1:{monitor.metrics_port}"

        def critical() -> bool:
            alerts = json.loads(monitor.get("/api/v1/alerts"))["alerts"]
            return any(one["status"] == "firing" and one["severity"] == "critical" for one in alerts)

        wait_until(critical, 120, "a critical alert")
        scored = monitor.total("ragmonitor_evaluations_total")
        wait_until(lambda: monitor.total("ragmonitor_evaluations_total") > scored + MORE, 120, "what followed it")
        take(browser, "overview", f"{site}/?window=10m")
        asked = f"/api/v1/answers?app={feeder.DEGRADING}&evaluator={EVALUATOR}&limit=20"
        worst = json.loads(monitor.get(asked))["answers"]
        take(browser, "case", f"{site}/case/{worst[0]['request_id']}")
        signed_in(browser, site)
        take(browser, "review", f"{site}/review/label?app={feeder.DEGRADING}&evaluator={EVALUATOR}&by=measure", TALL)


def signed_in(browser: Browser, site: str) -> None:
    """Sign in as a reviewer."""
    browser.look(TALL)
    browser.open(f"{site}/review")
    browser.value(f"document.querySelector('input[name=secret]').value = {ANA!r}")
    browser.value("document.querySelector('form.signing').requestSubmit()")
    wait_until(lambda: browser.value("!!document.querySelector('form.signed')"), 30, "the queues")


def of_a_trial(folder: Path) -> None:
    """Take a trial of a judged evaluator whose result flips."""
    with LLMServer() as llm:
        llm.always(scripted(threading.Lock()))
        config = settings(folder / "state", [free_port(), free_port(), free_port()])
        price = {"input_per_million": 2.0, "output_per_million": 10.0}
        judge = {"model": "openai/judge", "api_key": "none", "api_base": llm.url, "price": price, "recheck_share": 0}
        judged = {"evaluators": [*config["evaluators"], {"type": "groundedness"}], "judge": judge}
        monitor = MonitorProcess(folder, {**config, **judged, "canary": {"interval": None}})
        monitor.http, monitor.metrics_port = config["sources"][0]["port"], config["sinks"][0]["port"]
        with monitor, Browser() as browser:
            body = feeder.load()[feeder.DEGRADING].unsupported[0].SerializeToString()
            assert monitor.post(body) == 200
            asked = "/api/v1/answers?evaluator=groundedness&outcome=any"
            found = wait_until(lambda: json.loads(monitor.get(asked))["answers"], 60, "a verdict")
            site = f"http://127.0.0.1:{monitor.metrics_port}"
            browser.look(TALL)
            browser.open(f"{site}/case/{found[0]['request_id']}")  # type: ignore[index]
            form = "document.querySelector('form.try')"
            browser.value(f"{form}.elements.evaluator.value = 'groundedness'")
            browser.value(f"{form}.elements.times.value = '3'")
            browser.value(f"{form}.requestSubmit()")
            wait_until(lambda: "flips" in browser.value("document.body.innerText"), 60, "the end of the trial")
            take(browser, "tried", browser.value("location.href"), TALL)


def scripted(lock: threading.Lock) -> Callable[[Any], Any]:
    """Return a judge that quotes the answer's first words, and every third time accepts the rest of the answer."""
    asked = 0

    def answer(request: Any) -> Any:
        nonlocal asked
        with lock:
            asked += 1
        quote = " ".join(request.data["response"].split()[:6])
        claims = [{"quote": quote, "verdict": "absent", "note": "no document says so"}]
        score = 3 if asked % 3 == 1 and asked > 1 else 1
        return verdict(claims=claims, explanation="The context does not say this.", score=score)

    return answer


def of_the_demo_command(_folder: Path) -> None:
    """Record the demo."""
    drawn = recording.animated(recording.record(), "rag-monitor demo: recorded traffic gets worse, and an alert fires")
    size = len(drawn.encode())
    print(f"demo.svg: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"demo.svg: {size:,} bytes are more than {MOST_BYTES:,}")
    (IMAGES / "demo.svg").write_text(drawn)


def of_grafana(folder: Path) -> None:
    """Draw the overview dashboard."""
    (board,) = (path for path in boards.PATHS if path.stem == "overview")
    panels.collect(folder, BOARD_SECONDS, [board])
    panels.draw(json.loads((folder / board.name).read_text()), "grafana-overview", IMAGES, "dark")
    print(f"grafana-overview.png: {(IMAGES / 'grafana-overview.png').stat().st_size:,} bytes")


class Pictures(NamedTuple):
    """The functions that make pictures in a new folder, and the names of their files in docs/images."""

    make: Callable[[Path], None]
    files: tuple[str, ...]


def light_and_dark(*names: str) -> tuple[str, ...]:
    """Return the names of the files of these pages."""
    return tuple(f"{name}-{theme}.png" for name in names for theme in ("light", "dark"))


MADE: dict[str, Pictures] = {
    "demo": Pictures(of_the_demo_command, ("demo.svg",)),
    "pages": Pictures(of_the_demo, light_and_dark("overview", "case", "review")),
    "trial": Pictures(of_a_trial, light_and_dark("tried")),
    "board": Pictures(of_grafana, ("grafana-overview.png",)),
}
PLOTTED: dict[str, str] = {"growth.svg": "python -m benchmarks.growth"}
"""The other pictures of the docs, and the benchmark that measures and draws each, in hours."""


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all. Exits with a message for an unknown name."""
    if unknown := sorted(set(names) - MADE.keys()):
        raise SystemExit(f"no pictures {', '.join(unknown)}: there are {', '.join(MADE)}")
    for name in names or MADE:
        with tempfile.TemporaryDirectory() as folder:
            MADE[name].make(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
