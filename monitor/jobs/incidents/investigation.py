"""Looks an incident up in the history: since when, how many answers, what changed, and which were the worst."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from monitor.jobs.diagnosis import DiagnosisRequest, alert_request
from monitor.model.incident import Incident, IncidentAnswer, IncidentImpact, IncidentOnset, IncidentStep
from monitor.model.outcome import DefectRule, Scale
from monitor.statistics.diagnosis.cases import WeighedCase
from monitor.statistics.diagnosis.onset import find_step
from monitor.statistics.rates import Sums, estimate
from monitor.storage.history.reader import HistoryReader, MinuteSums, Search
from monitor.storage.incidents import ANSWERS_AT_MOST
from monitor.telemetry.metrics import UNKNOWN_APP

DEFAULT_WINDOW: Final = 21_600.0
BASELINE: Final = 7 * 86_400.0
BEFORE: Final = 86_400.0
"""Seconds before the onset in which a change may explain an incident."""

_CASES_AT_MOST: Final = 10_000
_CHANGES_AT_MOST: Final = 20
_CANDIDATES: Final = 60


class Findings(NamedTuple):
    """What the history says."""

    onset: IncidentOnset | None
    changes: Sequence[IncidentStep]
    impact: IncidentImpact | None
    answers: Sequence[IncidentAnswer]


class Investigation:
    """Looks incidents up in a history. Its methods block and raise `MonitorError`.

    Args:
        history: the history of this monitor.
        scales: the scales of the configured evaluators, by name.
        rules: the alerts' own defect rules, by evaluator.
    """

    def __init__(
        self, history: HistoryReader, scales: Mapping[str, Scale], rules: Mapping[str, Sequence[DefectRule]]
    ) -> None:
        self._history = history
        self._scales = scales
        self._rules = rules

    def look(
        self, one: Incident, now: float, onset: IncidentOnset | None = None, known: IncidentOnset | None = None
    ) -> Findings:
        """Find out what is known at the wall-clock second `now`; `onset` is the one found by a diagnosis, if any.

        `known` is the onset of an earlier look, which is kept if none is found any more.
        """
        until = one.ended if one.ended is not None else now
        onset = onset or self._onset(one, until) or known
        since = onset.at if onset is not None else one.fired - one.window
        changes, worst = self._changes(one, onset, until), self._worst(one, onset, until)
        return Findings(onset, changes, self._impact(one, since, until), worst)

    def request(self, one: Incident) -> DiagnosisRequest:
        """Return what to diagnose."""
        return alert_request(one, self._rule(one))

    def _rule(self, one: Incident) -> DefectRule | None:
        return next((each for each in self._rules.get(one.evaluator, ()) if each.name == one.defect_rule), None)

    def _onset(self, one: Incident, until: float) -> IncidentOnset | None:
        """Return the minute since when the rate is higher than in the week before; None without such a week."""
        begin = one.fired - 2 * window_of(one)
        before = Sums.total(each.sums for each in self._sums(one, begin - BASELINE, begin))
        if not before.judged:
            return None
        usual = (before.defect_weight + 0.5 * before.typical_weight) / (before.weight + before.typical_weight)
        found = find_step(_cases(self._sums(one, begin, until)), usual)
        if found is None:
            return None
        rose = found.onset
        return IncidentOnset(*(min(time, one.fired) for time in (rose.at, rose.earliest, rose.latest)))

    def _impact(self, one: Incident, since: float, until: float) -> IncidentImpact | None:
        sums = Sums.total(each.sums for each in self._sums(one, since, until + 1))
        found = estimate(sums)
        if found is None:
            return None
        return IncidentImpact(
            since,
            until,
            found.judged,
            found.defects,
            sums.weight,
            found.rate * sums.weight,
            found.lower * sums.weight,
            found.upper * sums.weight,
        )

    def _sums(self, one: Incident, since: float, until: float) -> list[MinuteSums]:
        found = []
        for app in _names(one.app):
            found += self._history.rate_sums(
                app, one.evaluator, since, until, version=one.version, rule=one.defect_rule
            )
        return found

    def _changes(self, one: Incident, onset: IncidentOnset | None, until: float) -> list[IncidentStep]:
        since = (onset.earliest if onset is not None else one.fired) - BEFORE
        own = [each for each in self._history.generations(_names(one.app)) if each.evaluator == one.evaluator]
        found = [
            IncidentStep(late.began, late.service_version.changes_from(early.service_version))
            for early, late in itertools.pairwise(own)
        ]
        return [change for change in found if change.text and since <= change.at <= until][-_CHANGES_AT_MOST:]

    def _worst(self, one: Incident, onset: IncidentOnset | None, until: float) -> list[IncidentAnswer]:
        scale = self._scales.get(one.evaluator)
        ends = (0.0, 1.0) if scale is None else (scale.lowest, scale.highest)
        rule = self._rule(one)
        rows = self._history.search(
            Search(
                apps=_names(one.app),
                evaluator=one.evaluator,
                since=onset.earliest if onset is not None else one.fired - one.window,
                until=until + 1,
                outcome="defect" if rule is None else "score",
                scales={one.evaluator: ends if scale is None or scale.better == "higher" else ends[::-1]},
                bands=_bands(one.evaluator, rule),
                limit=_CANDIDATES,
            )
        )
        if rule is not None and rule.kind == "label":
            rows = [row for row in rows if row.get("label") == rule.label]
        found: dict[str, IncidentAnswer] = {}
        for row in rows:
            if row.get("scope") == "live":
                answer = _answer(row, self._history.user_of(str(row["trace_id"])))
                found.setdefault(answer.question or answer.request_id, answer)
            if len(found) >= ANSWERS_AT_MOST:
                break
        return list(found.values())


def window_of(one: Incident) -> float:
    """Return the seconds over which an incident's rate was high."""
    return one.peak.window if one.peak is not None and one.peak.window else DEFAULT_WINDOW


def _names(app: str) -> tuple[str, ...]:
    """Return the names that an app's label stands for in the history."""
    return ("", app) if app == UNKNOWN_APP else (app,)


def _cases(sums: Sequence[MinuteSums]) -> list[WeighedCase]:
    """Return single cases for sums by the minute, only the newest if there are too many."""
    found: list[WeighedCase] = []
    for one in sorted(sums, key=lambda each: (-each.at, each.defect)):
        number = min(one.judged, _CASES_AT_MOST - len(found))
        found += [
            WeighedCase(float(one.at), one.weight / one.judged, one.defect, len(found) + place, ())
            for place in range(number)
        ]
    return found[::-1]


def _bands(evaluator: str, rule: DefectRule | None) -> dict[str, tuple[float, float]] | None:
    if rule is None or rule.kind == "label":
        return None
    infinity = float("inf")
    return {evaluator: (-infinity, rule.threshold) if rule.kind == "below" else (rule.threshold, infinity)}


def _answer(row: Mapping[str, Any], user: str) -> IncidentAnswer:
    request = row.get("request")
    question = request.get("query") if isinstance(request, Mapping) else None
    return IncidentAnswer(
        request_id=str(row["request_id"]),
        at=float(row["evaluated_at"]),
        score=float(row["score"]),
        level=str(row.get("level") or ""),
        question=None if question is None else str(question),
        response=None if "response" not in row else str(row["response"]),
        explanation=str(row.get("explanation") or ""),
        user=user or str(row.get("user_id") or ""),
    )
