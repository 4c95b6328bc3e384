"""Every contract of the pipeline, imported from here: Source, Convention, Sampler, Evaluator, Judge, Sink.

    Source -> Intake -> (spool, assembly) -> Convention -> Sampler -> Evaluator (asks a Judge) -> Sink

Authors write the step; the pipeline counts, times, catches exceptions and delivers. A component is a frozen pydantic
model whose fields are its options in the configuration. It has no state: anything that outlives a call is a local
variable of `run` or `open`. A new component is one file, named after its `type`, in the folder of its stage.
Plug-ins import these contracts from `monitor.plugins`.
"""

from __future__ import annotations

from monitor.stages.component import Component, Runtime, named, remember_type, type_name
from monitor.stages.incoming import Accepted, Convention, Intake, Observation, Source
from monitor.stages.judging import Evaluator, Judge, Measures, Needs, Prompt, Question, Verdict
from monitor.stages.outgoing import Deliver, Sink
from monitor.stages.sampling import FixedSampler, PastResult, Sampler, Sampling, SamplingDecision, probability_of

__all__ = [
    "Accepted",
    "Component",
    "Convention",
    "Deliver",
    "Evaluator",
    "FixedSampler",
    "Intake",
    "Judge",
    "Measures",
    "Needs",
    "Observation",
    "PastResult",
    "Prompt",
    "Question",
    "Runtime",
    "Sampler",
    "Sampling",
    "SamplingDecision",
    "Sink",
    "Source",
    "Verdict",
    "named",
    "probability_of",
    "remember_type",
    "type_name",
]
