"""A history written for tests: results, rows changed behind its back, and the content read from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from monitor.model.outcome import EvaluationResult, Selection, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.storage.history.tables import create, insert

BEGAN: Final = 1_700_000_000.0
"""When result 0 of `tests.support.results` was evaluated; result n is n seconds younger."""
MINUTE: Final = 1_699_999_980
"""The minute that contains it."""
HOUR: Final = 1_699_999_200
"""The hour, which here is also the quarter of an hour."""
FAILED: Final = Unscored(UnscoredReason.TIMEOUT)
REFUSED: Final = Skipped(SkippedReason.REFUSAL)
KEY: Final = UserKey(b"k" * 32)
CHOSEN: Final = Selection(0.5, 0.5, (1.0, 0.0), 0.0, INPUTS_VERSION)
"""How a learning sampler chose a case."""


def keep(path: Path, *results: EvaluationResult, texts: bool = True) -> None:
    """Write results, with the pseudonyms of their users."""
    with closing(create(path)) as db:
        insert(db, results, texts=texts, users=KEY)


def change(path: Path, *statements: str) -> None:
    """Change rows like damage would."""
    with closing(sqlite3.connect(path)) as db, db:
        for one in statements:
            db.execute(one)


def numbers(found: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of the results in rows."""
    return [int(row["request_id"].partition("/")[0], 16) for row in found]


def asked(one: EvaluationResult, **fields: Any) -> EvaluationResult:
    """Return a result of a case with other fields."""
    return replace(one, case=replace(one.case, **fields))
