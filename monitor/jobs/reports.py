"""Reports that the running monitor makes from its history: diagnoses, documents, unanswered questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitor.clock import Clock
from monitor.jobs.diagnosis import DiagnosisRequest, RateDiagnosis, diagnose_history
from monitor.jobs.documents import DocumentsReport, DocumentsRequest, documents_report
from monitor.jobs.own_process import FreshReports
from monitor.jobs.topics import TopicKeeper
from monitor.jobs.unanswered import UnansweredReport, UnansweredRequest, unanswered_report
from monitor.statistics.topics import QuestionTopic
from monitor.storage.history.answers import AnswerReader

LONGEST: Final = 60.0
"""Seconds after which a report is given up."""

_DIAGNOSES, _LISTS = 32, 8  # kept


class HistoryReports:
    """Makes each report in a process of its own, and reuses it for a minute. Methods raise `MonitorError`.

    Args:
        history: its file.
        slices: the configured ones.
        topics: the topics of questions.
        clock: for the current time.
    """

    def __init__(self, history: Path, slices: Sequence[str], topics: TopicKeeper, clock: Clock) -> None:
        self._history = history
        self._slices = tuple(slices)
        self._topics = topics
        self._clock = clock
        self._diagnoses: FreshReports[DiagnosisRequest, RateDiagnosis] = FreshReports(
            diagnose_history, name="the diagnosis", clock=clock, longest=LONGEST, kept=_DIAGNOSES
        )
        self._documents: FreshReports[DocumentsRequest, DocumentsReport] = FreshReports(
            _documents, name="the list of documents", clock=clock, longest=LONGEST, kept=_LISTS
        )
        self._unanswered: FreshReports[UnansweredRequest, UnansweredReport] = FreshReports(
            _unanswered, name="the list of unanswered questions", clock=clock, longest=LONGEST, kept=_LISTS
        )

    async def diagnose(self, request: DiagnosisRequest) -> RateDiagnosis:
        """Return what the bad answers of a rate have in common, and since when it is higher."""
        return await self._diagnoses.of(request, self._history, self._slices)

    async def documents(self, request: DocumentsRequest) -> DocumentsReport:
        """Return the documents of a period."""
        return await self._documents.of(request, self._history)

    async def unanswered(self, request: UnansweredRequest) -> UnansweredReport:
        """Return the unanswered questions of a period, by topic."""
        return await self._unanswered.of(request, self._history, self._topics.of(request.app))


def _documents(history: Path, request: DocumentsRequest, now: float) -> DocumentsReport:
    return documents_report(AnswerReader(history), request, now)


def _unanswered(
    history: Path, topics: Sequence[QuestionTopic], request: UnansweredRequest, now: float
) -> UnansweredReport:
    return unanswered_report(AnswerReader(history), topics, request, now)
