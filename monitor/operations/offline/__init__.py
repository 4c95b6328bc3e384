"""Scoring without a running monitor: cases that are read from files, by the evaluators and rules of a configuration.

files (recorded requests) -> scoring (cases to results) -> evaluate (a summary for each evaluator)
"""
