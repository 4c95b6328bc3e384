"""The rules by which the running monitor admits requests, for requests that are at hand."""

from __future__ import annotations

from dataclasses import replace

from monitor.config import Config
from monitor.model.case import Reading
from monitor.pipeline.ledger import TraceOutcome
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Runtime
from monitor.statistics import consistent_sampling


class LiveRules:
    """Head sampling and the rules of `traffic`, as the pipeline applies them."""

    def __init__(self, config: Config) -> None:
        self._rate = config.sampling.traces
        self._rules = TrafficRules(config.traffic, config.sampling.salt, Runtime.standalone())

    def admit(self, reading: Reading, trace_state: str = "") -> Reading | TraceOutcome:
        """Decide on a request that has not been sampled yet; return it with its probability, or why it is left out.

        `trace_state` is the tracestate of its trace, which names the probability of samplers upstream.
        """
        sampling_id = consistent_sampling.sampling_id(reading.case.request_id)
        kept, probability = consistent_sampling.keep(sampling_id, trace_state, self._rate)
        if not kept:
            return TraceOutcome.SAMPLED_OUT
        return self.sort(replace(reading, case=replace(reading.case, probability=probability)))

    def sort(self, reading: Reading) -> Reading | TraceOutcome:
        """Apply the rules of `traffic` alone: to a request that head sampling has kept."""
        return self._rules.sort(reading)
