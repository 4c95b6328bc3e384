"""Headless Chromium, driven over its debugging pipe: needs no port and no package except Debian's own."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, Self

from tests.support.tools import PATIENCE, require, wait_until

PHONE, DESKTOP = (390, 844), (1200, 900)


class Browser:
    """One browser with one tab. It records what it loads and logs, for the test to check."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._happened: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(prefix="rag-monitor-chromium-")
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()
        self._read, self._write = to_us, from_us
        program = require("chromium", "chromium")

        def numbered() -> None:  # the browser reads from 3 and writes to 4
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            high_reading, high_writing = os.dup2(reading, 63), os.dup2(writing, 62)
            os.dup2(high_reading, 3)
            os.dup2(high_writing, 4)

        arguments = [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
            "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            arguments,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=numbered,  # noqa: PLW1509 - what it calls takes no lock
            close_fds=False,
        )
        os.close(to_browser)
        os.close(from_browser)
        page = wait_until(self._page, 20, "the browser's page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.do(f"{domain}.enable")
        return self

    def _page(self) -> str:
        """Return the id of the page, which exists a moment after the browser."""
        pages = [one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        return str(pages[0]["targetId"])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(60)
        os.close(self._read)
        os.close(self._write)
        for _ in range(20):  # its children may still write for a moment
            try:
                self._profile.cleanup()
                break
            except OSError:
                time.sleep(0.1)

    def look(self, size: tuple[int, int] = DESKTOP, *, dark: bool = False, scripts: bool = True) -> None:
        """Set the size of the window, the preferred colours, and whether scripts may run."""
        width, height = size
        mobile = width < 600
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.do("Emulation.setScriptExecutionDisabled", value=not scripts)

    def open(self, url: str) -> None:
        """Load a page completely."""
        self.requested.clear()
        self.complaints.clear()
        self._happened.clear()
        self.do("Page.navigate", url=url)
        self._wait_for("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self.do("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: a letter, a digit, `Enter` or `Escape`."""
        code = f"Key{key.upper()}" if key.isalpha() and len(key) == 1 else f"Digit{key}" if key.isdigit() else key
        text = {"text": "\r" if key == "Enter" else key} if key != "Escape" else {}
        number = {"windowsVirtualKeyCode": 13} if key == "Enter" else {}
        self.do("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, **text, **number)
        self.do("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, **number)

    def type(self, text: str) -> None:
        """Type a text into the focused field."""
        self.do("Input.insertText", text=text)

    def picture(self, *, whole: bool = False) -> bytes:
        """Return a PNG of the visible part, or of the whole page."""
        answer = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command to the tab. Raises `LookupError` if it fails, for example while another page is loading."""
        return self._call(method, session=self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise LookupError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _wait_for(self, event: str) -> None:
        while not any(one.get("method") == event for one in self._happened):
            self._next()

    def _next(self, seconds: float = 30.0) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], seconds * PATIENCE)
            assert ready, "the browser says nothing"
            piece = os.read(self._read, 1 << 20)
            assert piece, f"the browser ended: {self._process.poll()}"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._keep(message)
        return message

    def _keep(self, message: dict[str, Any]) -> None:
        method, said = message.get("method"), message.get("params", {})
        if method is None:
            return
        self._happened.append(message)
        if method == "Network.requestWillBeSent":
            self.requested.append(said["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"):
            self.complaints.append(f"a script ran: {said}")
