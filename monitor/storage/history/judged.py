"""Reading single results that people review: which there are, and all that is kept of one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.storage.history.rows import load
from monitor.storage.history.tables import FORMAT
from monitor.storage.sqlite import ReadOnly

_FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError)
_REVIEWABLE: Final = (
    "SELECT id, trace_id, at, defect, score, json_extract(CAST(body AS TEXT), '$.weight'),"
    " coalesce(json_extract(CAST(body AS TEXT), '$.contradicts'), 0)"
    " OR coalesce(json_extract(CAST(body AS TEXT), '$.second.outcome') = 'refuted', 0),"
    " coalesce(json_type(CAST(body AS TEXT), '$.response') = 'text', 0)"
    " FROM results WHERE app = ?1 AND evaluator = ?2 AND at >= ?4 AND outcome = 'score'"
    " AND json_valid(CAST(body AS TEXT)) AND json_extract(CAST(body AS TEXT), '$.scope') = 'live'"
    " AND json_extract(CAST(body AS TEXT), '$.version') = ?3 ORDER BY at DESC, id LIMIT ?5"
)


class ReviewableResult(NamedTuple):
    """A score that counts in the rate of its evaluator. `at`: wall-clock second of the result.

    `doubtful`: the judge's explanation or its second judgement says the opposite of the score. `has_texts`: whether
    there is something to read.
    """

    result_id: str
    request_id: str
    at: float
    defect: bool
    score: float
    weight: float
    doubtful: bool
    has_texts: bool


class JudgedReader:
    """Reads single results of the history while any process writes it. Its methods block and raise `MonitorError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ReadOnly(path, FORMAT, name="the history")

    def reviewable(self, app: str, evaluator: str, version: str, since: float, limit: int) -> list[ReviewableResult]:
        """Return the newest scores from the wall-clock second `since` on, the newest first. None without a file."""
        if not self._path.exists():
            return []
        found = []
        for result_id, request_id, at, defect, score, weight, doubtful, has_texts in self._file.query(
            _REVIEWABLE, [app, evaluator, version, since, limit]
        ):
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                numbers = float(at), bool(defect), float(score), float(weight), bool(doubtful), bool(has_texts)
                if numbers[3] > 0:
                    found.append(ReviewableResult(result_id, request_id, *numbers))
        return found

    def by_id(self, result_id: str) -> Mapping[str, Any] | None:
        """Return the row of one result (`monitor/storage/history/rows.py`); None where it is not kept."""
        found = self._file.query("SELECT body FROM results WHERE id = ?", [result_id]) if self._path.exists() else []
        with suppress(*_FAULTS):  # as above
            return load(found[0][0]) if found else None
        return None
