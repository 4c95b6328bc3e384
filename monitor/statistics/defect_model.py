"""Predicts the probability of a defect, from the measures of a local evaluator and the judge's earlier verdicts.

`inputs` brings the measures of a case to one common scale. `DefectModel` learns online from verdicts: Bayesian logistic
regression as a Gaussian filter. The belief about the coefficients is a normal distribution; each verdict moves it by
one step of an extended Kalman filter, so no verdict is kept and old ones fade. The scheme: Bishop, "Pattern Recognition
and Machine Learning", 4.5 (the predictive mean by MacKay, 1992).

A judge errs, and where defects are rare, most of what it calls defects may be good. So three filters run side by side,
each of which assumes a different share of wrong verdicts. They are weighted by how well they predicted the verdicts
(Bayesian model averaging: Hoeting et al., 1999). The inputs and constants were chosen by simulation on labelled sets of
answers; `python -m benchmarks.learned` prints the results.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Final

from monitor.model.outcome import Score

# Mean and standard deviation of each measure, over the answers of mtRAG (human evaluation), FaithDial (audit) and q2
# (Wizard of Wikipedia), each set with the same weight and its defects weighted to 5 %; counts as log(1 + n). Scales
# fitted to each app are no better.
_SCALES: Final = {
    "value_absent": (0.294, 0.239),
    "marked_absent_n": (0.117, 0.373),
    "n_sentences": (1.138, 0.592),
    "trigrams_absent": (0.642, 0.350),
    "drift": (-0.216, 0.451),
    "doc_share": (0.300, 0.245),
    "type_token": (0.893, 0.145),
    "question_absent": (0.607, 0.379),
    "novel_words": (1.247, 0.961),
}
_COUNTS: Final = frozenset({"marked_absent_n", "n_sentences", "novel_words"})

INPUTS: Final = tuple(_SCALES)
"""The inputs by name. The first, 1 - the score of the local evaluator, is the one trusted from the start."""

INPUTS_VERSION: Final = 1
"""Raise it whenever the same answer could get different inputs: what was learned from earlier inputs is then useless.
"""

_FARTHEST = 3.0
_DIGITS = 4  # as in results, so that a process that learns from a result learns the same

PRIOR_RATE: Final = 0.03
"""The expected defect rate of an app before its first verdict."""

FARTHEST: Final = 30.0
"""The largest absolute value of log odds."""

_SPREAD_CONSTANT, _SPREAD_FIRST, _SPREAD_REST = 2.0, 0.8, 0.3
"""Standard deviations of the prior: for the constant, the first input, and each further one."""

_MEMORY = 7_500
"""Verdicts after which the prior's uncertainty is restored in full. With 500 or fewer the model follows chance, and
with 5,000 that still costs 2 % of the gain; with 20,000 or more it finds a new kind of defect too slowly, and without
restoring, hardly ever."""

ERRORS: Final = (0.002, 0.05, 0.15)
"""The shares of wrong verdicts that the filters assume. A filter that assumes none does worse than the untrained score
in its first hundreds of verdicts if one in ten is wrong; .05 alone is too timid for a perfect judge and too bold for
one with 15 % wrong verdicts."""

PRIOR_RISK: Final = sum(error + (1 - 2 * error) * PRIOR_RATE for error in ERRORS) / len(ERRORS)
"""The probability expected before the first verdict that a verdict is a defect, false alarms included."""

_A_PERSON = 0.002  # the share of wrong labels assumed of a person, by all filters
_LEAST_EVIDENCE = -12.0  # so that a filter that was far off can win again after the judge changes

_PREDICTIVE: Final = math.pi / 8
_HEAVIEST = 2.0
_LEAST_VARIANCE = 1e-9
_LEAST_INFORMATION = 1e-6


def inputs(local: Mapping[str, Score], measured_by: str) -> tuple[float, ...] | None:
    """Return the inputs of a case in the order of `INPUTS`, each about 0 +- 1, none beyond 3, to four digits.

    None if `measured_by`, the local evaluator that gives the measures, has not scored the case.
    """
    score = local.get(measured_by)
    if score is None:
        return None
    measures = score.measures
    try:
        found = [_scaled(measures[name], name) for name in INPUTS]
    except (KeyError, ValueError):  # another evaluator, or another version of it
        return None
    return tuple(found) if all(map(math.isfinite, found)) else None


def are_inputs(numbers: Sequence[float]) -> bool:
    """Return whether these numbers can be a result of `inputs`."""
    return len(numbers) == len(INPUTS) and all(abs(one) <= _FARTHEST for one in numbers)


class DefectModel:
    """The belief about one app and one evaluator, from `labels` verdicts of which `defects` found a defect.

    `slopes` are the prior means of the coefficients of the inputs, the trusted input first.
    """

    __slots__ = ("_evidence", "_slopes", "defects", "filters", "labels", "weights")

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        self._begin()

    def _begin(self) -> None:
        self.labels = self.defects = 0
        self.filters = [_Filter(error, self._slopes) for error in ERRORS]
        self._weigh([0.0] * len(ERRORS))

    def _weigh(self, evidence: Sequence[float]) -> None:
        """Give the filters their `weights`, whose sum is 1, by the evidence for each: a log likelihood."""
        best = max(evidence)
        self._evidence = [max(one - best, _LEAST_EVIDENCE) for one in evidence]
        raw = [math.exp(one) for one in self._evidence]
        whole = sum(raw)
        self.weights = tuple(one / whole for one in raw)

    @property
    def coefficients(self) -> list[float]:
        """The mean coefficients by which `log_odds` orders cases: the constant first, then in the order of `INPUTS`."""
        columns = zip(*(one.coefficients for one in self.filters), strict=True)
        return [_dot(self.weights, column) for column in columns]

    def log_odds(self, inputs: Sequence[float]) -> float:
        """Return the log odds of a true defect, at most 30 from 0: the higher, the more likely it is a defect.

        Before the first verdict the order is that of the first input alone, if only that has a slope.
        """
        seen = (1.0, *inputs)
        return _dot(self.weights, [_clipped(_dot(one.coefficients, seen)) for one in self.filters])

    def shares(self, inputs: Sequence[float]) -> dict[str, float]:
        """Return, by input name, what each input adds to the log odds of a defect, against an average case."""
        means = self.coefficients[1:]
        return {name: mean * one for name, mean, one in zip(INPUTS, means, inputs, strict=True)}

    def score(self, inputs: Sequence[float]) -> float:
        """Return the probability that a case with these `inputs` is no defect: 0 (worst) to 1."""
        return 1 - _logistic(self.log_odds(inputs))

    def probability(self, inputs: Sequence[float], shift: float = 0.0) -> float:
        """Return the probability that the verdict on a case with these `inputs` is a defect, false alarms included.

        A rate is one of verdicts, so this is what samplers go by. `shift` is added to the log odds of a true defect.
        """
        seen = (1.0, *inputs)
        return _dot(self.weights, [one.probability(seen, shift) for one in self.filters])

    def learn(
        self, inputs: Sequence[float], weight: float, shift: float = 0.0, *, defect: bool, by_person: bool = False
    ) -> None:
        """Learn from one verdict, or from the label of a case that a person did not pick.

        `weight` is the number of cases that it stands for, relative to an even draw; without it the model would fit the
        cases that it chose itself. It is capped at 2, so that no single verdict counts too much.
        """
        inputs = (1.0, *inputs)
        weight = 1.0 if by_person else min(max(weight, 0.0), _HEAVIEST)
        evidence = list(self._evidence)
        for index, one in enumerate(self.filters):
            error = _A_PERSON if by_person else one.error
            evidence[index] += weight * math.log(one.learn(inputs, weight, shift, error, defect=defect))
        self._weigh(evidence)
        self.labels += 1
        self.defects += defect
        if not all(math.isfinite(number) for one in self.filters for number in one.coefficients):
            self._begin()


class _Filter:
    """A normal belief about the coefficients that assumes a share `error` of the verdicts to be wrong."""

    __slots__ = ("_prior", "coefficients", "covariance", "error")

    def __init__(self, error: float, slopes: Sequence[float]) -> None:
        self.error = error
        rest = [_SPREAD_REST] * (len(slopes) - 1)
        self._prior = [spread**2 for spread in (_SPREAD_CONSTANT, _SPREAD_FIRST, *rest)]
        self.coefficients = [math.log(PRIOR_RATE / (1 - PRIOR_RATE)), *slopes]
        self.covariance = [
            [variance if row == column else 0.0 for column in range(len(self._prior))]
            for row, variance in enumerate(self._prior)
        ]

    def probability(self, inputs: Sequence[float], shift: float) -> float:
        """Return the probability that the verdict on a case is a defect; `inputs` has a 1 first, as in `learn`."""
        return _seen(_logistic(_dot(self.coefficients, inputs) + shift), self.error)

    def learn(self, inputs: Sequence[float], weight: float, shift: float, error: float, *, defect: bool) -> float:
        """Learn from a verdict on a case; `inputs` has a 1 first. Return the probability it had given to the verdict.

        A step of an extended Kalman filter; the verdict is a defect with the probability
        error + (1 - 2 error) sigmoid(log odds).
        """
        covariance = self.covariance
        for index, variance in enumerate(self._prior):
            row = covariance[index]
            row[index] = min(row[index] + variance / _MEMORY, variance)
        spread = [_dot(row, inputs) for row in covariance]
        uncertainty = max(0.0, _dot(spread, inputs))
        log_odds = _dot(self.coefficients, inputs) + shift
        expected = _logistic(log_odds / math.sqrt(1 + _PREDICTIVE * uncertainty))
        foretold = _seen(expected, error)
        variance = foretold * (1 - foretold)
        change = (1 - 2 * error) * expected * (1 - expected)  # of the probability of the verdict, by the log odds
        information = max(change * change / variance, _LEAST_INFORMATION)
        divisor = 1 + weight * information * uncertainty
        step = weight * change * (defect - foretold) / variance / divisor
        shrink = weight * information / divisor
        for index, along in enumerate(spread):
            self.coefficients[index] += step * along
            row = covariance[index]
            row[:] = [one - shrink * (along * across) for one, across in zip(row, spread, strict=True)]
            row[index] = max(row[index], _LEAST_VARIANCE)
        return foretold if defect else 1 - foretold


def _seen(probability: float, error: float) -> float:
    """Return the probability that the verdict is a defect, if `probability` is that of a true defect."""
    return error + (1 - 2 * error) * probability


def _scaled(value: float, name: str) -> float:
    mean, deviation = _SCALES[name]
    scaled = ((math.log1p(value) if name in _COUNTS else value) - mean) / deviation
    return round(min(max(scaled, -_FARTHEST), _FARTHEST), _DIGITS)


def _clipped(log_odds: float) -> float:
    return min(max(log_odds, -FARTHEST), FARTHEST)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    found: float = sum(map(operator.mul, one, other))
    return found


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-_clipped(log_odds)))
