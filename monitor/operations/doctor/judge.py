"""Checks each judge: a structured verdict, the features it supports, and five cases with a known result."""

from __future__ import annotations

import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

from monitor.clock import Clock
from monitor.config import Config
from monitor.config.entries import read_evaluator
from monitor.errors import ConfigError, JudgeError
from monitor.jobs.canary import load
from monitor.judge.api_key import ApiKey
from monitor.judge.client import open_judge
from monitor.judge.litellm_provider import takes
from monitor.judge.provider import Exchange, RecordingProvider
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import before_a_call, key_variable, place_of, provider_in, remedy, remedy_in
from monitor.model.case import Message
from monitor.model.outcome import EvaluationResult, Score, UnscoredReason
from monitor.operations.doctor.findings import Finding, broken, failed, ok, warning
from monitor.pipeline.configured_evaluator import DEFAULT_JUDGE, ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer
from monitor.quantities import dollars, timing
from monitor.stages import Judge, Prompt, Question, Runtime
from monitor.telemetry.metrics import total

_KNOWN: Final = {"canary-01": False, "canary-02": False, "canary-03": False, "canary-04": True, "canary-05": True}
"""Canary cases, and whether the answer is a defect: two of the answers are not grounded in the retrieved context."""

_LEAST_RIGHT: Final = 4
_MAX_CLOCK_OFFSET: Final = 60.0

_FIXES: Final = {
    UnscoredReason.TIMEOUT: "check `api_base`, use a faster model, or raise `timeout`",
    UnscoredReason.RATE_LIMITED: "raise the provider's limit, or set `budget.requests_per_minute` below it",
    UnscoredReason.BUDGET: "raise `budget`",
    UnscoredReason.TOO_LARGE: "use a model with a larger context window, or lower `max_characters`",
}
_OTHER_FIX: Final = "check `model`, `api_base` and the provider's status; `rag-monitor try` shows its replies"

_QUESTION: Final = Question(
    name="doctor",
    instructions="Does the response agree with the context? Reply with `agrees`: true or false.",
    material={"context": "The shop opens at nine.", "response": "It opens at nine."},
    schema={
        "type": "object",
        "properties": {"agrees": {"type": "boolean"}},
        "required": ["agrees"],
        "additionalProperties": False,
    },
    max_tokens=200,
)
_WORD: Final = Prompt("doctor", (Message("user", "Reply with the word yes."),), max_tokens=16, logprobs=True)


def check_keys(config: Config) -> Iterator[Finding]:
    """Yield a finding on whether each judge has a key, without using the key."""
    for name, settings in config.all_judges.items():
        place = place_of(name)
        if settings.model is None or settings.is_classifier:
            continue
        missing = before_a_call(settings, os.environ, place)
        named = re.sub(r"[^A-Z0-9]", "_", provider_in(settings.model).upper())
        variable = key_variable(settings.model) or f"{named}_API_KEY"
        if missing is not None:
            yield failed(place, missing.why, remedy(missing.cause, place, model=settings.model))
        elif settings.api_key_file is not None:
            yield _key_file(place, settings)
        elif settings.api_key is not None and settings.api_key.get_secret_value():
            yield ok(place, "API key present (not verified)")
        elif os.environ.get(variable):
            yield ok(place, f"no `api_key`, but {variable} is set (not verified)")
        else:
            fix = f"set `api_key` or {variable}, unless the provider needs no key or reads another variable"
            yield warning(place, f"no `api_key`, and {variable} is not set", fix)


def _key_file(place: str, settings: JudgeSettings) -> Finding:
    try:
        ApiKey(settings, place=place).load()
    except ConfigError as error:
        return failed(place, str(error), "put only the provider's key in the file, readable by this user")
    return ok(place, "API key present in `api_key_file` (not verified)")


async def check_judges(config: Config) -> AsyncIterator[Finding]:
    """Yield findings on each configured judge; about ten calls each."""
    for name, settings in config.all_judges.items():
        place = place_of(name)
        if settings.model is None:
            if name != DEFAULT_JUDGE or not config.judges:
                yield warning(place, "no model is configured: judged evaluators are off", "set `judge.model`")
            continue
        try:
            async for finding in _one(config, name, place, settings):
                yield finding
        except Exception as error:  # noqa: BLE001 - the findings on the other judges must not be lost
            yield broken(place, error)


