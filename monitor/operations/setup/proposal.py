"""Proposes evaluators and alert thresholds from recorded traffic. Local evaluators score it; no judge is asked."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from monitor import config as configuration
from monitor.errors import ConfigError
from monitor.operations.event_loop import run_async
from monitor.operations.offline.evaluate import aevaluate
from monitor.operations.offline.summary import EvaluatorSummary
from monitor.operations.preview.predict import RATE, WORSE, GroupCost, estimate, predict
from monitor.operations.preview.traffic import RecordedTraffic, from_files
from monitor.operations.progress import Report, ignore
from monitor.quantities import dollars, percent

LOCAL: Final = ("overlap_groundedness", "retrieval_overlap", "refusal_pattern", "injection_pattern", "pii_leak")
"""The local evaluators to try on recorded traffic."""

_MOST_CASES: Final = 2_000  # so that a month of captures takes a minute
_MOST_BYTES: Final = 256 * 1024**2
_ENOUGH: Final = 30  # scored answers needed to choose a threshold from them
_RATES: Final = (0.01, 0.02, 0.03, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 0.90)
_HIGHEST_WARNING: Final = 0.5
_SHARES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_TRIED_SHARE: Final = 0.1
_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class ProposedEntry:
    """An entry of `evaluators` or `alerts`, and why it is proposed."""

    options: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to evaluate and when to raise alerts. `notes` say what was examined, and what was left out and why.

    `dollars_per_day` is a budget for the judge; None leaves it to the default.
    """

    evaluators: Sequence[ProposedEntry]
    alerts: Sequence[ProposedEntry]
    notes: Sequence[str] = ()
    dollars_per_day: int | None = None


def by_default(*, judged: bool) -> Proposal:
    """Return a proposal for a service about which nothing is known yet."""
    overlap = ProposedEntry({"type": "overlap_groundedness"}, "local: how much of each answer its documents contain")
    alert = _alert("overlap_groundedness", 0.10, 0.25)
    if not judged:
        return Proposal([overlap], [ProposedEntry(alert, "the defaults")])
    groundedness = ProposedEntry({"type": "groundedness", "sample": "10%"}, "asks the judge about one answer in ten")
    alerts = [ProposedEntry(one, "the defaults") for one in (alert, _alert("groundedness", 0.05, 0.15))]
    return Proposal([overlap, groundedness], alerts)


def from_capture(
    paths: Sequence[Path], *, judge: str | None, requests_per_day: float | None = None, report: Report = ignore
) -> Proposal:
    """Return a proposal for the requests in files, read as `cases` does.

    `judge` is the model that could be asked, or None. `requests_per_day` is by default that of the files. `report` gets
    messages about what cannot be read. Raises `ConfigError` if there is no answer to evaluate.
    """
    _refuse_huge(paths)
    tried = configuration.parse(
        {
            "judge": {"model": judge} if judge else {},
            "evaluators": [
                {"type": "overlap_groundedness"},
                *([{"type": "groundedness", "sample": percent(_TRIED_SHARE)}] if judge else []),
            ],
            "alerts": [],
        }
    )
    recorded = from_files(tried, paths, report=report)
    _refuse_useless(recorded, paths)
    cases = [case for case, _ in islice(recorded.cases, _MOST_CASES)]
    scored = run_async(functools.partial(aevaluate, cases, LOCAL))
    evaluators, alerts = [], []
    notes = [_looked_at(recorded, len(cases))]
    for name in LOCAL:
        summary = scored[name]
        if not summary.scored:
            notes.append(f"{name} is left out: {_why_not(summary)}")
            continue
        evaluators.append(ProposedEntry({"type": name}, f"local: scored {summary.scored} of {len(cases)} answers here"))
        alerts.append(_from_rate(name, summary))
    budget = None
    if judge:
        preview = run_async(functools.partial(predict, tried, recorded))
        cost = estimate(tried, preview, requests_per_day=requests_per_day)
        judged, budget = _judged(cost.groups if cost is not None else None, applies=bool(preview.groups[0].applies))
        if judged is None:
            notes.append("groundedness is left out: it applies to none of these answers")
        else:
            evaluators.append(judged)
            alerts.append(ProposedEntry(_alert("groundedness", 0.05, 0.15), "the defaults: no judge was asked here"))
    else:
        notes.append("no judge: without an API key, evaluators that compare meaning are off")
    return Proposal(evaluators, alerts, notes, budget)


