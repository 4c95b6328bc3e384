"""One case by one evaluator, several times: what was sent, what came back, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from monitor.cli.console.text import clean, dollars
from monitor.config import Config
from monitor.judge.recording import Exchange
from monitor.model.case import Case
from monitor.model.outcome import Judged, Score
from monitor.operations.offline.scoring import choose_evaluators
from monitor.pipeline.assignment import Assignment
from monitor.stages import Runtime
from monitor.trying import judging
from monitor.trying.judging import Once, Tried

__all__ = ["Once", "Tried", "as_json", "assignments", "lines", "prompt", "run", "verdict"]


def assignments(config: Config, name: str) -> list[Assignment]:
    """The evaluator that is tried, and after it those that production asks in the same call.

    Raises `ConfigError` for one that nobody has, or that has no judge.
    """
    (tried,) = choose_evaluators(config, [name])
    return judging.group(tried, [one for one in config.assignments if config.works(one)])


async def run(config: Config, who: Sequence[Assignment], case: Case, times: int) -> Tried:
    """Evaluate `times` times, one after the other, past every cache. Raises `ConfigError` where a judge cannot work."""
    settings = config.judge_of(who[0]) if who[0].evaluator.cost == "judge" else None
    return await judging.run(who, case, times, settings=settings, runtime=Runtime.standalone())


def as_json(tried: Tried) -> str:
    """One JSON object, every text exactly as it was."""
    told = {
        "evaluator": tried.one.evaluator.name,
        "version": tried.times[0].judged.version,
        "model": tried.settings.model if tried.settings is not None else None,
        "trace_id": tried.case.request_id,
        "together_with": tried.together,
        "times": [
            {**_outcome(time.judged), "calls": [_call(tried, one) for one in time.exchanges]} for time in tried.times
        ],
        "verdicts": len(tried.scored),
        "flips": tried.flips,
        "dollars": tried.paid,
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def _outcome(judged: Judged) -> dict[str, Any]:
    outcome = judged.outcome
    score = outcome if isinstance(outcome, Score) else None
    return {
        "outcome": type(outcome).__name__.lower(),
        "reason": None if isinstance(outcome, Score) else str(outcome.reason),
        "detail": getattr(outcome, "detail", None),
        "score": score.value if score else None,
        "label": score.label if score else None,
        "level": judged.level if score else None,
        "defect": judged.defect if score else None,
        "explanation": score.explanation if score else None,
        "evidence": [asdict(one) for one in score.evidence] if score else [],
        "spent": asdict(judged.spending),
    }


def _call(tried: Tried, one: Exchange) -> dict[str, Any]:
    reply = one.reply
    return {
        "messages": one.call.messages,
        "max_tokens": one.call.max_tokens,
        "temperature": tried.temperature(one),
        "response_format": one.call.response_format,
        "logprobs": one.call.logprobs,
        "reply": asdict(reply) if reply is not None else None,
        "fault": one.fault or None,
    }


def lines(tried: Tried) -> Iterator[str]:
    """For a person: the calls and the verdict of the first time, then what all of them said."""
    first = tried.times[0]
    model = f", {tried.settings.model}" if tried.settings is not None else ""
    yield f"{tried.one.evaluator.name} {first.judged.version}{model}, on the case {clean(tried.case.request_id)}"
    if tried.together:
        yield f"asked in one call together with {', '.join(tried.together)}, as the running monitor does"
    if tried.settings is None:
        yield "it asks no judge: there is no prompt, and every time is the same"
    elif not first.exchanges:
        yield "no call was made"
    for number, one in enumerate(first.exchanges, 1):
        yield from _shown(tried, one, number, len(first.exchanges))
    yield ""
    yield "--- verdict"
    yield from verdict(first.judged)
    yield ""
    yield from _all(tried)


def _shown(tried: Tried, one: Exchange, number: int, calls: int) -> Iterator[str]:
    yield ""
    yield f"--- prompt as sent{f', call {number} of {calls}' if calls > 1 else ''}"
    yield from prompt(one)
    form = "none asked for" if one.call.response_format is None else one.call.response_format.get("type", "asked for")
    yield f"[at most {one.call.max_tokens} tokens, temperature {tried.temperature(one)}, response format: {form}]"
    yield ""
    yield "--- reply as it came"
    reply = one.reply
    if reply is None:
        yield f"none: {one.fault}"
        return
    yield from _harmless(reply.text) if reply.text else ["(empty)"]
    ended = f"[ended with {clean(reply.finish) or 'no reason given'}"
    spent = f", {reply.input_tokens} tokens in, {reply.output_tokens} out" if reply.input_tokens is not None else ""
    yield f"{ended}{spent}, {clean(reply.model)}{', refused' if reply.refused else ''}]"


def prompt(one: Exchange) -> Iterator[str]:
    """What was sent, message by message; only what could steer a terminal is replaced."""
    for message in one.call.messages:
        yield f"[{message['role']}]"
        yield from _harmless(message["content"])


def _harmless(text: str) -> list[str]:
    return [clean(line) for line in text.split("\n")]


def verdict(judged: Judged) -> Iterator[str]:
    """A result in words."""
    outcome = judged.outcome
    if not isinstance(outcome, Score):
        detail = getattr(outcome, "detail", "")
        yield f"{type(outcome).__name__.lower()}: {outcome.reason}" + (f", {clean(detail)}" if detail else "")
        return
    label = f" ({clean(outcome.label)})" if outcome.label else ""
    yield f"score {outcome.value:g}{label}, level {judged.level}: {_word(judged)}"
    if outcome.explanation:
        yield clean(outcome.explanation)
    for one in outcome.evidence:
        at = f" [{one.start}:{one.end}]" if one.start is not None and one.end is not None else ""
        yield f"- {clean(one.verdict)}: {clean(one.claim)}{at}"


def _word(judged: Judged) -> str:
    return "a defect" if judged.defect else "no defect"


def _all(tried: Tried) -> Iterator[str]:
    scored, number = tried.scored, len(tried.times)
    yield f"--- {number} time{'s' if number > 1 else ''}"
    if scored:
        scores = " ".join(f"{one.outcome.value:g}" for one in scored if isinstance(one.outcome, Score))
        counts = Counter(_word(one) for one in scored)
        said = ", ".join(f"{many} times {word}" if many > 1 else f"once {word}" for word, many in counts.most_common())
        yield f"scores: {scores}"
        yield f"verdicts: {said} ({tried.one.defect} is a defect)"
        if number > 1:
            yield f"the verdict flips in {tried.flips} of {len(scored)}"
    without = Counter(
        f"{type(one.judged.outcome).__name__.lower()}: {one.judged.outcome.reason}"
        for one in tried.times
        if not isinstance(one.judged.outcome, Score)
    )
    for why, many in without.most_common():
        yield f"no verdict in {many} of {number}: {why}"
    if tried.settings is not None:
        shown = dollars(tried.paid) if tried.paid else "nothing, or nobody knows the price"
        yield f"cost: {shown}"
