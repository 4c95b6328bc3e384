"""Whether the rates can be trusted, in PromQL: evaluations take place, come to verdicts, and do so in time."""

from __future__ import annotations

from monitor.alerts import trouble
from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.canary import canary
from monitor.alerts.prometheus.format import PAIR, Rule, alert, record, wording
from monitor.alerts.trouble import (
    BUDGET,
    BUDGET_WITHIN,
    LAG,
    LAG_ABOVE,
    MISSING,
    MISSING_AT_LEAST,
    PAUSED,
    UNSCORED,
    UNSCORED_ABOVE,
    Trouble,
)
from monitor.quantities import format_duration

_WARNING = {"severity": Severity.WARNING.value}
_JUDGED, _RECEIVED = f"{PAIR}evaluations:increase1h", "app:ragmonitor_traces_received:increase1h"
_UNSCORED, _UNSCORED_RATIO = f"{PAIR}unscored:increase1h", f"{PAIR}unscored_ratio:rate1h"

_NOT_OF_OTHERS = 'unless on (evaluator)\nmax_over_time(ragmonitor_evaluator_info{source!~"own|"}[3d])'
"""That others give no verdicts, or none that can be read, is no trouble of ours."""


def health(runbooks: str) -> list[Rule]:
    """The rules of one group. Whether anybody evaluates is asked of an app and evaluator, whatever the version."""
    rules = [
        record(_JUDGED, "sum by (app, evaluator) (increase(ragmonitor_evaluations_total[1h]))"),
        record(_RECEIVED, "sum by (app) (increase(ragmonitor_traces_received_total[1h]))"),
        record(_UNSCORED, 'sum by (app, evaluator) (increase(ragmonitor_unscored_total{reason!="budget"}[1h]))'),
        record(_UNSCORED_RATIO, f"{_UNSCORED} / ({_UNSCORED} + {_JUDGED} > 0)"),
    ]
    return [
        *rules,
        _missing(runbooks),
        *(_unscored(severity, above, runbooks) for severity, above in UNSCORED_ABOVE.items()),
        _budget(runbooks),
        _paused(runbooks),
        _lag(runbooks),
        *canary(runbooks),
    ]


def _missing(runbooks: str) -> Rule:
    return alert(
        MISSING.name,
        expr=(
            f"avg_over_time({_JUDGED}[3d])\n* on (app) group_left ()\n"
            f"({_RECEIVED} / (avg_over_time({_RECEIVED}[3d]) > 0))\n"
            f"> {MISSING_AT_LEAST}\nunless on (app, evaluator)\n{_JUDGED} > 0\n{_NOT_OF_OTHERS}"
        ),
        pending_for=600,
        labels=_WARNING,
        texts=_texts(
            MISSING,
            "{{ $labels.evaluator }} judged no answer of {{ $labels.app }} in the last hour; by its traffic and by"
            ' the last three days about {{ $value | printf "%.0f" }} were due.',
            runbooks,
        ),
    )


def _unscored(severity: Severity, above: float, runbooks: str) -> Rule:
    z = f"{trouble.UNSCORED_Z:g}"
    surely = f"clamp_min(1 - 1 / (9 * ({_UNSCORED} > 0)) - {z} / (3 * sqrt({_UNSCORED} > 0)), 0) ^ 3"
    return alert(
        UNSCORED.name,
        expr=f"{_UNSCORED_RATIO}\n* {surely}\n> {above:g}\n{_NOT_OF_OTHERS}",
        keep_firing_for=UNSCORED.hold,
        labels={"severity": severity.value},
        texts=_texts(
            UNSCORED,
            "At least {{ $value | humanizePercentage }} of the evaluations of {{ $labels.app }} by"
            " {{ $labels.evaluator }} in the last hour came to no verdict; ragmonitor_unscored_total says why.",
            runbooks,
        ),
    )


def _paused(runbooks: str) -> Rule:
    return alert(
        PAUSED.name,
        expr='max by (evaluator) (ragmonitor_evaluator_state{state="paused"}) > 0',
        labels=_WARNING,
        texts=_texts(
            PAUSED,
            "The judge of {{ $labels.evaluator }} is not asked: its provider refuses the key, wants to be paid or has"
            " no such model. The page and the log (judge_paused) say which, and what to do.",
            runbooks,
        ),
    )


def _budget(runbooks: str) -> Rule:
    within = format_duration(BUDGET_WITHIN)
    return alert(
        BUDGET.name,
        expr=f'sum by (evaluator) (increase(ragmonitor_unscored_total{{reason="budget"}}[{within}])) > 0',
        keep_firing_for=BUDGET.hold,
        labels=_WARNING,
        texts=_texts(
            BUDGET,
            'The budget of its judge left {{ $value | printf "%.0f" }} evaluations by {{ $labels.evaluator }} without a'
            f" verdict in the last {within}.",
            runbooks,
        ),
    )


def _lag(runbooks: str) -> Rule:
    return alert(
        LAG.name,
        expr=f"time() - min(ragmonitor_oldest_pending_timestamp_seconds > 0) > {LAG_ABOVE:g}",
        keep_firing_for=LAG.hold,
        labels=_WARNING,
        texts=_texts(
            LAG,
            "The oldest trace that is not yet done has waited for {{ $value | humanizeDuration }}; the limit is"
            f" {format_duration(LAG_ABOVE)}.",
            runbooks,
        ),
    )


def _texts(one: Trouble, description: str, runbooks: str) -> dict[str, str]:
    return wording(one.name, one.summary, description, runbooks)
