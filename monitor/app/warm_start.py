"""Restores at start what earlier processes left: windows, baselines, what the samplers have learned."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping

from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.self_alerts import evaluations_missing as missing
from monitor.errors import MonitorError
from monitor.model.case import app_name
from monitor.model.external import ScoreSource
from monitor.pipeline.feedback.names import PastScores
from monitor.sinks.history import HistorySink
from monitor.stages import PastResult, Runtime, Sink, type_name
from monitor.statistics.windows import Windows
from monitor.storage.history.reader import MinuteSums
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import OVERFLOW, Capped

_HOUR = 3600.0
_SOURCES = {via.value: via for via in ScoreSource if via is not ScoreSource.OWN}  # by the version of external scores


async def label_apps(
    label: Capped, history: HistorySink, windows: Windows, now: float, *, first: Iterable[str] = ()
) -> dict[str, str]:
    """Give labels to the apps of the history: those of `first`, then the busiest apps of the last days.

    Anybody who sends traces can name thousands of apps. Returns the labels by name; all other apps are `OVERFLOW`.
    """
    for name in first:
        label(name)
    with contextlib.suppress(MonitorError):
        busiest = await history.busiest_apps(now - windows.remembered, now - windows.longest, label.limit)
        return {name: label(app_name(name)) for name in busiest}
    return {}


async def fill(
    windows: Windows,
    history: HistorySink,
    now: float,
    current: Mapping[str, str],
    apps: Mapping[str, str],
    *,
    ruled: RuleWindows | None = None,
    restore: Callable[[Iterable[PastScores]], Mapping[str, str]] = lambda _: {},
) -> set[str]:
    """Fill the windows, including those by the defect rules of alerts, with what was judged before a restart.

    Without a readable history they begin empty. `current` is the version of each evaluator: results of other versions
    cannot be compared, and are left out. `restore` gets the external evaluators and returns the source, by name, of
    those that continue: scores of another source under the same name are left out. `apps` are the labels that
    `label_apps` gave. Returns the labels of the apps that were judged, by any version.
    """
    found, known = set(), dict(current)
    since, minutes = now - windows.remembered, now - windows.longest
    with contextlib.suppress(MonitorError):
        hours = await history.hourly_sums(since, minutes, apps=apps) if since < minutes else []
        rows = [*hours, *await history.sums_since(minutes // 3600 * 3600, apps=apps)]
        known = {**restore(_external(rows, minutes)), **current}
        for row in rows:
            app = apps.get(row.app, OVERFLOW)
            found.add(app)
            if row.version == known.get(row.evaluator):
                windows.add_sums(app, row.evaluator, float(row.at), row.sums)
    with contextlib.suppress(MonitorError):
        for evaluator, rule, by_rule in ruled or ():
            for row in await history.rule_sums(now - by_rule.remembered, now - by_rule.longest, apps=apps):
                if (row.evaluator, row.rule, row.version) == (evaluator, rule, known.get(evaluator)):
                    by_rule.add_sums(apps.get(row.app, OVERFLOW), evaluator, float(row.at), row.sums)
    return found


def _external(rows: Iterable[MinuteSums], recent: float) -> list[PastScores]:
    """Add up the external scores by name and source; `recent` is the second from which they count as such."""
    found: dict[tuple[str, ScoreSource], PastScores] = {}
    for row in rows:
        source = _SOURCES.get(row.version)
        if source is not None:
            _, _, last, some, number = found.get((row.evaluator, source), (row.evaluator, source, 0.0, 0, 0))
            some += row.judged if row.at >= recent else 0
            one = PastScores(row.evaluator, source, max(last, float(row.at)), some, number + row.judged)
            found[row.evaluator, source] = one
    return list(found.values())


async def recount(
    on_history: Callable[[str, str, float, int], None],
    history: HistorySink,
    now: float,
    configured: Collection[str],
    apps: Mapping[str, str],
) -> None:
    """Pass on how many answers were scored in the last three days, by any version, as a baseline.

    `on_history` gets the label of the app, the evaluator, the wall-clock second and the number. `configured` are the
    names of the evaluators: no scores are expected from others any more. `apps` are the labels that `label_apps` gave.
    """
    with contextlib.suppress(MonitorError):
        hours = [(row, row.at + _HOUR / 2) for row in await history.hourly_sums(now - missing.USUAL, now, apps=apps)]
        minutes = [(row, float(row.at)) for row in await history.sums_since(now // _HOUR * _HOUR, apps=apps)]
        for row, at in [*hours, *minutes]:
            if row.evaluator in configured:
                on_history(apps.get(row.app, OVERFLOW), row.evaluator, at, row.judged)


async def replay_results(memory: Sink, on_result: Callable[[PastResult], None], runtime: Runtime) -> None:
    """Learn from the results of earlier processes and other replicas; otherwise the samplers start from zero."""
    try:
        await memory.replay_results(on_result, runtime)
    except MonitorError as error:
        message = "the samplers cannot learn from what was judged before"
        runtime.events.error(Event.SINK_FAILED, message, sink=type_name(memory), error=str(error))
