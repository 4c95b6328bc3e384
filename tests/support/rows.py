"""Rows as readings, with the monitor's dialects."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from monitor import registry
from monitor.extraction import compose, rows
from monitor.extraction.settings import Turns
from monitor.model.case import Reading, TraceReading

READ_TRACE = partial(compose.read, conventions=registry.conventions())


def readings(row: Any, *, app: str = "", turns: Turns = "all", received_at: float = 5.0) -> TraceReading:
    """Return the reading of one row, passed through JSON as if received."""
    (found,) = rows.take(json.dumps([row]).encode(), app=app).rows
    return rows.read(found, READ_TRACE, source="cases", received_at=received_at, turns=turns)


def reading(row: Any, *, app: str = "", received_at: float = 5.0) -> Reading:
    """Return the reading of a row with one request."""
    (found,) = readings(row, app=app, received_at=received_at).readings
    return found


def contents(of: Reading) -> list[str]:
    return [document.content for document in of.case.retrieved_context]
