"""Structured logs: one JSON object per line, for any text; readable lines on a terminal."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Literal, TextIO


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of ASCII JSON, with all line breaks and control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its line break."""
        line: dict[str, object] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = getattr(record, "event", None)
        if event:
            line["event"] = event
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record for a terminal: time, level, message, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with control characters escaped."""
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        text = f"{_stamp(record.created)[11:19]} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
            return text
        return text.encode("unicode_escape").decode() if not text.isprintable() else text


def _stamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def configure(level: str = "INFO", style: Literal["json", "text"] = "json", stream: TextIO | None = None) -> None:
    """Send the package's own logs, and logs of libraries from WARNING up, to `stream` (default: standard error)."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's core does not use `logging`: it writes to stderr
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("monitor").setLevel(level)
