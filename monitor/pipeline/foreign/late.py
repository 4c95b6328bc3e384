"""Verdicts of others on spans that come when their trace is closed: they need not have been in it to be true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.errors import InvalidData
from monitor.foreign import telemetry
from monitor.model.foreign import ForeignVerdict
from monitor.model.span import Part
from monitor.otlp import decode


def read(trace_id: bytes, parts: Sequence[Part], probability: float) -> list[ForeignVerdict]:
    """What `parts` of a closed trace, kept with `probability`, say; what holds no verdict is not decoded."""
    found: list[ForeignVerdict] = []
    for part in parts:
        if part.signal != "traces" or not any(mark in part.encoded for mark in telemetry.MARKS):
            continue
        try:
            span = decode.span(trace_id, part)
        except InvalidData:
            continue  # intake has checked it; a verdict that cannot be read must not cost the delivery
        found += (replace(one, probability=probability) for one in telemetry.of_late(span))
    return found
