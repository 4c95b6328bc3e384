"""The file of incidents: what is read is what was written, within its bounds, and what is to be forgotten is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData
from monitor.model.incident import (
    FiredAlert,
    Incident,
    IncidentAnswer,
    IncidentEnd,
    IncidentNote,
    IncidentStep,
    RatePeak,
    as_object,
)
from monitor.privacy import erasure, pseudonyms
from monitor.storage import incidents
from monitor.storage.incidents import IncidentFile, IncidentReader, erase, users_of

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\ud800 ```"


def one(name: str = "20260301-0000000a", *, fired: float = 1000.0, ended: float | None = None) -> Incident:
    return Incident(
        id=name,
        app="shop",
        evaluator="groundedness",
        defect_rule="",
        version="1",
        fired=fired,
        checked=fired + 60,
        severity="warning",
        worst="critical",
        alerts=(FiredAlert("RagDefectRateHigh", "critical", 0.15),),
        peak=RatePeak(fired, 0.2, 0.1, 0.3, 100, 20, 3600.0),
        steps=(IncidentStep(fired, "it fires"),),
        ended=ended,
        end=IncidentEnd.FELL_BACK if ended is not None else None,
    )


def answer(request: str = "abc", user: str = "") -> IncidentAnswer:
    return IncidentAnswer(
        request_id=request, at=900.0, score=1.0, level="poor", question="Why?", response="No.", user=user
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "incidents.db"


@pytest.fixture
def file(path: Path) -> IncidentFile:
    return IncidentFile(path, ManualClock())


def test_what_is_read_is_what_was_written(file: IncidentFile, path: Path):
    file.save(one())
    file.keep_finding(one().id, "onset", {"at": 900.0, "earliest": 880.0, "latest": 910.0})
    file.keep_finding(one().id, "changes", {"steps": [{"at": 890.0, "text": "prompt 3 -> 4"}]})
    file.keep_finding(one().id, "height", {"lines": ["Nothing stands out."]})
    file.keep_answers(one().id, [answer()])
    assert file.note(one().id, IncidentNote(1100.0, "user me", "looked at it"))
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert found.incident == one()
    assert found.began == 900.0
    assert found.changes == [IncidentStep(890.0, "prompt 3 -> 4")]
    assert found.diagnoses == {"height": {"lines": ["Nothing stands out."]}}
    assert found.answers == [answer()]
    assert found.notes == [IncidentNote(1100.0, "user me", "looked at it")]
    assert IncidentReader(path).find("20260301-0000000b") is None
    assert file.load_open() == [one()]


def test_the_newest_come_first_and_those_that_were_open_in_a_time(file: IncidentFile, path: Path):
    for number, (fired, ended) in enumerate([(100.0, 200.0), (300.0, 400.0), (500.0, None)]):
        file.save(one(f"20260301-0000000{number}", fired=fired, ended=ended))
    reader = IncidentReader(path)
    assert [found.incident.id[-1] for found in reader.newest()] == ["2", "1", "0"]
    assert [found.incident.id[-1] for found in reader.newest(since=250.0, until=450.0)] == ["1"]
    assert reader.newest(app="docs") == []


def test_without_a_file_there_are_no_incidents(tmp_path: Path):
    reader = IncidentReader(tmp_path / "none.db")
    assert reader.newest() == []
    assert reader.find("20260301-0000000a") is None
    assert not (tmp_path / "none.db").exists()


def test_hostile_and_huge_texts_are_kept_as_they_are_within_their_length(file: IncidentFile, path: Path):
    file.save(one())
    huge = IncidentAnswer(
        request_id=HOSTILE, at=1.0, score=1.0, level=HOSTILE, question="q" * 10**6, response=HOSTILE * 10**4
    )
    file.keep_answers(one().id, [huge] * 50)
    assert file.note(one().id, IncidentNote(1.0, HOSTILE, HOSTILE))
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert len(found.answers) == incidents.ANSWERS_AT_MOST
    kept = found.answers[0]
    assert (len(kept.question or ""), len(kept.response or "")) == (500, 1500)
    assert found.notes[0].text == HOSTILE.replace("\ud800", "?")
    assert path.stat().st_size < 1024**2


@pytest.mark.parametrize(("text", "words"), [("", "is empty"), (" \n", "is empty"), ("x" * 4001, "the limit is 4,000")])
def test_a_note_says_something_in_4000_characters(file: IncidentFile, text: str, words: str):
    file.save(one())
    with pytest.raises(InvalidData, match=words):
        file.note(one().id, IncidentNote(1.0, "me", text))


def test_an_incident_takes_a_hundred_notes(file: IncidentFile):
    file.save(one())
    for number in range(incidents.NOTES_AT_MOST):
        assert file.note(one().id, IncidentNote(float(number), "me", "again"))
    with pytest.raises(InvalidData, match="has 100 notes already"):
        file.note(one().id, IncidentNote(1.0, "me", "again"))
    assert not file.note("20260301-0000000b", IncidentNote(1.0, "me", "of another one"))


def test_it_leaves_after_its_retention_with_all_that_belongs_to_it(file: IncidentFile, path: Path):
    file.save(one(ended=2000.0))
    file.save(one("20260301-0000000b"))
    file.keep_answers(one().id, [answer()])
    file.note(one().id, IncidentNote(1.0, "me", "noted"))
    file.tidy(1999.0)
    assert len(IncidentReader(path).newest()) == 2
    file.tidy(2001.0)
    assert [found.incident.id for found in IncidentReader(path).newest()] == ["20260301-0000000b"]
    assert erase(path, {"abc"}, dry_run=True) == {}


def test_beyond_the_most_the_oldest_that_are_over_leave(
    file: IncidentFile, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(incidents, "MOST", 3)
    for number in range(6):
        ended = None if number == 0 else 100.0 * number
        file.save(one(f"20260301-0000000{number}", fired=10.0 * number, ended=ended))
    file.tidy(0.0)
    assert {found.incident.id[-1] for found in IncidentReader(path).newest()} == {"0", "4", "5"}


def test_texts_leave_after_their_own_retention(file: IncidentFile, path: Path):
    file.save(one())
    file.keep_answers(one().id, [answer()])
    file.keep_finding(one().id, "height", {"lines": ["the word warranty"]})
    file.keep_finding(one().id, "onset", {"at": 900.0, "earliest": 880.0, "latest": 910.0})
    file.tidy(0.0, texts_before=899.0)
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert found.answers[0].question == "Why?"
    assert set(found.diagnoses) == {"height"}
    file.tidy(0.0, texts_before=ManualClock().now() + 1)
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert (found.answers[0].question, found.answers[0].response, found.answers[0].score) == (None, None, 1.0)
    assert (found.began, found.diagnoses) == (900.0, {})


def test_what_is_forgotten_leaves_answers_notes_and_diagnoses(file: IncidentFile, path: Path):
    file.save(one())
    file.keep_answers(one().id, [answer("abc"), answer("abc/1"), answer("abcd")])
    file.note(one().id, IncidentNote(1.0, "me", "see abc, not abcd"))
    file.keep_finding(one().id, "height", {"lines": ["Example: abc"], "examples": [{"request_id": "abc"}]})
    assert erase(path, {"abc"}, dry_run=True) == {"answers": 2, "notes": 1, "findings": 1}
    assert erase(path, {"abc"}, dry_run=False) == {"answers": 2, "notes": 1, "findings": 1}
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert [kept.request_id for kept in found.answers] == ["abcd"]
    assert found.notes[0].text == "see [erased], not abcd"
    assert found.diagnoses["height"] == {"lines": ["Example: [erased]"], "examples": [{"request_id": "[erased]"}]}
    assert b"Example: abc" not in path.read_bytes()


def test_the_answers_of_a_user_are_found_by_the_pseudonym_alone(file: IncidentFile, path: Path, tmp_path: Path):
    file.save(one())
    file.keep_answers(one().id, [answer("abc", user="bob"), answer("xyz", user="eve")])
    key = pseudonyms.load(tmp_path)
    assert key is not None
    assert users_of(path, {key.of("bob")}, "bob") == {"abc"}
    assert b"bob" not in path.read_bytes()
    assert "bob" not in str(as_object(IncidentReader(path).find(one().id)))


def test_an_answer_that_was_forgotten_meanwhile_is_not_kept(file: IncidentFile, path: Path, tmp_path: Path):
    file.save(one())
    erasure.add(tmp_path, [erasure.Mark(5000.0, trace="abc")], since=0.0)
    file.keep_answers(one().id, [answer("abc"), answer("abc/2"), answer("xyz")])
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert [kept.request_id for kept in found.answers] == ["xyz"]


def test_a_damaged_file_is_replaced_and_written_again(path: Path):
    path.write_bytes(b"no database at all" * 500)
    told: list[object] = []
    file = IncidentFile(path, ManualClock(), told.append)
    assert file.load_open() == []
    file.save(one())
    assert file.load_open() == [one()]
    assert len(told) == 1
