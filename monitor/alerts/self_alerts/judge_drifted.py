"""`RagJudgeDrifted`: the judge's verdicts on the canary set differ from the baseline by more than its noise.

The limit is the one of `statistics/rates.py`, over the runs of the last day. Versions are never compared with each
other; a version that no process uses any more exports no tolerance, so nothing fires for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promql import lookup, lookup_expression, record
from monitor.alerts.prometheus.promtool import (
    HOUR,
    REPLICAS,
    STEP,
    Series,
    Test,
    counter_values,
    expect_firing,
    gauge_series,
    input_series,
    promtool_test,
)
from monitor.alerts.prometheus.rates import lower_limit_of_counts
from monitor.alerts.self_alert import Condition, Observed, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.canary import CanaryRun
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import Sums, estimate
from monitor.statistics.reference import AT_LEAST, WINDOW, Z, surely_moved

NAME: Final = "RagJudgeDrifted"


class JudgeDrift(Condition):
    """Remembers the canary runs of the last day, by evaluator and version."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._runs: dict[tuple[str, str], list[CanaryRun]] = {}

    def on_canary_run(self, run: CanaryRun) -> None:
        """Remember a run."""
        self._runs.setdefault((run.evaluator, run.version), []).append(run)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for each evaluator and version."""
        for (evaluator, version), runs in self._runs.items():
            runs[:] = [one for one in runs if one.at > now - WINDOW]
            yield Subject(NAME, Severity.WARNING, evaluator=evaluator, version=version), _decide(evaluator, runs)


def _decide(evaluator: str, runs: list[CanaryRun]) -> ConditionResult:
    moved, judged = sum(one.moved for one in runs), sum(one.judged for one in runs)
    if len(runs) < AT_LEAST or not judged:
        return ConditionResult(AlertStatus.NOT_ENOUGH_DATA, f"{evaluator}: too few canary runs in the last day.")
    tolerance = max(one.tolerance for one in runs)
    lower = surely_moved(moved, judged)
    stricter, milder = sum(one.stricter for one in runs), sum(one.milder for one in runs)
    text = (
        f"{moved} of {judged} canary verdicts of {evaluator} in the last {format_duration(WINDOW)} differ from the"
        f" baseline (at least {precise_percent(lower)}; up to {precise_percent(tolerance)} is noise): {stricter}"
        f" stricter, {milder} more lenient."
    )
    found = estimate(Sums.counted(judged, moved), Z)
    return ConditionResult(AlertStatus.FIRING if lower > tolerance else AlertStatus.OK, text, tolerance, WINDOW, found)


_SPAN = format_duration(WINDOW)
_LEVEL = "evaluator_version:ragmonitor_canary"
_MOVED, _JUDGED = f"{_LEVEL}_moved:increase{_SPAN}", f"{_LEVEL}_verdicts:increase{_SPAN}"
_LOWER, _TOLERANCE = f"{_LEVEL}_moved_ratio:lower{_SPAN}", f"{_LEVEL}_tolerance_ratio:max"
_BY, _ON = "by (evaluator, version)", "on (evaluator, version)"
_VERDICTS = "ragmonitor_canary_verdicts_total"

_RECORDS = (
    record(_MOVED, f'sum {_BY} (increase({_VERDICTS}{{agreement=~"stricter|milder"}}[{_SPAN}]))'),
    record(_JUDGED, f'sum {_BY} (increase({_VERDICTS}{{agreement!="unscored"}}[{_SPAN}]))'),
    record(_LOWER, lower_limit_of_counts(_MOVED, f"clamp_min({_JUDGED} - {_MOVED}, 0)", Z)),
    record(_TOLERANCE, f"max {_BY} (ragmonitor_canary_tolerance_ratio)"),
)
_EXPRESSION = (
    f"{_LOWER} > {_ON} {_TOLERANCE}\nand {_ON}\n"
    f"sum {_BY} (increase(ragmonitor_canary_runs_total[{_SPAN}])) > {AT_LEAST - 0.5:g}"
)


def _description() -> str:
    number = 'printf "%.0f"'

    def moved(agreement: str) -> str:
        series = f'{_VERDICTS}{{evaluator=%q,version=%q,agreement="{agreement}"}}'
        return lookup_expression(f"sum(increase({series}[{_SPAN}]))", ("evaluator", "version"), number)

    return (
        f"{lookup(_MOVED, number)} of {lookup(_JUDGED, number)} canary verdicts of {{{{ $labels.evaluator }}}} in the"
        f" last {_SPAN} differ from the baseline (at least {{{{ $value | humanizePercentage }}}}; up to"
        f" {lookup(_TOLERANCE, 'humanizePercentage')} is noise): {moved('stricter')} stricter, {moved('milder')} more"
        " lenient."
    )


_RUN_EVERY: Final = 8 * HOUR
_CASES: Final = 24
_OF: Final = {"evaluator": "any", "version": "1+aa"}


def _tests() -> Iterator[Test]:
    """Yield tests with six runs of a steady judge, then three that may differ."""
    steady = [0] * 6
    fires = {**_OF, "severity": "warning"}
    restart, replica_gone = 7 * _RUN_EVERY - HOUR, 5 * _RUN_EVERY
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("five of 24 cases move: fires", _known(_runs([*steady, 5, 5, 5])), True),
        ("five move, after a restart: fires", _known(_runs([*steady, 5, 5, 5], reset_at=restart)), True),
        ("five move, one replica gone: fires", _known(_runs([*steady, 5, 5, 5], gone_at=replica_gone)), True),
        ("two move: silent", _known(_runs([*steady, 2, 2, 2])), False),
        ("two move, after a restart: silent", _known(_runs([*steady, 2, 2, 2], reset_at=restart)), False),
        ("two move, one replica gone: silent", _known(_runs([*steady, 2, 2, 2], gone_at=replica_gone)), False),
        ("many move, but in a single run: silent", _known(_runs([*[None] * 8, 12], replicas=REPLICAS[:1])), False),
        ("no verdicts: silent", _known(_runs([*steady, 5, 5, 5], agreement="unscored")), False),
        ("no process uses that version any more: silent", _runs([*steady, 5, 5, 5]), False),
        ("no data: silent", [], False),
    )
    for name, series, expected in cases:
        checks = [
            expect_firing(NAME, 6 * _RUN_EVERY),
            expect_firing(NAME, 9 * _RUN_EVERY, *([fires] if expected else [])),
        ]
        yield promtool_test(f"{NAME}: {name}", series, checks)


def _runs(
    moved: Sequence[int | None],
    *,
    agreement: str = "stricter",
    replicas: Sequence[str] = REPLICAS,
    reset_at: int | None = None,
    gone_at: int | None = None,
) -> list[Series]:
    """Make the counters of each replica; `moved` is the number of verdicts that moved in each run, None for no run.

    Both restart at the minute `reset_at`; the second replica is gone from `gone_at` on.
    """
    ran = [one is not None for one in moved]
    kept = [0 if one is None else _CASES - one for one in moved]
    found = []
    for replica in replicas:
        until = gone_at if replica == REPLICAS[-1] else None

        def counter(metric: str, labels: Mapping[str, str], each: Sequence[int], until: int | None = until) -> Series:
            pieces = [piece for number in each for piece in ((STEP, float(number)), (_RUN_EVERY - STEP, 0.0))]
            return input_series(metric, labels, counter_values(pieces, reset_at=reset_at, until=until))

        of = {**_OF, "instance": replica}
        found += [
            counter(_VERDICTS, {**of, "agreement": agreement}, [one or 0 for one in moved]),
            counter(_VERDICTS, {**of, "agreement": "same"}, kept),
            counter("ragmonitor_canary_runs_total", of, ran),
        ]
    return found


def _known(runs: list[Series]) -> list[Series]:
    """Add a baseline in some process to `runs`."""
    return [*gauge_series("ragmonitor_canary_tolerance_ratio", _OF, 0.07, 9 * _RUN_EVERY), *runs]


ALERT = SelfAlert(
    name=NAME,
    summary="Judge verdicts on the canary set have drifted from the baseline.",
    condition=JudgeDrift,
    records=_RECORDS,
    rules=(PrometheusRule(_EXPRESSION, _description()),),
    keep_firing_for=3600.0,
    tests=_tests,
)
