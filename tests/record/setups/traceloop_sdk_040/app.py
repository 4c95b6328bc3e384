"""As `traceloop_sdk`, with the SDK of the 0.40 line: prompts and answers under numbered keys."""

from __future__ import annotations

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parents[1] / "traceloop_sdk" / "app.py"), run_name="__main__")
