"""A tracer that records the monitor's own work, with its facts."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.telemetry.tracing import NO_FACTS, Fact, Kind, Tracer, Work


class Recorded(Work):
    """A recorded piece of work, and how often it was ended."""

    recorded = True

    def __init__(self, name: str, facts: Mapping[str, Fact]) -> None:
        self.name = name
        self.facts: dict[str, Fact] = dict(facts)
        self.of: list[tuple[str, str]] = []
        self.ended = 0

    def set(self, facts: Mapping[str, Fact]) -> None:
        self.facts.update(facts)

    def about(self, trace_id: str, span_id: str) -> None:
        self.of.append((trace_id, span_id))

    def end(self) -> None:
        self.ended += 1


class RecordingTracer(Tracer):
    """Records all work that is not part of other work."""

    def __init__(self) -> None:
        self.works: list[Recorded] = []

    def begin(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Recorded:
        self.works.append(Recorded(name, facts))
        return self.works[-1]

    whole = begin
