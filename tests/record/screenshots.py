"""Takes the pictures of docs/images: the page of the demo, once its alert is critical. Needs chromium.

python -m tests.record.screenshots [FOLDER]
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

import anyio
import anyio.to_thread

from monitor.cli.embedded import start
from tests.support.browser import PHONE, Browser

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


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
