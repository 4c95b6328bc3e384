"""Blocks of time that undo a rollout: where they end, and what they make of the weights."""

from __future__ import annotations

import pytest

from monitor.statistics.diagnosis.cases import WeighedCase
from monitor.statistics.diagnosis.rounds import time_blocks


def in_time(*bad: bool) -> list[WeighedCase]:
    return [WeighedCase(float(at), 1.0, one, at, ()) for at, one in enumerate(bad)]


def test_blocks_end_with_a_bad_case_and_have_equally_many() -> None:
    """Twenty bad cases of sixty, then twenty of two hundred: four blocks of ten, each with one rate throughout."""
    rows = in_time(*[False, False, True] * 20, *[*[False] * 9, True] * 20)
    rate = 40 / 260
    assert time_blocks(rows) == pytest.approx([1 / 3 / rate] * 60 + [1 / 10 / rate] * 200)


def test_few_bad_cases_are_one_block() -> None:
    rows = in_time(*[True] * 19, *[False] * 100)
    assert time_blocks(rows) == pytest.approx([1.0] * 119)
