"""Predicts which requests judges would be asked about, and how long the prompts would be, without asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from monitor.clock import ManualClock
from monitor.config import Config
from monitor.judge.budget import estimate_tokens, tariff
from monitor.judge.litellm_provider import count_tokens
from monitor.judge.provider import Exchange, RecordingProvider
from monitor.judge.settings import Budget, CacheSettings
from monitor.model.case import Case, Document, Message, Request
from monitor.operations import plan
from monitor.operations.preview.request_log import FACTORS, LISTED, LoggedTraffic, call_groups
from monitor.operations.preview.traffic import RecordedTraffic
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.sampling import CaseSampler, score_local
from monitor.pipeline.scoring import EVERY, open_scorer, scores_of, with_facts
from monitor.stages import FixedSampler, Runtime, probability_of

_EMPTY: Final = Case(
    request_id="",
    request=Request("-", (Message("user", "-"),)),
    retrieved_context=(Document("-"),),
    response="-",
    expected_response="-",
)
"""Used if no text is stored: its prompt is little more than the instructions."""


@dataclass(slots=True)
class CallGroup:
    """The evaluators that one call serves: one, or those of a group. Sums are weighted by requests.

    `selected` counts the requests that are evaluated, `applies` those that would be evaluated at a rate of 1, and
    `max_tokens` the tokens of the latter's prompts. `shares` and `tokens` are the expected numbers, by `FACTORS`, of
    requests evaluated and of tokens in their prompts. `adaptive`: the selection depends on more than the case. With a
    request log, `tokens_each` is the length of one prompt and `tokens_from` the source of that figure;
    `unpredictable`: the selection cannot be predicted.
    """

    members: tuple[ConfiguredEvaluator, ...]
    model: str
    selected: float = 0.0
    applies: float = 0.0
    max_tokens: float = 0.0
    tokens_from: Literal["prompts", "evaluations", "instructions"] = "prompts"
    shares: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))
    tokens: list[float] = field(default_factory=lambda: [0.0] * len(FACTORS))
    adaptive: bool = False
    tokens_each: float = 0.0
    unpredictable: bool = False
    instruction_tokens: float = 0.0

    @property
    def name(self) -> str:
        """The names of its evaluators."""
        return " + ".join(one.evaluator.name for one in self.members)


@dataclass(slots=True)
class Preview:
    """What a configuration would do with recorded traffic.

    `judged` is the number of requests that judges would be asked about; `listed` are the first of them, each with its
    evaluators. `first` is the first prompt and the id of its request; if no request is selected, of one that could be.
    `counted` is false if some tokens are estimated, probably too high, because litellm cannot count them.
    """

    traffic: RecordedTraffic
    groups: list[CallGroup]
    judged: float = 0.0
    listed: list[tuple[Case, tuple[str, ...]]] = field(default_factory=list)
    first: tuple[str, Exchange] | None = None
    counted: bool = True


async def predict(config: Config, traffic: RecordedTraffic) -> Preview:
    """Select among the recorded requests as production does, and render the prompts.

    Samplers and quotas that depend on time see the traffic at its own pace. Raises `ConfigError` if a judge's settings
    cannot work.
    """
    clock = ManualClock(traffic.cases[0][0].answered_at if traffic.cases else 0.0)
    runtime = Runtime.standalone(clock)
    exchanges: list[Exchange] = []
    done = Preview(traffic, _groups(config))
    working = [one for one in config.configured_evaluators if config.works(one)]
    free = {"budget": Budget(), "cache": CacheSettings(max_entries=0), "max_attempts": 1}
    judges = {name: settings.model_copy(update=free) for name, settings in config.all_judges.items()}
    seam = partial(RecordingProvider, exchanges=exchanges, send=False)
    async with open_scorer(working, judges, runtime=runtime, seam=seam) as scorer:
        case_sampler = CaseSampler(
            working,
            versions=scorer.versions,
            draws=None,
            runtime=runtime,
            salt=config.sampling.salt,
            quotas=config.traffic.quotas,
        )
        judged = [one for one in working if one.evaluator.cost == "judge"]
        for case, weight in traffic.cases or ([(_EMPTY, 0.0)] if traffic.logged is not None else []):
            clock.advance(max(case.answered_at - clock.now(), 0.0))
            local = scores_of(await score_local(scorer, case_sampler, case))
            known = with_facts(case, local)
            selected = {one.evaluator.name for one in judged if case_sampler.draw(one, known, local) is not None}
            by: list[str] = []
            for group in done.groups:
                exchanges.clear()
                await scorer.score(known, [(one, EVERY) for one in group.members])
                if not exchanges:
                    continue  # does not apply, or is scored by a rule
                mine = [one.evaluator.name for one in group.members if one.evaluator.name in selected]
                _add(done, group, known, exchanges, weight, is_selected=bool(mine))
                if case is not _EMPTY and (done.first is None or (mine and not done.judged and not by)):
                    done.first = (known.request_id, exchanges[0])
                by += mine
            done.judged += bool(by)
            if by and len(done.listed) < LISTED:
                done.listed.append((known, tuple(by)))
    if traffic.logged is not None:
        _use_log(done, traffic.logged)
    return done


def _groups(config: Config) -> list[CallGroup]:
    made = []
    for members in call_groups(config):
        varies = any(not isinstance(one.sampler, FixedSampler) for one in members) or bool(config.traffic.quotas)
        made.append(CallGroup(members, config.judge_of(members[0]).model or "", adaptive=varies))
    return made


def _use_log(done: Preview, logged: LoggedTraffic) -> None:
    """Take the selection from the log of all requests; cases with texts only provide the length of prompts."""
    texts = {case.request_id: case for case, _ in done.traffic.cases}
    done.judged = logged.judged
    done.listed = [(texts.get(name, Case(request_id=name)), by) for name, by in logged.listed]
    found = {tuple(one.evaluator.name for one in group.members): group for group in logged.groups}
    for group in done.groups:
        names = tuple(one.evaluator.name for one in group.members)
        each = group.max_tokens / group.applies if group.applies else 0.0
        recorded: dict[str, int] = {}
        for name in names:
            for case, tokens in done.traffic.input_tokens.get(name, {}).items():
                recorded[case] = recorded.get(case, 0) + tokens
        if not each and recorded:
            each, group.tokens_from = sum(recorded.values()) / len(recorded), "evaluations"
        elif not each:
            each, group.tokens_from = group.instruction_tokens, "instructions"
        known = found.get(names)
        group.selected, group.applies = (known.selected, known.applies) if known else (0.0, 0.0)
        group.tokens_each, group.unpredictable = each, known is not None and 0 < known.applies <= known.unknown
        group.shares = list(known.shares) if known else [0.0] * len(FACTORS)
        group.tokens = [share * each for share in group.shares]


def _add(
    done: Preview, group: CallGroup, case: Case, exchanges: Sequence[Exchange], weight: float, *, is_selected: bool
) -> None:
    tokens = 0
    for one in exchanges:
        exact = count_tokens(group.model, one.call.messages)
        done.counted = done.counted and exact is not None
        tokens += exact if exact is not None else estimate_tokens(message["content"] for message in one.call.messages)
    if case.request_id == _EMPTY.request_id:
        group.instruction_tokens = float(tokens)
    group.selected += is_selected
    group.applies += weight
    group.max_tokens += weight * tokens
    rate = float(is_selected)
    if not group.adaptive:
        samplers = [one.sampler for one in group.members]
        rate = max(probability_of(one, case)[0] for one in samplers if isinstance(one, FixedSampler))
    for number, factor in enumerate(FACTORS):
        share = weight * (rate * factor if group.adaptive else min(rate * factor, 1.0))
        group.shares[number] += share
        group.tokens[number] += share * tokens


RATE, WORSE = 0.02, 0.04
"""The change to detect: the defect rate doubles."""

_MONTH: Final = 30.0  # days
_DAY: Final = 86_400.0
_SIX_HOURS: Final = 21_600.0


@dataclass(frozen=True, slots=True)
class RateNeeded:
    """What it takes to notice within six hours that the defect rate has doubled.

    `share` is the share of requests to evaluate, None if more are needed than there are; `dollars_per_month` is None if
    the price is unknown.
    """

    threshold: float
    scored_per_hour: float
    share: float | None
    dollars_per_month: float | None


@dataclass(frozen=True, slots=True)
class GroupCost:
    """What one group of evaluators that share a call would cost.

    `selected_per_day`, and `dollars_per_month` by `FACTORS`, are None if they cannot be predicted; an amount is None if
    the price is unknown.
    """

    group: CallGroup
    selected_per_day: float | None
    tokens_per_prompt: float
    dollars_per_month: Sequence[float | None] | None
    needed: RateNeeded


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of all groups at a number of requests a day. `span`: the seconds of traffic from which that follows."""

    requests_per_day: float
    span: float | None
    groups: Sequence[GroupCost]


def estimate(
    config: Config, preview: Preview, *, requests_per_day: float | None = None, output_tokens: int = 200
) -> CostEstimate | None:
    """Estimate what a month would cost; None if the number of requests a day is unknown.

    `requests_per_day` is by default that of the recorded traffic. `output_tokens` is the length of one reply of the
    judge, which is not known before one is paid for.
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
    """Return the cost of evaluating the recorded traffic at a factor, in US dollars; None if the price is unknown."""
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
