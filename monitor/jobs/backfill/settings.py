"""The options under `backfill:` in the configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from monitor.judge.settings import Budget
from monitor.quantities import Duration, Size
from monitor.stages import Component


class BackfillSettings(Component):
    """Evaluations that were missed while a judge was unavailable, and those that `rag-monitor backfill` requests."""

    retention: Annotated[Duration, Field(ge=0)] = 86_400.0
    """How long a missed evaluation waits to be requested, and a requested one to be made; then it expires, counted.
    `0s`: missed evaluations are not kept, and no case is written to the queue."""

    max_size: Annotated[Size, Field(gt=0)] = 256 * 1024**2
    """Bytes on disk of the waiting cases with their texts, compressed. Beyond it the oldest missed ones are dropped and
    counted; requested ones stay, and no more can be requested until some are done."""

    budget: Budget = Budget(evaluations_per_day=2_000, requests_per_minute=30)
    """The budget of backfill, for each judge, beside `judge.budget`: both together are what a day may cost. What does
    not fit waits for the next period. Once one of these limits is set, the defaults of the others are off."""
