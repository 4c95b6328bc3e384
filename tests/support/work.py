"""How much work something is: calls of functions, or the processor's time against that of an eighth of it.

A bound in seconds holds on one machine. What is tested is growth: linear work grows eightfold with eight times the
size, quadratic work 64 times.
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
"""A busy machine makes one measurement longer than it is; quadratic work fails every time."""
_MOMENT = 0.02
"""Seconds; thirty characters that take longer take hours if they are a hundred."""
_TRIFLE = 0.00015
"""Seconds; what takes less and grows with the square takes less than a hundredth of a second eight times as long."""
Text = TypeVar("Text", str, bytes)
_FLOOR = 0.005
"""Seconds; what takes less on an eighth is held against this: clocks and caches tell more there than the text does."""


def calls(work: Callable[[], object]) -> int:
    """How many functions, of Python and of C, are called."""
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
    """Processor time."""
    began = time.process_time()
    work()
    return time.process_time() - began


def assert_linear(work: Callable[[Text], object], text: Text) -> None:
    """Reading `text` takes at most three times what reading its eighths, one after another, would."""
    part = text[: max(len(text) // TIMES, 1)]
    for _ in range(_ATTEMPTS):
        small, whole = max(seconds(lambda: work(part)), _FLOOR), seconds(lambda: work(text))
        if whole < 3 * TIMES * small:
            return
    pytest.fail(f"{whole:.2f} s, {small:.3f} s for an eighth of {text[:40]!r}")


def grows_faster(work: Callable[[str], object], text: Callable[[int], str], *, longest: int) -> str:
    """Return how work on `text(length)` grows, if more than in proportion to its length up to `longest`; else "".

    Begins with a few characters: work that doubles with each of them would never end on a text of some length.
    """
    for length in (12, 18, 24, 30):
        if all(seconds(lambda: work(text(length))) > _MOMENT for _ in range(2)):  # noqa: B023 - called at once
            return f"{_MOMENT} s or more for {length} characters"
    for length in (longest // TIMES**2, longest // TIMES, longest):
        for _ in range(_ATTEMPTS):
            part = seconds(lambda: work(text(length // TIMES)))  # noqa: B023 - called at once
            if part < _TRIFLE:
                break
            times = TIMES if part < _MOMENT / 5 else TIMES // 2  # what is slow and linear need not be long to be seen
            larger = text(length // TIMES * times)
            whole = seconds(lambda: work(larger))  # noqa: B023 - called at once
            if whole < 3 * times * max(part, _MOMENT / 40):
                break
        else:
            return f"{whole:.3f} s for {len(larger)} characters, {part:.4f} s for one {times}th of them"
    return ""
