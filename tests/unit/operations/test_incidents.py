"""Incidents out of the storage folder of a monitor that is stopped, and notes on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from monitor import config as configuration
from monitor.clock import ManualClock
from monitor.config import Config
from monitor.errors import InvalidData, MonitorError
from monitor.model.incident import Incident, IncidentAnswer, IncidentEnd
from monitor.operations.erase import erase
from monitor.operations.incidents import incident, incidents, note_incident
from monitor.storage.incidents import IncidentFile


def stored(folder: Path) -> Config:
    file = IncidentFile(folder / "incidents.db", ManualClock())
    for number, ended in enumerate([500.0, None]):
        one = Incident(
            id=f"20231114-0000000{number}",
            app="shop",
            evaluator="groundedness",
            defect_rule="",
            version="1",
            fired=100.0 * number,
            checked=100.0,
            severity="warning",
            worst="warning",
            alerts=(),
            ended=ended,
            end=IncidentEnd.FELL_BACK if ended is not None else None,
        )
        file.save(one)
        file.keep_answers(one.id, [IncidentAnswer(request_id="abc", at=1.0, score=1.0, level="", user="u-1")])
    file.close()
    return configuration.parse({"storage": {"path": str(folder)}})


def test_they_are_listed_by_time_and_state(tmp_path: Path) -> None:
    config = stored(tmp_path)
    assert [one.incident.id[-1] for one in incidents(config)] == ["1", "0"]
    assert [one.incident.id[-1] for one in incidents(config, since=600.0)] == ["1"]
    assert [one.incident.id[-1] for one in incidents(config, only_open=True)] == ["1"]
    assert incidents(config, app="docs") == []


def test_an_open_one_is_listed_however_many_have_begun_and_ended_since(tmp_path: Path) -> None:
    config = stored(tmp_path)
    opened = incident(config, "20231114-00000001").incident
    file = IncidentFile(tmp_path / "incidents.db", ManualClock())
    for number in range(5):
        fired = 1000.0 + number
        later = replace(opened, id=f"later{number}", fired=fired, ended=fired + 1, end=IncidentEnd.FELL_BACK)
        file.save(later)
    file.close()
    assert [one.incident.id[-1] for one in incidents(config, only_open=True, limit=3)] == ["1"]
    assert len(incidents(config, limit=3)) == 3


def test_a_note_is_in_the_name_of_the_user_and_in_the_audit_log_without_its_text(tmp_path: Path) -> None:
    config = stored(tmp_path)
    note_incident(config, "20231114-00000001", "the index was empty")
    (note,) = incident(config, "20231114-00000001").notes
    assert note.text == "the index was empty"
    assert note.who.startswith("user ")
    line = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (line["event"], line["incident"], line["who"]) == ("incident_noted", "20231114-00000001", note.who)
    assert "index" not in str(line)


def test_there_is_no_note_on_an_incident_that_is_not_there_and_no_empty_one(tmp_path: Path) -> None:
    config = stored(tmp_path)
    with pytest.raises(MonitorError, match="there is no incident 'other'"):
        note_incident(config, "other", "text")
    with pytest.raises(InvalidData, match="is empty"):
        note_incident(config, "20231114-00000001", "")
    assert not (tmp_path / "audit.jsonl").exists()


@pytest.mark.parametrize("given", [{"trace": "abc"}, {"user": "u-1"}])
def test_forget_reaches_answers_that_only_incidents_still_have(tmp_path: Path, given: dict[str, str]) -> None:
    config = stored(tmp_path)
    note_incident(config, "20231114-00000001", "see abc of u-1")
    found = erase(config, **given, dry_run=False)
    assert found.rows["incidents.db, answers"] == 2
    one = incident(config, "20231114-00000001")
    assert one.answers == []
    gone = set(given.values()) | ({"abc"} if "user" in given else set())
    assert not any(name in one.notes[0].text for name in gone)
