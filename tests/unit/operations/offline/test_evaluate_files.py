"""Evaluating files from Python: a result comes back, nothing is printed, errors come as themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.config import Config
from monitor.errors import ConfigError
from monitor.operations.offline.evaluate_files import compare, evaluate_files
from monitor.operations.offline.scoring import choose_evaluators
from tests.support.command import write_rows

pytestmark = pytest.mark.anyio

CONTEXT = "The town library opens at nine. Books may be kept for three weeks."
GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days by subscribers."
LOCAL = ["overlap_groundedness"]


def row(number: int, answer: str = GOOD) -> dict[str, Any]:
    return {"id": f"case-{number}", "question": "How long?", "contexts": [CONTEXT], "response": answer}


async def test_the_summary_counts_defects_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [row(1), row(2, BAD), {"foo": 1}, row(2)])
    config, problems = Config(), list[str]()
    found = await evaluate_files(config, choose_evaluators(config, LOCAL), [rows], report=problems.append)
    (one,) = found.evaluators
    assert (one.evaluator, one.scored, one.defects) == ("overlap_groundedness", 2, 1)
    assert one.defect_rate.rate == 0.5
    assert [row["trace_id"] for row in found.results] == ["case-1", "case-2"]
    assert (found.repeated, found.unreadable, len(problems), found.cut_short) == (1, 1, 1, False)
    assert capsys.readouterr() == ("", "")


async def test_two_sets_are_compared_evaluator_by_evaluator(tmp_path: Path) -> None:
    config = Config()
    sets = [
        write_rows(tmp_path / f"{name}.jsonl", [row(number, answer) for number in range(40)])
        for name, answer in (("good", GOOD), ("bad", BAD))
    ]
    good, bad = [await evaluate_files(config, choose_evaluators(config, LOCAL), [path]) for path in sets]
    (one,) = compare(good, bad)
    assert one.difference is not None
    assert (one.difference.value, one.difference.clear) == (1.0, True)


async def test_an_event_that_is_set_ends_it_early_and_says_so(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [row(number) for number in range(500)])
    config, stop = Config(), anyio.Event()
    stop.set()
    found = await evaluate_files(config, choose_evaluators(config, LOCAL), [rows], stop=stop)
    assert found.interrupted
    assert found.evaluators[0].scored < 500


async def test_a_judge_that_cannot_work_raises_the_error_itself_and_no_group(tmp_path: Path) -> None:
    judge = {"model": "openai/gpt-4o-mini", "api_key": "none", "budget": {"dollars_per_day": 1}}
    config = Config.model_validate({"judge": {**judge, "model": "openai/no-such-model-has-a-price"}})
    rows = write_rows(tmp_path / "rows.jsonl", [row(1)])
    with pytest.raises(ConfigError, match="price"):
        await evaluate_files(config, choose_evaluators(config, ["groundedness"]), [rows])


def test_an_evaluator_without_a_judge_is_reported_or_refused() -> None:
    problems: list[str] = []
    found = choose_evaluators(Config(), report=problems.append)
    assert [one.evaluator.name for one in found] == LOCAL
    assert problems[0] == "groundedness is off: it needs a language model, and judge.model is not set"
    with pytest.raises(ConfigError, match=r"judge\.model"):
        choose_evaluators(Config(), ["groundedness"])
