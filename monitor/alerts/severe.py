"""`RagSevereCase`: pages when single answers were judged severe twice, with no more false pages than configured.

A page says what happened: two judgements agreed. It gives no rate, since one case is no rate. How many sessions within
an hour page is decided in `statistics/severe_cases.py`. A session that does not page raises a warning for a day.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from monitor.alerts.policy import AlertPolicy, Severity, severe_policy_for
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.outcome import DefectRule
from monitor.model.severe import SevereCall, SevereCase
from monitor.statistics.severe_cases import HOUR, MONTH, sessions_to_page

NAME: Final = "RagSevereCase"
SUMMARY: Final = "An answer was judged severe twice."
DAY: Final = 86400.0

_SESSIONS: Final = 10_000
"""The latest sessions that are remembered, so that each counts once."""
_IDLE: Final = DAY
_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class _Count:
    """Sessions of an app and evaluator: of the last hour, of the last day, and unexplained of 30 days before."""

    hour: Sequence[SevereCase]
    day: Sequence[SevereCase]
    unexplained: int
    right: int
    called: int


class SevereLog:
    """The confirmed severe cases of the last 30 days, one for each session, and what they mean.

    Args:
        policies: those with `severe` decide when to page.
        rules: what is severe, by evaluator.
        cases: cases of earlier processes, oldest first.
    """

    def __init__(
        self, policies: Sequence[AlertPolicy], rules: Mapping[str, DefectRule], cases: Iterable[SevereCase] = ()
    ) -> None:
        self._policies = tuple(policies)
        self._rules = rules
        self._cases = list(cases)
        self._sessions: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def confirm(self, case: SevereCase, session: str) -> bool:
        """Add a confirmed case; return whether its session counts: only if it had no case in the day before."""
        key = (case.app, case.evaluator, session)
        seen = self._sessions.get(key, -math.inf)
        self._sessions[key] = case.at
        self._sessions.move_to_end(key)
        if len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        if case.at - seen <= _IDLE:
            return False
        self._cases = [one for one in self._cases if one.at >= case.at - MONTH - DAY]
        self._cases.append(case)
        return True

    def call(self, request_id: str, evaluator: str, call: SevereCall) -> SevereCase | None:
        """Record what a person says about a case. Return the case as it was before, or None if it is unknown."""
        for at, one in enumerate(self._cases):
            if one.request_id == request_id and one.evaluator == evaluator:
                self._cases[at] = replace(one, call=call)
                return one
        return None

    def find(self, pairs: Iterable[tuple[str, str]], now: float) -> Iterator[tuple[Subject, ConditionResult, str]]:
        """Yield a page and a warning for each app and evaluator with a policy, whether they fire or not.

        The last item is the id of the latest request behind it, or empty.
        """
        for app, evaluator in pairs:
            policy = severe_policy_for(self._policies, app, evaluator)
            if policy is None or policy.severe is None or evaluator not in self._rules:
                continue
            count = self._count(app, evaluator, now)
            accepted = policy.severe.accepted
            needed = sessions_to_page(count.unexplained, accepted)
            pages = needed is not None and len(count.hour) >= needed
            yield (
                Subject(NAME, Severity.CRITICAL, app, evaluator),
                self._page(app, evaluator, count, needed, accepted)
                if needed is not None and pages
                else _quiet(app, evaluator),
                _latest(count.hour) if pages else "",
            )
            warns = needed != 1 and bool(count.day) and not pages
            yield (
                Subject(NAME, Severity.WARNING, app, evaluator),
                self._warning(app, evaluator, count, needed) if warns else _quiet(app, evaluator),
                _latest(count.day) if warns else "",
            )

    def _count(self, app: str, evaluator: str, now: float) -> _Count:
        own = [one for one in self._cases if (one.app, one.evaluator) == (app, evaluator)]
        before = [one for one in own if now - HOUR - MONTH < one.at <= now - HOUR]
        called = [one for one in own if one.call is not None]
        return _Count(
            hour=[one for one in own if now - HOUR < one.at],
            day=[one for one in own if now - DAY < one.at],
            unexplained=sum(one.call is not SevereCall.RIGHT for one in before),
            right=sum(one.call is SevereCall.RIGHT for one in called),
            called=len(called),
        )

    def _page(self, app: str, evaluator: str, count: _Count, needed: int, accepted: float) -> ConditionResult:
        number = len(count.hour)
        said = f"An answer from {app} was" if number == 1 else f"Answers from {app} in {number} sessions were"
        text = (
            f"{said} judged severe twice: {self._rules[evaluator].words} according to"
            f" {evaluator}. {_right(count)} In the 30 days before, {count.unexplained} such sessions were not called"
            f" right{f', so a page needs {needed} within an hour' if needed > 1 else ''}. {_ids(count.hour)}"
        )
        if accepted == math.inf:
            text += f" With `page: each`, expect about {count.unexplained + 1} false pages in 30 days."
        return ConditionResult(AlertStatus.FIRING, text)

    def _warning(self, app: str, evaluator: str, count: _Count, needed: int | None) -> ConditionResult:
        number = len(count.day)
        said = f"An answer from {app} was" if number == 1 else f"Answers from {app} in {number} sessions were"
        page = f"a page needs {needed} sessions within an hour" if needed is not None else "this alert no longer pages"
        text = (
            f"{said} judged severe twice in the last day: {self._rules[evaluator].words}"
            f" according to {evaluator}. In 30 days, {count.unexplained} such sessions were not called right, so"
            f" {page}. {_right(count)} {_ids(count.day)}"
        )
        return ConditionResult(AlertStatus.FIRING, text)


def _quiet(app: str, evaluator: str) -> ConditionResult:
    return ConditionResult(AlertStatus.OK, f"No confirmed severe case of {evaluator} in {app} needs an alert.")


def _right(count: _Count) -> str:
    if not count.called:
        return "Nobody has called such a case right or wrong yet."
    share = round(10 * count.right / count.called)
    return f"About {share} in 10 such cases were right so far ({count.called} called right or wrong)."


def _latest(cases: Sequence[SevereCase]) -> str:
    return next((one.request_id for one in reversed(cases) if one.request_id), "")


def _ids(cases: Sequence[SevereCase]) -> str:
    known = [one.request_id for one in reversed(cases) if one.request_id]
    if not known:
        return ""
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    others = f", {', '.join(known[1:_LISTED])}{more}" if known[1:] else ""
    return f"See `rag-monitor why {known[0]}`{others}."
