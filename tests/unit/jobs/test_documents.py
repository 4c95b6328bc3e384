"""Documents behind bad answers, and those never used, from the history."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.cli.documents import lines
from monitor.errors import MonitorError
from monitor.jobs.documents import (
    DOCUMENTS_AT_MOST,
    DocumentsReport,
    DocumentsRequest,
    DocumentUse,
    as_csv,
    as_objects,
    documents_report,
    found_in,
    in_order,
)
from monitor.model.case import Document
from monitor.model.outcome import EvaluationResult, Score
from monitor.statistics.rates import Sums, estimate
from monitor.storage.history.answers import AnswerReader
from tests.support.rise import HOUR, NOW, NUMBER, PERIOD, kept, mixed, results

pytestmark = pytest.mark.anyio

WINDOW = NUMBER * PERIOD / 2


def stale(number: int) -> bool:
    return number % 12 == 7


def with_use(given_results: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    """The first of the documents of an answer is used, except d3; kb/index comes with all of one in four."""
    found = []
    for number, one in enumerate(given_results):
        outcome = one.outcome
        assert isinstance(outcome, Score)
        documents = one.case.retrieved_context
        if number % 4 == 0:
            documents = (*documents, Document("Index.", "kb/index"))
        used = "".join("01"[place == 0 and document.doc_uri != "kb/0/d3"] for place, document in enumerate(documents))
        case = replace(one.case, retrieved_context=documents)
        found.append(replace(one, case=case, outcome=replace(outcome, used_sources=used)))
    return found


def report(folder: Path, window: float = WINDOW) -> DocumentsReport:
    stored = AnswerReader(folder / "data" / "history.db")
    return documents_report(stored, DocumentsRequest("shop", "overlap_groundedness", window), NOW)


def by_address(found: DocumentsReport) -> dict[str, DocumentUse]:
    return {one.address: one for one in found.documents}


async def test_the_stale_document_is_first_with_its_rate_its_rise_and_an_example(tmp_path: Path) -> None:
    await kept(tmp_path, with_use(results(stale)))
    found = report(tmp_path, 300 * PERIOD)
    first = found.documents[0]
    assert (first.address, first.surely_worse, first.change) == ("kb/1/d7", True, "rise")
    assert first.before is not None
    assert first.before.upper + 0.3 < first.rate.lower
    assert (first.answers, first.bad) == (25, 25)
    assert stale(int(first.example, 16))
    assert [one.address for one in found.documents if one.surely_worse] == ["kb/1/d7"]
    assert (found.answers, found.answers_before, found.without) == (300, 300, 0)


async def test_a_document_that_no_answer_uses_is_named_and_one_that_is_used_is_not(tmp_path: Path) -> None:
    await kept(tmp_path, with_use(results(stale)))
    found = report(tmp_path)
    assert {one.address for one in found.documents if one.never_used} == {"kb/0/d3", "kb/index"}
    assert {one.address for one in in_order(found.documents, "unused")[:2]} == {"kb/0/d3", "kb/index"}
    used = by_address(found)["kb/1/d1"].used
    assert used is not None
    assert used.rate == 1.0
    index = by_address(found)["kb/index"]
    assert index.used is not None
    assert (index.used.rate, index.known_use) == (0.0, index.answers)


async def test_where_nothing_says_what_is_used_no_document_is_never_used(tmp_path: Path) -> None:
    await kept(tmp_path, results(stale))
    assert not any(one.never_used or one.used for one in report(tmp_path).documents)


async def test_without_texts_documents_are_hashes_and_the_same_one_is_first(tmp_path: Path) -> None:
    await kept(tmp_path, with_use(results(stale)), texts="none")
    found = report(tmp_path, 300 * PERIOD)
    assert "kb/" not in repr(found)
    assert found.documents[0].surely_worse
    assert found.documents[0].answers == 25


async def test_a_document_without_an_address_is_known_by_its_text(tmp_path: Path) -> None:
    given_results = [
        replace(one, case=replace(one.case, retrieved_context=(Document(f"Text {number % 12}."),)))
        for number, one in enumerate(results(stale))
    ]
    await kept(tmp_path, given_results)
    found = report(tmp_path, 300 * PERIOD)
    assert len(found.documents) == 12
    assert found.documents[0].surely_worse
    assert found.documents[0].address.startswith("text ")
    assert "Text 7" not in repr(found)


async def test_hundred_thousand_addresses_and_a_megabyte_long_one_stay_within_bounds(tmp_path: Path) -> None:
    long = "https://kb/" + "x" * 1_000_000
    given_results = [
        replace(
            one,
            case=replace(
                one.case,
                retrieved_context=(
                    Document("y", long),
                    *(Document("z", f"<b>\x1b[31m\u202e{number}/{place}") for place in range(70)),
                ),
            ),
        )
        for number, one in enumerate(results(stale))
    ]
    await kept(tmp_path, given_results)
    found = report(tmp_path)
    assert len(found.documents) == DOCUMENTS_AT_MOST
    assert found.left_out > 1_000
    assert found.documents
    assert max(len(one.address) for one in found.documents) <= 160


async def test_what_is_forgotten_is_in_no_list(tmp_path: Path) -> None:
    from monitor.storage.history.erasing import erase

    await kept(tmp_path, with_use(results(stale)))
    gone = [f"{number:032x}" for number in range(NUMBER) if number % 12 == 7]
    erase(tmp_path / "data" / "history.db", gone, dry_run=False)
    assert "kb/1/d7" not in by_address(report(tmp_path))


async def test_a_rise_of_all_documents_alike_names_none(tmp_path: Path) -> None:
    await kept(tmp_path, results(lambda number: mixed(number) % 4 == 0))
    assert not any(one.surely_worse for one in report(tmp_path).documents)


async def test_answers_of_one_user_without_a_session_count_as_one_fact_as_in_all_rates(tmp_path: Path) -> None:
    """Half of the bad answers are those of one user, about one document."""
    given = []
    for number, one in enumerate(results(lambda _: False, number=400)):
        unlucky = number % 12 == 5 and number > 100
        user = "unlucky" if unlucky else f"user {number}"
        case = replace(one.case, session_id="", user_id=user)
        given.append(replace(one, case=case, defect=unlucky or one.defect))
    await kept(tmp_path, given)
    found = report(tmp_path, 400 * PERIOD)
    verdicts = [(one.case.user_id, one.defect) for one in given]
    assert found.rate == estimate(Sums.by_session(verdicts))
    document = by_address(found)["kb/2/d5"]
    of_document = [
        verdict
        for verdict, one in zip(verdicts, given, strict=True)
        if one.case.retrieved_context[0].doc_uri == "kb/2/d5"
    ]
    assert document.rate == estimate(Sums.by_session(of_document))
    assert not document.surely_worse


async def test_answers_that_another_version_of_the_evaluator_judged_are_in_no_number(tmp_path: Path) -> None:
    """A new prompt calls every third answer bad, where the old one called one of twenty so: no document got worse."""
    given = results(lambda number: number % 3 == 0)
    rise = NUMBER - 300
    await kept(tmp_path, [replace(one, version="old" if n < rise else "new") for n, one in enumerate(given)])
    found = report(tmp_path, 300 * PERIOD)
    assert (found.answers, found.answers_before, found.other_versions) == (300, 0, 0)
    assert not [one.address for one in found.documents if one.change or one.before]
    longer = report(tmp_path, 500 * PERIOD)
    assert (longer.answers, longer.other_versions, longer.rate) == (300, 200, found.rate)
    told = list(lines(longer, longer.documents, 500 * PERIOD))
    assert told[1] == "Not counted: 200 answers judged by another version of the evaluator."


async def test_without_a_history_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="history"):
        report(tmp_path)


async def test_documents_are_found_by_a_part_of_their_address_and_sorted(tmp_path: Path) -> None:
    await kept(tmp_path, with_use(results(stale)))
    found = report(tmp_path, 300 * PERIOD)
    assert [one.address for one in found_in(found.documents, "INDEX")] == ["kb/index"]
    assert in_order(found.documents, "retrieved")[0].address == "kb/index"
    assert in_order(found.documents, "rise")[0].address == "kb/1/d7"


async def test_rows_are_plain_json_and_csv(tmp_path: Path) -> None:
    await kept(tmp_path, with_use(results(stale)))
    found = report(tmp_path, 6 * HOUR)
    rows = as_objects(found, found.documents)
    assert json.loads(json.dumps(rows)) == rows
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [row["document"] for row in read] == [row["document"] for row in rows]
    assert (read[0]["surely_worse"], float(read[0]["rate"])) == ("true", rows[0]["rate"])


@given(st.text() | st.text("=+-@\uff1d\uff20; \t\u00a0a\ud800"))
@settings(deadline=None)
def test_no_text_in_csv_is_a_formula_or_breaks_a_line(text: str) -> None:
    written = as_csv([{"document": text, "answers": 1}])
    rows = list(csv.reader(io.StringIO(written)))
    assert len(rows) == 2
    for cell in rows[1][0].split(";"):  # as a spreadsheet reads it where the comma is the decimal point
        assert not cell.strip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert all(one.isprintable() for one in rows[1][0])
