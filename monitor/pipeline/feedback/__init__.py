"""Turns feedback into results: `names` finds the external evaluator, `processor` does the work.

`boost` finds the case of a score, and handles the consequences of a thumbs-down.
"""
