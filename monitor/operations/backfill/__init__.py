"""Backfill: evaluating past traffic, by the running monitor or in this process.

traffic (past cases) -> selection (which evaluations are due) -> run (into the queue, and through it)
"""
