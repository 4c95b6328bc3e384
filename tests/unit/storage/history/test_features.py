"""What a diagnosis compares of a case: what is read, what is hashed, how large it may be, and how long it is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, RateScope, Skipped, SkippedReason
from monitor.model.service_version import ServiceVersion
from monitor.privacy.pseudonyms import UserKey
from monitor.sinks.history import HistorySink
from monitor.storage.history import erasing
from monitor.storage.history.answers import AnswerReader, JudgedAnswer
from monitor.storage.history.features import (
    MOST_BYTES,
    CaseFeatures,
    dump_features,
    features_of,
    load_features,
    words_of,
)
from tests.support.examples import examples
from tests.support.results import judged
from tests.support.runtime import runtime

KEY = UserKey(b"k" * 32)
CASE = Case(
    request_id="r1",
    request=Request("How long is the warranty of the Falcon 9000?"),
    retrieved_context=(Document("Two years.", "kb/warranty", score=0.4), Document("None.", "kb/terms", score=0.9)),
    response="Two years.",
    user_id="ann",
    session_id="s1",
    model="m-1",
    attributes={"tenant": "acme", "gen_ai.response.id": "x"},
)


def read(case: Case = CASE, **allowed: bool) -> CaseFeatures:
    return features_of(case, ServiceVersion(prompt="p2", judge="j"), KEY, **allowed)


def test_the_features_of_a_case_are_its_slices_versions_documents_lengths_and_words() -> None:
    found = read()
    assert (found.slices, found.versions, found.model) == ({"tenant": "acme"}, {"prompt": "p2"}, "m-1")
    assert (found.documents, found.number, found.score) == (("kb/warranty", "kb/terms"), 2, 0.9)
    assert (found.question_length, found.answer_length, found.context) == (44, 10, "retrieved")
    assert found.words == ("long", "warranty", "falcon", "9000")


def test_a_user_is_a_pseudonym_and_a_session_a_hash() -> None:
    found = read()
    assert found.user == KEY.of("ann")
    assert "s1" not in found.unit
    assert found.unit == read(replace(CASE, request=Request("Else?"))).unit
    assert found.unit != read(replace(CASE, session_id="s2")).unit


def test_without_a_session_the_same_question_is_one_story() -> None:
    lone = replace(CASE, session_id="")
    assert (
        read(lone).unit == read(replace(lone, request_id="r2", request=Request(f" {CASE.request.query.upper()}"))).unit
    )


def test_words_and_addresses_that_may_not_be_kept_are_hashes_equal_for_equal_ones() -> None:
    found = read(texts=False, addresses=False)
    assert "warranty" not in str(found)
    assert found.words == read(texts=False, addresses=False).words
    assert (len(found.words), len(found.documents)) == (4, 2)
    other = features_of(CASE, ServiceVersion(), UserKey(b"o" * 32), texts=False)
    assert set(other.words).isdisjoint(found.words)


def test_without_a_key_nothing_is_hashed_nor_kept() -> None:
    found = features_of(CASE, ServiceVersion(), None, texts=False, addresses=False)
    assert (found.words, found.documents, found.user, found.unit) == ((), (), "", "r1")


def test_scripts_without_spaces_are_read_by_two_characters() -> None:
    assert words_of("\u4fdd\u4fee\u671f") == ["\u4fdd\u4fee", "\u4fee\u671f"]


@examples(60)
@given(
    st.text(st.characters(), max_size=300),
    st.dictionaries(st.text(max_size=200), st.text(max_size=400), max_size=60),
    st.lists(st.text(st.characters(), max_size=500), max_size=40),
    st.booleans(),
)
def test_features_of_any_case_are_bounded_and_read_again(
    query: str, attributes: dict[str, str], addresses: list[str], texts: bool
) -> None:
    documents = tuple(Document("x", one, score=float(len(one))) for one in addresses)
    case = Case(request_id="r", request=Request(query * 50), attributes=attributes, retrieved_context=documents)
    body = dump_features(read(case, texts=texts))
    assert len(body) <= MOST_BYTES
    assert load_features(body).number == len(documents)


def test_what_is_no_features_is_refused() -> None:
    for body in (b"[]", b'{"unit": "a", "other": 1}', b"{}"):
        with pytest.raises(ValueError, match="not features"):
            load_features(body)


async def delivered(path: Path, *results: EvaluationResult, clock: ManualClock | None = None, **options: Any) -> None:
    async with HistorySink(path=path, **options).open(runtime(clock)) as deliver:
        await deliver(list(results))


def answers(path: Path, evaluator: str = "groundedness") -> list[JudgedAnswer]:
    return AnswerReader(path).judged_answers("shop", evaluator, 0.0, 1e12, 100)


def image(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM features").fetchone()[0])


@pytest.mark.anyio
async def test_the_features_of_a_case_are_kept_once_for_all_its_results(tmp_path: Path) -> None:
    refusal = judged(1, evaluator="refusal_pattern", defect=True)
    await delivered(tmp_path / "h.db", judged(1), refusal, judged(2, defect=True), texts="all")
    first, second = answers(tmp_path / "h.db")
    assert rows(tmp_path / "h.db") == 2
    assert (first.refused, second.refused) == (True, None)
    assert (first.defect, second.defect) == (False, True)
    assert (first.weight, first.features.words, first.features.documents) == (10.0, ("long", "warranty"), ("kb/7",))


@pytest.mark.anyio
async def test_only_what_counts_in_the_rate_is_compared(tmp_path: Path) -> None:
    skipped = judged(3, outcome=Skipped(SkippedReason.REFUSAL))
    await delivered(tmp_path / "h.db", judged(1), judged(2, scope=RateScope.BACKFILL), skipped)
    assert [one.request_id for one in answers(tmp_path / "h.db")] == [f"{1:032x}"]


@pytest.mark.anyio
async def test_where_no_texts_are_kept_neither_words_nor_addresses_reach_the_file(tmp_path: Path) -> None:
    await delivered(tmp_path / "h.db", judged(1), texts="none")
    found = answers(tmp_path / "h.db")[0].features
    assert (len(found.words), len(found.documents)) == (2, 1)
    kept = image(tmp_path)
    assert b"kb/7" not in kept
    assert b"warranty" not in kept


@pytest.mark.anyio
async def test_features_go_with_the_texts_or_with_the_results(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000.0 + 3 * 3600)
    old, young = judged(1), judged(3 * 3600)
    await delivered(tmp_path / "h.db", old, young, clock=clock, texts="all", retention="2h")
    await delivered(tmp_path / "t.db", old, young, clock=clock, texts="all", texts_retention="2h")
    await delivered(tmp_path / "n.db", old, young, clock=clock, texts="none", texts_retention="2h")
    assert (rows(tmp_path / "h.db"), rows(tmp_path / "t.db"), rows(tmp_path / "n.db")) == (1, 1, 2)


@pytest.mark.anyio
async def test_forgetting_a_request_forgets_its_features(tmp_path: Path) -> None:
    await delivered(tmp_path / "h.db", judged(1), judged(2))
    assert erasing.erase(tmp_path / "h.db", [f"{1:032x}"], dry_run=False)["features"] == 1
    assert [one.request_id for one in answers(tmp_path / "h.db")] == [f"{2:032x}"]
