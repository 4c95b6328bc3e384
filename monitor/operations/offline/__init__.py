"""Scoring without a running monitor, without sampling: cases of a Python program, or recorded requests in files.

`evaluate` is for Python programs. `evaluate_files` reads the requests (`files`) and keeps the results (`results_file`).
Both score with `scoring` and sum up with `summary`.
"""
