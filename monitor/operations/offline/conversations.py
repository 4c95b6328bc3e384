"""Results by turn of a conversation, and how many conversations have at least one defective answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.operations.offline.results_file import ResultRow
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator

_LAST: Final = 3
"""This turn and all later ones are summed up together."""


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """The scores of one turn over all conversations: `1`, `2`, or `3+` for the third and all later ones."""

    turn: str
    scored: int
    defects: int


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """The results of one evaluator on conversations.

    `judged` counts conversations with at least one scored answer, `defective` those with at least one defect. A case
    without a session is a conversation of one turn.
    """

    evaluator: str
    judged: int
    defective: int
    turns: Sequence[TurnSummary]


def summarize_conversations(
    evaluators: Sequence[ConfiguredEvaluator], cases: Sequence[Case], rows: Sequence[ResultRow]
) -> tuple[ConversationSummary, ...]:
    """Sum up the results of `rows` by turn and by session; empty if every case is the first turn of its own session."""
    sessions = {(case.app, case.session_id) for case in cases if case.session_id}
    if all(case.turn == 1 for case in cases) and len(sessions) == sum(bool(case.session_id) for case in cases):
        return ()
    by_id = {case.request_id: case for case in cases}
    return tuple(
        _summary(one, by_id, [row for row in rows if row["evaluator"] == one.evaluator.name]) for one in evaluators
    )


def _summary(one: ConfiguredEvaluator, cases: Mapping[str, Case], rows: Sequence[ResultRow]) -> ConversationSummary:
    turns: dict[int, list[bool]] = {}
    sessions: dict[tuple[str, ...], bool] = {}
    for row in rows:
        case = cases.get(row["request_id"])
        if case is None or row["outcome"] != "score":
            continue
        defect = one.defect.matches(Score(row["score"], "", row["label"] or ""))
        turns.setdefault(min(case.turn, _LAST), []).append(defect)
        session = (case.app, case.session_id) if case.session_id else (case.request_id,)
        sessions[session] = sessions.get(session, False) or defect
    return ConversationSummary(
        evaluator=one.evaluator.name,
        judged=len(sessions),
        defective=sum(sessions.values()),
        turns=tuple(
            TurnSummary(f"{turn}{'+' if turn == _LAST else ''}", len(found), sum(found))
            for turn, found in sorted(turns.items())
        ),
    )
