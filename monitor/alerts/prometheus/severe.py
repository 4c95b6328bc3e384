"""`RagSevereCase` in PromQL: the rule of `alerts/severe.py` over any number of replicas, and its promtool tests.

How many sessions within an hour it takes to page depends on how many sessions in 30 days were not called right; the
monitor exports the limits. The sessions of 30 days are sums of recorded whole hours, so the group must be evaluated at
least every five minutes, and Prometheus must keep 31 days.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.prometheus.promql import PAIR, Rule, alert, annotate, lookup, lookup_expression, record
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
from monitor.alerts.severe import NAME, SUMMARY
from monitor.statistics.severe_cases import MOST_SESSIONS, unexplained_limits

_CONFIRMED, _RIGHT = f"{PAIR}severe_confirmed", f"{PAIR}severe_called_right"
_UNEXPLAINED = f"{PAIR}severe_unexplained:increase30d"
_LIMIT = "app_evaluator_sessions:ragmonitor_severe_unexplained_limit_sessions:max"
_ON = "on (app, evaluator)"
_MONTH = "719h59m"  # 720 whole hours, even if a range includes its older end


def records() -> list[Rule]:
    """Record the sessions of the last hour, the last day and the 30 days before, and the limits."""
    by_pair = "sum by (app, evaluator)"
    confirmed, right = "ragmonitor_severe_confirmed_total", 'ragmonitor_severe_called_total{call="right"}'
    return [
        record(f"{_CONFIRMED}:increase1h", f"{by_pair} (increase({confirmed}[1h]))"),
        record(f"{_CONFIRMED}:increase1d", f"{by_pair} (increase({confirmed}[1d]))"),
        record(f"{_RIGHT}:increase1h", f"{by_pair} (increase({right}[1h]))"),
        record(
            _UNEXPLAINED,
            f"clamp_min(\n  sum_over_time({_CONFIRMED}:increase1h[{_MONTH}:1h] offset 1h)\n"
            f"  - {_ON}\n  sum_over_time({_RIGHT}:increase1h[{_MONTH}:1h]),\n  0\n)\nor\n{_CONFIRMED}:increase1h * 0",
        ),
        record(_LIMIT, "max by (app, evaluator, sessions) (ragmonitor_severe_unexplained_limit_sessions)"),
    ]


def alerts(runbooks: str) -> list[Rule]:
    """Return the page and the warning; they never fire together."""
    pages = "\n  or\n".join(
        f"  {_CONFIRMED}:increase1h > {sessions - 0.5:g}\n  and {_ON}\n"
        f'  {_UNEXPLAINED} <= {_ON} {_LIMIT}{{sessions="{sessions}"}} + 0.5'
        for sessions in range(1, MOST_SESSIONS + 1)
    )
    warns = (
        f"{_CONFIRMED}:increase1d > 0.5\nand {_ON}\n"
        f'{_UNEXPLAINED} > {_ON} {_LIMIT}{{sessions="1"}} + 0.5\nunless {_ON}\n(\n{pages}\n)'
    )
    page = _alert(Severity.CRITICAL, f"(\n{pages}\n)", "hour", runbooks)
    return [page, _alert(Severity.WARNING, warns, "day", runbooks)]


def _alert(severity: Severity, expr: str, span: str, runbooks: str) -> Rule:
    called = 'sum(increase(ragmonitor_severe_called_total{app=%q,evaluator=%q,call=~"CALL"}[30d]))'
    pair = ("app", "evaluator")
    number = 'printf "%.0f"'
    description = (
        "Sessions with an answer that {{ $labels.evaluator }} judged severe twice in {{ $labels.app }} within the last"
        f" {span}: {{{{ $value | {number} }}}}. In the 30 days before, "
        + lookup(_UNEXPLAINED, number)
        + " were not called right. Of those called right or wrong in 30 days, "
        + lookup_expression(called.replace("CALL", "right"), pair, number)
        + " of "
        + lookup_expression(called.replace("CALL", "right|wrong"), pair, number)
        + " were right."
    )
    return alert(
        NAME,
        expr=expr,
        labels={"severity": severity.value},
        texts=annotate(NAME, SUMMARY, description, runbooks),
    )


def tests(policies: Sequence[AlertPolicy]) -> Iterator[Test]:
    """Yield one test of the rule for each policy; each case is an app of its own."""
    for policy in policies:
        if policy.severe is not None:
            yield _test(policy, policy.severe.accepted)


def _test(policy: AlertPolicy, accepted: float) -> Test:
    """Make some days with single sessions, then an hour with one and an hour with as many as it then takes to page."""
    limits = unexplained_limits(accepted)
    earlier = int(min(limits[0], 3)) + 1 if limits[0] >= 0 else 1  # one too many for a single session to page
    single = (earlier + 2) * 4 * HOUR
    several, end = single + 8 * HOUR, single + 9 * HOUR
    needed = next(number for number, limit in enumerate(limits, 1) if earlier + 1 <= limit)
    before = [4 * HOUR * number for number in range(1, earlier + 1)]
    rises = {
        "alone": [single],
        "after others": [*before, single, *[several] * needed],
        "after others, called right": [*before, single],
        "after one less": [*before[:-1], single],
        "quiet": [],
    }
    series: list[Series] = []
    for app, minutes in rises.items():
        labels = {"app": app, "evaluator": policy.evaluator}
        series += _counter("ragmonitor_severe_confirmed_total", labels, minutes, end)
        right = [minute + HOUR for minute in before] if app.endswith("right") else []
        series += _counter("ragmonitor_severe_called_total", {**labels, "call": "right"}, right, end)
        for sessions, limit in enumerate(limits, 1):
            shown = {**labels, "sessions": str(sessions)}
            shown_limit = min(limit, 1e9)  # promtool reads no infinity
            series += gauge_series("ragmonitor_severe_unexplained_limit_sessions", shown, shown_limit, end)

    def fired(app: str, severity: Severity) -> dict[str, str]:
        return {"app": app, "evaluator": policy.evaluator, "severity": severity.value}

    others = ("alone", "after others, called right")
    at_first = Severity.CRITICAL if limits[0] >= 0 else Severity.WARNING
    first = fired("after others", Severity.CRITICAL if needed == 1 else Severity.WARNING)
    later = [fired(app, Severity.WARNING) for app in others if limits[0] < 1]  # now sessions of the day
    later += [fired("after one less", Severity.WARNING)] if limits[0] < earlier else []
    checks = [
        expect_firing(NAME, HOUR),
        expect_firing(NAME, single, first, *(fired(app, at_first) for app in (*others, "after one less"))),
        expect_firing(NAME, several, fired("after others", Severity.CRITICAL), *later),
    ]
    return promtool_test(f"{NAME} of {policy.evaluator}: pages and warns as the limits say", series, checks)


def _counter(metric: str, labels: dict[str, str], rises: Sequence[int], end: int) -> list[Series]:
    """Make the counter of a replica that rises by one some minutes before each of `rises`, and of an idle one."""
    last, pieces = 0, list[tuple[int, float]]()
    for minute in sorted(set(rises)):
        at = minute - 4 * STEP
        pieces += [(at - last - STEP, 0), (STEP, rises.count(minute))]
        last = at
    pieces.append((end - last, 0))
    busy, idle = ({**labels, "instance": replica} for replica in REPLICAS)
    return [
        input_series(metric, busy, counter_values(pieces)),
        input_series(metric, idle, counter_values([(end, 0)])),
    ]
