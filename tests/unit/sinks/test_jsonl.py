from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.errors import ConfigError, MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks.jsonl import JsonLines
from monitor.storage.history.rows import as_json, dump, load
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio


async def deliver(sink: JsonLines, *results: EvaluationResult) -> None:
    async with sink.open(runtime()) as deliver_one:
        for one in results:
            await deliver_one([one])


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_a_result_is_one_line_and_lines_are_appended(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "out" / "results.jsonl", include_texts=True)
    await deliver(sink, judged(1))
    await deliver(sink, judged(2))
    assert rows(sink.path) == [as_json(judged(1)), as_json(judged(2))]
    assert sink.path.stat().st_mode & 0o777 == 0o600


async def test_many_at_a_time_stay_whole_lines(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "results.jsonl", fsync=True)
    async with sink.open(runtime()) as deliver_one, anyio.create_task_group() as group:
        for number in range(500):
            group.start_soon(deliver_one, [judged(number)])
    assert len({row["id"] for row in rows(sink.path)}) == 500


async def test_texts_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "results.jsonl")
    await deliver(sink, judged(1))
    assert {"request", "response", "retrieved_context", "user_id"}.isdisjoint(rows(sink.path)[0])


async def test_a_full_file_is_rotated_and_only_so_many_are_kept(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "results.jsonl", max_file_size=2000, max_files=2)
    await deliver(sink, *(judged(n) for n in range(20)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.jsonl", "results.jsonl.1", "results.jsonl.2"]  # noqa: ASYNC240 - nothing else runs
    newest = rows(tmp_path / "results.jsonl.2") + rows(tmp_path / "results.jsonl.1") + rows(sink.path)
    assert [row["trace_id"] for row in newest] == [f"{n:032x}" for n in range(20 - len(newest), 20)]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())  # noqa: ASYNC240 - nothing else runs


async def test_a_file_that_is_removed_or_replaced_while_it_is_written_is_begun_anew(tmp_path: Path) -> None:
    """As somebody does who deletes from it what was forgotten."""
    sink = JsonLines(path=tmp_path / "results.jsonl")
    async with sink.open(runtime()) as deliver_one:
        await deliver_one([judged(1)])
        edited = tmp_path / "edited"
        edited.write_bytes(b"")
        edited.replace(sink.path)
        await deliver_one([judged(2)])
        assert [row["id"] for row in rows(sink.path)] == [judged(2).id]
        assert sink.path.stat().st_mode & 0o777 == 0o600
        sink.path.unlink()
        await deliver_one([judged(3)])
    assert [row["id"] for row in rows(sink.path)] == [judged(3).id]


async def test_a_line_cut_off_by_a_crash_does_not_swallow_the_next(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "results.jsonl")
    sink.path.write_bytes(b'{"id": "cut o')
    await deliver(sink, judged(1))
    first, second = sink.path.read_bytes().splitlines()
    assert first == b'{"id": "cut o'
    assert json.loads(second)["id"] == judged(1).id


async def test_a_full_disk_raises_leaves_whole_lines_and_works_again_later(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes a real write fail half-way."""
    sink = JsonLines(path=tmp_path / "results.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with sink.open(runtime()) as deliver_one:
        await deliver_one([judged(1)])
        size = sink.path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
        try:
            with pytest.raises(MonitorError, match=r"cannot write .*results\.jsonl"):
                await deliver_one([judged(2)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert sink.path.stat().st_size == size
        await deliver_one([judged(3)])
    assert [row["id"] for row in rows(sink.path)] == [judged(1).id, judged(3).id]


async def test_a_result_that_no_line_can_be_made_of_is_refused_alone_and_named(tmp_path: Path) -> None:
    sink = JsonLines(path=tmp_path / "results.jsonl")
    bad = judged(2, outcome=Score(4.0, b"bytes"), evaluator="tone")  # type: ignore[arg-type]
    async with sink.open(runtime()) as write:
        with pytest.raises(ResultsRefused, match=f"the result of tone on {bad.case.request_id} cannot be") as caught:
            await write([judged(1), bad, judged(3)])
    assert caught.value.ids == {bad.id}
    assert [row["id"] for row in rows(sink.path)] == [judged(1).id, judged(3).id]


async def test_a_path_that_cannot_be_opened_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"results\.jsonl"):
        await deliver(JsonLines(path=tmp_path / "file" / "results.jsonl"))


def test_a_row_says_what_came_of_each_kind_of_outcome() -> None:
    skipped = as_json(judged(1, outcome=Skipped(SkippedReason.NO_HISTORY), level="", defect=False))
    unscored = as_json(judged(1, outcome=Unscored(UnscoredReason.REFUSAL, "would not"), level="", defect=False))
    assert (skipped["outcome"], skipped["reason"], skipped["detail"]) == ("skipped", "no_history", None)
    assert (unscored["outcome"], unscored["reason"], unscored["detail"]) == ("unscored", "refusal", "would not")
    for row in (skipped, unscored):
        assert [row[key] for key in ("score", "label", "level", "defect", "explanation", "evidence")] == [None] * 5 + [
            []
        ]


def test_a_row_of_any_text_can_be_written_and_read_back() -> None:
    row = as_json(judged(1, outcome=Score(4.0, "lone \udc80 surrogate, \u2028, \x00, \n")))
    line = dump(row)
    assert b"\n" not in line
    assert load(line) == row
