"""Files of results: what is written can be continued, and with texts read as rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.errors import ConfigError
from monitor.extraction import compose, rows
from monitor.model.case import Case, Document, Message, ReadingStatus, Request
from monitor.model.outcome import EvaluationResult, Score
from monitor.operations.offline.results_file import open_results, read_results

TEXT = st.text(st.characters(), min_size=1, max_size=20)  # surrogates, controls and all


def result(case: Case, explanation: str = "") -> EvaluationResult:
    return EvaluationResult(case=case, evaluator="one", version="1", outcome=Score(1.0, explanation), weight=1.0)


def written(path: Path, case: Case, explanation: str = "", *, texts: bool = True) -> list[dict[str, Any]]:
    """The lines after one result."""

    async def write() -> None:
        async with open_results(path, [case] if texts else None) as append:
            assert append is not None
            await append([result(case, explanation)])

    anyio.run(write)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@given(TEXT, TEXT, st.lists(TEXT, max_size=3), st.none() | TEXT)
def test_any_case_is_read_again_save_for_half_characters(
    tmp_path_factory: pytest.TempPathFactory, query: str, response: str, documents: list[str], expected: str | None
) -> None:
    path = tmp_path_factory.mktemp("results") / "out.jsonl"
    case = Case(
        request_id="id",
        request=Request(query, (Message("user", query),)),
        retrieved_context=tuple(map(Document, documents)),
        context_source="row",
        response=response,
        expected_response=expected,
    )
    (line,) = written(path, case, response)
    read_trace = partial(compose.read, conventions=registry.conventions())
    (read,) = rows.read(rows.recognise(line), read_trace, source="file").readings
    assert read.status is ReadingStatus.READY

    def readable(text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    assert read.case.request.query == readable(query)
    assert read.case.response == readable(response)
    assert [one.content for one in read.case.retrieved_context] == list(map(readable, documents))
    assert read.case.expected_response == (None if expected is None else readable(expected))
    assert [one["id"] for one in read_results(path, drop_unscored=False, texts=True)] == [result(case).id]


def test_half_a_character_in_an_explanation_is_no_reason_to_refuse_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    written(path, Case(request_id="id"), "half: \ud83d", texts=False)
    assert len(read_results(path, drop_unscored=False)) == 1


def test_a_file_whose_only_line_was_cut_off_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    written(path, Case(request_id="id"), texts=False)
    path.write_bytes(path.read_bytes()[:100])
    assert read_results(path, drop_unscored=False) == []
    assert path.read_bytes() == b""


@pytest.mark.parametrize("texts", [True, False])
def test_lines_of_the_other_kind_are_refused_with_their_number(tmp_path: Path, texts: bool) -> None:
    path = tmp_path / "out.jsonl"
    written(path, Case(request_id="id"), texts=not texts)
    with pytest.raises(ConfigError, match=r"line 1 has (no )?texts: (leave out|add) --texts, or choose another file"):
        read_results(path, drop_unscored=False, texts=texts)
