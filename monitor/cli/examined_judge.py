"""What `rag-monitor doctor` asks each judge: a structured verdict, what it supports, and five pairs that are known."""

from __future__ import annotations

import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

from monitor.canary.cases import load
from monitor.cli.console.text import dollars
from monitor.cli.findings import Finding, failed, ok, warning
from monitor.clock import Clock
from monitor.config import Config
from monitor.config.entries import assignment
from monitor.errors import ConfigError, JudgeError
from monitor.judge.api_key import ApiKey
from monitor.judge.client import open_judge
from monitor.judge.litellm_provider import takes
from monitor.judge.recording import Exchange, Recording
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Message
from monitor.model.outcome import Judged, Score, UnscoredReason
from monitor.pipeline.assignment import DEFAULT_JUDGE, Assignment
from monitor.pipeline.scoring import Scorer
from monitor.quantities import timing
from monitor.stages import Judge, Prompt, Question, Runtime
from monitor.telemetry.metrics import total

_KNOWN: Final = {"canary-01": False, "canary-02": False, "canary-03": False, "canary-04": True, "canary-05": True}
"""Pairs that ship, and whether the answer is a defect: two of them are not grounded in what was retrieved."""

_FEWEST_RIGHT: Final = 4
_DRIFT: Final = 60.0

_MEND: Final = {
    UnscoredReason.AUTH: "give the right key as `api_key`, or in the provider's own environment variable",
    UnscoredReason.TIMEOUT: "is `api_base` right, and the model fast enough? Else raise `timeout`",
    UnscoredReason.RATE_LIMITED: "raise the provider's limit, or set `budget.requests_per_minute` below it",
    UnscoredReason.BUDGET: "raise `budget`",
    UnscoredReason.TOO_LARGE: "a model with a larger window, or a lower `max_characters`",
}
_ELSE: Final = "are `model` and `api_base` right, and is the provider up? `rag-monitor try` shows what it says"

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


def keys(config: Config) -> Iterator[Finding]:
    """Whether there is a key for each judge, without trying it."""
    for name, settings in config.all_judges.items():
        place = f"judges.{name}" if name != DEFAULT_JUDGE else "judge"
        provider = (settings.model or "").partition("/")[0]
        if settings.model is None or settings.is_classifier:
            continue
        variable = f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_API_KEY"
        if settings.api_key_file is not None:
            yield _key_file(place, settings)
        elif settings.api_key is not None and settings.api_key.get_secret_value():
            yield ok(place, "has a key, which is not tried")
        elif os.environ.get(variable):
            yield ok(place, f"has no `api_key`, but {variable} is set; it is not tried")
        else:
            mend = f"set `api_key` or {variable}, unless this provider wants none or another variable"
            yield warning(place, f"has no `api_key`, and {variable} is not set", mend)


def _key_file(place: str, settings: JudgeSettings) -> Finding:
    try:
        ApiKey(settings).load()
    except ConfigError as error:
        return failed(place, str(error), "let the file hold the provider's key and nothing else, readable by this user")
    return ok(place, "has a key in its `api_key_file`, which is not tried")


async def judges(config: Config) -> AsyncIterator[Finding]:
    """Each configured judge. Costs some ten calls each."""
    for name, settings in config.all_judges.items():
        place = f"judges.{name}" if name != DEFAULT_JUDGE else "judge"
        if settings.model is None:
            if name != DEFAULT_JUDGE or not config.judges:
                yield warning(place, "no model is configured, judged evaluators are off", "set `judge.model`")
            continue
        async for finding in _one(config, name, place, settings):
            yield finding


async def _one(config: Config, name: str, place: str, settings: JudgeSettings) -> AsyncIterator[Finding]:
    runtime = Runtime.standalone()
    exchanges: list[Exchange] = []
    hasty = settings.model_copy(update={"max_attempts": 1, "max_age": min(settings.max_age, 60.0)})
    seam = partial(Recording, exchanges=exchanges)
    try:
        async with open_judge(hasty, runtime, rng=random.Random(), seam=seam) as judge:
            if not settings.is_classifier:
                try:
                    verdict = await judge.ask(_QUESTION)
                except JudgeError as error:
                    yield failed(place, f"{judge.model} gives no verdict: {error}", _MEND.get(error.reason, _ELSE))
                    return
                yield ok(place, f"{verdict.model} gives a structured verdict in {timing(verdict.seconds)}")
                yield _temperature(place, settings)
                for finding in (*_form(place, exchanges), *_clock(place, exchanges, runtime.clock)):
                    yield finding
                yield await _logprobs(place, judge)
            yield await _pairs(config, name, place, judge, runtime)
    except ConfigError as error:
        yield failed(place, str(error), "mend the configuration as it says")
        return
    spent = total(runtime.metrics.judge_cost)
    yield ok(place, f"this cost {dollars(spent) if spent else 'nothing, or nobody knows the price'}")


