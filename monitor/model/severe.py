"""Confirmed severe cases: answers that were judged severe twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class SevereOutcome(StrEnum):
    """What the second judgement of a severe case said. A closed set."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNSCORED = "unscored"


SECOND: Final[Mapping[str, str]] = MappingProxyType(
    {
        SevereOutcome.CONFIRMED: "severe again",
        SevereOutcome.REFUTED: "not severe",
        SevereOutcome.UNSCORED: "without a score",
    }
)
"""What a second judgement said, in words."""


@dataclass(frozen=True, slots=True)
class SecondJudgement:
    """The second judgement of a severe answer: its score, None where it came to none, and the judge's model."""

    outcome: SevereOutcome
    score: float | None
    model: str


class SevereCall(StrEnum):
    """What a person says of a confirmed case. A closed set."""

    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class SevereCase:
    """The first confirmed case of a session. `app` is a label value, `at` the wall-clock second of the confirmation.

    `request_id` is empty once results are no longer kept. `call` is None until a person has said what it was.
    """

    app: str
    evaluator: str
    at: float
    request_id: str
    call: SevereCall | None = None
