"""Nothing in the product turns texts into code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def test_s22_nothing_unpickles_evaluates_or_loads_unsafely() -> None:
    """But the pipes between the monitor and the processes that it starts, which no one else can write to."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "S301,S302,S307,S506,S102,S701", "--ignore-noqa"]
    done = subprocess.run(
        [*command, "--output-format", "json", "monitor"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = {(one["code"], Path(one["filename"]).name) for one in json.loads(done.stdout)}
    assert found <= {("S301", "packing.py"), ("S301", "own_process.py")}