def _temperature(place: str, settings: JudgeSettings) -> Finding:
    if settings.temperature is None:
        return ok(place, "is asked at its own temperature, as configured")
    if "temperature" in takes(settings.model or ""):
        return ok(place, f"is asked at temperature {settings.temperature:g}")
    mend = "none needed; `rag-monitor try` shows how often its verdicts flip"
    return warning(place, "the model takes no temperature, so it is asked without", mend)


def _form(place: str, exchanges: list[Exchange]) -> Iterator[Finding]:
    if any(one.call.response_format is None for one in exchanges):
        mend = "works all the same: replies are asked for in words, and read strictly; a model that knows it errs less"
        yield warning(place, "the provider does not take a JSON schema", mend)
    elif len(exchanges) > 1:
        mend = "use a model or server that enforces the schema: each misformed reply costs a second call"
        yield warning(place, "the first reply did not hold to the schema, though one was asked for", mend)
    else:
        yield ok(place, "replies hold to the JSON schema")


def _clock(place: str, exchanges: list[Exchange], clock: Clock) -> Iterator[Finding]:
    told = next((one.reply.date for one in exchanges if one.reply is not None and one.reply.date), "")
    try:
        off = clock.now() - parsedate_to_datetime(told).timestamp()
    except ValueError:
        return
    if abs(off) > _DRIFT:
        ahead = "ahead of" if off > 0 else "behind"
        mend = "set this machine's clock (NTP): verdicts would look late, and windows be wrong"
        yield warning("clock", f"this machine is {abs(off):.0f} s {ahead} the provider of {place}", mend)
    else:
        yield ok("clock", f"agrees with the provider of {place} within a minute")


async def _logprobs(place: str, judge: Judge) -> Finding:
    try:
        verdict = await judge.ask(_WORD)
    except JudgeError as error:
        return ok(place, f"gives no log probabilities, which few evaluators use ({error})")
    if verdict.data["tokens"]:
        return ok(place, "gives log probabilities")
    return ok(place, "gives no log probabilities, which few evaluators use")


def _asked(config: Config, name: str) -> Assignment:
    """Return what scores the pairs: an evaluator of this judge that checks grounding, else the one that fits it."""
    mine = [one for one in config.assignments if one.judge == name and one.evaluator.cost == "judge"]
    grounding = (one for one in mine if one.evaluator.measures == "grounding" and "context" in one.evaluator.needs)
    kind = "hhem" if config.all_judges[name].is_classifier else "groundedness"
    found = next(grounding, None) or assignment({"type": kind}, "doctor")
    return replace(found, judge=name, group="")


async def _pairs(config: Config, name: str, place: str, judge: Judge, runtime: Runtime) -> Finding:
    one = _asked(config, name)
    scorer = Scorer([one], {name: judge}, runtime=runtime)
    results: dict[str, Judged] = {}
    for case in load(None).values():
        if case.request_id in _KNOWN:
            (results[case.request_id],) = await scorer.score(case)
    wrong = [key for key, is_defect in _KNOWN.items() if not _is(results.get(key), is_defect)]
    right = len(_KNOWN) - len(wrong)
    said = f"{one.evaluator.name} judges {right} of {len(_KNOWN)} known pairs as a person would"
    if not wrong:
        return ok(place, said)
    why = "; ".join(f"{key}: {_told(results.get(key))}" for key in wrong)
    mend = f"look at them with `rag-monitor try {one.evaluator.name}`, and take a stronger model"
    return (warning if right >= _FEWEST_RIGHT else failed)(place, f"{said} ({why})", mend)


def _is(judged: Judged | None, is_defect: bool) -> bool:
    return judged is not None and isinstance(judged.outcome, Score) and judged.defect == is_defect


def _told(judged: Judged | None) -> str:
    if judged is None:
        return "not judged"
    if not isinstance(judged.outcome, Score):
        return f"{judged.outcome.reason}"
    return f"score {judged.outcome.value:g}"
