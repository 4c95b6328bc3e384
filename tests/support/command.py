"""`rag-monitor` commands, in this process or in a separate one, with a configuration whose judge is scripted."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from monitor.cli.main import app
from monitor.errors import ConfigError
from tests.support.llm import LLMServer


@contextmanager
def _own_log() -> Iterator[None]:
    """Restore logging: commands send it to their own standard error, which is gone later, and `doctor` silences it."""
    root, own = logging.getLogger(), logging.getLogger("monitor")
    handlers, level, own_level = root.handlers[:], root.level, own.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        own.setLevel(own_level)


def command(*arguments: object) -> Result:
    """Run a command in this process. A wrong configuration is exit status 2 with its message, as in `main`."""
    with _own_log():
        result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, ConfigError):
        result.exit_code = 2
        result.stderr_bytes = str(result.exception).encode()
    elif result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def start(*arguments: object, before: Callable[[], object] | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start a command in a separate process; `before` is called within it."""
    return subprocess.Popen(
        [sys.executable, "-m", "monitor", *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        text=True,
        preexec_fn=before,  # noqa: PLW1509 - what it calls takes no lock
        **options,
    )


def judged_by(llm: LLMServer, folder: Path, **judge: Any) -> Path:
    """Write a configuration to `folder`: overlap_groundedness, and groundedness by `llm`, at $1 per thousand calls."""
    price = {"input_per_million": 5.0, "output_per_million": 25.0}  # 100 tokens in and 20 out per call
    settings = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": price, "max_attempts": 1}
    evaluators = [{"type": "overlap_groundedness"}, {"type": "groundedness", "sample": "10%"}]
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"judge": {**settings, **judge}, "evaluators": evaluators}))
    return path


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def cells(output: str) -> dict[str, list[str]]:
    """Return a printed table: the cells of each line by its first one."""
    found = {}
    for line in output.splitlines():
        name, *rest = [cell.strip() for cell in line.strip().split("  ") if cell.strip()] or [""]
        found[name] = rest
    return found


def columns(output: str) -> dict[str, list[str]]:
    """Return the tables of `evaluate`, one line per evaluator: the cells of each column, by its name."""
    found: dict[str, list[str]] = {}
    header: list[str] = []
    for line in output.splitlines():
        row = [cell.strip() for cell in line.split("  ") if cell.strip()]
        if row[:1] == ["evaluator"]:
            header = row
        elif header and len(row) == len(header):
            for name, cell in zip(header, row, strict=True):
                found.setdefault(name, []).append(cell)
        else:
            header = []
    return found
