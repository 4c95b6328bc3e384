"""The contracts of samplers: the probability that a judged evaluator scores a case, and learning from the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, SupportsFloat

from monitor.model.case import Case
from monitor.model.outcome import RateScope, Score
from monitor.stages.component import Component, Runtime, type_name
from monitor.stages.judging import Evaluator


@dataclass(frozen=True, slots=True)
class SamplingDecision:
    """The `probability`, 0 to 1, with which a case is scored, and the figures behind it.

    `target` is the share of all cases that is scored at that time. `risk` is the sampler's estimate of the probability
    of a defect (None: it makes no estimate), `inputs` are the numbers about the case that it used, and `shift` is what
    it added to the log odds of a defect for other reasons. `thinned`: a cap has lowered the probability. `scope` is the
    scope of the result, unless the case determines it. `fault` is the reason why the sampler gave no probability: the
    evaluation is then unscored.
    """

    probability: float
    target: float
    risk: float | None = None
    inputs: tuple[float, ...] = ()
    thinned: bool = False
    shift: float = 0.0
    scope: RateScope | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """The parts of a result of an earlier process or another replica that samplers learn from.

    `result` is its id. `inputs` and `shift` are as in `SamplingDecision`; `inputs` is empty if the sampler used none.
    `emphasis` is the number of cases that it represents, relative to uniform sampling. `defect` is None unless it is a
    score of production traffic.
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
    """A sampler working for one evaluator. It is called on the event loop, so it takes microseconds and never waits.

    `adaptive`: the probability depends on more than the case. The pipeline then stores the first probability of each
    case, and a case that arrives again keeps it.
    """

    adaptive: bool

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:
        """Return the probability of `case`. `local` are the scores of local evaluators, by name.

        The pipeline multiplies the probability by `part` (0 < part <= 1), which is below 1 if the app's quota is nearly
        used up. A budget is then charged only that part.
        """
        ...

    def learn(self, case: Case, decision: SamplingDecision, *, defect: bool | None, dollars: float) -> None:
        """Learn from a case that was drawn and evaluated, at a cost of `dollars`. `defect` is None without a score.

        The cost includes replies without a verdict, a second judgement and a repeat. Not called for an evaluation that
        failed at no cost, as happens while the judge is down.
        """
        ...

    def learn_past(self, past: PastResult) -> None:
        """Learn from a result that another process got with an evaluator of this name and version."""
        ...


class Sampler(Component, ABC):
    """Decides how likely a case is to be scored. The pipeline then draws, by a hash of the trace id."""

    @property
    def sees(self) -> str:
        """The local evaluator whose scores it uses, which must be configured. Empty: none."""
        return ""

    @abstractmethod
    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:
        """Start sampling for `evaluator`. The returned object holds what it learns."""


class FixedSampler(Sampler):
    """A sampler that uses nothing but the case: a case always has the same probability, in every replica."""

    @abstractmethod
    def probability(self, case: Case) -> float:
        """Return the probability, 0 <= p <= 1, with which `case` is sampled."""

    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:  # noqa: ARG002 - the contract's signature
        """Start sampling by `probability`; the returned object learns nothing."""
        return _Fixed(self)


def probability_of(sampler: FixedSampler, case: Case) -> tuple[float, str]:
    """Return the probability of a case and, if the sampler fails, the reason (else empty).

    If it fails, the probability is 1: the case is counted as one that could not be evaluated, and no rate is distorted.
    """
    try:
        given = sampler.probability(case)
        if (type(given) is float or isinstance(given, SupportsFloat)) and 0 <= (found := float(given)) <= 1:
            return found, ""
        wrong = str(given) if isinstance(given, int | float) else f"an object of type {type(given).__name__}"
        return 1.0, f"the sampler {type_name(sampler)} gave {wrong:.40}, not a number from 0 to 1"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in's sampler may fail in any way
        return 1.0, f"the sampler {type_name(sampler)} raised {type(error).__name__}"


class _Fixed:
    adaptive = False

    def __init__(self, sampler: FixedSampler) -> None:
        self._sampler = sampler

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:  # noqa: ARG002 - as above
        probability, fault = probability_of(self._sampler, case)
        return SamplingDecision(probability, probability, fault=fault)

    def learn(self, case: Case, decision: SamplingDecision, *, defect: bool | None, dollars: float) -> None:
        pass

    def learn_past(self, past: PastResult) -> None:
        pass
