"""Confirmed severe cases: answers that were judged severe twice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SevereOutcome(StrEnum):
    """What the second judgement of a severe case said. A closed set."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNSCORED = "unscored"


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
