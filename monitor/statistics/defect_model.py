"""Predicts the probability of a defect, from the measures of local evaluators and the judge's earlier verdicts.

`inputs` brings the measures of a case to one common scale. `DefectModel` learns online from verdicts: Bayesian logistic
regression as a Gaussian filter. The belief about the coefficients is a normal distribution; each verdict moves it by
one step of an extended Kalman filter, so no verdict is kept and old ones fade. The scheme: Bishop, "Pattern Recognition
and Machine Learning", 4.5 (the predictive mean by MacKay, 1992). The constants were chosen by simulation on twelve
labelled sets of answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from monitor.model.outcome import Score

INPUTS: Final = ("overlap", "marked", "sentence", "pairs", "words", "refusal", "novel")
"""The inputs by name. The first is the one trusted from the start: the unsupported share of the response."""

_FARTHEST = 3.0
_DIGITS = 4  # as in results, so that a process that learns from a result learns the same
_BLEND_SPREAD = 0.9
_REFUSAL = "refusal_pattern"

# Mean and standard deviation of each measure, over the answers of mtRAG (human evaluation), FaithDial (audit) and q2
# (Wizard of Wikipedia), each set with the same weight and its defects weighted to 5 %; counts as log(1 + n). Learning
# compensates if they do not fit: only the first hundred verdicts depend on them.
_BLEND = {"order_absent": (0.35, 0.26), "words_absent": (0.26, 0.24), "sentences_absent": (0.34, 0.26)}
_SHARES = {"marked_absent": (0.05, 0.19), "worst_sentence_absent": (0.47, 0.34), "pairs_absent": (0.45, 0.34)}
_COUNTS = {"words": (2.62, 1.04), "novel_words": (1.25, 0.96)}

PRIOR_RATE: Final = 0.03
"""The defect rate expected of an app before its first verdict."""

FARTHEST: Final = 30.0
"""The largest absolute value of log odds."""

_SPREAD_CONSTANT, _SPREAD_FIRST, _SPREAD_REST = 2.0, 0.8, 0.3
"""Standard deviations of the prior: for the constant, the first input, and each further one."""

_MEMORY = 7_500
"""Verdicts after which the prior's uncertainty is restored in full. With 500 or fewer the model follows chance, and
with 5,000 that still costs 2 % of the gain; with 20,000 or more it finds a new kind of defect too slowly, and without
any restoring hardly ever."""

_FIRST_TRUST, _TRUSTED_AFTER = 0.5, 20

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
        blend = sum(_scaled(measures[name], *scale) for name, scale in _BLEND.items()) / len(_BLEND)
        marked, sentence, pairs = (_scaled(measures[name], *scale) for name, scale in _SHARES.items())
        words, novel = (_scaled(math.log1p(measures[name]), *scale) for name, scale in _COUNTS.items())
    except (KeyError, ValueError):  # another evaluator, or another version of it
        return None
    refusal = local.get(_REFUSAL)
    found = (_clipped(blend / _BLEND_SPREAD), marked, sentence, pairs, words, refusal.value if refusal else 0.0, novel)
    if not all(map(math.isfinite, found)):
        return None
    return tuple(round(one, _DIGITS) for one in found)


def are_inputs(numbers: Sequence[float]) -> bool:
    """Return whether these numbers can be a result of `inputs`."""
    return len(numbers) == len(INPUTS) and all(abs(one) <= _FARTHEST for one in numbers)


class DefectModel:
    """The belief about one app and one evaluator, from `labels` verdicts of which `defects` found a defect.

    `slopes` are the prior means of the coefficients of the inputs, the trusted input first.
    """

    __slots__ = ("_prior", "_slopes", "coefficients", "covariance", "defects", "labels")

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        rest = [_SPREAD_REST] * (len(self._slopes) - 1)
        self._prior = [spread**2 for spread in (_SPREAD_CONSTANT, _SPREAD_FIRST, *rest)]
        self._begin()

    @property
    def trust(self) -> float:
        """How much to rely on it, 0 to 1: half at first, in full after twenty defects.

        If the inputs mean nothing, the prior alone would cost a fifth of the evaluations' value, and the first verdicts
        show that too slowly; relying on half of it costs 6 %. Defects show it, no matter how many verdicts they take.
        """
        return min(1.0, _FIRST_TRUST + self.defects * (1 - _FIRST_TRUST) / _TRUSTED_AFTER)

    def _begin(self) -> None:
        self.labels = self.defects = 0
        self.coefficients = [math.log(PRIOR_RATE / (1 - PRIOR_RATE)), *self._slopes]
        self.covariance = [
            [variance if row == column else 0.0 for column in range(len(self._prior))]
            for row, variance in enumerate(self._prior)
        ]

    def probability(self, inputs: Sequence[float], shift: float = 0.0) -> float:
        """Return the probability that a case with these `inputs` is a defect. `shift` is added to its log odds."""
        return _logistic(self._log_odds(inputs) + shift)

    def learn(self, inputs: Sequence[float], weight: float, shift: float = 0.0, *, defect: bool) -> None:
        """Learn from one verdict.

        `weight` is the number of cases that it stands for, relative to an even draw; without it the model would fit the
        cases that it chose itself. It is capped at 2, so that no single verdict counts too much.
        """
        covariance, inputs = self.covariance, (1.0, *inputs)
        for index, variance in enumerate(self._prior):
            row = covariance[index]
            row[index] = min(row[index] + variance / _MEMORY, variance)
        spread = [math.fsum(map(_times, row, inputs)) for row in covariance]
        uncertainty = max(0.0, math.fsum(map(_times, spread, inputs)))
        weight = min(max(weight, 0.0), _HEAVIEST)
        expected = _logistic((self._log_odds(inputs[1:]) + shift) / math.sqrt(1 + _PREDICTIVE * uncertainty))
        information = max(expected * (1 - expected), _LEAST_INFORMATION)
        divisor = 1 + weight * information * uncertainty
        step = weight * (defect - expected) / divisor
        shrink = weight * information / divisor
        for index, along in enumerate(spread):
            self.coefficients[index] += step * along
            row = covariance[index]
            for other, across in enumerate(spread):
                row[other] -= shrink * (along * across)
            row[index] = max(row[index], _LEAST_VARIANCE)
        self.labels += 1
        self.defects += defect
        if not all(map(math.isfinite, self.coefficients)):
            self._begin()

    def _log_odds(self, inputs: Sequence[float]) -> float:
        return self.coefficients[0] + math.fsum(map(_times, self.coefficients[1:], inputs))


def _scaled(value: float, mean: float, deviation: float) -> float:
    return _clipped((value - mean) / deviation)


def _clipped(value: float) -> float:
    return min(max(value, -_FARTHEST), _FARTHEST)


def _times(one: float, other: float) -> float:
    return one * other


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-min(max(log_odds, -FARTHEST), FARTHEST)))
