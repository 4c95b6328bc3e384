"""Confirmed severe cases: answers that were judged severe twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class SevereOutcome(StrEnum):
    """The result of the second judgement of a severe case. A closed set."""

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
"""The result of a second judgement, in words."""


@dataclass(frozen=True, slots=True)
class SecondJudgement:
    """The second judgement of a severe answer: its outcome, its score (None if there is none) and the judge's model."""

    outcome: SevereOutcome
    score: float | None
    model: str


class SevereCall(StrEnum):
    """A person's verdict on a confirmed case. A closed set."""

    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class SevereCase:
    """The first confirmed case of a session. `app` is a label value, `at` the wall-clock second of the confirmation.

    `request_id` is empty once results are no longer kept. `call` is None until a person has given a verdict.
    """

    app: str
    evaluator: str
    at: float
    request_id: str
    call: SevereCall | None = None
