"""An incident: one rate of a service that was too high, from the moment an alert fires to the end of all of its alerts.

Warning and critical of the same rate are one incident, and so is a regression of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

STEPS_AT_MOST: Final = 60
"""Maximum number of steps kept of an incident: the first third of them, and the latest."""


class IncidentEnd(StrEnum):
    """What ended an incident."""

    FELL_BACK = "fell_back"
    TOO_LITTLE_TRAFFIC = "too_little_traffic"
    THRESHOLD_CHANGED = "threshold_changed"
    ALERT_REMOVED = "alert_removed"
    EVALUATOR_CHANGED = "evaluator_changed"
    MONITOR_STOPPED = "monitor_stopped"

    @property
    def words(self) -> str:
        """One sentence for people."""
        return _WORDS[self]


_WORDS: Final[Mapping[IncidentEnd, str]] = {
    IncidentEnd.FELL_BACK: "The rate fell back.",
    IncidentEnd.TOO_LITTLE_TRAFFIC: "Too few answers were scored to tell whether the rate is still high.",
    IncidentEnd.THRESHOLD_CHANGED: "The threshold of the alert was changed.",
    IncidentEnd.ALERT_REMOVED: "The alert was removed from the configuration.",
    IncidentEnd.EVALUATOR_CHANGED: "The evaluator was changed, so its earlier scores no longer count.",
    IncidentEnd.MONITOR_STOPPED: "The monitor was stopped, and the alert did not fire when it came back.",
}


class FiredAlert(NamedTuple):
    """An alert that has fired in an incident, with the threshold that it fired at (a share, or None)."""

    name: str
    severity: str
    threshold: float | None


class RatePeak(NamedTuple):
    """The highest rate at which an alert of an incident fired, with the limits of its window (`window` seconds)."""

    at: float
    rate: float
    lower: float
    upper: float
    judged: int
    defects: int
    window: float


class IncidentStep(NamedTuple):
    """A step in the course of an incident: when, and what happened in one sentence."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """The course of one incident. Times are wall-clock seconds.

    `fired`: when the first alert fired; `checked`: when an alert was last seen firing. `ended` and `end` are None while
    the incident is open. `severity` is the highest of the alerts firing now (or last); `worst` is the highest so far.
    `version` is the evaluator's. `window`: the seconds over which the rate was too high when the first alert fired.
    `defect_rule` names the alert's own defect rule, if it has one; otherwise it is empty.
    """

    id: str
    app: str
    evaluator: str
    defect_rule: str
    version: str
    fired: float
    checked: float
    severity: str
    worst: str
    alerts: tuple[FiredAlert, ...]
    peak: RatePeak | None = None
    steps: tuple[IncidentStep, ...] = ()
    ended: float | None = None
    end: IncidentEnd | None = None
    window: float = 21_600.0

    @property
    def open(self) -> bool:
        """Whether the incident has not ended."""
        return self.ended is None


def incident_id(app: str, evaluator: str, defect_rule: str, fired: float) -> str:
    """Return the id of an incident: the day it fired and 8 hex digits. The same arguments give the same id."""
    what = "\x1f".join((app, evaluator, defect_rule, f"{fired:.0f}"))
    digits = hashlib.blake2b(what.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{datetime.fromtimestamp(fired, UTC):%Y%m%d}-{digits}"


class IncidentOnset(NamedTuple):
    """When the rate rose: the best guess, and a 90 % interval."""

    at: float
    earliest: float
    latest: float


class IncidentImpact(NamedTuple):
    """The answers from the onset to the end, or until now: counts of scored answers, and estimates for all answers.

    If the onset is unknown, counting starts at the beginning of the window in which the rate was too high when the
    alert fired.

    `answers` and `bad_answers` are estimates for all answers, not only the scored ones; `bad_lower` and `bad_upper` are
    the limits of the 95 % interval.
    """

    since: float
    until: float
    judged: int
    defects: int
    answers: float
    bad_answers: float
    bad_lower: float
    bad_upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAnswer:
    """One of the worst answers of an incident. Texts are excerpts, or None if they are not stored.

    `user` is a pseudonym, for erasure only.
    """

    request_id: str
    at: float
    score: float
    level: str
    question: str | None = None
    response: str | None = None
    explanation: str = ""
    user: str = ""


class IncidentNote(NamedTuple):
    """A person's note on an incident: when, by whom, and its text."""

    at: float
    who: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRecord:
    """Everything stored about an incident. `diagnoses`: `at its height` and `at its end`, in plain JSON types."""

    incident: Incident
    onset: IncidentOnset | None = None
    changes: Sequence[IncidentStep] = ()
    impact: IncidentImpact | None = None
    diagnoses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answers: Sequence[IncidentAnswer] = ()
    notes: Sequence[IncidentNote] = ()

    @property
    def began(self) -> float:
        """When the rate rose, or when the first alert fired if that is unknown."""
        return self.onset.at if self.onset is not None else self.incident.fired


def as_object(value: Any) -> Any:
    """Return a value of this module in plain JSON types, with the names of its fields, but without `user`."""
    if is_dataclass(value):
        return {one.name: as_object(getattr(value, one.name)) for one in fields(value) if one.name != "user"}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_object(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: as_object(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_object(one) for one in value]
    return value.value if isinstance(value, StrEnum) else value
