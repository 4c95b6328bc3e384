"""Reading single results for review: which ones exist, and everything kept about one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.model.external import USER_FEEDBACK, ScoreSource
from monitor.storage.history.rows import load
from monitor.storage.history.tables import FORMAT
from monitor.storage.sqlite import ReadOnly, marks

_FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError)
_REVIEWABLE: Final = (
    "SELECT id, trace_id, at, defect, score, json_extract(CAST(body AS TEXT), '$.weight'),"
    " coalesce(json_extract(CAST(body AS TEXT), '$.contradicts'), 0),"
    " coalesce(json_extract(CAST(body AS TEXT), '$.second.outcome') = 'refuted', 0)"
    " OR coalesce(json_extract(CAST(body AS TEXT), '$.recheck') = 'other', 0),"
    " coalesce(json_type(CAST(body AS TEXT), '$.response') = 'text', 0)"
    " FROM results WHERE app = ? AND evaluator = ? AND at >= ? AND at <= ? AND outcome = 'score'"
    " AND json_valid(CAST(body AS TEXT)) AND json_extract(CAST(body AS TEXT), '$.scope') = 'live'"
    " AND json_extract(CAST(body AS TEXT), '$.version') = ? ORDER BY at DESC, id LIMIT ?"
)
_VOTES: Final = (
    "SELECT trace_id, defect FROM results WHERE trace_id IN ({}) AND outcome = 'score' AND evaluator NOT IN ({})"
    " AND (evaluator = ? OR (json_valid(CAST(body AS TEXT))"
    " AND json_extract(CAST(body AS TEXT), '$.score_source') = ?)) ORDER BY at, id"
)
_AT_ONCE: Final = 500


class ReviewableResult(NamedTuple):
    """A score that counts in the rate of its evaluator. `at`: wall-clock second of the result.

    `contradicts`: the judge's explanation says the opposite of the score. `flips`: the judge said the opposite when it
    was asked again. `has_texts`: whether its texts are stored.
    """

    result_id: str
    request_id: str
    at: float
    defect: bool
    score: float
    weight: float
    contradicts: bool
    flips: bool
    has_texts: bool

    @property
    def doubtful(self) -> bool:
        """Whether the judge itself gives reason to doubt the verdict."""
        return self.contradicts or self.flips


class JudgedReader:
    """Reads single results of the history while any process writes it. Its methods block and raise `MonitorError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ReadOnly(path, FORMAT, name="the history")

    def reviewable(
        self, app: str, evaluator: str, version: str, since: float, limit: int, *, until: float = math.inf
    ) -> list[ReviewableResult]:
        """Return the newest scores between two wall-clock seconds, newest first; an empty list without a file."""
        if not self._path.exists():
            return []
        found = []
        for result_id, request_id, at, defect, score, weight, *said in self._file.query(
            _REVIEWABLE, [app, evaluator, since, until, version, limit]
        ):
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                contradicts, flips, has_texts = map(bool, said)
                one = ReviewableResult(
                    result_id,
                    request_id,
                    float(at),
                    bool(defect),
                    float(score),
                    float(weight),
                    contradicts,
                    flips,
                    has_texts,
                )
                if one.weight > 0:
                    found.append(one)
        return found

    def votes(self, requests: Iterable[str], own: Collection[str]) -> dict[str, bool]:
        """Return, by request, whether its user's last feedback calls the answer bad; without requests without feedback.

        `own`: the names of evaluators that are not user feedback.
        """
        if not self._path.exists():
            return {}
        wanted, found, others = list(requests), dict[str, bool](), [one for one in own if one != USER_FEEDBACK]
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            values = [*part, *others, USER_FEEDBACK, ScoreSource.FEEDBACK.value]
            sql = _VOTES.format(marks(part), marks(others))
            found.update((request, bool(down)) for request, down in self._file.query(sql, values))
        return found

    def by_id(self, result_id: str) -> Mapping[str, Any] | None:
        """Return the row of one result (`monitor/storage/history/rows.py`); None if it is not kept."""
        found = self._file.query("SELECT body FROM results WHERE id = ?", [result_id]) if self._path.exists() else []
        with suppress(*_FAULTS):  # as above
            return load(found[0][0]) if found else None
        return None
