"""The result of one canary run for one judged evaluator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """One run compared with the reference: how many scores are the `same`, `stricter` or `milder`.

    Stricter: a defect where the reference has none; milder: the reverse. `at` is the end of the run in seconds since
    the epoch, `tolerance` the share of differing scores, 0 to 1, that is still normal.
    """

    at: float
    evaluator: str
    version: str
    same: int
    stricter: int
    milder: int
    tolerance: float

    @property
    def moved(self) -> int:
        """Number of scores that differ from the reference."""
        return self.stricter + self.milder

    @property
    def judged(self) -> int:
        """Number of scores that were compared with the reference."""
        return self.same + self.moved
