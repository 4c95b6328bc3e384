"""Looking results up in the history by what people ask for: whose, since when, how bad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Ends = tuple[float, float]
"""Two points of a scale."""

_OUTCOMES: Mapping[str, str] = {
    "any": "1",
    "defect": "outcome = 'score' AND defect",
    "passed": "outcome = 'score' AND NOT defect",
    "score": "outcome = 'score'",
    "unscored": "outcome = 'unscored'",
    "skipped": "outcome = 'skipped'",
}

_BODY = (
    "CASE WHEN length(body) > 20000 AND json_valid(CAST(body AS TEXT))"
    " THEN json_remove(CAST(body AS TEXT), '$.retrieved_context', '$.request.history') ELSE body END"
)


BY_TRACE = (
    "SELECT CASE WHEN length(body) <= 20000 OR NOT json_valid(CAST(body AS TEXT)) OR id = ("
    "SELECT id FROM results WHERE trace_id = ?1 AND json_valid(CAST(body AS TEXT))"
    " AND json_type(CAST(body AS TEXT), '$.response') = 'text' ORDER BY at, id LIMIT 1) THEN body"
    " ELSE json_remove(CAST(body AS TEXT), '$.request', '$.retrieved_context', '$.response') END"
    " FROM results WHERE trace_id = ?1 ORDER BY at, id LIMIT 1000"
)
"""Each evaluator's result holds the texts of the case again: what is long is read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for. `since` and `until` are wall-clock seconds of the verdict, `until` exclusive. No apps: any.

    `bands` are, by evaluator, the scores from the first end up to and without the second: with it, only scores within.
    `order` is `worst`, defects first and then from the bad end of each scale, or `newest`; `scales` are the bad and the
    good end by evaluator, without which scores of an evaluator are in no order.
    """

    apps: tuple[str, ...] = ()
    evaluator: str | None = None
    since: float = 0.0
    until: float | None = None
    outcome: Literal["any", "defect", "passed", "score", "unscored", "skipped"] = "score"
    order: Literal["worst", "newest"] = "worst"
    scales: Mapping[str, Ends] = field(default_factory=dict)
    bands: Mapping[str, Ends] | None = None
    limit: int = 100

    def sql(self) -> tuple[str, list[Any]]:
        """The query for bodies, and its values. Bodies that are long come without context and history.

        Rows are chosen and sorted without their bodies, which may hold megabytes of text.
        """
        where = [_OUTCOMES[self.outcome], "at >= ?"]
        values: list[Any] = [self.since]
        if self.until is not None:
            where.append("at < ?")
            values.append(self.until)
        if self.apps:
            where.append(f"app IN ({', '.join('?' * len(self.apps))})")
            values += self.apps
        if self.evaluator is not None:
            where.append("evaluator = ?")
            values.append(self.evaluator)
        if self.bands is not None:
            where.append(f"({' OR '.join(['evaluator = ? AND score >= ? AND score < ?'] * len(self.bands)) or '0'})")
            values += [one for name, ends in self.bands.items() for one in (name, *ends)]
        order, more = self._order()
        chosen = f"SELECT id FROM results WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"  # noqa: S608 - as below
        sql = f"SELECT {_BODY} FROM results WHERE id IN ({chosen}) ORDER BY {order}"  # noqa: S608 - constants of this file
        return sql, [*values, *more, self.limit, *more]

    def _order(self) -> tuple[str, list[Any]]:
        if self.order == "newest":
            return "at DESC, id", []
        goodness, values = "score", []
        if self.scales:
            goodness = f"CASE evaluator {'WHEN ? THEN (score - ?) / ? ' * len(self.scales)}ELSE 0.5 END"
            values = [one for name, (bad, good) in self.scales.items() for one in (name, bad, good - bad)]
        return f"defect DESC, {goodness}, at DESC, id", values
