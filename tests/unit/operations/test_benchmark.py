"""Benchmarking from Python: labelled rows in, qualities out, nothing printed."""

from __future__ import annotations

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
