"""Benchmarking from Python: labelled rows in, qualities out, nothing printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.config import Config
from monitor.operations.benchmark import benchmark_file, draw_plot
from monitor.operations.offline.scoring import choose_evaluators
from tests.support.paths import DATA

pytestmark = pytest.mark.anyio

SAMPLE = DATA / "labelled_sample.jsonl"


async def test_an_evaluator_is_measured_against_the_labels(capsys: pytest.CaptureFixture[str]) -> None:
    config = Config()
    found = await benchmark_file(config, choose_evaluators(config, ["overlap_groundedness"]), SAMPLE)
    (one,) = found.evaluators
    assert (one.name, found.rows, found.defective, found.unreadable) == ("overlap_groundedness", 29, 13, 0)
    assert one.quality.auroc == 1.0
    assert one.quality.best_f1 is not None
    rule = one.rule(one.quality.best_f1)
    assert rule is not None
    assert rule.kind == "below"
    assert capsys.readouterr() == ("", "")


async def test_a_file_name_cannot_break_the_plot(tmp_path: Path) -> None:
    config = Config()
    evaluators = choose_evaluators(config, ["overlap_groundedness"])
    strange = tmp_path / "a\x1b<b>.jsonl"
    strange.write_text(SAMPLE.read_text())
    found = [await benchmark_file(config, evaluators, path) for path in (SAMPLE, strange)]
    drawn = draw_plot(found)
    assert "\x1b" not in drawn
    assert "a\N{REPLACEMENT CHARACTER}&lt;b&gt;" in drawn


async def test_one_that_learns_is_taught_by_half_of_the_groups_and_measured_with_all_on_the_other(
    tmp_path: Path,
) -> None:
    """The labels contradict the overlap: what repeats its source is bad. Groups stay whole; the split never changes."""
    repeats, adds = "The library opens at nine. It closes at six. It opens at nine.", "It opens, says Bob."
    rows = [
        {
            "request": {"query": "When?"},
            "retrieved_context": [{"content": "The library opens at nine. It closes at six on weekdays."}],
            "response": repeats if bad else adds,
            "label": int(bad),
            "group": f"g{number // 4}",
        }
        for number in range(160)
        for bad in [number % 2 == 0]
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    config = Config()
    names = ["overlap_groundedness", "learned_groundedness"]
    found, again = [await benchmark_file(config, choose_evaluators(config, names), path) for _ in range(2)]
    blend, learned = found.evaluators
    assert found.trained is not None
    assert 40 <= found.trained <= 120
    assert found.trained % 4 == 0
    assert blend.quality.answers == learned.quality.answers == 160 - found.trained
    assert (blend.quality.auroc, learned.quality.auroc) == (0.0, 1.0)
    assert again.trained == found.trained
    alone = await benchmark_file(config, choose_evaluators(config, names[:1]), path)
    assert (alone.trained, alone.evaluators[0].quality.answers) == (None, 160)
