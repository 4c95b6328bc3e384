"""Interpret external scores: find the score and decide whether it is a defect, if the scale is known."""

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
"""Parts of names for which tools differ on the good end of the scale. Their scores are not read without a label."""

FEEDBACK_SCALE: Final = ExternalEvaluatorSettings(lowest=-1.0, highest=1.0, below=0.0)
"""The range of a user's reaction in the conventions of OpenTelemetry: -1 is bad, 0 is neutral, 1 is good."""


@dataclass(frozen=True)
class Ruling:
    """The rule for reading one evaluator's scores; `clear` is true if a score without a label can be read."""

    options: ExternalEvaluatorSettings
    clear: bool = True

    @cached_property
    def scale(self) -> Scale:
        """The evaluator's scale with two levels: below the middle, and from the middle on."""
        one = self.options
        middle = Level("high", (one.lowest + one.highest) / 2)
        return Scale(one.lowest, one.highest, one.better, (Level("low", one.lowest), middle))

    @property
    def threshold(self) -> float:
        """The score at which the good end of the scale begins, or the bad end if lower is better."""
        given = self.options.below if self.options.better == "higher" else self.options.at_least
        return (self.options.lowest + self.options.highest) / 2 if given is None else given

    def __str__(self) -> str:
        """Return the rule in words, for the evaluator's info series."""
        if not self.clear:
            return "a label that is known to be bad"
        kind = "below" if self.options.better == "higher" else "at least"
        return f"{kind} {self.threshold:g}, or a label that is known to be bad"

    def read(self, external: ExternalScore) -> tuple[Score | Unscored, bool]:
        """Return the score and whether it is a defect. A known label takes precedence over the number beside it."""
        if external.error:
            return Unscored(UnscoredReason.ERROR, "its evaluator reports an error"), False
        bad = self._by_label(external.label)
        value = external.value
        if value is not None and not self.scale.holds(value):
            if bad is None:
                ends = f"{self.options.lowest:g} to {self.options.highest:g}"
                return Unscored(UnscoredReason.OUT_OF_RANGE, f"{value:g} is not on the scale, {ends}"), False
            value = None
        if value is None and bad is None:
            return Unscored(UnscoredReason.MALFORMED, "it has no score, and its label is not known"), False
        if bad is None and not self.clear:
            return Unscored(UnscoredReason.MALFORMED, "it is not configured which end of its scale is good"), False
        if value is None:
            low_is_bad = self.options.better == "higher"
            value = self.options.lowest if bad == low_is_bad else self.options.highest
        score = Score(value, external.explanation, label=external.label)
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


def ruling(sent_name: str, settings: FeedbackSettings) -> Ruling:
    """Return the rule for the scores of the evaluator named `sent_name`."""
    configured = settings.evaluators.get(sent_name)
    if configured is not None:
        return Ruling(configured)
    if sent_name == USER_FEEDBACK:
        return Ruling(FEEDBACK_SCALE)
    return Ruling(
        ExternalEvaluatorSettings(), clear=not any(stem in sent_name.lower() for stem in _LOWER_IS_OFTEN_BETTER)
    )


def label_name(sent_name: str, own: Collection[str]) -> str:
    """Return the name in metrics and results of an evaluator named `sent_name`: never one of our `own`."""
    name = sent_name
    while name in own:
        name += "_external"
    return name


def known_names(settings: FeedbackSettings, own: Collection[str]) -> list[str]:
    """Return the names of external evaluators that may be used in `alerts`."""
    return [label_name(sent_name, own) for sent_name in (USER_FEEDBACK, *settings.evaluators)]
