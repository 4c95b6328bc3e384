"""The rules by which the running monitor admits requests, applied to recorded requests."""

from __future__ import annotations

from dataclasses import replace

from monitor.config import Config
from monitor.model.case import Reading, TraceReading
from monitor.pipeline.ledger import RequestOutcome
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling


class LiveRules:
    """Head sampling and the rules of `traffic`, as the pipeline applies them."""

    def __init__(self, config: Config) -> None:
        self._rate = config.sampling.traces
        self._rules = TrafficRules(config.traffic, config.sampling.salt, Runtime.standalone())

    def admit(self, found: TraceReading, request_id: str, trace_state: str = "") -> list[Reading | RequestOutcome]:
        """Decide on the requests of a trace or row that has not been sampled yet.

        Returns each with its probability, or why it is left out. `request_id` is the id of the trace or row,
        `trace_state` the tracestate of the trace, which names the probability of samplers upstream.
        """
        kept, probability = consistent_sampling.keep(
            consistent_sampling.sampling_id(request_id), trace_state, self._rate
        )
        if not kept:
            return [RequestOutcome.SAMPLED_OUT for _ in found.readings]
        cases = (replace(one, case=replace(one.case, probability=probability)) for one in found.readings)
        return [self.sort(one) for one in cases]

    def sort(self, reading: Reading) -> Reading | RequestOutcome:
        """Apply only the rules of `traffic`, to a request that head sampling has kept."""
        return self._rules.sort(reading)
