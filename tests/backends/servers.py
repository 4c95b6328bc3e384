"""Real servers of the products that sinks write to, from PyPI, each in an environment of its own.

What goes into such an environment is pinned with hashes in `NAME.txt`, which `make lock` makes of `NAME.in`.
"""

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


def _phoenix(python: Path, folder: Path, port: int) -> tuple[list[str], dict[str, str]]:
    variables = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_LOG_MIGRATIONS": "false",
    }
    return [str(python), "-m", "phoenix.server.main", "serve"], variables


def _mlflow(python: Path, folder: Path, port: int) -> tuple[list[str], dict[str, str]]:
    command = [str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]
    off = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    return command, {**off, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # a dozen processes that no test needs


_COMMANDS = {"phoenix": _phoenix, "mlflow": _mlflow}


def environment(name: str) -> Path:
    """The folder of an environment with what `NAME.txt` names: made once.

    Beside the environment, in `venv`, stands the database of a first start, in `data`: that start wrote the bytecode of
    what the server imports, too, so that later ones take half the time.
    """

    def make(folder: Path) -> None:
        what = f"an environment with {name}"
        python = folder / "venv" / "bin" / "python"
        uv = [sys.executable, "-m", "uv"]
        cache.run(what, [*uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], cwd=folder)
        install = [*uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes"]
        cache.run(what, [*install, "-r", str(_HERE / f"{name}.txt")], cwd=folder)
        with _server(name, folder, folder / "data"):
            pass

    return cache.made_once(name, _HERE / f"{name}.txt", make)


@contextmanager
def running(name: str, folder: Path) -> Iterator[str]:
    """The server `name` with its data in `folder`, on SQLite; yields its address. OTLP is taken at `/v1/traces`.

    To MLflow a header names the experiment, `x-mlflow-experiment-id`: there is `0`.
    """
    made = environment(name)
    shutil.copytree(made / "data", folder)
    with _server(name, made, folder) as url:
        yield url


@contextmanager
def _server(name: str, made: Path, folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command, variables = _COMMANDS[name](made / "venv" / "bin" / "python", folder, port)
    with _answering(folder, command, f"http://127.0.0.1:{port}", variables) as url:
        yield url


@contextmanager
def _answering(folder: Path, command: Sequence[str], url: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Runs `command` until the block ends; yields `url`, which answers 200 at `/health` or `/healthz`."""
    log = folder / "server.log"
    surroundings = {**os.environ, **variables}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=folder, env=surroundings, start_new_session=True
        )

    def ready() -> bool:
        if process.poll() is not None:
            pytest.fail(f"it ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            return any(
                httpx.get(url + path, trust_env=False, timeout=60).status_code == 200
                for path in ("/health", "/healthz")
            )
        except httpx.TransportError:
            return False

    try:
        wait_until(ready, 180, "the server")
        yield url
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
