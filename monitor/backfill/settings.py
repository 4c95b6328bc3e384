"""The options under `backfill:` in the configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from monitor.judge.settings import Budget
from monitor.quantities import Duration, Size
from monitor.stages import Component


class BackfillSettings(Component):
    """Judging afterwards: what was missed while a judge refused, and what `rag-monitor backfill` asks for."""

    retention: Annotated[Duration, Field(ge=0)] = 86_400.0
    """How long a judgement that was missed waits for somebody to ask for it, and one that was asked for waits to be
    made; then it is given up, and counted. `0s`: what is missed is not kept, and no case is written to the queue."""

    max_size: Annotated[Size, Field(gt=0)] = 256 * 1024**2
    """What the cases that wait may take on disk, compressed, their texts among them. Beyond it those that were missed
    longest ago make room, counted; what was asked for stays, and no more can be asked for until some of it is done."""

    budget: Budget = Budget(evaluations_per_day=2_000, requests_per_minute=30)
    """What judging afterwards may cost, for each judge: apart from `judge.budget`, of which it takes nothing, so that
    both together are what a day may cost. What does not fit any more waits for the next period. Where any of it is
    given, only that holds."""
