"""Environments with the other products, made for one run: their versions are pinned here, dependencies are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PINNED: Final = {
    "phoenix": ("arize-phoenix==20.26.1",),
    "mlflow": ("mlflow==3.17.2",),
    # Version 0.4.3 imports a module that newer versions of langchain-community do not have.
    "ragas": ("ragas==0.4.3", "langchain-community<0.4"),
    "deepeval": ("deepeval==4.3.1",),
}
COLLECTOR: Final = "v0.160.0"
_MANIFEST: Final = f"""
dist: {{name: collector, output_path: ./build}}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {COLLECTOR}
processors:
  - gomod: go.opentelemetry.io/collector/processor/batchprocessor {COLLECTOR}
exporters:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter {COLLECTOR}
"""

SILENT: Final = {
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "RAGAS_DO_NOT_TRACK": "true",
    "DO_NOT_TRACK": "true",
}
"""The variables that turn off usage reporting in these products."""


def environment() -> dict[str, str]:
    """Return the environment for a process of such a product: nothing of this checkout, and no usage reports."""
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in left_out} | SILENT


def python(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment with a product from PyPI; create it if `folder` has none."""
    made = folder / name
    interpreter = made / "bin" / "python"
    if not (made / "complete").exists():
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(made)], folder)
        _run([*uv, "pip", "install", "--quiet", "--python", str(interpreter), *PINNED[name]], folder)
        (made / "complete").touch()
    return interpreter


def collector(folder: Path) -> Path:
    """Return a Collector with OTLP receivers and the file exporter, built by its builder if `folder` has none."""
    made = folder / "collector"
    program = made / "build" / "collector"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise SystemExit("the Collector is built with Go, which is not installed")
        made.mkdir(parents=True, exist_ok=True)
        (made / "builder.yaml").write_text(_MANIFEST)
        builder = [go, "run", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR}", "--config", "builder.yaml"]
        if subprocess.run(builder, cwd=made, capture_output=True, check=False).returncode:
            # A proxy may not have modules that only a module's tests need: skip these.
            subprocess.run([go, "mod", "tidy", "-e"], cwd=made / "build", capture_output=True, check=False)
            _run([go, "build", "-o", "collector", "."], made / "build")
    return program


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-1500:]}")
