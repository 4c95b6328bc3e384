"""Evaluates as many cases per day as a budget allows, all with the same probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field, model_validator

from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.stages import Evaluator, PastResult, Runtime, Sampler, Sampling, SamplingDecision
from monitor.stages.kept_state import StateValue
from monitor.statistics.budget_pacer import CAP, BudgetPacer

HOURS: Final = 24.0
_VERDICTS = 200.0  # time constant of the mean price, in results
_FIRST_VERDICTS = 20.0  # the weight of the first guess of the price
_CHEAPEST = 1e-6


class Budgeted(Sampler):
    """A sampler whose share of cases follows from a budget. Exactly one of the three budgets is set."""

    per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False, examples=[1000])
    """Evaluations per day, spread in proportion to the traffic. Replicas that share a Kafka source split this budget in
    proportion to their partitions; otherwise it applies to each process."""

    per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The same budget as a mean per hour: 500 means 12,000 per day. It is not a limit; that is `max_per_hour`."""

    dollars_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars per day, converted to evaluations by the mean cost of about the last 200, including failed ones,
    second judgements and repeats."""

    max_per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Maximum expected evaluations in any hour; a sixth more after a quiet time. Default: four times the mean per hour.
    """

    dollars_per_evaluation: float = Field(default=0.002, gt=0, allow_inf_nan=False)
    """With `dollars_per_day`: the assumed cost of an evaluation until some have been made."""

    @model_validator(mode="after")
    def _one_budget(self) -> Budgeted:
        given = [name for name in ("per_day", "per_hour", "dollars_per_day") if getattr(self, name) is not None]
        if len(given) != 1:
            said = f"not {' and '.join(given)}" if given else "none is given"
            raise ValueError(f"needs one of per_day, per_hour and dollars_per_day; {said}")
        if self.dollars_per_day is None and self.max_per_hour is not None and self.max_per_hour < self.mean_hour():
            cap, mean = f"{self.max_per_hour:g}", f"{self.mean_hour():g}"
            raise ValueError(f"max_per_hour: {cap} is less than the mean hour of the budget, {mean}")
        return self

    def mean_hour(self) -> float:
        """Return the mean evaluations per hour, computed with the assumed price."""
        if self.per_hour is not None:
            return self.per_hour
        return (self.per_day or (self.dollars_per_day or 0.0) / self.dollars_per_evaluation) / HOURS


class SamplingBudget:
    """Spends this process's share of a budget: a pacer and, for a budget in dollars, the price of an evaluation.

    If the share changes, the traffic changes in proportion. The pacer is then scaled, so that the same share of cases
    is evaluated before and after.
    """

    def __init__(self, options: Budgeted, evaluator: str, runtime: Runtime) -> None:
        self._options = options
        self._price, self._priced = options.dollars_per_evaluation, _FIRST_VERDICTS
        self._clock = runtime.clock
        self._drawn = False  # since the state was stored
        self._group = runtime.share
        self._share = runtime.share.of_budget
        mean = options.mean_hour() * self._share
        cap = options.max_per_hour * self._share if options.max_per_hour is not None else CAP * mean
        self._pacer = BudgetPacer(mean * HOURS, cap, runtime.clock.monotonic())
        name = f"pacer of {evaluator}"
        self._known: StateValue = runtime.kept.load(name) or {}
        self._restore(self._known)
        runtime.kept.follow(name, self._state)
        metrics = runtime.metrics
        metrics.sampling_bucket.labels(evaluator).set_function(lambda: self._pacer.level)
        metrics.sampling_bucket_limit.labels(evaluator).set_function(lambda: self._pacer.size)

    def draw(
        self,
        risk: float | None,
        inputs: tuple[float, ...] = (),
        *,
        shift: float = 0.0,
        part: float = 1.0,
    ) -> SamplingDecision:
        """Return the probability of a case that has just arrived.

        `risk` and `part` are as in `BudgetPacer.draw`, the rest as in `SamplingDecision`.
        """
        share = self._group.of_budget
        if share != self._share:
            self._pacer.scale(share / self._share)
            self._share = share
        self._drawn = True
        paced = self._pacer.draw(risk, self._clock.monotonic(), part)
        return SamplingDecision(paced.probability, paced.target, risk, inputs, paced.thinned, shift)

    def _state(self) -> StateValue:
        """Return the state that a restart continues from."""
        if self._drawn:
            self._drawn = False
            pacer = self._pacer.state(self._clock.monotonic())
            own = {"at": self._clock.now(), "share": self._share, "price": self._price, "priced": self._priced}
            self._known = {**own, "pacer": pacer}
        return self._known

    def _restore(self, found: StateValue) -> None:
        """Continue where the previous process ended; without its state, or if it cannot be read, start over."""
        match found:
            case {
                "at": int() | float() as at,
                "share": int() | float() as share,
                "price": int() | float() as price,
                "priced": int() | float() as priced,
                "pacer": dict(pacer),
            } if share > 0 and price >= 0 and 0 < priced <= _VERDICTS:
                away = max(self._clock.now() - at, 0.0)
                if self._options.dollars_per_day is not None:
                    self._price, self._priced = price, priced
                    self._follow_price()
                self._pacer.restore(pacer, self._clock.monotonic(), away, self._share / share)

    def paid(self, dollars: float) -> None:
        """Update the price with the cost of one evaluation."""
        options = self._options
        if options.dollars_per_day is None:
            return
        self._priced = min(self._priced + 1, _VERDICTS)
        self._price += (dollars - self._price) / self._priced
        self._follow_price()

    def _follow_price(self) -> None:
        options = self._options
        per_day = (options.dollars_per_day or 0.0) / max(self._price, _CHEAPEST)
        self._pacer.per_day = per_day * self._share
        self._pacer.per_hour = (options.max_per_hour or CAP * per_day / HOURS) * self._share


class BudgetSampler(Budgeted):
    """A budget of evaluations or dollars per day. The share follows from the traffic and is the same for all cases."""

    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:
        """Start with a share of 10 %. After an hour it follows the traffic."""
        return _Spending(self, evaluator, runtime)


class _Spending:
    adaptive = True

    def __init__(self, options: BudgetSampler, evaluator: Evaluator, runtime: Runtime) -> None:
        self._budget = SamplingBudget(options, evaluator.name, runtime)

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:  # noqa: ARG002 - the contract's
        return self._budget.draw(None, part=part)

    def learn(self, case: Case, decision: SamplingDecision, *, defect: bool | None, dollars: float) -> None:  # noqa: ARG002 - as above
        self._budget.paid(dollars)

    def learn_past(self, past: PastResult) -> None:
        self._budget.paid(past.dollars)
