"""Evaluates more of the cases that are likely defects, by a small model that learns from the judge's own verdicts."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.samplers.budget import Budgeted, SamplingBudget
from monitor.stages import Evaluator, PastResult, Runtime, Sampling, SamplingDecision
from monitor.stages.kept_state import StateValue
from monitor.statistics.defect_model import INPUTS, DefectModel, are_inputs, inputs
from monitor.statistics.sampling_gain import DAYS, Watch
from monitor.statistics.verdict_learning import Learners, first_slopes
from monitor.telemetry.events import Event

_APPS = 200
_PAUSE = DAYS * 86400.0
_LOOK_EVERY = 50  # verdicts

_Marked = Annotated[str, Field(pattern=r"^[^=]+=.+$")]


class Boosted(Budgeted):
    """A budget: half of it is spread evenly, half goes to the cases that are probably defects.

    A model of ten numbers per app learns from verdicts which cases these are. Every case keeps a known probability of
    at least half of the mean and is weighted by its inverse, so rates stay unbiased. If boosting has done harm for a
    week, it is paused for a week.
    """

    boost: Literal["overlap_groundedness"] = "overlap_groundedness"
    """The local evaluator whose measures are the model's inputs. It must be listed in `evaluators`."""

    slope: float | None = Field(default=None, ge=-5, le=5)
    """How much one standard deviation of missing overlap raises the log odds of a defect, before the model has learned
    anything. Default: 1.2 for evaluators that measure grounding, 0 for all others."""

    odds: dict[_Marked, Annotated[float, Field(ge=1, le=1000)]] = Field(default={})
    """Factors for the odds of a defect, by `attribute=value` of the case, such as `{feedback=down: 5}` for a
    thumbs-down. They are also useful for requests in which a tool failed."""

    export_model: bool = False
    """Whether to export the coefficients: nine series per app."""

    @property
    def sees(self) -> str:
        """The local evaluator named in `boost`."""
        return self.boost

    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:
        """Start from the prior for every app. `learn_past` adds what earlier processes have learned."""
        return _Boosting(self, evaluator, runtime)


class _Boosting:
    adaptive = True

    def __init__(self, options: Boosted, evaluator: Evaluator, runtime: Runtime) -> None:
        self._options = options
        self._evaluator = evaluator.name
        self._runtime = runtime
        self._budget = SamplingBudget(options, evaluator.name, runtime)
        self.learners = Learners(first_slopes(grounding=evaluator.measures == "grounding", slope=options.slope))
        self._shifts = [(*name.partition("=")[::2], math.log(odds)) for name, odds in options.odds.items()]
        self._apps: OrderedDict[str, _App] = OrderedDict()
        self._changed = False  # since the state was stored
        name = f"boosting of {evaluator.name}"
        self._known: StateValue = runtime.kept.load(name) or {}
        self._restore(self._known)
        runtime.kept.follow(name, self._state)

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:
        seen = inputs(local, self._options.boost)
        if seen is None:
            return self._budget.draw(None, part=part)
        app, shift = self._of(case.app), self._shift(case)
        if app.paused_until > self._runtime.clock.monotonic():
            return self._budget.draw(None, seen, shift=shift, part=part)
        risk = self.learners.of(case.app).probability(seen, shift)
        return self._budget.draw(risk, seen, shift=shift, part=part)

    def learn(self, case: Case, decision: SamplingDecision, *, defect: bool | None, dollars: float) -> None:
        self._budget.paid(dollars)
        if defect is None or not decision.inputs:
            return
        weight = decision.target / decision.probability
        learner = self._teach(case.app, decision.inputs, weight, decision.shift, defect=defect)
        if decision.risk is not None:
            self._watch(case.app, learner.labels, min(weight, 2.0), defect=defect)

    def learn_past(self, past: PastResult) -> None:
        self._budget.paid(past.dollars)
        if past.defect is not None and are_inputs(past.inputs):
            self._teach(past.app, past.inputs, past.emphasis, past.shift, defect=past.defect)

    def _state(self) -> StateValue:
        """Return, by app, the watch and how long boosting stays paused; what was learned is in the history."""
        if self._changed:
            self._changed = False
            now = self._runtime.clock.monotonic()
            apps = {name: [max(app.paused_until - now, 0.0), app.watch.state(now)] for name, app in self._apps.items()}
            self._known = {"at": self._runtime.clock.now(), "apps": apps}
        return self._known

    def _restore(self, found: StateValue) -> None:
        match found:
            case {"at": int() | float() as at, "apps": dict(apps)}:
                now, away = self._runtime.clock.monotonic(), max(self._runtime.clock.now() - at, 0.0)
                for name, one in list(apps.items())[-_APPS:]:
                    match one:
                        case [int() | float() as paused, days]:
                            app = self._of(name)
                            app.paused_until = now + min(paused, _PAUSE) - away if paused > away else 0.0
                            app.watch.restore(days, now, away)

    def _teach(self, name: str, seen: tuple[float, ...], weight: float, shift: float, *, defect: bool) -> DefectModel:
        learner = self.learners.to_teach(name)
        learner.learn(seen, weight, shift, defect=defect)
        if self._options.export_model:
            self._show(name, learner)
        return learner

    def _watch(self, name: str, verdicts: int, weight: float, *, defect: bool) -> None:
        app, now = self._of(name), self._runtime.clock.monotonic()
        self._changed = True
        app.watch.add(weight, now, defect=defect)
        if verdicts % _LOOK_EVERY:
            return
        found = app.watch.loses(now)
        if found is not None:
            app.paused_until = now + _PAUSE
            app.watch = Watch()
            message = "boosting did more harm than good for a week; it is paused for a week, and cases are drawn evenly"
            runtime, evaluator = self._runtime, self._evaluator
            runtime.events.warning(Event.BOOST_PAUSED, message, app=name, evaluator=evaluator, gain=round(found, 2))

    def _of(self, name: str) -> _App:
        app = self._apps.get(name)
        if app is None:
            app = self._apps[name] = _App()
            if len(self._apps) > _APPS:
                self._apps.popitem(last=False)
        self._apps.move_to_end(name)
        return app

    def _shift(self, case: Case) -> float:
        return sum(log for name, value, log in self._shifts if case.attributes.get(name) == value)

    def _show(self, name: str, learner: DefectModel) -> None:
        metrics = self._runtime.metrics
        app = metrics.app(name)
        for input_name, value in zip(INPUTS, learner.coefficients[1:], strict=True):
            metrics.sampling_coefficient.labels(app, self._evaluator, input_name).set(value)


class _App:
    """The watch over the gain of boosting for one app, and the end of a pause."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.paused_until = 0.0
