"""What the judged evaluators of a preview would cost, and which sampling rate would notice a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from monitor.config import Config
from monitor.judge.budget import tariff
from monitor.judge.settings import Budget
from monitor.operations import plan
from monitor.operations.preview.predict import CallGroup, Preview
from monitor.operations.preview.request_log import FACTORS

RATE, WORSE = 0.02, 0.04
"""The change whose detection is planned: the defect rate doubles."""

_MONTH: Final = 30.0  # days
_DAY: Final = 86_400.0
_SIX_HOURS: Final = 21_600.0


@dataclass(frozen=True, slots=True)
class RateNeeded:
    """What it takes to notice within six hours that the defect rate has doubled.

    `share` is the share of requests to evaluate, None where more are needed than there are; `dollars_per_month` None
    where the price is unknown.
    """

    threshold: float
    scored_per_hour: float
    share: float | None
    dollars_per_month: float | None


@dataclass(frozen=True, slots=True)
class GroupCost:
    """What one group of evaluators that share a call would cost.

    `selected_per_day` and `dollars_per_month`, by `FACTORS`, are None where they cannot be predicted; an amount is None
    where the price is unknown.
    """

    group: CallGroup
    selected_per_day: float | None
    tokens_per_prompt: float
    dollars_per_month: Sequence[float | None] | None
    needed: RateNeeded


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of all groups at a number of requests a day. `span`: it follows from so many seconds of traffic."""

    requests_per_day: float
    span: float | None
    groups: Sequence[GroupCost]


def estimate(
    config: Config, preview: Preview, *, requests_per_day: float | None = None, output_tokens: int = 200
) -> CostEstimate | None:
    """Estimate what a month would cost; None where nothing tells how many requests there are a day.

    Args:
        config: the configuration of the preview.
        preview: what it would do with the recorded traffic.
        requests_per_day: None: as many as the recorded traffic has in its own time.
        output_tokens: of one reply of the judge; these are not known before one is paid for.
    """
    traffic = preview.traffic
    span = None
    if requests_per_day is None and traffic.span > 0:
        span = traffic.span
        requests_per_day = traffic.total / span * _DAY
    if requests_per_day is None or not traffic.total:
        return None
    times = requests_per_day / traffic.total
    return CostEstimate(requests_per_day, span, [_group(config, one, times, output_tokens) for one in preview.groups])


def _group(config: Config, group: CallGroup, times: float, output_tokens: int) -> GroupCost:
    amounts = [_dollars(config, group, output_tokens, number) for number in range(len(FACTORS))]
    months = [None if one is None else one * times * _MONTH for one in amounts]
    return GroupCost(
        group,
        None if group.unpredictable else group.shares[1] * times,
        group.tokens[1] / group.shares[1] if group.shares[1] else group.tokens_each,
        None if group.unpredictable else months,
        _needed(config, group, times, amounts[1]),
    )


def _dollars(config: Config, group: CallGroup, output_tokens: int, number: int) -> float | None:
    """US dollars for evaluating the recorded traffic at a factor; None where the price is unknown."""
    known = tariff(config.judge_of(group.members[0]).model_copy(update={"budget": Budget()}))
    if known is None:
        return None
    return group.tokens[number] * known.input + group.shares[number] * output_tokens * known.output


def _needed(config: Config, group: CallGroup, times: float, dollars: float | None) -> RateNeeded:
    question = plan.question_for(config, RATE, WORSE)
    window = min((one for one in question.windows if one[0] <= _SIX_HOURS), key=lambda one: -one[0])
    within = plan.PlanQuestion(question.rate, question.worse, question.threshold, (window,), question.family)
    each = dollars / group.shares[1] if dollars is not None and group.shares[1] else None
    (needed,) = plan.needed(within, plan.EvaluationPrice(each, ""))
    share = needed.scored_per_hour * 24 / (group.applies * times) if group.applies else None
    return RateNeeded(
        question.threshold,
        needed.scored_per_hour,
        share if share is not None and share <= 1 else None,
        needed.dollars_per_day * _MONTH if needed.dollars_per_day else None,
    )
