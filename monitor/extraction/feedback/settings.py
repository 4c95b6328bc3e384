"""What can be configured of the verdicts of others."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from monitor.quantities import Duration, Rate, Size

_FARTHEST: Final = 1e6
_NARROWEST: Final = 0.001  # of a scale: its tenths are the buckets of a histogram


class _FeedbackSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ForeignEvaluator(_FeedbackSection):
    """How the verdicts of one evaluator that is not ours are read."""

    lowest: float = Field(default=0.0, ge=-_FARTHEST, le=_FARTHEST)
    """The lower end of its scale. A score off the scale is `unscored{out_of_range}`."""

    highest: float = Field(default=1.0, ge=-_FARTHEST, le=_FARTHEST)
    """The upper end of its scale."""

    better: Literal["higher", "lower"] = "higher"
    """Which end is good."""

    below: float | None = Field(default=None, allow_inf_nan=False)
    """A score below this is a defect, where higher is better. Default: the middle of the scale."""

    at_least: float | None = Field(default=None, allow_inf_nan=False)
    """A score of this or more is a defect, where lower is better. Default: the middle of the scale."""

    bad_labels: tuple[str, ...] = ()
    """Labels that are defects, whatever the score, besides those that everybody knows (docs/feedback.md)."""

    good_labels: tuple[str, ...] = ()
    """Labels that are none, whatever the score."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.highest - self.lowest < _NARROWEST:
            raise ValueError(
                f"lowest ({self.lowest:g}) must be less than highest ({self.highest:g}), by 0.001 at least"
            )
        wrong, right = ("at_least", "below") if self.better == "higher" else ("below", "at_least")
        if getattr(self, wrong) is not None:
            raise ValueError(f"where {self.better} is better, a defect is `{right}` something, not `{wrong}`")
        threshold = getattr(self, right)
        if threshold is not None and not self.lowest <= threshold <= self.highest:
            raise ValueError(f"{right} ({threshold:g}) is not on the scale, {self.lowest:g} to {self.highest:g}")
        return self


class FeedbackSettings(_FeedbackSection):
    """What a user's "no" sets off."""

    probability: Rate = 1.0
    """The probability with which judged evaluators judge an answer that a user disliked, where their own is lower and
    the user's word came before it was drawn. Weights know of it, so rates stay true. `0` leaves it as it is, and judges
    nothing afterwards either."""

    max_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0
    """Answers an hour, at most, that are judged because they were disliked: who can vote could else spend the budget of
    the judge. Beyond it a disliked answer is drawn like any other."""

    wait: Duration = 900.0
    """How long an answer that was not chosen is kept, in memory, to be judged should its user dislike it. What is
    judged so was chosen for being bad: it is counted apart (`ragmonitor_user_disliked_*`) and is in no rate."""

    max_size: Size = 32 * 1024**2
    """What the answers that are kept for this may take; beyond it the oldest are forgotten. `0`: none is kept."""


class ForeignSettings(_FeedbackSection):
    """Verdicts of other tools and of users (docs/feedback.md)."""

    evaluators: dict[Annotated[str, Field(min_length=1, max_length=128)], ForeignEvaluator] = Field(default={})
    """How the verdicts of an evaluator are read, by the name that it tells: `{toxicity: {better: lower}}`. Users are
    `user_feedback`, from -1 to 1 unless it is configured here. A name with the scale of somebody else's verdicts may
    stand in `alerts`."""

    max_names: int = Field(default=50, ge=0, le=1000)
    """How many evaluators that are not named here are told apart; the verdicts of others are only counted, under
    `too_many_names`."""

    thumbs_down: FeedbackSettings = FeedbackSettings()
    """What a user's "no" sets off."""
