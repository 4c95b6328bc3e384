"""Backfill: evaluations that were missed while a judge was unavailable, and those that a person requests.

    missed, requested  ->  queue on disk  ->  worker, behind all live evaluations  ->  history and sinks, as `backfill`

Its results are kept apart: in series of their own (`ragmonitor_backfill_*`), in no rate, window or alert, and samplers
do not learn from them. It has its own budget.
"""

from monitor.jobs.backfill.settings import BackfillSettings

__all__ = ["BackfillSettings"]