async def _one(config: Config, name: str, place: str, settings: JudgeSettings) -> AsyncIterator[Finding]:
    runtime = Runtime.standalone()
    exchanges: list[Exchange] = []
    impatient = settings.model_copy(update={"max_attempts": 1, "max_age": min(settings.max_age, 60.0)})
    seam = partial(RecordingProvider, exchanges=exchanges)
    try:
        async with open_judge(impatient, runtime, rng=random.Random(), seam=seam, place=place) as judge:
            if not settings.is_classifier:
                try:
                    verdict = await judge.ask(_QUESTION)
                except JudgeError as error:
                    fix = remedy_in(str(error), place, settings) or _FIXES.get(error.reason, _OTHER_FIX)
                    yield failed(place, f"{judge.model} returns no verdict: {error}", fix)
                    return
                yield ok(place, f"{verdict.model} returned a structured verdict in {timing(verdict.seconds)}")
                yield _temperature(place, settings)
                for finding in (*_form(place, exchanges), *_clock(place, exchanges, runtime.clock)):
                    yield finding
                yield await _logprobs(place, judge)
            yield await _known_cases(config, name, place, judge, runtime)
    except ConfigError as error:
        yield failed(place, str(error), "change the configuration accordingly")
        return
    spent = total(runtime.metrics.judge_cost)
    yield ok(place, f"these checks cost {dollars(spent) if spent else 'nothing, or the price is unknown'}")


def _temperature(place: str, settings: JudgeSettings) -> Finding:
    if settings.temperature is None:
        return ok(place, "uses the provider's default temperature, as configured")
    if "temperature" in takes(settings.model or ""):
        return ok(place, f"uses temperature {settings.temperature:g}")
    fix = "nothing to do; `rag-monitor try` shows how often its results flip"
    return warning(place, "the model does not accept a temperature, so none is sent", fix)


def _form(place: str, exchanges: list[Exchange]) -> Iterator[Finding]:
    if any(one.call.response_format is None for one in exchanges):
        fix = "nothing to do: the prompt asks for JSON and replies are parsed strictly; a model with schemas errs less"
        yield warning(place, "the provider does not accept a JSON schema", fix)
    elif len(exchanges) > 1:
        fix = "use a model or server that enforces the schema: each malformed reply costs a second call"
        yield warning(place, "the first reply did not follow the JSON schema", fix)
    else:
        yield ok(place, "replies follow the JSON schema")


def _clock(place: str, exchanges: list[Exchange], clock: Clock) -> Iterator[Finding]:
    date = next((one.reply.date for one in exchanges if one.reply is not None and one.reply.date), "")
    try:
        off = clock.now() - parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):  # a day or a year of many digits
        return
    if abs(off) > _MAX_CLOCK_OFFSET:
        ahead = "ahead of" if off > 0 else "behind"
        fix = "set this machine's clock (NTP): otherwise results look late and windows are wrong"
        yield warning("clock", f"this machine is {abs(off):.0f} s {ahead} the provider of {place}", fix)
    else:
        yield ok("clock", f"agrees with the provider of {place} within a minute")


async def _logprobs(place: str, judge: Judge) -> Finding:
    try:
        verdict = await judge.ask(_WORD)
    except JudgeError as error:
        return ok(place, f"returns no log probabilities, which few evaluators use ({error})")
    if verdict.data["tokens"]:
        return ok(place, "returns log probabilities")
    return ok(place, "returns no log probabilities, which few evaluators use")


def _grounding_evaluator(config: Config, name: str) -> ConfiguredEvaluator:
    """Return a grounding evaluator of this judge; if there is none, the default grounding evaluator for it."""
    mine = [one for one in config.configured_evaluators if one.judge == name and one.evaluator.cost == "judge"]
    grounding = (one for one in mine if one.evaluator.measures == "grounding" and "context" in one.evaluator.needs)
    kind = "hhem" if config.all_judges[name].is_classifier else "groundedness"
    found = next(grounding, None) or read_evaluator({"type": kind}, "doctor")
    return replace(found, judge=name, group="")


async def _known_cases(config: Config, name: str, place: str, judge: Judge, runtime: Runtime) -> Finding:
    one = _grounding_evaluator(config, name)
    scorer = Scorer([one], {name: judge}, runtime=runtime)
    results: dict[str, EvaluationResult] = {}
    for case in load(None).values():
        if case.request_id in _KNOWN:
            (results[case.request_id],) = await scorer.score(case)
    wrong = [key for key, is_defect in _KNOWN.items() if not _is_right(results.get(key), is_defect)]
    right = len(_KNOWN) - len(wrong)
    message = f"{one.evaluator.name} scores {right} of {len(_KNOWN)} known cases correctly"
    if not wrong:
        return ok(place, message)
    why = "; ".join(f"{key}: {_result(results.get(key))}" for key in wrong)
    fix = f"look at them with `rag-monitor try {one.evaluator.name}`, and use a stronger model"
    return (warning if right >= _LEAST_RIGHT else failed)(place, f"{message} ({why})", fix)


def _is_right(judged: EvaluationResult | None, is_defect: bool) -> bool:
    return judged is not None and isinstance(judged.outcome, Score) and judged.defect == is_defect


def _result(judged: EvaluationResult | None) -> str:
    if judged is None:
        return "no result"
    if not isinstance(judged.outcome, Score):
        return f"{judged.outcome.reason}"
    return f"score {judged.outcome.value:g}"
