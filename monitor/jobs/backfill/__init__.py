"""Backfill: evaluations that were missed while a judge was unavailable, and those that a person requests.

    missed, requested  ->  queue on disk  ->  worker, behind all live evaluations  ->  history and sinks, as `backfill`

Its results are kept apart: they have series of their own (`ragmonitor_backfill_*`), count in no rate, window or alert,
and samplers do not learn from them. Backfill has its own budget.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from monitor.judge.settings import Budget
from monitor.quantities import Duration, Size
from monitor.stages import Component


class BackfillSettings(Component):
    """Evaluations missed while a judge was unavailable, and those requested with `rag-monitor backfill`."""

    retention: Annotated[Duration, Field(ge=0)] = 86_400.0
    """How long a missed evaluation may wait to be requested, and a requested one may wait to run. After that it is
    counted as expired. `0s`: do not keep missed evaluations."""

    max_size: Annotated[Size, Field(gt=0)] = 256 * 1024**2
    """Maximum disk space for waiting cases, compressed, with their texts. Above it the oldest missed ones are dropped
    and counted. Requested ones are kept, but no more can be requested until some have run."""

    budget: Budget = Budget(evaluations_per_day=2_000, requests_per_minute=30)
    """Budget of backfill for each judge, in addition to `judge.budget`: together they limit the cost of a day.
    Evaluations beyond it wait for the next period. Setting any of these limits removes the other defaults."""
