"""Judging afterwards: what was missed while a judge refused, and what somebody asks for by hand.

    missed, asked for  ->  queue on disk  ->  worker, behind all live judgements  ->  history and sinks, as `backfill`

What comes of it stands apart: in series of its own (`ragmonitor_backfill_*`), in no rate, window or alert, and in
nothing that samplers learn from. It has its own budget.
"""

from monitor.backfill.settings import BackfillSettings

__all__ = ["BackfillSettings"]
