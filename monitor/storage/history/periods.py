"""Reading sums of the history over whole periods, such as a week: rates by evaluator, and the use of judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from monitor.statistics.rates import Sums
from monitor.storage.history.tables import FORMAT
from monitor.storage.sqlite import ReadOnly


class PeriodRate(NamedTuple):
    """The sums of the results of one version of an evaluator. `last`: the minute of the newest, seconds since 1970."""

    app: str
    evaluator: str
    version: str
    sums: Sums
    last: float


class JudgeUse(NamedTuple):
    """The use of the judge for one app and evaluator, for evaluations with the same `outcome`.

    `outcome` is `score`, `skipped`, or the reason why there is no score. `asked` counts the evaluations for which a
    judge gave a verdict, not from its cache, and `seconds` is their wall-clock time. `calls` and `dollars` cover all
    calls, including those without a verdict.
    """

    app: str
    evaluator: str
    outcome: str
    evaluations: int
    asked: int
    calls: int
    dollars: float
    seconds: float


class PeriodReader:
    """Reads from any thread or process, while the history is written.

    All methods block, for a month of sums about a tenth of a second, and raise `MonitorError` if there is no history or
    it cannot be read. Periods are in seconds since 1970; their end is exclusive.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReadOnly(path, FORMAT, name="the history")

    def rates(self, since: float, until: float) -> list[PeriodRate]:
        """Return the sums of the live results of a period, by app, evaluator and version. To the minute."""
        found = self._file.query(
            "SELECT app, evaluator, version, defect, MAX(at), SUM(judged), SUM(weight), SUM(weight_squares), MAX(top),"
            " SUM(defect_products), SUM(every_products), SUM(both_products)"
            " FROM session_sums WHERE at >= ? AND at < ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
            [since, until],
        )
        rates: dict[tuple[str, str, str], PeriodRate] = {}
        for row in _whole(found, texts=3):
            app, evaluator, version, defect, last, judged, weight, squares, *products = row
            if defect:
                sums = Sums(judged, judged, weight, weight, squares, 0.0, *products)
            else:
                sums = Sums(judged, 0, weight, 0.0, 0.0, squares, *products)
            key = (app, evaluator, version)
            known = rates.get(key)
            rates[key] = (
                PeriodRate(*key, known.sums + sums, max(known.last, last)) if known else PeriodRate(*key, sums, last)
            )
        return list(rates.values())

    def judge_use(self, since: float, until: float) -> list[JudgeUse]:
        """Return the use of judges in a period, by app, evaluator and outcome.

        Covers the quarters of an hour that begin in it, so that consecutive periods count each quarter once.
        """
        found = self._file.query(
            "SELECT app, evaluator, outcome, SUM(evaluations), SUM(asked), SUM(calls), SUM(dollars), SUM(seconds)"
            " FROM judge_use WHERE at >= ? AND at < ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            [since, until],
        )
        return [JudgeUse(*row) for row in _whole(found, texts=3)]

    def begin(self) -> float | None:
        """Return the first minute with sums; None without any."""
        ((first,),) = self._file.query("SELECT MIN(at) FROM session_sums", [])
        return float(first) if isinstance(first, int | float) else None


def _whole(found: Sequence[tuple[Any, ...]], *, texts: int) -> list[tuple[Any, ...]]:
    """Leave out rows with damaged bytes, which SQLite does not notice."""
    return [
        row
        for row in found
        if all(isinstance(one, str) for one in row[:texts]) and all(isinstance(one, int | float) for one in row[texts:])
    ]
