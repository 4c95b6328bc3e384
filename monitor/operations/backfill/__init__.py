"""Backfill: evaluating past traffic, by the running monitor or in this process.

traffic (past cases) -> selection (which evaluations are due) -> run (into the queue, and through it)
"""

from monitor.jobs.backfill.cases import BackfillOrigin

__all__ = ["BackfillOrigin"]
