"""What one run of the canary set said about one judged evaluator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """One run, held against the reference: verdicts that are the `same`, those `stricter` and those `milder` than it.

    Stricter: a defect where the reference has none; milder: the reverse. `at` is the wall-clock second at which it
    ended, `tolerance` the share of verdicts, 0 to 1, that may differ without anything being wrong.
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
        """Verdicts that are not those of the reference."""
        return self.stricter + self.milder

    @property
    def judged(self) -> int:
        """All verdicts that could be held against the reference."""
        return self.same + self.moved
