"""The table of the history that samplers learn from anew after a restart: the newest verdicts, with what they teach."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from monitor.sinks._rows import dump, lesson, load
from monitor.stages import Lesson

AT_MOST: Final = 5_000
"""Verdicts that are remembered: as many as the model itself does, in which an older one has all but faded."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS lessons (n INTEGER PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL);
"""

NEWEST: Final = "SELECT body FROM lessons ORDER BY n DESC LIMIT ?"


def keep(db: sqlite3.Connection, row: Mapping[str, Any], at: float) -> None:
    """Add what the row of a new result teaches, if it does, within the transaction of the caller."""
    found = lesson(row)
    if found is not None and found.defect is not None and found.inputs:
        db.execute("INSERT INTO lessons (at, body) VALUES (?, ?)", (at, dump(asdict(found))))


def prune(db: sqlite3.Connection, before: float) -> None:
    """Delete what is too old, or beyond the newest."""
    db.execute("DELETE FROM lessons WHERE at < ? OR n <= (SELECT max(n) FROM lessons) - ?", (before, AT_MOST))


def of(body: bytes) -> Lesson:
    """The lesson in a row of the table."""
    told = load(body)
    return Lesson(**{**told, "inputs": tuple(told["inputs"])})
