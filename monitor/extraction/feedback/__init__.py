"""Read scores of answers from outside the monitor: from evaluation tools and from users.

`telemetry.py` reads them from spans and log records, `feedback.py` from posted JSON; `rules.py` decides which are
defects. The options are defined here. `pipeline/feedback/processor.py` turns them into results.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from monitor.quantities import Duration, Rate, Size

_FARTHEST: Final = 1e6
_NARROWEST: Final = 0.001  # minimum width of a scale: its tenths are the buckets of a histogram


class _FeedbackSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExternalEvaluatorSettings(_FeedbackSection):
    """How to interpret the scores of one external evaluator."""

    lowest: float = Field(default=0.0, ge=-_FARTHEST, le=_FARTHEST)
    """Lower end of its scale. Scores outside the scale are `unscored{out_of_range}`."""

    highest: float = Field(default=1.0, ge=-_FARTHEST, le=_FARTHEST)
    """Upper end of its scale."""

    better: Literal["higher", "lower"] = "higher"
    """Which end of the scale is good."""

    below: float | None = Field(default=None, allow_inf_nan=False)
    """Scores below this are defects, if higher is better. Default: the middle of the scale."""

    at_least: float | None = Field(default=None, allow_inf_nan=False)
    """Scores of this or more are defects, if lower is better. Default: the middle of the scale."""

    bad_labels: tuple[str, ...] = ()
    """Further labels that are always defects, regardless of the score (docs/feedback.md lists the usual ones)."""

    good_labels: tuple[str, ...] = ()
    """Labels that are never defects, regardless of the score."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.highest - self.lowest < _NARROWEST:
            raise ValueError(
                f"lowest ({self.lowest:g}) must be less than highest ({self.highest:g}), by at least 0.001"
            )
        wrong, right = ("at_least", "below") if self.better == "higher" else ("below", "at_least")
        if getattr(self, wrong) is not None:
            raise ValueError(f"{self.better} is better on this scale, so set `{right}`, not `{wrong}`")
        threshold = getattr(self, right)
        if threshold is not None and not self.lowest <= threshold <= self.highest:
            raise ValueError(f"{right} ({threshold:g}) is not on the scale, {self.lowest:g} to {self.highest:g}")
        return self


class ThumbsDownSettings(_FeedbackSection):
    """What a thumbs-down triggers."""

    probability: Rate = 1.0
    """Probability that judged evaluators score an answer with a thumbs-down, if it is higher than their own probability
    and the thumbs-down arrives before sampling. Weights account for it, so rates stay unbiased. `0`: a thumbs-down has
    no effect, not even later."""

    max_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0
    """Maximum answers per hour to evaluate because of a thumbs-down, so that voters cannot spend the judge's budget.
    Above it, such answers are sampled like any other."""

    wait: Duration = 900.0
    """How long to keep an answer that was not sampled in memory, to evaluate it after a thumbs-down. Such answers are
    selected for being bad, so their results are counted separately (`ragmonitor_user_disliked_*`) and in no rate."""

    max_size: Size = 32 * 1024**2
    """Maximum memory for these answers; the oldest are dropped first. `0`: keep none."""


class FeedbackSettings(_FeedbackSection):
    """User feedback and scores from external tools (docs/feedback.md)."""

    evaluators: dict[Annotated[str, Field(min_length=1, max_length=128)], ExternalEvaluatorSettings] = Field(default={})
    """How to read an external evaluator's scores, by the name it sends: `{toxicity: {better: lower}}`. User feedback is
    `user_feedback`, from -1 to 1 by default. Evaluators configured here may be used in `alerts`."""

    max_names: int = Field(default=50, ge=0, le=1000)
    """Maximum number of external evaluators that are not configured here. Scores of further evaluators are only
    counted, as `too_many_names`."""

    thumbs_down: ThumbsDownSettings = ThumbsDownSettings()
    """What a thumbs-down triggers."""
