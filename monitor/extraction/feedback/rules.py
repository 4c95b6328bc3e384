"""Reads external scores: what is the score, and whether it is a defect; neither if unknown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from monitor.extraction.feedback import ExternalEvaluatorSettings, FeedbackSettings
from monitor.model.external import USER_FEEDBACK, ExternalScore, plain
from monitor.model.outcome import Level, Scale, Score, Unscored, UnscoredReason

_GOOD: Final = frozenset(
    {
        "pass",
        "passed",
        "ok",
        "good",
        "correct",
        "factual",
        "accurate",
        "relevant",
        "grounded",
        "faithful",
        "supported",
        "safe",
        "positive",
        "up",
        "thumbs_up",
        "like",
        "liked",
        "helpful",
        "👍",
    }
)
_BAD: Final = frozenset(
    {
        "fail",
        "failed",
        "bad",
        "incorrect",
        "wrong",
        "hallucinated",
        "hallucination",
        "inaccurate",
        "irrelevant",
        "unrelated",
        "ungrounded",
        "unfaithful",
        "unsupported",
        "unsafe",
        "harmful",
        "toxic",
        "negative",
        "down",
        "thumbs_down",
        "dislike",
        "disliked",
        "unhelpful",
        "👎",
    }
)
_LOWER_IS_OFTEN_BETTER: Final = (
    "toxic",
    "hallucinat",
    "harm",
    "violen",
    "bias",
    "hate",
    "abus",
    "profan",
    "sexual",
    "inject",
    "jailbreak",
    "leak",
    "pii",
    "refus",
    "error",
    "risk",
    "severity",
    "misinformation",
    "contradict",
)
"""In a name, these say what is measured, not which end is good: tools differ. Such a score alone is not read."""

FEEDBACK_SCALE: Final = ExternalEvaluatorSettings(lowest=-1.0, highest=1.0, below=0.0)
"""The range of a user's reaction in the conventions of OpenTelemetry: -1 is bad, 0 is neutral, 1 is good."""


@dataclass(frozen=True)
class Ruling:
    """How the verdicts of one evaluator are read; `clear` says whether its score alone can be."""

    options: ExternalEvaluatorSettings
    clear: bool = True

    @cached_property
    def scale(self) -> Scale:
        """Its scale, of two levels: below the middle, and from there on."""
        one = self.options
        middle = Level("high", (one.lowest + one.highest) / 2)
        return Scale(one.lowest, one.highest, one.better, (Level("low", one.lowest), middle))

    @property
    def threshold(self) -> float:
        """The score at which the good end of the scale begins, or the bad one where lower is better."""
        given = self.options.below if self.options.better == "higher" else self.options.at_least
        return (self.options.lowest + self.options.highest) / 2 if given is None else given

    def __str__(self) -> str:
        """The rule in words, as the info series of the evaluator has it."""
        if not self.clear:
            return "a label that is known to be bad"
        kind = "below" if self.options.better == "higher" else "at least"
        return f"{kind} {self.threshold:g}, or a label that is known to be bad"

    def read(self, verdict: ExternalScore) -> tuple[Score | Unscored, bool]:
        """The score and whether it is a defect. A label that is known outweighs the number beside it."""
        if verdict.error:
            return Unscored(UnscoredReason.ERROR, "its evaluator reports an error"), False
        bad = self._by_label(verdict.label)
        value = verdict.value
        if value is not None and not self.scale.holds(value):
            if bad is None:
                ends = f"{self.options.lowest:g} to {self.options.highest:g}"
                return Unscored(UnscoredReason.OUT_OF_RANGE, f"{value:g} is not on the scale, {ends}"), False
            value = None
        if value is None and bad is None:
            return Unscored(UnscoredReason.MALFORMED, "it has no score, and its label is not known"), False
        if bad is None and not self.clear:
            return Unscored(UnscoredReason.MALFORMED, "which end of its scale is good is not configured"), False
        if value is None:
            low_is_bad = self.options.better == "higher"
            value = self.options.lowest if bad == low_is_bad else self.options.highest
        score = Score(value, verdict.explanation, label=verdict.label)
        return score, self._by_value(value) if bad is None else bad

    def _by_value(self, value: float) -> bool:
        return value < self.threshold if self.options.better == "higher" else value >= self.threshold

    def _by_label(self, label: str) -> bool | None:
        word = plain(label)
        if not word:
            return None
        if word in map(plain, self.options.bad_labels):
            return True
        if word in map(plain, self.options.good_labels):
            return False
        return True if word in _BAD else False if word in _GOOD else None


def ruling(told: str, settings: FeedbackSettings) -> Ruling:
    """How the verdicts of the evaluator that calls itself `told` are read."""
    configured = settings.evaluators.get(told)
    if configured is not None:
        return Ruling(configured)
    if told == USER_FEEDBACK:
        return Ruling(FEEDBACK_SCALE)
    return Ruling(ExternalEvaluatorSettings(), clear=not any(stem in told.lower() for stem in _LOWER_IS_OFTEN_BETTER))


def label_name(told: str, own: Collection[str]) -> str:
    """The name in metrics and results of an evaluator that calls itself `told`: never one of our `own`."""
    name = told
    while name in own:
        name += "_external"
    return name


def known_names(settings: FeedbackSettings, own: Collection[str]) -> list[str]:
    """The names of evaluators that are not ours and may stand in `alerts`."""
    return [label_name(told, own) for told in (USER_FEEDBACK, *settings.evaluators)]
