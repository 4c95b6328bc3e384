"""Tests of `RagJudgeDrifted` for promtool: what two replicas export of their runs, three a day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from monitor.alerts.prometheus.promtool import (
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
from monitor.alerts.trouble import DRIFTED

_HOUR = 60  # minutes
_EVERY = 8 * _HOUR
_CASES = 24
_TOLERANCE = 0.07
_OF = {"evaluator": "any", "version": "1+aa"}


def drifted() -> Iterator[Test]:
    """Six runs of a judge that is as it was, then three that are looked at."""
    steady = [0] * 6
    fires = {**_OF, "severity": "warning"}
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("five of 24 cases move: fires", _known(_runs([*steady, 5, 5, 5])), True),
        ("five move, after a restart: fires", _known(_runs([*steady, 5, 5, 5], reset_at=7 * _EVERY - _HOUR)), True),
        ("five move, one replica gone: fires", _known(_runs([*steady, 5, 5, 5], gone_at=5 * _EVERY)), True),
        ("two move: silent", _known(_runs([*steady, 2, 2, 2])), False),
        ("two move, after a restart: silent", _known(_runs([*steady, 2, 2, 2], reset_at=7 * _EVERY - _HOUR)), False),
        ("two move, one replica gone: silent", _known(_runs([*steady, 2, 2, 2], gone_at=5 * _EVERY)), False),
        (
            "many move, but there is one run only: silent",
            _known(_runs([*[None] * 8, 12], replicas=REPLICAS[:1])),
            False,
        ),
        ("no verdicts come: silent", _known(_runs([*steady, 5, 5, 5], agreement="unscored")), False),
        ("nobody runs that version any more: silent", _runs([*steady, 5, 5, 5]), False),
        ("no data: silent", [], False),
    )
    for name, series, expected in cases:
        checks = [
            expect_firing(DRIFTED.name, 6 * _EVERY),
            expect_firing(DRIFTED.name, 9 * _EVERY, *([fires] if expected else [])),
        ]
        yield promtool_test(f"{DRIFTED.name}: {name}", series, checks)


def _runs(
    moved: Sequence[int | None],
    *,
    agreement: str = "stricter",
    replicas: Sequence[str] = REPLICAS,
    reset_at: int | None = None,
    gone_at: int | None = None,
) -> list[Series]:
    """Run after run of each replica, of which so many verdicts moved; None: no run takes place.

    Both restart at the minute `reset_at`; the second replica is gone from `gone_at` on.
    """
    ran = [one is not None for one in moved]
    kept = [0 if one is None else _CASES - one for one in moved]
    found = []
    for replica in replicas:
        until = gone_at if replica == REPLICAS[-1] else None

        def counter(metric: str, labels: Mapping[str, str], each: Sequence[int], until: int | None = until) -> Series:
            pieces = [piece for number in each for piece in ((STEP, float(number)), (_EVERY - STEP, 0.0))]
            return input_series(metric, labels, counter_values(pieces, reset_at=reset_at, until=until))

        of = {**_OF, "instance": replica}
        verdicts = "ragmonitor_canary_verdicts_total"
        found += [
            counter(verdicts, {**of, "agreement": agreement}, [one or 0 for one in moved]),
            counter(verdicts, {**of, "agreement": "same"}, kept),
            counter("ragmonitor_canary_runs_total", of, ran),
        ]
    return found


def _known(runs: list[Series]) -> list[Series]:
    """The same where some process has a reference."""
    return [*gauge_series("ragmonitor_canary_tolerance_ratio", _OF, _TOLERANCE, 9 * _EVERY), *runs]
