"""The learned order of answers: scores learned from verdicts and labels, for each app, and how good the order is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from monitor.model.outcome import Outcome, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.statistics.defect_model import INPUTS, are_inputs, inputs
from monitor.statistics.verdict_learning import Foretold, Learners, OrderStanding, first_slopes

_APPS: Final = 200
_LEAST_SAID: Final = 0.1  # log odds; smaller shares are not mentioned
_SAID: Final = 3
_DIGITS: Final = 6

_WORDS: Final = dict(
    zip(
        INPUTS,
        (
            "how little of it the documents support",
            "numbers and names that no document has",
            "its number of sentences",
            "wording that no document has",
            "the position of its unsupported words",
            "how little of it any single document supports",
            "how many different words it has",
            "words of the question that no document has",
            "its number of words that no document has",
        ),
        strict=True,
    )
)


@runtime_checkable
class Learning(Protocol):
    """A sampler that learns from the same verdicts, such as `boosted`: its models are used for the order too."""

    learners: Learners


class LearnedOrder:
    """Computes the scores of an evaluator that `rescores`, learning from the verdicts of the evaluator `teacher`.

    Without a teacher, or before its first verdict, the order is the order of the original scores. No method raises;
    each takes microseconds, except `standing`, which takes some milliseconds.
    """

    def __init__(self, teacher: str = "", measured_by: str = "overlap_groundedness") -> None:
        self.teacher = teacher
        self.measured_by = measured_by
        self._learners = Learners(first_slopes(grounding=True))
        self._shared = False
        self._foretold: OrderedDict[str, Foretold] = OrderedDict()

    def share(self, learning: Learning) -> None:
        """Use the models of the teacher's sampler, which trains them itself."""
        self._learners = learning.learners
        self._shared = True

    def rescored(self, app: str, outcome: Outcome, evaluator: ConfiguredEvaluator) -> Outcome:
        """Return the learned outcome for a case of `app`, given the `outcome` of the evaluator that measures it."""
        seen = self._inputs(outcome)
        if not isinstance(outcome, Score) or seen is None:
            return outcome
        model = self._learners.of(app)
        value = round(model.score(seen), _DIGITS)
        said = _explained(model.shares(seen), model.labels, model.defects, self.measured_by)
        label = evaluator.evaluator.scale.level(value)
        return replace(outcome, value=value, explanation=f"{said} {outcome.explanation}", label=label)

    def verdict(self, app: str, seen: Sequence[float], weight: float, shift: float, *, defect: bool) -> None:
        """Record a verdict on a sampled case with these inputs, before any sampler learns from it, and learn from it.

        `weight` and `shift` are as in `DefectModel.learn`.
        """
        if not are_inputs(seen):
            return
        foretold = self._foretold.setdefault(app, Foretold())
        self._foretold.move_to_end(app)
        if len(self._foretold) > _APPS:
            self._foretold.popitem(last=False)
        foretold.add(weight, seen[0], self._learners.of(app).log_odds(seen), defect=defect)
        if not self._shared:
            self._learners.to_teach(app).learn(seen, weight, shift, defect=defect)

    def label(self, app: str, seen: Sequence[float], *, defect: bool) -> None:
        """Learn from a person's label of a case that was not hand-picked."""
        if are_inputs(seen):
            self._learners.to_teach(app).learn(seen, 1.0, defect=defect, by_person=True)

    def label_of(self, app: str, outcome: Outcome, *, defect: bool) -> None:
        """Learn from a person's label of a case, given the `outcome` of the evaluator that measures it."""
        seen = self._inputs(outcome)
        if seen is not None:
            self.label(app, seen, defect=defect)

    def _inputs(self, outcome: Outcome) -> tuple[float, ...] | None:
        return inputs({self.measured_by: outcome}, self.measured_by) if isinstance(outcome, Score) else None

    def standing(self, app: str) -> OrderStanding:
        """Return how well both orders predicted the verdicts on an app."""
        taught, found = self._learners.of(app).labels, self._foretold.get(app)
        return found.standing(taught) if found is not None else OrderStanding(taught)


def order_for(evaluators: Sequence[ConfiguredEvaluator]) -> LearnedOrder | None:
    """Return the order for the evaluator among the active `evaluators` that rescores; None if there is none."""
    for one in evaluators:
        if one.evaluator.rescores:
            return LearnedOrder(teacher_of(one, evaluators), one.evaluator.rescores)
    return None


def teacher_of(one: ConfiguredEvaluator, evaluators: Sequence[ConfiguredEvaluator]) -> str:
    """Return the name of the judged evaluator that teaches `one`; empty if there is none."""
    named = getattr(one.evaluator, "learns_from", None)
    fitting = [other.evaluator.name for other in evaluators if can_teach(one, other)]
    return next((name for name in fitting if named in (None, name)), "")


def can_teach(one: ConfiguredEvaluator, other: ConfiguredEvaluator) -> bool:
    """Return whether verdicts of `other` can teach `one`: it asks a judge about the same subject."""
    return other.evaluator.cost == "judge" and other.evaluator.measures == one.evaluator.measures


def _explained(shares: dict[str, float], labels: int, defects: int, measured_by: str) -> str:
    if not labels:
        return f"Nothing has been learned yet: the order is that of {measured_by}."
    told = sorted(
        ((name, share) for name, share in shares.items() if abs(share) >= _LEAST_SAID), key=lambda one: -abs(one[1])
    )
    against = [f"{_WORDS[name]} ({share:+.1f})" for name, share in told[:_SAID] if share > 0]
    speaks = [f"{_WORDS[name]} ({share:+.1f})" for name, share in told[:_SAID] if share < 0]
    parts = [
        f"{start}: {', '.join(named)}" for start, named in (("For a defect", against), ("Against it", speaks)) if named
    ]
    said = "; ".join(parts) or "No measure stands out"
    return f"Learned from {labels} verdicts and labels, {defects} of them defects. {said}."
