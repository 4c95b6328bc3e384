"""Misbehaving evaluators that a worker process can import."""

from __future__ import annotations

from typing import ClassVar

from monitor.model.case import Case
from monitor.model.outcome import Outcome, Score
from monitor.stages import Judge
from tests.support.evaluators import LocalEvaluator


class Hanging(LocalEvaluator):
    """Never finishes a case of the app `hangs`; a worker warms up with other cases."""

    name: ClassVar[str] = "hanging"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        return run() if case.app == "hangs" else Score(1, "because")


class Printing(LocalEvaluator):
    """Prints, and gives 1 to every case."""

    name: ClassVar[str] = "printing"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        print("printed by a plug-in", flush=True)
        return Score(1, "because")


def run() -> Outcome:
    """Never return."""
    while True:
        pass
