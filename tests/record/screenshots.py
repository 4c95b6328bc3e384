"""Takes the pictures of docs/images: the page of the demo, once its alert is critical; and a try. Needs chromium.

python -m tests.record.screenshots [FOLDER]
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import anyio
import anyio.to_thread

from monitor.cli.demo.embedded import start
from tests.support.browser import PHONE, Browser
from tests.support.llm import LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess
from tests.support.service import BAD, RagService
from tests.support.tools import wait_until

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE = (1200, 760)
_AFTER = 25.0  # seconds after the alert, so that the trend shows what happened


async def main(folder: Path) -> None:
    async with start() as started, anyio.create_task_group() as tasks:
        tasks.start_soon(started.feed)
        while not any(one.severity == "critical" for one in started.next_view().alerts):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(1)
        await anyio.sleep(_AFTER)
        page = started.next_view().addresses["page"]
        await anyio.to_thread.run_sync(take, page.split("?")[0], folder)
        tasks.cancel_scope.cancel()


def take(root: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(f"{root}api/v1/answers?since=10m") as answer:
        worst = json.load(answer)["answers"][0]["trace_id"]
    pictures = {
        "overview": ("?window=10m", WIDE, False),
        "overview-phone": ("?window=10m", PHONE, True),
        "answers": ("answers?since=10m", WIDE, False),
        "case": (f"case/{worst}", WIDE, False),
        "case-phone": (f"case/{worst}", PHONE, True),
    }
    with Browser() as browser:
        for name, (path, size, dark) in pictures.items():
            browser.look(size, dark=dark)
            browser.open(root + path)
            (folder / f"{name}.png").write_bytes(browser.picture())
            print(f"{folder / name}.png")


def take_try(folder: Path) -> None:
    """What a judge that is scripted to waver says of one answer."""
    with tempfile.TemporaryDirectory() as state, LLMServer() as llm:
        llm.always(_scripted(5))
        judge = {"model": "openai/judge", "api_key": "none", "api_base": llm.url}
        config = {
            "judge": {**judge, "price": {"input_per_million": 2.0, "output_per_million": 10.0}},
            "evaluators": [{"type": "groundedness", "sample": "100%"}],
            "storage": {"path": f"{state}/state", "texts": "all"},
        }
        with MonitorProcess(Path(state), config) as monitor, Browser() as browser:
            service = RagService.over_http(monitor.http)
            trace = service.ask(answer=BAD)
            service.flush()
            service.close()
            wait_until(lambda: monitor.total("ragmonitor_evaluations_total") == 1, 60, "the verdict")
            llm.then(_scripted(1), _scripted(1), _scripted(3))
            browser.look((1200, 900))
            browser.open(f"http://127.0.0.1:{monitor.metrics_port}/case/{trace}")
            browser.value("document.querySelector('.try [name=times]').value = '3'")
            browser.value("document.querySelector('.try button').click()")
            over = "document.querySelector('.tried') !== null && document.querySelector('form.try') !== null"
            wait_until(lambda: browser.value(over), 30, "the end of the try")
            (folder / "tried.png").write_bytes(browser.picture())
            print(f"{folder / 'tried.png'}")


def _scripted(score: int) -> Reply:
    claim = {
        "quote": "a complimentary trip to Lisbon",
        "verdict": "supported" if score > 3 else "absent",
        "note": "no document mentions a trip",
    }
    said = "All of it is in the context." if score > 3 else "Neither the trip nor the insurance is in the context."
    return verdict(claims=[claim], explanation=said, score=score)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    anyio.run(main, FOLDER)
    take_try(FOLDER)
