"""Reading answers and questions with their features, for diagnoses, lists of documents and topics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from monitor.storage.history.features import CaseFeatures, load_features
from monitor.storage.history.tables import FORMAT
from monitor.storage.sqlite import ReadOnly, marks

_AT_ONCE = 500
_LONGEST_QUESTION = 300  # characters in a list
_FAULTS = (ValueError, TypeError, KeyError, AttributeError)


class JudgedAnswer(NamedTuple):
    """A scored answer with its features.

    `at`: wall-clock second of the answer. `refused`: whether `refusal_pattern` found a refusal; None: it did not look.
    `label`: of the score; empty if the evaluator gives none. `judged_at`: wall-clock second of the score. `version`: of
    the evaluator. `unit`: see `unit_of`.
    """

    request_id: str
    at: float
    weight: float
    defect: bool
    score: float
    features: CaseFeatures
    refused: bool | None
    label: str = ""
    judged_at: float = 0.0
    version: str = ""
    unit: str = ""


class AskedQuestion(NamedTuple):
    """A question and its outcome.

    `at`: wall-clock second of its answer. `weight`: how many requests it stands for. `refused`: whether the answer only
    refuses, as far as an evaluator looked. `unit`: as `unit_of` says.
    """

    request_id: str
    at: float
    weight: float
    refused: bool
    features: CaseFeatures
    unit: str = ""


def unit_of(features: CaseFeatures, session: str | None) -> str:
    """Return what is equal for answers that count as one in a rate: of one session, otherwise of one user.

    Where neither is known, answers to the same question count as one.
    """
    return features.unit if session or not features.user else f"user {features.user}"


class Answers(Protocol):
    """A source of answers and questions: the history, or files of results. `at` is when an evaluator finished."""

    def judged_answers(
        self, app: str, evaluator: str, since: float, until: float, limit: int, *, newest: bool = True
    ) -> list[JudgedAnswer]:
        """Return the newest answers from `since` up to `until` that count in the rate of an evaluator, oldest first.

        Without `newest`, return those that were judged first.
        """

    def asked_questions(self, app: str, since: float, until: float, limit: int) -> list[AskedQuestion]:
        """Return the newest questions from `since` up to `until` that local evaluators looked at, oldest first."""

    def question_texts(self, ids: Collection[str]) -> dict[str, str]:
        """Return the beginnings of questions by request; without those whose text is not kept."""


_JUDGED = (
    "SELECT own.trace_id, json_extract(CAST(own.body AS TEXT), '$.answered_at'), max(own.at),"
    " json_extract(CAST(own.body AS TEXT), '$.weight'), own.defect, own.score, features.body, refusals.defect,"
    " json_extract(CAST(own.body AS TEXT), '$.label'), json_extract(CAST(own.body AS TEXT), '$.version'),"
    " json_extract(CAST(own.body AS TEXT), '$.session_id')"
    " FROM results AS own JOIN features ON features.request_id = own.trace_id"
    " LEFT JOIN results AS refusals ON refusals.trace_id = own.trace_id AND refusals.evaluator = 'refusal_pattern'"
    " AND refusals.outcome = 'score' AND own.evaluator <> 'refusal_pattern'"
    " WHERE own.app = ? AND own.evaluator = ? AND own.at >= ? AND own.at < ? AND own.outcome = 'score'"
    " AND json_valid(CAST(own.body AS TEXT)) AND json_extract(CAST(own.body AS TEXT), '$.scope') = 'live'"
    " GROUP BY own.trace_id ORDER BY 3 DESC, 1 LIMIT ?"
)
_JUDGED_OF = _JUDGED.replace("own.at >= ? AND own.at < ?", "own.trace_id IN ({})").replace(" LIMIT ?", "")
_JUDGED_FIRST = _JUDGED.replace("ORDER BY 3 DESC, 1", "ORDER BY 3, 1")
_ASKED = (
    "SELECT own.trace_id, min(json_extract(CAST(own.body AS TEXT), '$.answered_at')), max(own.at),"
    " min(json_extract(CAST(own.body AS TEXT), '$.weight')), max((own.evaluator = 'refusal_pattern' AND own.defect)"
    " OR (own.outcome = 'skipped' AND json_extract(CAST(own.body AS TEXT), '$.reason') = 'refusal')), features.body,"
    " max(json_extract(CAST(own.body AS TEXT), '$.session_id'))"
    " FROM results AS own JOIN features ON features.request_id = own.trace_id"
    " WHERE own.app = ? AND own.at >= ? AND own.at < ? AND own.outcome <> 'unscored'"
    " AND own.evaluator IN ('retrieval_empty', 'refusal_pattern', 'overlap_groundedness')"
    " AND json_valid(CAST(own.body AS TEXT)) AND json_extract(CAST(own.body AS TEXT), '$.scope') = 'live'"
    " GROUP BY own.trace_id ORDER BY 3 DESC, 1 LIMIT ?"
)
"""An evaluator with fewer cases has a subset of the others' cases: the smallest weight is the one over all cases."""

