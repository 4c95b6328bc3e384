"""What a sampler knows of a case before it is judged: measures of local evaluators, brought to one common scale."""

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


def _scaled(value: float, mean: float, deviation: float) -> float:
    return _clipped((value - mean) / deviation)


def _clipped(value: float) -> float:
    return min(max(value, -_FARTHEST), _FARTHEST)
