"""The sample service of `deploy/sample-service` as a process: real LangChain, instrumented by OpenInference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import cache
from tests.support.tools import free_port, wait_until

FOLDER = Path(__file__).parents[2] / "deploy" / "sample-service"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SampleService:
    """Asks itself a question every `every` seconds; its traces go to the OTLP/HTTP address `to`."""

    def __init__(self, folder: Path, to: str, *, every: float) -> None:
        self.log = folder / "service.log"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._every, self._to = every, to
        self._process: subprocess.Popen[bytes] | None = None

    def hallucinate(self, share: float) -> None:
        """Make up the share `share` of its answers, 0 to 1, from now on."""
        body = json.dumps({"hallucinate": share}).encode()
        with _DIRECT.open(urllib.request.Request(f"{self.url}/quality", body), timeout=60) as answer:
            assert answer.status == 200

    def ask(self, question: str) -> Any:
        """Ask one more question, and return its answer."""
        query = urllib.parse.urlencode({"q": question})
        with _DIRECT.open(f"{self.url}/ask?{query}", timeout=60) as answer:
            return json.load(answer)

    def __enter__(self) -> Self:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._to,
            "OTEL_BSP_SCHEDULE_DELAY": "300",
            "NO_PROXY": "127.0.0.1",
        }
        keyless = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
        port = self.url.rpartition(":")[2]
        command = [str(python()), "service.py", "--port", port, "--every", str(self._every)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=FOLDER, stdout=log, stderr=log, env=keyless | variables)
        try:
            wait_until(self._answers, 60, "the sample service")
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the sample service ended: {self.log.read_text()[-3000:]}"
        try:
            with _DIRECT.open(f"{self.url}/healthz", timeout=60):
                return True
        except OSError:
            return False


def python() -> Path:
    """Return the interpreter of an environment with the service's dependencies: made once."""
    recipe = FOLDER / "requirements.txt"

    def make(folder: Path) -> None:
        what = "an environment with LangChain"
        cache.run(what, [sys.executable, "-m", "venv", str(folder / "venv")], cwd=folder)
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        cache.run(what, [*pip, "--require-hashes", "-r", str(recipe)], cwd=folder)

    return cache.made_once("sample-service", recipe, make) / "venv" / "bin" / "python"
