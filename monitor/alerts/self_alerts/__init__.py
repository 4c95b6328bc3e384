"""Alerts on the monitor itself: whether evaluations take place, produce scores, and do so in time. One file each.

A file defines one `SelfAlert` (`alerts/self_alert.py`); that is all it takes, besides a runbook of the alert's name.
"""
