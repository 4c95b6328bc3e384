"""Feedback on its way to results: `names` finds the external evaluator, `processor` does the work.

`boost` finds the case of a score, and does what a thumbs-down sets off.
"""
