"""As `openai__genai__span`, with the texts in one log record for each call instead of the span's attributes."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "EVENT_ONLY"
os.environ["OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"] = "true"
runpy.run_path(str(Path(__file__).parents[1] / "openai__genai__span" / "app.py"), run_name="__main__")
