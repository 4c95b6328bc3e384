"""The keeper of incidents: restarts lose nothing, a disk that fails stops nothing, notes are audited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData, MonitorError
from monitor.jobs.diagnosis import DiagnosisRequest, RateDiagnosis, diagnose_history
from monitor.jobs.incidents import IncidentKeeper
from monitor.jobs.incidents.investigation import Investigation
from monitor.model.incident import FiredAlert, Incident, IncidentEnd, IncidentRecord, RatePeak
from monitor.privacy.audit import Audit
from monitor.stages import Runtime
from monitor.storage.history.reader import HistoryReader
from tests.support import rise
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio
FIRED = rise.NOW - 3600.0
ONE = Incident(
    id="20231114-0000000a",
    app="shop",
    evaluator="overlap_groundedness",
    defect_rule="",
    version="v1",
    fired=FIRED,
    checked=FIRED,
    severity="warning",
    worst="warning",
    alerts=(FiredAlert("RagDefectRateHigh", "warning", 0.1),),
    peak=RatePeak(FIRED, 0.5, 0.4, 0.6, 100, 50, 6 * rise.HOUR),
)


def keeper(folder: Path, lent: Runtime | None = None) -> IncidentKeeper:
    looks = Investigation(HistoryReader(folder / "data" / "history.db"), {}, {})
    lent = lent or runtime(ManualClock(rise.NOW))

    async def diagnose(request: DiagnosisRequest) -> RateDiagnosis:
        return diagnose_history(folder / "data" / "history.db", ("tenant",), request, lent.clock.now())

    return IncidentKeeper(folder / "data", looks, lent, diagnose=diagnose, retention=90 * 86400.0)


@asynccontextmanager
async def running(one: IncidentKeeper) -> AsyncIterator[IncidentKeeper]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run)
        yield one
        tasks.cancel_scope.cancel()


async def until_found(one: IncidentKeeper, incident: str, *, answers: bool = True) -> IncidentRecord:
    with anyio.fail_after(120):
        while True:
            found = await one.find(incident)
            if found is not None and (found.answers or not answers):
                return found
            await anyio.sleep(0.02)


async def test_what_the_alerts_say_and_the_history_knows_is_kept(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common))
    async with running(keeper(tmp_path)) as one:
        one.changed(ONE)
        found = await until_found(one, ONE.id)
    assert found.incident == ONE
    assert found.impact is not None
    assert found.impact.since <= found.incident.fired
    assert await keeper(tmp_path).load_open() == [ONE]
    assert [each.incident for each in await keeper(tmp_path).newest()] == [ONE]


async def test_the_last_state_is_written_when_the_monitor_stops(tmp_path: Path):
    one = keeper(tmp_path)
    async with running(one):
        one.changed(ONE)
        await until_found(one, ONE.id, answers=False)
        ended = replace(ONE, ended=rise.NOW, end=IncidentEnd.FELL_BACK)
        one.changed(ended)
    assert await keeper(tmp_path).load_open() == []


async def test_without_a_history_the_course_is_kept_and_one_event_says_why_no_more_is(tmp_path: Path):
    lent = runtime(ManualClock(rise.NOW))
    async with running(keeper(tmp_path, lent)) as one:
        one.changed(ONE)
        found = await until_found(one, ONE.id, answers=False)
        await until(lambda: total(lent.metrics, "ragmonitor_events_total", event="state_failed") == 1)
    assert found.incident == ONE
    assert not total(lent.metrics, "ragmonitor_database_failing", database="incidents")


async def test_a_disk_that_fails_is_said_and_what_waited_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("monitor.jobs.incidents._WRITE_AGAIN", 0.05)
    (tmp_path / "data").mkdir()
    in_the_way = tmp_path / "data" / "incidents.db"
    in_the_way.mkdir()
    lent = runtime(ManualClock(rise.NOW))
    one = keeper(tmp_path, lent)
    assert await one.load_open() == []
    async with running(one):
        one.changed(ONE)
        await until(lambda: total(lent.metrics, "ragmonitor_database_failing", database="incidents") == 1)
        in_the_way.rmdir()
        await until(lambda: total(lent.metrics, "ragmonitor_database_failing", database="incidents") == 0)
        assert (await until_found(one, ONE.id, answers=False)).incident == ONE


async def test_a_note_is_kept_and_audited_without_its_text(tmp_path: Path):
    lent = runtime(ManualClock(rise.NOW))
    (tmp_path / "data").mkdir()
    lent.events.also(Audit(tmp_path / "data", lent.clock).on_event)
    one = keeper(tmp_path, lent)
    async with running(one):
        one.changed(ONE)
        await until_found(one, ONE.id, answers=False)
        assert await one.note(ONE.id, "the index was empty")
        assert not await one.note("20231114-0000000b", "of another one")
        with pytest.raises(InvalidData):
            await one.note(ONE.id, " ")
        found = await until_found(one, ONE.id, answers=False)
    assert [(note.who, note.text) for note in found.notes] == [("anonymous", "the index was empty")]
    (line,) = (tmp_path / "data" / "audit.jsonl").read_text().splitlines()
    assert {"event": "incident_noted", "incident": ONE.id, "who": "anonymous"}.items() <= json.loads(line).items()
    assert "index" not in line


async def test_a_file_that_cannot_be_read_is_an_error_for_those_who_ask(tmp_path: Path):
    (tmp_path / "data" / "incidents.db").mkdir(parents=True)
    with pytest.raises(MonitorError):
        await keeper(tmp_path).newest()


async def test_its_height_and_its_end_are_diagnosed_and_name_the_planted_cause(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.in_acme))
    async with running(keeper(tmp_path)) as one:
        one.changed(ONE)
        found = await until_found(one, ONE.id)
        assert found.onset is not None
        assert abs(found.onset.at - (rise.NOW - rise.SINCE * rise.PERIOD)) < 1800
        one.changed(replace(ONE, ended=rise.NOW, end=IncidentEnd.FELL_BACK))
        with anyio.fail_after(120):
            while "end" not in found.diagnoses:
                found = await until_found(one, ONE.id)
                await anyio.sleep(0.02)
    for moment in ("height", "end"):
        first, examples = found.diagnoses[moment]["lines"]
        assert "tenant = acme" in first
        assert examples.startswith("Examples with tenant = acme: ")
        assert found.diagnoses[moment]["diagnosis"]["state"] == "found"


async def test_a_rise_without_a_cause_names_none(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common))
    async with running(keeper(tmp_path)) as one:
        one.changed(ONE)
        found = await until_found(one, ONE.id)
    (line,) = found.diagnoses["height"]["lines"]
    assert "Nothing stands out" in line


async def test_without_a_diagnosis_the_rest_is_kept(tmp_path: Path):
    await rise.kept(tmp_path, rise.results(rise.common))

    async def never(_: DiagnosisRequest) -> RateDiagnosis:
        raise MonitorError("it takes too long")

    lent = runtime(ManualClock(rise.NOW))
    looks = Investigation(HistoryReader(tmp_path / "data" / "history.db"), {}, {})
    async with running(IncidentKeeper(tmp_path / "data", looks, lent, diagnose=never, retention=1e7)) as one:
        one.changed(ONE)
        found = await until_found(one, ONE.id)
    assert found.diagnoses == {}
    assert found.onset is not None


async def test_the_impact_counts_from_the_onset_that_is_kept_also_where_a_later_look_finds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await rise.kept(tmp_path, rise.results(rise.common))

    async def never(_: DiagnosisRequest) -> RateDiagnosis:
        raise MonitorError("it takes too long")

    async def look(one: Incident) -> IncidentRecord:
        looks = Investigation(HistoryReader(tmp_path / "data" / "history.db"), {}, {})
        lent = runtime(ManualClock(rise.NOW))
        made = IncidentKeeper(tmp_path / "data", looks, lent, diagnose=never, retention=1e7)
        made.changed(one)
        await made.catch_up()
        found = await made.find(one.id)
        assert found is not None
        return found

    first = await look(ONE)
    monkeypatch.setattr(Investigation, "_onset", lambda *_: None)
    last = await look(replace(ONE, ended=rise.NOW, end=IncidentEnd.FELL_BACK))
    assert first.onset is not None
    assert first.onset.at < FIRED
    assert last.onset == first.onset
    assert last.impact is not None
    assert last.impact.since == first.onset.at
