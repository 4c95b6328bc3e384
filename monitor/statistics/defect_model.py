"""The probability of a defect, from what the local evaluators measure and what the judge has found before.

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
"""The inputs by name, the one that is trusted from the start first: the share of the response that is not supported."""

_FARTHEST = 3.0
_DIGITS = 4  # as results carry them, so that whoever learns from a result learns what was learned here
_BLEND_SPREAD = 0.9
_REFUSAL = "refusal_pattern"

# Mean and standard deviation of each measure, over the answers of mtRAG (human evaluation), FaithDial (audit) and q2
# (Wizard of Wikipedia), each set with the same weight and its defects weighted to 5 %; counts as log(1 + n). What is
# learned makes up for what does not fit: only the first hundred verdicts depend on these.
_BLEND = {"order_absent": (0.35, 0.26), "words_absent": (0.26, 0.24), "sentences_absent": (0.34, 0.26)}
_SHARES = {"marked_absent": (0.05, 0.19), "worst_sentence_absent": (0.47, 0.34), "pairs_absent": (0.45, 0.34)}
_COUNTS = {"words": (2.62, 1.04), "novel_words": (1.25, 0.96)}

PRIOR_RATE: Final = 0.03
"""The defect rate that is expected of an app before its first verdict."""

FARTHEST: Final = 30.0
"""Log odds never go beyond this, either way."""

_SPREAD_CONSTANT, _SPREAD_FIRST, _SPREAD_REST = 2.0, 0.8, 0.3
"""Standard deviations of the prior: of the constant, of the first input, of each further one."""

_MEMORY = 7_500
"""Verdicts after which an uncertainty that was used up is given back in full. With 500 and fewer it follows chance, and
with 5,000 still by 2 % of the gain; with 20,000 and more a new kind of defect is found too slowly, and without any such
return hardly ever."""

_FIRST_TRUST, _TRUSTED_AFTER = 0.5, 20

_PREDICTIVE: Final = math.pi / 8
_HEAVIEST = 2.0
_LEAST_VARIANCE = 1e-9
_LEAST_INFORMATION = 1e-6


def inputs(local: Mapping[str, Score], measured_by: str) -> tuple[float, ...] | None:
    """The inputs of a case, in the order of `INPUTS`, each about 0 +- 1 and none beyond 3, to four digits.

    None where `measured_by`, the local evaluator whose measures count, has not scored the case.
    """
    score = local.get(measured_by)
    if score is None:
        return None
    measures = score.measures
    try:
        blend = sum(_scaled(measures[name], *scale) for name, scale in _BLEND.items()) / len(_BLEND)
        marked, sentence, pairs = (_scaled(measures[name], *scale) for name, scale in _SHARES.items())
        words, novel = (_scaled(math.log1p(measures[name]), *scale) for name, scale in _COUNTS.items())
    except (KeyError, ValueError):  # of another evaluator, or of another version of it
        return None
    refusal = local.get(_REFUSAL)
    found = (_clipped(blend / _BLEND_SPREAD), marked, sentence, pairs, words, refusal.value if refusal else 0.0, novel)
    if not all(map(math.isfinite, found)):
        return None
    return tuple(round(one, _DIGITS) for one in found)


def are_inputs(numbers: Sequence[float]) -> bool:
    """Whether `inputs` may have given these."""
    return len(numbers) == len(INPUTS) and all(abs(one) <= _FARTHEST for one in numbers)


class DefectModel:
    """What is believed of one app and one evaluator. `labels` is how many verdicts it rests on, `defects` those of them
    that found one.

    Args:
        slopes: the prior mean of the coefficient of each input; the first input is the one that is trusted.
    """

    __slots__ = ("_prior", "_slopes", "coefficients", "covariance", "defects", "labels")

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        rest = [_SPREAD_REST] * (len(self._slopes) - 1)
        self._prior = [spread**2 for spread in (_SPREAD_CONSTANT, _SPREAD_FIRST, *rest)]
        self._begin()

    @property
    def trust(self) -> float:
        """How much to go by it: half at first, in full after twenty defects.

        Where the inputs mean nothing, the prior alone would cost a fifth of what the judgements are worth, and the
        first verdicts tell that too slowly; half of it costs 6 %. Defects tell it, however many verdicts they take.
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
        """That a case with these `inputs` is a defect. `shift` is added to its log odds, for what is known besides."""
        return _logistic(self._log_odds(inputs) + shift)

    def learn(self, inputs: Sequence[float], weight: float, shift: float = 0.0, *, defect: bool) -> None:
        """Take in one verdict.

        `weight` is how many cases it stands for, relative to an even draw. Without it the model would fit the cases
        that it chose itself; above 2 a single verdict would carry too much.
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