def _refuse_huge(paths: Sequence[Path]) -> None:
    """Raise `ConfigError` if the files are too large to be read into memory."""
    files = [one for path in paths for one in (path.iterdir() if path.is_dir() else [path])]
    size = sum(one.stat().st_size for one in files if one.is_file())
    if size > _MOST_BYTES:
        raise ConfigError(
            f"from: the files have {size / 1024**2:,.0f} MiB, and at most {_MOST_BYTES / 1024**2:,.0f} are read:"
            " some minutes of traffic are enough"
        )


def _refuse_useless(recorded: RecordedTraffic, paths: Sequence[Path]) -> None:
    """Raise `ConfigError` if there is nothing to base a proposal on."""
    names = ", ".join(map(str, paths))
    if not recorded.total:
        unread = f"; {recorded.unreadable} files or rows could not be read" if recorded.unreadable else ""
        raise ConfigError(
            f"from: no request in {names}{unread}. Give OTLP as protobuf (.pb) or JSON (.json), or rows (.jsonl, .csv)"
        )
    if not recorded.cases:
        why = ", ".join(f"{number} {outcome}" for outcome, number in recorded.outcomes.most_common())
        raise ConfigError(
            f"from: none of the requests in {names} can be evaluated ({why}): `rag-monitor cases --explain` says what"
            " is missing"
        )


def _looked_at(recorded: RecordedTraffic, cases: int) -> str:
    left = recorded.outcomes.total() - recorded.outcomes["kept"]
    first = f", the first {cases} of them" if cases < len(recorded.cases) else ""
    return f"from {len(recorded.cases)} recorded answers{first}" + (
        f"; {left} others cannot be evaluated" if left else ""
    )


def _why_not(summary: EvaluatorSummary) -> str:
    reasons = {**summary.skipped, **summary.unscored}
    most = max(reasons, key=lambda one: reasons[one], default="")
    return f"it scored none of these answers ({str(most).replace('_', ' ')})" if most else "it scored none"


def _from_rate(name: str, summary: EvaluatorSummary) -> ProposedEntry:
    """Return an alert that would not fire on the recorded traffic, on the assumption that this was good enough."""
    found = summary.defect_rate
    counted = f"{summary.defects} of {summary.scored} were defects"
    if summary.scored < _ENOUGH or found.rate is None:
        return ProposedEntry(_alert(name, 0.10, 0.25), f"the defaults: {counted}, too few answers to choose by")
    measured = f"{counted}, {percent(found.rate)} ({percent(found.lower)} to {percent(found.upper)})"
    if found.upper > _HIGHEST_WARNING:
        return ProposedEntry(
            {"evaluator": name, "regression": True},
            f"{measured}: no threshold, since that many are normal here; it fires when there are more than before",
        )
    warning = next(one for one in _RATES if one >= found.upper)
    critical = next(one for one in _RATES if one >= min(2 * warning, _RATES[-1]))
    return ProposedEntry(_alert(name, warning, critical), f"{measured}: the warning is above this interval")


def _judged(groups: Sequence[GroupCost] | None, *, applies: bool) -> tuple[ProposedEntry | None, int | None]:
    """Return the entry of groundedness, with the sampling rate needed to notice a doubled defect rate, and a budget."""
    entry = {"type": "groundedness", "sample": percent(_TRIED_SHARE).replace(" ", "")}
    if not applies:
        return None, None
    if not groups:
        return ProposedEntry(entry, "one answer in ten, since the traffic of a day is unknown: give --traffic"), None
    group = groups[0]
    needed = group.needed
    share = 1.0 if needed.share is None else next((one for one in _SHARES if one >= needed.share), 1.0)
    aim = f"to notice within six hours that the defect rate has risen from {percent(RATE)} to {percent(WORSE)}"
    reason = f"{aim} takes {needed.scored_per_hour:,.0f} scored answers an hour"
    if needed.share is None:
        reason += ", and there are fewer: all are asked about"
    monthly = group.dollars_per_month[1] if group.dollars_per_month is not None else None
    budget = None
    if monthly is not None:
        monthly *= share / _TRIED_SHARE
        budget = max(math.ceil(2 * monthly / _DAYS), 1)
        reason += f"; about {dollars(monthly)} a month, and the budget is twice the daily cost"
    return ProposedEntry({**entry, "sample": f"{share:.1%}".replace(".0%", "%")}, reason), budget


def _alert(name: str, warning: float, critical: float) -> dict[str, Any]:
    limits = {"warning": f"{warning:.0%}", "critical": f"{critical:.0%}"}
    return {"evaluator": name, **limits, "regression": True}
