"""Diagnoses and lists beside the running monitor: made in another process, the same as here."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.jobs.diagnosis import DiagnosisRequest, diagnose_history
from monitor.jobs.documents import DocumentsRequest, documents_report
from monitor.jobs.own_process import FRESH
from monitor.jobs.reports import HistoryReports
from monitor.jobs.topics import TopicKeeper
from monitor.jobs.unanswered import UnansweredRequest, unanswered_report
from monitor.model.outcome import DefectRule
from monitor.stages.kept_state import KeptState
from monitor.storage.history.answers import AnswerReader
from tests.support.rise import HOUR, NOW, in_acme, kept, results

pytestmark = pytest.mark.anyio

REQUEST = DiagnosisRequest("shop", "overlap_groundedness", 6 * HOUR)


def reports(folder: Path, clock: ManualClock) -> HistoryReports:
    history = folder / "data" / "history.db"
    return HistoryReports(history, ["tenant"], TopicKeeper(history, KeptState(), clock), clock)


async def test_the_process_says_what_this_one_would_say(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    here = diagnose_history(tmp_path / "data" / "history.db", ["tenant"], REQUEST, NOW)
    assert await reports(tmp_path, ManualClock(NOW)).diagnose(REQUEST) == here
    assert [factor.factor.value for factor in here.found.factors] == ["acme"]


async def test_a_diagnosis_is_given_again_until_it_is_a_minute_old(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    clock = ManualClock(NOW)
    ours = reports(tmp_path, clock)
    first = await ours.diagnose(REQUEST)
    clock.advance(FRESH - 1)
    assert await ours.diagnose(REQUEST) is first
    clock.advance(1)
    assert (await ours.diagnose(REQUEST)).until == NOW + FRESH


async def test_the_rule_of_an_alert_says_what_is_bad(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    found = await reports(tmp_path, ManualClock(NOW)).diagnose(REQUEST._replace(rule=DefectRule("below", 0.5)))
    assert found.found.state == "too_few_before"


async def test_a_history_that_cannot_be_read_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="history"):
        await reports(tmp_path, ManualClock(NOW)).diagnose(REQUEST)


async def test_the_lists_are_those_that_this_process_would_make(tmp_path: Path) -> None:
    await kept(tmp_path, results(in_acme))
    history, ours = tmp_path / "data" / "history.db", reports(tmp_path, ManualClock(NOW))
    documents = DocumentsRequest("shop", "overlap_groundedness", 6 * HOUR)
    found = await ours.documents(documents)
    assert found == documents_report(AnswerReader(history), documents, NOW)
    assert found.documents
    unanswered = UnansweredRequest("shop", 6 * HOUR)
    assert await ours.unanswered(unanswered) == unanswered_report(AnswerReader(history), (), unanswered, NOW)
