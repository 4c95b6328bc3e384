"""Labels: people's verdicts on results of a judge, and how those results were chosen for review."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LATEST: Final = 253_402_300_800.0
"""Wall-clock second, the year 10000. Labels must lie between 1970 and here, where `datetime` can represent them."""


class LabelVerdict(StrEnum):
    """A person's verdict on an answer. A closed set."""

    GOOD = "good"
    DEFECT = "defect"
    CANNOT_TELL = "cannot_tell"


class LabelDraw(StrEnum):
    """How a result was chosen for its reviewer. A closed set."""

    UNIFORM = "uniform"
    STRATIFIED = "stratified"
    PICKED = "picked"
    IMPORTED = "imported"

    @property
    def measures(self) -> bool:
        """Whether such labels measure the judge: the results were drawn at random, with known probabilities."""
        return self in (LabelDraw.UNIFORM, LabelDraw.STRATIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One person's verdict on one result.

    Attributes:
        result_id: id of the result.
        request_id: id of the request that the result is about.
        app: the service that answered.
        evaluator: the evaluator that judged.
        version: the version of the evaluator.
        reviewer: who gave the label.
        verdict: their verdict.
        level: the level of the evaluator's scale that the reviewer chose, or None.
        comment: free text of the reviewer; may be empty.
        at: wall-clock second of the label.
        draw: how the result was chosen for the reviewer.
        probability: the probability with which this draw takes this result, among the judged results of its app,
            evaluator and version; None unless `draw` measures.
        judged_defect: whether the judge called the answer a defect when the label was given.
        score: the judge's score at that time; None if the label came without a score.
        weight: how many requests the result stands for in the rates, 1 / (probability that it was judged).
        user: the pseudonym of the user who asked; empty if unknown.
        answered_at: wall-clock second of the answer; 0.0 if unknown.
    """

    result_id: str
    request_id: str
    app: str
    evaluator: str
    version: str
    reviewer: str
    verdict: LabelVerdict
    judged_defect: bool
    at: float
    draw: LabelDraw
    probability: float | None = None
    level: str | None = None
    comment: str = ""
    score: float | None = None
    weight: float = 1.0
    user: str = ""
    answered_at: float = 0.0

    @property
    def design_weight(self) -> float:
        """How many requests the label stands for: its result's weight over its draw's probability."""
        return self.weight / (self.probability or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDraw:
    """A result drawn for review: when, and with which probability. The other fields are those of `Label`."""

    result_id: str
    request_id: str
    app: str
    evaluator: str
    version: str
    draw: LabelDraw
    probability: float
    at: float
    user: str = ""


def is_test(request_id: str) -> bool:
    """Return whether a request belongs to the half whose labels measure the judge.

    The other half may be shown to the judge as examples. The answer is the same on every machine and every time.
    """
    text = request_id.encode("utf-8", "replace")  # as it is stored
    return hashlib.blake2b(text, digest_size=8, person=b"label-half").digest()[0] < 128  # noqa: PLR2004 - half of a byte
