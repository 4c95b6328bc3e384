"""Conversations in files: how many there are, and in how many an answer is bad."""

from __future__ import annotations

from monitor.model.case import Case, Request
from monitor.operations.offline.conversations import summarize_conversations
from monitor.storage.history.rows import as_json
from tests.support.evaluators import LocalEvaluator, configured
from tests.support.results import judged


def test_sessions_of_the_same_name_in_two_apps_are_two_conversations() -> None:
    cases, rows = [], []
    for number in range(8):
        app, session = ("shop", "bank")[number % 2], f"s{number // 4}"
        case = Case(request_id=f"r{number}", request=Request("Why?"), response="Because.", app=app, session_id=session)
        one = judged(number, 1.0 if number == 0 else 4.0, evaluator="local")
        object.__setattr__(one, "case", case)
        cases.append(case)
        rows.append(as_json(one, texts=False))
    (found,) = summarize_conversations([configured(LocalEvaluator())], cases, rows)
    assert (found.judged, found.defective) == (4, 1)
