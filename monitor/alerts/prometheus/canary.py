"""`RagJudgeDrifted` in PromQL: whether more of the canary's verdicts have moved than noise explains.

The limit is that of `statistics/rates.py`, over the runs of the last day, by version: what another version says of the
set is nothing to compare with. A version that no process runs any more has no tolerance, so nothing fires for it.
"""

from __future__ import annotations

import json

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.format import Rule, alert, record, wording
from monitor.alerts.trouble import DRIFTED
from monitor.quantities import format_duration
from monitor.statistics.reference import AT_LEAST, WINDOW, Z

_SPAN = format_duration(WINDOW)
_LEVEL = "evaluator_version:ragmonitor_canary"
_MOVED, _JUDGED = f"{_LEVEL}_moved:increase{_SPAN}", f"{_LEVEL}_verdicts:increase{_SPAN}"
_LOWER, _TOLERANCE = f"{_LEVEL}_moved_ratio:lower{_SPAN}", f"{_LEVEL}_tolerance_ratio:max"
_BY, _ON = "by (evaluator, version)", "on (evaluator, version)"
_VERDICTS = "ragmonitor_canary_verdicts_total"


def canary(runbooks: str) -> list[Rule]:
    """What is recorded of the canary set, and the alert."""
    factor = f"1 - 1 / (9 * ({_MOVED} > 0)) - {Z:g} / (3 * sqrt({_MOVED} > 0))"
    return [
        record(_MOVED, f'sum {_BY} (increase({_VERDICTS}{{agreement=~"stricter|milder"}}[{_SPAN}]))'),
        record(_JUDGED, f'sum {_BY} (increase({_VERDICTS}{{agreement!="unscored"}}[{_SPAN}]))'),
        record(_LOWER, f"{_MOVED} / ({_JUDGED} > 0)\n* clamp_min({factor}, 0) ^ 3"),
        record(_TOLERANCE, f"max {_BY} (ragmonitor_canary_tolerance_ratio)"),
        alert(
            DRIFTED.name,
            expr=(
                f"{_LOWER} > {_ON} {_TOLERANCE}\nand {_ON}\n"
                f"sum {_BY} (increase(ragmonitor_canary_runs_total[{_SPAN}])) > {AT_LEAST - 0.5:g}"
            ),
            keep_firing_for=DRIFTED.hold,
            labels={"severity": Severity.WARNING.value},
            texts=wording(DRIFTED.name, DRIFTED.summary, _description(), runbooks),
        ),
    ]


def _description() -> str:
    number = 'printf "%.0f"'
    return (
        f"{_asked(_MOVED + _SAME, number)} of {_asked(_JUDGED + _SAME, number)} verdicts of {{{{ $labels.evaluator }}}}"
        f" on the canary set in the last {_SPAN} are not those of the reference (at least"
        " {{ $value | humanizePercentage }}; "
        f"{_asked(_TOLERANCE + _SAME, 'humanizePercentage')} may differ):"
        f" {_asked(_moved('stricter'), number)} stricter, {_asked(_moved('milder'), number)} milder."
    )


_SAME = "{evaluator=%q,version=%q}"


def _moved(agreement: str) -> str:
    return f'sum(increase({_VERDICTS}{{evaluator=%q,version=%q,agreement="{agreement}"}}[{_SPAN}]))'


def _asked(expression: str, shown_by: str) -> str:
    """A template that looks something else up of the same evaluator and version."""
    return (
        f"{{{{ with printf {json.dumps(expression)} $labels.evaluator $labels.version | query }}}}"
        f"{{{{ . | first | value | {shown_by} }}}}{{{{ else }}}}?{{{{ end }}}}"
    )
