"""Measures of work: function calls, or processor time compared with that of an eighth of the input.

A bound in seconds is valid on one machine only. The tests check growth: linear work grows eightfold with eight times
the size, quadratic work 64 times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import pytest

TIMES = 8
_ATTEMPTS = 5
"""Attempts: a busy machine may inflate one measurement; quadratic work fails every time."""
_MOMENT = 0.02
"""Seconds; if thirty characters take longer, a hundred take hours."""
_TRIFLE = 0.00015
"""Seconds; work that takes less and grows with the square takes less than 0.01 s with eight times the size."""
Text = TypeVar("Text", str, bytes)
_FLOOR = 0.005
"""Seconds; an eighth that takes less counts as this: below it, clocks and caches matter more than the text."""


def calls(work: Callable[[], object]) -> int:
    """Return how many Python and C functions are called."""
    number = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time used."""
    began = time.process_time()
    work()
    return time.process_time() - began


def assert_linear(work: Callable[[Text], object], text: Text) -> None:
    """Check that reading `text` takes at most three times as long as reading its eighths one after another."""
    part = text[: max(len(text) // TIMES, 1)]
    for _ in range(_ATTEMPTS):
        small, whole = max(seconds(lambda: work(part)), _FLOOR), seconds(lambda: work(text))
        if whole < 3 * TIMES * small:
            return
    pytest.fail(f"{whole:.2f} s, {small:.3f} s for an eighth of {text[:40]!r}")


def grows_faster(work: Callable[[str], object], text: Callable[[int], str], *, longest: int) -> str:
    """Return how work on `text(length)` grows if it grows faster than its length up to `longest`; else "".

    Begins with a few characters: work that doubles with each character would never end on a longer text.
    """
    for length in (12, 18, 24, 30):
        if all(seconds(lambda: work(text(length))) > _MOMENT for _ in range(2)):  # noqa: B023 - called at once
            return f"{_MOMENT} s or more for {length} characters"
    for length in (longest // TIMES**2, longest // TIMES, longest):
        for _ in range(_ATTEMPTS):
            part = seconds(lambda: work(text(length // TIMES)))  # noqa: B023 - called at once
            if part < _TRIFLE:
                break
            times = TIMES if part < _MOMENT / 5 else TIMES // 2  # slow linear work is visible on short texts
            larger = text(length // TIMES * times)
            whole = seconds(lambda: work(larger))  # noqa: B023 - called at once
            if whole < 3 * times * max(part, _MOMENT / 40):
                break
        else:
            return f"{whole:.3f} s for {len(larger)} characters, {part:.4f} s for one {times}th of them"
    return ""
