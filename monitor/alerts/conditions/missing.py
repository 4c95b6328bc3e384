"""`RagEvaluationsMissing` in process: requests arrive that used to be evaluated, and none is.

The formula is that of the rules: what is usual for an evaluator in an hour, times how the traffic of the last hour
compares with what is usual. What was judged before a restart is restored from the history, what was received is not.
So for the first day after one the traffic that is usual is not known either, and no more is taken to be due than was
judged at the same time of day on the days before: a restart in a quiet night is no alarm.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from monitor.alerts.state import Finding, Status
from monitor.clock import Clock

AT_LEAST: Final = 10
"""How many evaluations must have been due in an hour without one: by chance that happens once in 22 000 hours."""
PENDING: Final = 600.0
"""Seconds for which that must hold before it is told."""
USUAL: Final = 3 * 86400.0
"""Seconds by which it is known what is usual."""

_HOUR, _DAY, _STEP = 3600.0, 86400.0, 600
_KEPT = math.ceil(USUAL / _STEP) + 1


class _Counts:
    """How many in each ten minutes, and since when that is known."""

    def __init__(self, since: float) -> None:
        self.since = since
        self._newest = since
        self._steps: dict[int, int] = {}

    def add(self, at: float, number: int) -> None:
        step = math.floor(at / _STEP)
        self.since, self._newest = min(self.since, at), max(self._newest, at)
        if step not in self._steps:
            for old in [one for one in self._steps if one <= step - _KEPT]:
                del self._steps[old]
        self._steps[step] = self._steps.get(step, 0) + number

    def between(self, since: float, until: float) -> float:
        """What lies between two times; of a step that one of them cuts, the part that lies between."""
        total = 0.0
        for step in range(math.floor(since / _STEP), math.floor(until / _STEP) + 1):
            number = self._steps.get(step)
            if number:
                start, end = step * _STEP, (step + 1) * _STEP
                share = end - max(start, since)
                if end <= self._newest:  # all of a step that has not ended lies before now
                    share -= max(end - until, 0.0)
                total += number * share / _STEP
        return total

    def an_hour(self, now: float) -> float:
        """The mean of an hour over all that is known of the last three days."""
        known = min(max(now - self.since, _HOUR), USUAL)
        return self.between(now - known, now) * _HOUR / known


class Expectations:
    """What was received by app, and what was evaluated by app and evaluator, in the last three days."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._arrived: defaultdict[str, int] = defaultdict(int)
        self._received: dict[str, _Counts] = {}
        self._judged: dict[tuple[str, str], _Counts] = {}
        self._missing_since: dict[tuple[str, str], float] = {}

    def received(self, app: str, traces: int) -> None:
        """So many traces of `app`, a label value, came in. Quick: it is called for every one."""
        self._arrived[app] += traces

    def judged(self, app: str, evaluator: str, at: float, number: int = 1) -> None:
        """So many answers were scored at `at`, which is in the past where it comes from the history."""
        now = self._clock.now()
        if at <= now - USUAL:
            return
        counts = self._judged.setdefault((app, evaluator), _Counts(now))
        counts.add(min(at, now), number)

    def find(self, now: float) -> Iterator[tuple[str, str, Finding]]:
        """For each app and evaluator whether evaluations are missing at the wall-clock second `now`."""
        for app, number in self._arrived.items():
            self._received.setdefault(app, _Counts(now)).add(now, number)
        self._arrived.clear()
        for (app, evaluator), judged in self._judged.items():
            yield app, evaluator, self._judge(app, evaluator, judged, now)

    def _judge(self, app: str, evaluator: str, judged: _Counts, now: float) -> Finding:
        due = 0.0 if judged.between(now - _HOUR, now) else self._due(app, judged, now)
        if due <= AT_LEAST:
            self._missing_since.pop((app, evaluator), None)
            return Finding(Status.OK, f"{evaluator} judges answers of {app}, or few are due.", window=_HOUR)
        since = min(self._missing_since.setdefault((app, evaluator), now), now)
        text = (
            f"{evaluator} judged no answer of {app} in the last hour; by its traffic and by the last three days about"
            f" {due:.0f} were due."
        )
        return Finding(Status.FIRING if now - since >= PENDING else Status.OK, text, window=_HOUR)

    def _due(self, app: str, judged: _Counts, now: float) -> float:
        """How many evaluations the last hour should have had."""
        received = self._received.get(app)
        arrived = received.between(now - _HOUR, now) if received is not None else 0.0
        if received is None or not arrived:
            return 0.0
        due = judged.an_hour(now) * arrived / received.an_hour(now)
        if judged.since < self._began and now - self._began < _DAY:
            return min(due, _same_hour(judged, now))
        return due


def _same_hour(judged: _Counts, now: float) -> float:
    """The mean at this time of day, over the days before that are known; 0 where none is."""
    days = [now - day * _DAY for day in (1, 2, 3) if judged.since <= now - day * _DAY - _HOUR]
    return sum(judged.between(at - _HOUR, at) for at in days) / len(days) if days else 0.0
