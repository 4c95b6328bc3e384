"""What one evaluator did with one case: applies, drawn, waited, asked, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.model.trail import Choice, Trail
from monitor.quantities import human_duration
from monitor.why import reasons
from monitor.why.values import Cause, Evaluating, Situation, Step, TraceFacts, above, several, share


def of_choice(name: str, trail: Trail, facts: TraceFacts, situation: Situation) -> Iterator[Step]:
    """The steps with the evaluator `name`; the last says how it ended, with its cause."""
    evaluator = situation.evaluator(name)
    choice = next((one for one in trail.choices if one.evaluator == name), None)
    row = next((one for one in reversed(facts.results) if one.get("evaluator") == name), None)
    if choice is None or (choice.repeated and row is not None):
        if choice is not None:
            yield Step("chosen", "judged before, so not again: the verdict is the one kept", evaluator=name)
        if row is not None:
            yield of_row(row, evaluator, situation)
        elif evaluator is not None and not evaluator.works:
            told = reasons.off(evaluator)
            yield Step("off", told.text, told.setting, name, Cause.OFF)
        elif not trail.outcome:
            yield Step("waits", "it has not come to it yet", "", name, Cause.WAITING)
        else:
            yield Step("off", "it was not at work then", "", name, Cause.NOT_ASKED)
        return
    yield from _drawn(choice, trail, evaluator)
    if choice.chosen:
        yield from _asked(choice, evaluator)
        yield _ended(choice, evaluator, situation)


def _drawn(choice: Choice, trail: Trail, evaluator: Evaluating | None) -> Iterator[Step]:
    name = choice.evaluator
    if choice.missing and not choice.chosen:
        told = reasons.of_skipped(choice.missing)
        yield Step("applies", told.text, told.setting, name, Cause.DOES_NOT_APPLY, choice.missing)
        return
    if choice.repeated:
        yield Step("chosen", "it has judged this before, and does not again", "", name, Cause.REPEATED)
        return
    probability = choice.probability if choice.probability is not None else 1.0
    drawn = f"the probability, {share(probability)}{_because(choice)}"
    if choice.chosen:
        if choice.missing:
            return
        every = evaluator is not None and evaluator.cost == "local" and probability >= 1
        fits = "takes every kept case" if every else f"the trace's value, {share(trail.draw)}, is below {drawn}"
        yield Step("chosen", fits, evaluator=name)
        return
    text = f"it was not chosen: the trace's value, {share(trail.draw)}, is not below {drawn}"
    yield Step("chosen", text, _rate_setting(choice, trail, evaluator), name, Cause.NOT_CHOSEN)


def _because(choice: Choice) -> str:
    told = []
    if choice.target is not None and choice.probability is not None and choice.target != choice.probability:
        told.append(f"{share(choice.target)} for the mean case")
    if choice.room < 1:
        told.append(f"thinned to {share(choice.room)} of it by the app's quota")
    if choice.thinned:
        told.append("thinned by max_per_hour")
    return f" ({'; '.join(told)})" if told else ""


def _rate_setting(choice: Choice, trail: Trail, evaluator: Evaluating | None) -> str:
    if choice.room < 1:
        return f"traffic.quotas.{trail.app or 'unknown'}: more, for its quota is nearly spent"
    place = f"{evaluator.place}.sample" if evaluator else "sample"
    if evaluator is None or evaluator.sampler == "uniform":
        return f"{place}: {above(trail.draw)}"
    if evaluator.sampler == "by_attribute":
        return f"{place}.rates: {above(trail.draw)} for its kind"
    if choice.thinned:
        return f"{place}.max_per_hour: higher"
    if evaluator.budget and choice.probability:
        times = trail.draw / choice.probability
        return f"{place}.{evaluator.budget}: more than {times:.2g} times as much"
    return f"{place}: {above(trail.draw)}"


def _asked(choice: Choice, evaluator: Evaluating | None) -> Iterator[Step]:
    name = choice.evaluator
    if evaluator is None or evaluator.cost == "judge":
        if choice.waited is not None and not choice.missing:
            yield Step("queue", f"waited {human_duration(choice.waited)} for its turn at the judge", evaluator=name)
        if choice.cached:
            yield Step("asked", "the same question had been answered: the verdict is from the cache", evaluator=name)
    for number, one in enumerate(choice.tries, 1):
        detail = f" ({one.detail})" if one.detail else ""
        yield Step(f"attempt {number}", f"{human_duration(one.seconds)}: {one.result}{detail}", evaluator=name)


def _ended(choice: Choice, evaluator: Evaluating | None, situation: Situation) -> Step:
    name = choice.evaluator
    if choice.outcome == "score":
        return _judged(name, choice.standing, human_duration(choice.seconds), situation)
    if choice.outcome == "skipped" or (choice.missing and not choice.outcome):
        told = reasons.of_skipped(choice.reason or choice.missing)
        cause = Cause.DOES_NOT_APPLY if choice.missing else Cause.SKIPPED
        return Step("applies", told.text, told.setting, name, cause, choice.reason or choice.missing)
    if choice.outcome == "unscored":
        told = reasons.of_unscored(choice.reason, choice.detail, evaluator)
        return Step("no verdict", told.text, told.setting, name, Cause.UNSCORED, choice.reason)
    place = "is with the judge" if choice.waited is not None else "waits for its turn at the judge"
    setting = f"{evaluator.judge_place}.max_concurrency: more, if many wait" if evaluator else ""
    return Step("waits", f"it was chosen, and {place} now", setting, name, Cause.WAITING)


def _judged(name: str, standing: str, took: str, situation: Situation) -> Step:
    if standing == "late":
        text = f"judged, more than {human_duration(situation.late_after)} after the answer"
        return Step("verdict", text, "traffic.late_after: longer", name, Cause.LATE)
    if standing == "non_production":
        return Step(
            "verdict",
            "judged, and its traffic is not production",
            "traffic.class_attribute",
            name,
            Cause.NON_PRODUCTION,
        )
    if standing == "backfill":
        return Step("verdict", "judged afterwards, by a backfill", "", name, Cause.NON_PRODUCTION)
    return Step("verdict", f"judged, in {took}" if took else "judged", "", name, Cause.EVALUATED)


def of_row(row: Mapping[str, Any], evaluator: Evaluating | None, situation: Situation) -> Step:
    """What a result of the history says of its end."""
    name, outcome = str(row.get("evaluator") or ""), row.get("outcome")
    reason, detail = str(row.get("reason") or ""), str(row.get("detail") or "")
    if outcome == "score":
        return _judged(name, str(row.get("standing") or "live"), "", situation)
    if outcome == "skipped":
        told = reasons.of_skipped(reason)
        return Step("applies", told.text, told.setting, name, Cause.SKIPPED, reason)
    told = reasons.of_unscored(reason, detail, evaluator)
    attempts = row.get("judge", {}).get("attempts", 0) if isinstance(row.get("judge"), Mapping) else 0
    asked = f", after {several(attempts, 'call')}" if attempts else ""
    return Step("no verdict", f"{told.text}{asked}", told.setting, name, Cause.UNSCORED, reason)
