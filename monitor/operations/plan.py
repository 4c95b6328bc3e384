"""Plans how many answers to score: how soon a worse defect rate would raise an alert, and what that costs.

question = plan.question_for(config, rate=0.02, worse=0.04)
plan.simulate(question, [10, 100], plan.price_for(config))
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

from monitor.alerts.policy import DEFAULT_WINDOWS, AlertPolicy, policies_for
from monitor.alerts.threshold import Z_OVER
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.judge.budget import tariff
from monitor.operations.progress import NO_PROGRESS, Progress
from monitor.quantities import format_duration, percent
from monitor.statistics.change import FAMILIES, HOUR
from monitor.statistics.power import High, Noticed, high_alarms, high_delay, regression_delay
from monitor.statistics.rates import Sums, estimate, judged_to_tell
from monitor.statistics.session_products import LONGEST
from monitor.statistics.severe_cases import all_wrong, expected_false_pages

DAYS: Final = 7
"""The simulated time in days: longer delays are not known."""

SEVERE_ERROR: Final = 0.001
"""The default share of harmless answers that one judgement calls severe."""

REPEATED: Final = (0.2, 0.5, 0.8)
"""How far a second judgement repeats the errors of the first: as hoped for from another model, in between, and as with
the same model asked in other words."""

MONTHS: Final = 50
"""The number of simulated months in which false alarms are counted."""

_RUNS, _SEED = 100, 1
_HOURS_A_DAY: Final = 24
_MAX_PER_HOUR: Final = 100_000.0
_PLENTY: Final = 5_000.0


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """The change to notice, and the alert rules to do so. Rates are shares; windows are (seconds, z), shortest first.

    `per_session` scored answers make a session, and are all bad or all good. Raises `ConfigError` unless
    0 < rate < worse < 1, rate < threshold < 1, and a session has 1 to `LONGEST` scored answers.
    """

    rate: float
    worse: float
    threshold: float
    windows: tuple[tuple[float, float], ...]
    family: str
    per_session: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.per_session <= LONGEST:
            raise ConfigError(f"answers_per_session: {self.per_session} is not from 1 to {LONGEST}")
        if not 0 < self.rate < self.worse < 1:
            raise ConfigError(f"worse: {percent(self.worse)} must be above rate ({percent(self.rate)}) and below 100 %")
        if not self.rate < self.threshold < 1:
            raise ConfigError(
                f"threshold: {percent(self.threshold)} must be above rate ({percent(self.rate)}):"
                " otherwise the alert fires already"
            )


@dataclass(frozen=True, slots=True)
class EvaluationPrice:
    """US dollars for one evaluation, None if unknown; `source` says where the price comes from."""

    dollars: float | None
    source: str

    def a_day(self, per_hour: float) -> float | None:
        """Return the cost per day of `per_hour` evaluations an hour."""
        return None if self.dollars is None else per_hour * _HOURS_A_DAY * self.dollars


@dataclass(frozen=True, slots=True)
class Delay:
    """How soon an alert of `evaluator` notices a worse rate: the median in hours; if None, `why` says why not."""

    evaluator: str
    scored_per_hour: float
    hours: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Needed:
    """How many answers must be scored within one window to raise the alert 9 times in 10."""

    window: str
    scored: int
    scored_per_hour: float
    dollars_per_day: float | None


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What one number of scored answers achieves. `high` is None if the worse rate is not above the threshold.

    `day_lower` and `day_upper` are the 95 % limits of one day's rate. `false_alarms` is the number of false alarms of
    the threshold in 30 days of a steady rate.
    """

    scored_per_hour: float
    dollars_per_day: float | None
    day_lower: float
    day_upper: float
    high: Noticed | None
    false_alarms: float
    regression: Noticed


