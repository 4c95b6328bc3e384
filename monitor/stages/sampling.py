"""How likely a case is to be judged, and what a sampler learns from verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from monitor.model.case import Case
from monitor.model.outcome import RateScope, Score
from monitor.stages.component import Component, Runtime
from monitor.stages.judging import Evaluator


@dataclass(frozen=True, slots=True)
class SamplingDecision:
    """With which `probability` a case is judged, 0 to 1, and how that came about.

    `target` is the share of all cases that is judged at that time, `risk` the probability of a defect as the sampler
    sees it (None: it does not), `inputs` what it saw, `shift` what was added to the log odds of a defect for what is
    known besides. `thinned`: a cap has lowered the probability. `scope` is that of the result, where the case does
    not decide it.
    """

    probability: float
    target: float
    risk: float | None = None
    inputs: tuple[float, ...] = ()
    thinned: bool = False
    shift: float = 0.0
    scope: RateScope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """A result of an earlier process, or of another replica, as far as it teaches: what `Sampling.learn` was told then.

    `result` is its id. `inputs` and `shift` are as in `SamplingDecision`, no inputs where the sampler saw nothing;
    `emphasis` is how many cases it stands for, relative to an even draw; `defect` is None where it is no score of
    production traffic.
    """

    result: str
    app: str
    evaluator: str
    version: str
    inputs: tuple[float, ...] = ()
    shift: float = 0.0
    emphasis: float = 1.0
    defect: bool | None = None
    dollars: float = 0.0


class Sampling(Protocol):
    """A sampler at work for one evaluator. Called on the event loop: microseconds, no waiting.

    `adaptive` says that a probability depends on more than the case: then the pipeline stores the first one of each
    case, and a case that comes again keeps it.
    """

    adaptive: bool

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:
        """The probability of `case`, of which `local` are the scores of the local evaluators, by name.

        Of it only `part`, above 0 to 1, will be used, since the app's quota is nearly spent: the pipeline multiplies,
        and a budget is spent on so much of a case.
        """
        ...

    def learn(self, case: Case, drawn: SamplingDecision, *, defect: bool | None, dollars: float) -> None:
        """A case that was drawn has been judged, for `dollars`; `defect` is None where no verdict came about."""
        ...

    def recall(self, lesson: PastResult) -> None:
        """The same of a case that another process has judged, with an evaluator of this name and version."""
        ...


class Sampler(Component, ABC):
    """Decides how likely a case is to be judged. The pipeline draws, by a hash of the trace id."""

    @property
    def sees(self) -> str:
        """The local evaluator whose scores it goes by: it must be configured. Empty: none."""
        return ""

    @abstractmethod
    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:
        """Begin to sample for `evaluator`. What is learned lives in what is returned."""


class FixedSampler(Sampler):
    """A sampler that goes by the case alone: the same case has the same probability, always and everywhere."""

    @abstractmethod
    def probability(self, case: Case) -> float:
        """The probability, 0 <= p <= 1, with which `case` is chosen."""

    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:  # noqa: ARG002 - the contract's signature
        """Nothing to learn, nothing to keep."""
        return _Fixed(self.probability)


class _Fixed:
    adaptive = False

    def __init__(self, probability: Callable[[Case], float]) -> None:
        self._probability = probability

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:  # noqa: ARG002 - as above
        probability = self._probability(case)
        return SamplingDecision(probability, probability)

    def learn(self, case: Case, drawn: SamplingDecision, *, defect: bool | None, dollars: float) -> None:
        pass

    def recall(self, lesson: PastResult) -> None:
        pass
