"""Which texts the history keeps, for how long, and that no byte of them is left after that."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.config import parse
from monitor.model.case import Request
from monitor.model.outcome import EvaluationResult, Evidence, Score, Unscored, UnscoredReason
from monitor.privacy import erasure, pseudonyms
from monitor.sinks.history import HistorySink
from monitor.storage.history import writer as history_module
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

CANARY = "xyzzy-canary"
AT = 1_700_000_000.0


def telling(number: int = 1, *, long: int = 1) -> EvaluationResult:
    """A result whose every text holds the canary."""
    text = f"{CANARY} " * long
    score = Score(1.0, text, evidence=(Evidence(text, "absent", 0, 5, note=text),))
    one = judged(number, outcome=score)
    case = replace(one.case, request=Request(text), response=text, user_id=CANARY)
    return replace(one, case=case)


def image(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def deliver(history: HistorySink, *results: EvaluationResult, clock: ManualClock | None = None) -> None:
    async with history.open(runtime(clock)) as one_more, anyio.create_task_group() as together:
        for one in results:
            together.start_soon(one_more, [one])


async def test_in_the_mode_none_no_text_reaches_any_file(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "h.db", texts="none")
    unscored = replace(telling(2), outcome=Unscored(UnscoredReason.ERROR, CANARY))
    async with history.open(runtime()) as one_more:
        await one_more([telling()])
        await one_more([unscored])
        assert CANARY.encode() not in image(tmp_path)
    assert CANARY.encode() not in image(tmp_path)
    first, second = sorted(await history.results(), key=lambda row: row["evaluated_at"])
    assert (first["score"], first["explanation"], first["evidence"][0]["verdict"]) == (1.0, "", "absent")
    assert (second["reason"], second["detail"]) == ("error", "")


async def test_the_mode_verdicts_keeps_reasons_and_the_mode_all_everything(tmp_path: Path) -> None:
    verdicts, everything = HistorySink(path=tmp_path / "v.db"), HistorySink(path=tmp_path / "a.db", texts="all")
    await deliver(verdicts, telling())
    await deliver(everything, telling())
    assert CANARY in (await verdicts.results())[0]["explanation"]
    assert "response" not in (await verdicts.results())[0]
    assert CANARY in (await everything.results())[0]["response"]


@pytest.mark.parametrize("long", [1, 20_000], ids=["short", "over many pages"])
async def test_after_their_time_texts_are_gone_to_the_last_byte_and_the_verdict_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    clock = ManualClock(AT)
    history = HistorySink(path=tmp_path / "h.db", texts="all", texts_retention="1h", retention="7d")
    async with history.open(runtime(clock)) as one_more:
        await one_more([replace(telling(1, long=long), evaluated_at=AT)])
        assert CANARY in (await history.results())[0]["response"]
        clock.advance(3601)
        await one_more([judged(2, evaluated_at=AT + 3601)])
        assert CANARY.encode() not in image(tmp_path)
    rows = {row["trace_id"]: row for row in await history.results()}
    old, new = rows[f"{1:032x}"], rows[f"{2:032x}"]
    assert (old["score"], old["explanation"]) == (1.0, "")
    assert "response" not in old
    assert new["explanation"] == "because"


async def test_texts_of_very_many_results_go_in_turns_and_where_it_stopped_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    clock = ManualClock(AT)
    history = HistorySink(path=tmp_path / "h.db", texts="all", texts_retention="1h")
    same = [
        replace(telling(number), evaluated_at=AT) for number in range(250)
    ]  # more at one moment than one turn takes
    later = [replace(telling(number), evaluated_at=AT + number / 1000) for number in range(250, 700)]
    await deliver(history, *same, *later, clock=clock)
    clock.advance(3700)
    for number in range(5):
        await deliver(history, judged(1000 + number, evaluated_at=AT + 3700), clock=clock)
    left = [row for row in await history.results(limit=2000) if "response" in row]
    assert {row["trace_id"] for row in left} == {f"{1000 + number:032x}" for number in range(5)}


async def test_a_file_of_the_version_before_is_opened_and_its_texts_have_their_time_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "TIDY_EVERY", 0.0)
    clock = ManualClock(AT)
    await deliver(HistorySink(path=tmp_path / "h.db", texts="all"), replace(telling(), evaluated_at=AT), clock=clock)
    with closing(sqlite3.connect(tmp_path / "h.db")) as old:
        old.executescript("DROP TABLE people; DROP TABLE blanked; PRAGMA user_version = 0;")
    clock.advance(7200)
    history = HistorySink(path=tmp_path / "h.db", texts="all", texts_retention="1h")
    await deliver(history, judged(2, evaluated_at=AT + 7200), clock=clock)
    rows = {row["trace_id"]: row for row in await history.results()}
    assert "response" not in rows[f"{1:032x}"]


async def test_a_result_that_comes_after_it_was_asked_to_be_forgotten_is_not_kept(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "h.db")
    key = pseudonyms.load_or_make(tmp_path)
    erasure.add(tmp_path, [erasure.Mark(AT, trace=f"{1:032x}"), erasure.Mark(AT + 5, user=key.of("u-1"))], since=0)
    await deliver(history, judged(1), judged(3), judged(20))
    assert {row["trace_id"] for row in await history.results()} == {f"{20:032x}"}  # of the user, and from after it


async def test_the_texts_of_a_trace_with_many_verdicts_are_read_once(tmp_path: Path) -> None:
    history = HistorySink(path=tmp_path / "h.db", texts="all")
    one = telling(long=3000)
    await deliver(history, *(replace(one, evaluator=f"e{number}", evaluated_at=AT + number) for number in range(5)))
    rows = await history.by_trace(f"{1:032x}")
    assert [row["evaluator"] for row in rows] == [f"e{number}" for number in range(5)]
    assert ["response" in row for row in rows] == [True, False, False, False, False]


def test_texts_of_cases_are_kept_only_on_request() -> None:
    assert parse({}).storage.texts == HistorySink(path=Path("h.db")).texts == "explanations"


def test_the_key_of_pseudonyms_is_made_once_and_private(tmp_path: Path) -> None:
    first, second = pseudonyms.load_or_make(tmp_path), pseudonyms.load_or_make(tmp_path)
    assert first.of("ada") == second.of("ada") != first.of("ole")
    assert (tmp_path / pseudonyms.NAME).stat().st_mode & 0o777 == 0o600
    assert pseudonyms.UserKey(b"other").of("ada") != first.of("ada")
    assert [path.name for path in tmp_path.iterdir()] == [pseudonyms.NAME]


def test_marks_are_read_again_when_they_change_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "_LOOK_EVERY", 0.0)
    known = erasure.ErasureMarks(tmp_path, ManualClock())
    assert not known.holds("a", "", 0.0)
    erasure.add(tmp_path, [erasure.Mark(100.0, trace="a"), erasure.Mark(100.0, user="user-1")], since=0.0)
    assert known.holds("a", "", 1e9)
    assert known.holds("b", "user-1", 99.0)
    assert not known.holds("b", "user-1", 101.0)
    erasure.add(tmp_path, [erasure.Mark(300.0, trace="c")], since=200.0)
    assert [known.holds(one, "", 0.0) for one in "ac"] == [False, True]
    (tmp_path / erasure.NAME).write_text('no json\n{"at": "x"}\n[1]\n{"at": 1, "trace": "d"}\n')
    assert known.holds("d", "", 0.0)
