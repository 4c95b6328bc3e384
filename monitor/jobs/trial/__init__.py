"""Trials: one evaluator on one case, several times, without any effect on the live pipeline."""