@dataclass(frozen=True, slots=True)
class SevereVolume:
    """The effect of a number of scored harmless answers in 30 days, by how far the judge repeats its errors.

    `confirmed` counts harmless answers judged severe twice, `pages` the false pages: one value for each of `REPEATED`.
    """

    scored_per_hour: float
    confirmed: tuple[float, ...]
    pages: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeverePlan:
    """The false pages to expect from an alert on single severe cases.

    `defect` is the severe level in words, `accepted` the false pages in 30 days (infinity: every case pages), `error`
    the share of harmless answers that one judgement calls severe. `judged` is the share of answers that are judged,
    None if it varies: cases that are not judged cannot page.
    """

    evaluator: str
    defect: str
    accepted: float
    error: float
    judged: float | None
    volumes: tuple[SevereVolume, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a `PlanQuestion`. `severe` has an entry for each alert on single severe cases."""

    question: PlanQuestion
    price: EvaluationPrice
    needed: tuple[Needed, ...]
    volumes: tuple[VolumePlan, ...]
    severe: tuple[SeverePlan, ...] = ()


def question_for(
    config: Config,
    rate: float,
    worse: float,
    *,
    threshold: float | None = None,
    evaluator: str | None = None,
    defect_rule: str | None = None,
    per_session: int = 1,
) -> PlanQuestion:
    """Return the question for the alert policy of `evaluator`, or for the default rules.

    `defect_rule` names the policy's own defect rule, such as `high`, if there are several policies. The default
    threshold is the lowest of the policy, or halfway between both rates. Raises `ConfigError`.
    """
    config = config.as_run()
    policy = _policy(config, evaluator, defect_rule) if evaluator is not None else None
    if threshold is None:
        halfway = (rate + worse) / 2
        threshold = min(policy.thresholds.values(), default=halfway) if policy is not None else halfway
    windows = policy.by_length if policy is not None else DEFAULT_WINDOWS
    family = policy.regression if policy is not None and policy.regression is not None else "default"
    asked = tuple((one.window, one.z) for one in windows)
    return PlanQuestion(rate, worse, threshold, asked, str(family), per_session)


def _policy(config: Config, evaluator: str, defect_rule: str | None) -> AlertPolicy | None:
    """Return the policy of an evaluator for all apps; None if it has only one on single severe cases."""
    found = {
        one.defect.name if one.defect is not None else "": one for one in policies_for(config.alerts, "", evaluator)
    }
    if defect_rule is not None and defect_rule not in found:
        known = ", ".join(repr(name) for name in found if name) or "none"
        raise ConfigError(
            f"defect_rule: no alert policy of {evaluator!r} has the rule {defect_rule!r}; there are: {known}"
        )
    if defect_rule is not None:
        return found[defect_rule]
    if "" in found or len(found) == 1:
        return found.get("") or next(iter(found.values()))
    if found:
        known = ", ".join(repr(name) for name in found)
        raise ConfigError(f"defect_rule: {evaluator!r} has several alert policies, choose one: {known}")
    if any(one.severe is not None and one.evaluator == evaluator for one in config.alerts):
        return None
    known = ", ".join(sorted({one.evaluator for one in config.alerts if one.app is None})) or "none"
    raise ConfigError(f"evaluator: no alert policy for {evaluator!r} on all apps; there are policies for {known}")


def price_for(
    config: Config, evaluator: str | None = None, *, input_tokens: int = 2000, output_tokens: int = 200
) -> EvaluationPrice:
    """Return the price of one evaluation with these numbers of tokens, by the evaluator's judge or the default one."""
    config = config.as_run()
    found = next((one for one in config.configured_evaluators if one.evaluator.name == evaluator), None)
    if found is not None and found.evaluator.cost == "local":
        return EvaluationPrice(0.0, f"{evaluator} uses no judge")
    settings = config.judge_of(found) if found is not None else config.judge
    if settings.model is None:
        return EvaluationPrice(None, "unknown: no judge is configured")
    known = tariff(settings)
    if known is None:
        return EvaluationPrice(None, f"unknown: there is no price for {settings.model}")
    source = f"{settings.model}, {input_tokens:,} tokens in and {output_tokens:,} out"
    return EvaluationPrice(known.dollars(input_tokens, output_tokens), source)


def simulate(
    question: PlanQuestion,
    scored_per_hour: Sequence[float],
    price: EvaluationPrice,
    *,
    progress: Progress = NO_PROGRESS,
) -> Plan:
    """Simulate both alert rules a hundred times for each number of scored answers an hour, all of equal weight.

    Also simulates `MONTHS` steady months, for false alarms.

    The same question gives the same figures. Raises `ConfigError` for a number that is not above 0, or is beyond
    100,000.
    """
    for one in scored_per_hour:
        if not 0 < one <= _MAX_PER_HOUR:
            raise ConfigError(f"scored_per_hour: {one:g} is not above 0 and up to {_MAX_PER_HOUR:,.0f}")
    volumes = []
    with progress.steps(len(scored_per_hour), "simulating") as done:
        for one in scored_per_hour:
            volumes.append(_volume(question, one, price))
            done()
    return Plan(question, price, needed(question, price), tuple(volumes))


def how_soon(config: Config, evaluator: str, scored_per_hour: float, rate: float, worse: float) -> Delay:
    """Simulate how soon the first of the alerts on an evaluator fires, at this number of scored answers an hour.

    More than `_PLENTY` answers an hour are simulated as `_PLENTY`: more detect nothing sooner.
    """
    policies = [one for one in policies_for(config.alerts, "", evaluator) if one.watches_rate]
    if not policies or not scored_per_hour:
        return Delay(evaluator, scored_per_hour, None, "no alert" if scored_per_hour else "nothing is scored")
    found: list[float | None] = []
    for one in policies:
        threshold = min(one.thresholds.values(), default=1.0)
        windows = tuple((window.window, window.z) for window in one.by_length)
        family = None if one.regression is None else str(one.regression)
        rules = _Rules(windows, threshold if threshold < worse else None, family)
        found.append(_first_alert(rules, min(scored_per_hour, _PLENTY), rate, worse))
    hours = min((one for one in found if one is not None), default=None)
    return Delay(evaluator, scored_per_hour, hours, "" if hours is not None else "never")


class _Rules(NamedTuple):
    """The rules that decide when the alerts of a policy fire. `threshold` and `family` are None if they cannot fire."""

    windows: tuple[tuple[float, float], ...]
    threshold: float | None
    family: str | None


@functools.lru_cache(maxsize=256)
def _first_alert(rules: _Rules, per_hour: float, rate: float, worse: float) -> float | None:
    """Return the median hours until the earlier of the two alerts; None if most runs end without either."""
    rng = random.Random(_SEED)
    medians = []
    if rules.threshold is not None:
        high = High(rules.windows, rules.threshold, Z_OVER)
        medians.append(high_delay(high, rate, worse, per_hour, runs=_RUNS, days=DAYS, rng=rng).median)
    if rules.family is not None:
        medians.append(regression_delay(FAMILIES[rules.family], rate, worse, per_hour, runs=_RUNS, rng=rng).median)
    return min((one for one in medians if one is not None), default=None)


def severe_plans(
    config: Config, scored_per_hour: Sequence[float], *, evaluator: str | None = None, error: float = SEVERE_ERROR
) -> tuple[SeverePlan, ...]:
    """Return the plan for each alert on single severe cases, for these numbers of scored answers an hour.

    Args:
        config: has the alerts.
        scored_per_hour: harmless answers that are judged.
        evaluator: only its alert.
        error: the share of harmless answers that one judgement calls severe, above 0 and below 1.
    """
    samplers = {one.evaluator.name: one.sampler for one in config.configured_evaluators}
    found = []
    for policy in config.alerts:
        if policy.severe is None or evaluator not in (None, policy.evaluator):
            continue
        accepted = policy.severe.accepted
        volumes = []
        for per_hour in scored_per_hour:
            monthly = per_hour * _HOURS_A_DAY * 30
            confirmed = tuple(monthly * all_wrong(error, 2, one) for one in REPEATED)
            pages = tuple(expected_false_pages(one, accepted) for one in confirmed)
            volumes.append(SevereVolume(per_hour, confirmed, pages))
        words = config.severe_rules[policy.evaluator].words
        judged = getattr(samplers[policy.evaluator], "rate", None)
        found.append(SeverePlan(policy.evaluator, words, accepted, error, judged, tuple(volumes)))
    return tuple(found)


def needed(question: PlanQuestion, price: EvaluationPrice) -> tuple[Needed, ...]:
    """Return, for each window, how many answers must be scored; empty if the worse rate is not above the threshold.

    If the answers of a session agree, that many sessions are needed instead.
    """
    found = []
    for seconds, z in question.windows if question.worse > question.threshold else ():
        scored = judged_to_tell(question.threshold, question.worse, z) * question.per_session
        per_hour = scored / (seconds / HOUR)
        found.append(Needed(format_duration(seconds), scored, per_hour, price.a_day(per_hour)))
    return tuple(found)


def _volume(question: PlanQuestion, per_hour: float, price: EvaluationPrice) -> VolumePlan:
    rng = random.Random(_SEED)
    size = question.per_session
    rule = High(question.windows, question.threshold, Z_OVER, size)
    high = None
    if question.worse > question.threshold:
        high = high_delay(rule, question.rate, question.worse, per_hour, runs=_RUNS, days=DAYS, rng=rng)
    regression = regression_delay(
        FAMILIES[question.family], question.rate, question.worse, per_hour, runs=_RUNS, rng=rng, per_session=size
    )
    months = [high_alarms(rule, question.rate, per_hour, days=30, rng=rng) for _ in range(MONTHS)]
    sessions = max(round(per_hour * _HOURS_A_DAY / size), 1)
    bad = max(round(sessions * question.rate), 1)
    day = estimate(Sums.counted(sessions * size, bad * size, size))
    assert day is not None  # noqa: S101 - at least one is scored
    return VolumePlan(per_hour, price.a_day(per_hour), day.lower, day.upper, high, fmean(months), regression)
