"""Weighted rates and their limits: pure functions."""
