"""Tests of `monitor/operations/labels`."""
