"""Incidents at the edges of their limits and times, and beside damaged rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData, MonitorError
from monitor.model.incident import FiredAlert, Incident, IncidentAnswer, IncidentEnd, IncidentNote
from monitor.storage import incidents
from monitor.storage.incidents import IncidentFile, IncidentReader, erase, users_of
from monitor.storage.sqlite import SetAside

NOW = 1_700_000_000.0


def one(number: int = 0, *, fired: float = 1000.0, ended: float | None = None, app: str = "shop") -> Incident:
    return Incident(
        id=f"20260301-{number:08x}",
        app=app,
        evaluator="groundedness",
        defect_rule="",
        version="1",
        fired=fired,
        checked=fired,
        severity="warning",
        worst="critical",
        alerts=(FiredAlert("RagDefectRateHigh", "critical", 0.15),),
        peak=None,
        steps=(),
        ended=ended,
        end=IncidentEnd.FELL_BACK if ended is not None else None,
    )


def answer(request: str = "abc", at: float = 900.0, **fields: object) -> IncidentAnswer:
    texts = {"question": "Why?", "response": "No.", "explanation": "It is not so."}
    return IncidentAnswer(**{"request_id": request, "at": at, "score": 1.0, "level": "poor", **texts, **fields})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "incidents.db"


@pytest.fixture
def file(path: Path) -> IncidentFile:
    return IncidentFile(path, ManualClock(NOW))


def numbers(path: Path, **asked: object) -> list[int]:
    return [int(found.incident.id[-8:], 16) for found in IncidentReader(path).newest(**asked)]


def test_open_incidents_come_oldest_first_without_those_that_are_over(file: IncidentFile) -> None:
    for number, (fired, ended) in enumerate([(300.0, None), (100.0, None), (200.0, 250.0)]):
        file.save(one(number, fired=fired, ended=ended))
    assert [found.fired for found in file.load_open()] == [100.0, 300.0]


def test_an_incident_that_is_saved_again_is_the_newer_one(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.save(one(ended=2000.0))
    assert file.load_open() == []
    assert numbers(path) == [0]


def test_a_time_takes_in_what_ends_as_it_begins_and_not_what_begins_as_it_ends(file: IncidentFile, path: Path) -> None:
    file.save(one(1, fired=100.0, ended=200.0))
    file.save(one(2, fired=300.0))
    assert numbers(path, since=200.0) == [2, 1]
    assert numbers(path, since=200.5) == [2]
    assert numbers(path, until=300.0) == [1]
    assert numbers(path, until=300.5) == [2, 1]
    assert numbers(path, until=300.5, app="shop", since=200.5) == [2]


def test_only_so_many_come_the_newest_and_of_one_app(file: IncidentFile, path: Path) -> None:
    for number in range(4):
        file.save(one(number, fired=100.0 * number, app="docs" if number == 3 else "shop"))
    assert numbers(path, limit=2) == [3, 2]
    assert numbers(path, app="shop") == [2, 1, 0]


def test_a_damaged_incident_hides_no_other(file: IncidentFile, path: Path) -> None:
    for number in range(3):
        file.save(one(number))
    with file._file.transaction() as db:
        db.execute("UPDATE incidents SET body = x'00' WHERE id = ?", (one(1).id,))
    assert sorted(numbers(path)) == [0, 2]
    assert len(file.load_open()) == 2
    with pytest.raises(MonitorError, match=f"the incident {one(1).id} is damaged"):
        IncidentReader(path).find(one(1).id)


def test_damaged_findings_and_answers_are_left_out(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_finding(one().id, "onset", {"at": 900.0, "earliest": 880.0, "latest": 910.0})
    file.keep_finding(one().id, "height", {"lines": ["kept"]})
    file.keep_answers(one().id, [answer("a"), answer("b")])
    with file._file.transaction() as db:
        db.execute("UPDATE findings SET body = x'00' WHERE name = 'onset'")
        db.execute("UPDATE answers SET body = x'00' WHERE request_id = 'a'")
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert (found.onset, found.diagnoses) == (None, {"height": {"lines": ["kept"]}})
    assert [kept.request_id for kept in found.answers] == ["b"]
    assert IncidentReader(path).newest()[0].onset is None


def test_the_list_has_the_findings_of_each_incident_and_no_diagnosis(file: IncidentFile, path: Path) -> None:
    file.save(one(0))
    file.save(one(1, fired=2000.0))
    file.keep_finding(one(0).id, "onset", {"at": 900.0, "earliest": 880.0, "latest": 910.0})
    file.keep_finding(one(0).id, "changes", {"steps": [{"at": 890.0, "text": "prompt 3 -> 4"}]})
    file.keep_finding(one(0).id, "height", {"lines": ["not in the list"]})
    second, first = IncidentReader(path).newest()
    assert (second.onset, second.changes, second.diagnoses) == (None, (), {})
    assert first.onset is not None
    assert (first.onset.at, [step.text for step in first.changes]) == (900.0, ["prompt 3 -> 4"])
    assert first.diagnoses == {}


def test_a_finding_is_kept_up_to_its_size_and_no_byte_more(file: IncidentFile, path: Path) -> None:
    file.save(one())
    whole = 64 * 1024 - len('{"text":""}')
    file.keep_finding(one().id, "fits", {"text": "x" * whole})
    file.keep_finding(one().id, "too large", {"text": "x" * (whole + 1)})
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert set(found.diagnoses) == {"fits"}


def test_a_later_finding_takes_the_place_of_the_first(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_finding(one().id, "height", {"lines": ["first"]})
    file.keep_finding(one().id, "height", {"lines": ["second"]})
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert found.diagnoses == {"height": {"lines": ["second"]}}


@pytest.mark.parametrize(
    ("name", "longest"), [("question", 500), ("response", 1500), ("explanation", 800), ("level", 100)]
)
def test_a_text_is_kept_up_to_its_length_and_a_longer_one_ends_in_three_dots(
    file: IncidentFile, path: Path, name: str, longest: int
) -> None:
    file.save(one())
    file.keep_answers(one().id, [answer("a", **{name: "x" * longest}), answer("b", **{name: "x" * (longest + 1)})])
    found = IncidentReader(path).find(one().id)
    assert found is not None
    texts = [getattr(kept, name) for kept in found.answers]
    assert texts == ["x" * longest, "x" * (longest - 1) + "\u2026"]


def test_ten_answers_are_kept_the_first_and_in_place_of_earlier_ones(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_answers(one().id, [answer("before")])
    file.keep_answers(one().id, [answer(f"r{number}") for number in range(11)])
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert [kept.request_id for kept in found.answers] == [f"r{number}" for number in range(10)]


def test_a_note_of_just_4000_characters_is_taken_and_its_name_is_cut_at_200(file: IncidentFile, path: Path) -> None:
    file.save(one())
    assert file.note(one().id, IncidentNote(1.0, "w" * 201, f"  {'x' * 4000}\n"))
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert (len(found.notes[0].text), len(found.notes[0].who)) == (4000, 200)
    with pytest.raises(InvalidData, match="4,001 characters are too many, the limit is 4,000"):
        file.note(one().id, IncidentNote(1.0, "me", "x" * 4001))


def test_notes_come_by_their_time_and_those_of_one_time_as_they_were_written(file: IncidentFile, path: Path) -> None:
    file.save(one())
    for at, text in ((5.0, "later"), (1.0, "first"), (1.0, "second")):
        file.note(one().id, IncidentNote(at, "me", text))
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert [note.text for note in found.notes] == ["first", "second", "later"]


def test_the_hundredth_note_is_taken_and_others_are_not_counted(
    file: IncidentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "NOTES_AT_MOST", 2)
    file.save(one(0))
    file.save(one(1))
    for number in (0, 1, 0, 1):
        assert file.note(one(number).id, IncidentNote(1.0, "me", "noted"))
    with pytest.raises(InvalidData, match="has 2 notes already"):
        file.note(one(0).id, IncidentNote(1.0, "me", "noted"))


def test_what_ended_just_then_stays(file: IncidentFile, path: Path) -> None:
    file.save(one(ended=2000.0))
    file.tidy(2000.0)
    assert numbers(path) == [0]


def test_at_the_most_none_leaves_and_one_more_costs_the_one_that_ended_first(
    file: IncidentFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "MOST", 3)
    for number, ended in enumerate((300.0, 100.0, 200.0)):
        file.save(one(number, ended=ended))
    file.tidy(0.0)
    assert len(numbers(path)) == 3
    file.save(one(3))
    file.tidy(0.0)
    assert sorted(numbers(path)) == [0, 2, 3]


def test_of_too_large_a_file_fifty_leave_at_once_and_none_that_is_open(
    file: IncidentFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        file.save(one(number, ended=100.0 + number))
    file.save(one(60))
    file.tidy(0.0)
    assert len(numbers(path)) == 61
    monkeypatch.setattr(incidents, "MOST_BYTES", 1)
    file.tidy(0.0)
    assert sorted(numbers(path)) == [*range(50, 61)]


def test_an_incident_that_leaves_takes_its_findings_answers_and_notes_with_it(file: IncidentFile, path: Path) -> None:
    for number in range(2):
        file.save(one(number, ended=100.0 + number))
        file.keep_finding(one(number).id, "height", {"lines": ["found"]})
        file.keep_answers(one(number).id, [answer()])
        file.note(one(number).id, IncidentNote(1.0, "me", "noted"))
    file.tidy(101.0)
    with file._file.reading() as db:
        tables = ("findings", "answers", "notes")
        left = [db.execute(f"SELECT DISTINCT incident FROM {table}").fetchall() for table in tables]
    assert left == [[(one(1).id,)]] * 3


def test_answers_from_just_then_keep_their_texts_and_older_ones_lose_all_three(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_answers(one().id, [answer("a", 899.0), answer("b", 900.0)])
    file.tidy(0.0, texts_before=900.0)
    found = IncidentReader(path).find(one().id)
    assert found is not None
    first, second = found.answers
    assert (first.question, first.response, first.explanation) == (None, None, "")
    assert (second.question, second.response, second.explanation) == ("Why?", "No.", "It is not so.")


def test_without_a_retention_of_texts_they_stay(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_answers(one().id, [answer("a", 0.0)])
    file.keep_finding(one().id, "height", {"lines": ["kept"]})
    file.tidy(1e12)
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert (found.answers[0].question, set(found.diagnoses)) == ("Why?", {"height"})


def test_a_diagnosis_of_just_then_stays(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.keep_finding(one().id, "height", {"lines": ["kept"]})
    file.tidy(0.0, texts_before=NOW)
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert set(found.diagnoses) == {"height"}


def test_an_incident_is_saved_into_the_new_file_where_the_old_one_was_set_aside(
    file: IncidentFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, tried = file._save, []

    def damaged_at_first(values: tuple[object, ...]) -> None:
        tried.append(values)
        if len(tried) == 1:
            raise SetAside("it was damaged")
        write(values)

    monkeypatch.setattr(file, "_save", damaged_at_first)
    file.save(one())
    assert len(tried) == 2
    assert numbers(path) == [0]


def test_erasing_leaves_longer_names_and_other_incidents_as_they_are(file: IncidentFile, path: Path) -> None:
    file.save(one())
    for text in ("abc", "abc-1", "x_abc", "about abc.", "another"):
        file.note(one().id, IncidentNote(1.0, "me", text))
    assert erase(path, {"abc"}, dry_run=False) == {"notes": 2}
    found = IncidentReader(path).find(one().id)
    assert found is not None
    assert [note.text for note in found.notes] == ["[erased]", "abc-1", "x_abc", "about [erased].", "another"]


def test_erasing_nobody_changes_nothing(file: IncidentFile, path: Path) -> None:
    file.save(one())
    file.note(one().id, IncidentNote(1.0, "me", "noted"))
    file.keep_answers(one().id, [answer("")])
    assert erase(path, set(), dry_run=False) == {}
    assert users_of(path, set(), "bob") == set()


def test_a_file_without_tables_has_no_incident_yet_and_nothing_to_erase(path: Path) -> None:
    path.touch()
    assert IncidentReader(path).newest() == []
    assert IncidentReader(path).find(one().id) is None
    assert erase(path, {"abc"}, dry_run=False) == {}
    assert users_of(path, {"p"}, "bob") == set()


def test_a_file_without_damage_is_not_replaced(file: IncidentFile) -> None:
    file.save(one())
    assert file.repaired() is False
    file.close()
    assert file.load_open() == [one()]
