"""As `openai__genai__span`, with texts in log records alone, and a limit on the length of attribute values in force."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

os.environ["OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"] = "200"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "EVENT_ONLY"
os.environ["OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"] = "true"
os.environ["FLAVOURS"] = "util_genai bare"
runpy.run_path(str(Path(__file__).parents[1] / "openai__genai__span" / "app.py"), run_name="__main__")
