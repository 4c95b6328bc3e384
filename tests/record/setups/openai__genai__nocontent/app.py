"""As `openai__genai__span`, as it comes: no texts are sent until somebody switches them on."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "NO_CONTENT"
os.environ["FLAVOURS"] = "util_genai bare"
runpy.run_path(str(Path(__file__).parents[1] / "openai__genai__span" / "app.py"), run_name="__main__")
