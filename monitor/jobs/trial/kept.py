"""Restores the case of a result in the history, to evaluate it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from monitor import registry
from monitor.errors import InvalidData
from monitor.extraction import compose, rows
from monitor.model.case import Case


def of_row(row: Mapping[str, Any]) -> Case | None:
    """Return the case of a result that was stored with its texts; None where it has none, or they cannot be read.

    The service's own prompt and expected answers are missing: the history does not store them.
    """
    if "response" not in row:
        return None
    own = {key: row.get(key) for key in ("request", "retrieved_context", "response", "model", "session_id", "user_id")}
    given: dict[str, Any] = {
        "request_id": row.get("trace_id"),
        **own,
        "usage": {},
        "context_source": "row",
        "app": row.get("app"),
    }
    read_trace = partial(compose.read, conventions=registry.conventions())
    try:
        reading = rows.read(rows.recognise(given), read_trace, source="history")
    except InvalidData:
        return None
    attributes = row.get("attributes")
    return replace(
        reading.case,
        span_id=str(row.get("span_id") or ""),
        convention=str(row.get("convention") or ""),
        answered_at=float(row.get("answered_at") or 0.0),
        attributes={str(name): str(value) for name, value in attributes.items()} if attributes else {},
    )
