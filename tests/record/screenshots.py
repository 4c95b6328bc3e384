"""Takes the pictures of docs/images: the page of the demo, once its alert is critical; and a try. Needs chromium.

python -m tests.record.screenshots [FOLDER]
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx

from monitor.cli.demo.embedded import start
from monitor.model.case import Document
from monitor.model.outcome import Evidence
from tests.support.browser import PHONE, Browser
from tests.support.llm import LLMServer, Reply, verdict
from tests.support.monitor import MonitorProcess
from tests.support.page import Site
from tests.support.review import ANA, REVIEWERS, judged, measurable
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


_SOURCES = (
    Document(
        "A return label is valid for 30 days from the day it is created. After that, create a new one in your account."
        " Parcels can be handed in at any post office or parcel shop.",
        doc_uri="https://kb.example/returns",
    ),
    Document("Refunds are paid to the original payment method within 14 days.", doc_uri="https://kb.example/refunds"),
    Document('{"order": 77123, "status": "delivered"}', doc_uri="order_status", kind="tool_result"),
)
_SAID = (
    "The return label is valid for six months. Print it at home and bring the parcel to any post office. Refunds are"
    " paid within 14 days to your original payment method."
)


def take_review(folder: Path) -> None:
    """An answer that waits for a label, after sixteen others."""
    with tempfile.TemporaryDirectory() as state:
        site = Site(Path(state), reviewers=REVIEWERS)
        site.judge("shop", "groundedness", 48, 12)
        evidence = (Evidence("six months", "contradicted", 30, 40, "source 1 says 30 days"),)
        question = "How long is the return label valid, and when do I get my money back?"
        shown = partial(judged, question=question, response=_SAID, documents=_SOURCES, evidence=evidence)
        anyio.run(site.store, [shown(number, defect=number % 5 == 0) for number in measurable(60)])
        with site.served() as url, Browser() as browser:
            program = {"x-review-token": ANA}
            with httpx.Client(base_url=f"{url}/api/v1/review", headers=program, trust_env=False, timeout=60) as client:
                for number in range(16):
                    case = client.get("/next?app=shop&evaluator=groundedness").json()
                    said = {
                        "verdict": "defect" if number % 5 == 0 else "good",
                        "level": None,
                        "comment": "",
                        "seen": None,
                    }
                    client.post("/labels", json={"result": case["result_id"], **said})
            browser.look((1200, 900))
            browser.open(f"{url}/review")
            wait_until(lambda: browser.value("document.activeElement.name === 'secret'"), 20, "the form")
            browser.type(ANA)
            browser.press("Enter")
            button = "document.querySelector('.drawing button')"
            wait_until(lambda: browser.value(f"document.readyState === 'complete' && !!{button}"), 20, "the queue")
            browser.value(f"{button}.click()")
            ready = "document.readyState === 'complete' && !!document.getElementById('labelling')"
            wait_until(lambda: browser.value(ready), 20, "the answer")
            browser.press("g")
            wait_until(lambda: browser.value(f"{ready} && !!document.querySelector('.reveal')"), 20, "the next one")
            (folder / "review.png").write_bytes(browser.picture())
            print(f"{folder / 'review.png'}")


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    anyio.run(main, FOLDER)
    take_try(FOLDER)
    take_review(FOLDER)