_TEXTS = (
    "SELECT trace_id, max(json_extract(CAST(body AS TEXT), '$.request.query')) FROM results"
    " WHERE trace_id IN ({}) AND json_valid(CAST(body AS TEXT)) GROUP BY trace_id"
)


def beginning(question: str) -> str:
    """Return a question for a list, cut if it is long."""
    return question if len(question) <= _LONGEST_QUESTION else f"{question[:_LONGEST_QUESTION]}\u2026"


def _answers(rows: Sequence[tuple[Any, ...]]) -> list[JudgedAnswer]:
    answers = []
    for request_id, answered_at, at, weight, defect, score, body, refused, label, version, session in rows:
        with suppress(*_FAULTS):
            known = None if refused is None else bool(refused)
            time, features = min(float(answered_at or at), at), load_features(body)
            own = (request_id, time, float(weight), bool(defect), score)
            said = str(label or ""), float(at), str(version or "")
            answers.append(JudgedAnswer(*own, features, known, *said, unit_of(features, session)))
    return answers


class AnswerReader:
    """Reads the history, from any thread or process, while it is written.

    All methods block for some milliseconds, or seconds for thousands of results, and raise `MonitorError` if there is
    no history or it cannot be read. Damaged bytes that SQLite does not notice are left out.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReadOnly(path, FORMAT, name="the history")

    def judged_answers(
        self, app: str, evaluator: str, since: float, until: float, limit: int, *, newest: bool = True
    ) -> list[JudgedAnswer]:
        """Return the newest answers from `since` up to `until` that count in the rate of an evaluator, oldest first.

        Answers whose features are not kept are left out. Without `newest`, return those that were judged first.
        """
        found = self._file.query(_JUDGED if newest else _JUDGED_FIRST, [app, evaluator, since, until, limit])
        return _answers(found[:: -1 if newest else 1])

    def asked_questions(self, app: str, since: float, until: float, limit: int) -> list[AskedQuestion]:
        """Return the newest questions from `since` up to `until` that local evaluators looked at, oldest first."""
        questions = []
        for request_id, answered_at, at, weight, refused, body, session in reversed(
            self._file.query(_ASKED, [app, since, until, limit])
        ):
            with suppress(*_FAULTS):
                time, features = min(float(answered_at or at), at), load_features(body)
                own = (request_id, time, float(weight), bool(refused))
                questions.append(AskedQuestion(*own, features, unit_of(features, session)))
        return questions

    def apps(self, since: float, at_most: int) -> list[str]:
        """Return the names of the apps with the most results since a wall-clock second."""
        sql = "SELECT app FROM results WHERE at >= ? GROUP BY app ORDER BY count(*) DESC, app LIMIT ?"
        return [app for (app,) in self._file.query(sql, [since, at_most])]

    def question_features(self, app: str, since: float, at_most: int) -> list[CaseFeatures]:
        """Return the features of the newest questions to an app since a wall-clock second."""
        sql = (
            "SELECT body FROM features WHERE at >= ? AND EXISTS (SELECT 1 FROM results"
            " WHERE trace_id = features.request_id AND app = ?) ORDER BY at DESC LIMIT ?"
        )
        found = []
        for (body,) in self._file.query(sql, [since, app, at_most]):
            with suppress(*_FAULTS):
                found.append(load_features(body))
        return found

    def answers_of(self, app: str, evaluator: str, requests: Collection[str]) -> list[JudgedAnswer]:
        """Return the answers to requests that count in the rate of an evaluator, oldest first, with their features."""
        wanted, found = list(requests), list[JudgedAnswer]()
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            found += _answers(self._file.query(_JUDGED_OF.format(marks(part)), [app, evaluator, *part]))
        return sorted(found, key=lambda one: (one.judged_at, one.request_id))

    def question_texts(self, ids: Collection[str]) -> dict[str, str]:
        """Return the beginnings of questions by request; without those whose text is not kept."""
        wanted = list(ids)
        parts = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
        found = (row for part in parts for row in self._file.query(_TEXTS.format(marks(part)), part))
        return {name: beginning(text) for name, text in found if isinstance(text, str) and text}
