"""Explains how one evaluator handled one case: whether it applied, was selected, waited, asked, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.model.request_log import EvaluatorDecision, RequestRecord
from monitor.model.severe import SECOND
from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorSetup,
    ExplanationStep,
    MonitorSetup,
    TraceFacts,
    above,
    reasons,
    share,
)
from monitor.quantities import human_duration, number_of


def explain_decision(
    name: str, request: RequestRecord, facts: TraceFacts, setup: MonitorSetup
) -> Iterator[ExplanationStep]:
    """Yield the steps of the evaluator `name`. The last one says how it ended, with its cause."""
    evaluator = setup.evaluator(name)
    decision = next((one for one in request.decisions if one.evaluator == name), None)
    row = next((one for one in reversed(facts.results) if one.get("evaluator") == name), None)
    if decision is None or (decision.repeated and row is not None):
        if decision is not None:
            yield ExplanationStep("selected", "evaluated before, so not again: that result counts", evaluator=name)
        if row is not None:
            yield from_row(row, evaluator, setup)
        elif evaluator is not None and not evaluator.works:
            found = reasons.off(evaluator)
            yield ExplanationStep("off", found.text, found.setting, name, Cause.OFF)
        elif not request.outcome:
            yield ExplanationStep("waiting", "the case has not reached it yet", "", name, Cause.WAITING)
        else:
            yield ExplanationStep("off", "it was not running then", "", name, Cause.NOT_ASKED)
        return
    yield from _selection(decision, request, evaluator)
    if decision.chosen:
        yield from _calls(decision, evaluator)
        if decision.second:
            yield ExplanationStep("second judgement", _second(decision), evaluator=name)
        yield _end(decision, evaluator, setup)


def _selection(
    decision: EvaluatorDecision, request: RequestRecord, evaluator: EvaluatorSetup | None
) -> Iterator[ExplanationStep]:
    name = decision.evaluator
    if decision.missing and not decision.chosen:
        found = reasons.of_skipped(decision.missing)
        yield ExplanationStep("applies", found.text, found.setting, name, Cause.DOES_NOT_APPLY, decision.missing)
        return
    if decision.repeated:
        yield ExplanationStep("selected", "it has evaluated this before", "", name, Cause.REPEATED)
        return
    probability = decision.probability if decision.probability is not None else 1.0
    compared = f"its probability, {share(probability)}{_probability_notes(decision)}"
    if decision.chosen:
        if decision.missing:
            return
        every = evaluator is not None and evaluator.cost == "local" and probability >= 1
        fits = "takes every sampled case" if every else f"the trace's value, {share(request.draw)}, is below {compared}"
        yield ExplanationStep("selected", fits, evaluator=name)
        return
    text = f"it was not selected: the trace's value, {share(request.draw)}, is not below {compared}"
    yield ExplanationStep("selected", text, _rate_setting(decision, request, evaluator), name, Cause.NOT_CHOSEN)


def _probability_notes(decision: EvaluatorDecision) -> str:
    notes = []
    if decision.target is not None and decision.probability is not None and decision.target != decision.probability:
        notes.append(f"{share(decision.target)} for the average case")
    if decision.room < 1:
        notes.append(f"reduced to {share(decision.room)} of it by the app's quota")
    if decision.thinned:
        notes.append("reduced by max_per_hour")
    return f" ({'; '.join(notes)})" if notes else ""


def _rate_setting(decision: EvaluatorDecision, request: RequestRecord, evaluator: EvaluatorSetup | None) -> str:
    if decision.room < 1:
        return f"traffic.quotas.{request.app or 'unknown'}: higher; its quota is nearly used up"
    place = f"{evaluator.place}.sample" if evaluator else "sample"
    if evaluator is None or evaluator.sampler == "uniform":
        return f"{place}: {above(request.draw)}"
    if evaluator.sampler == "by_attribute":
        return f"{place}.rates: {above(request.draw)} for its value of the attribute"
    if decision.thinned:
        return f"{place}.max_per_hour: higher"
    if evaluator.budget and decision.probability:
        times = request.draw / decision.probability
        return f"{place}.{evaluator.budget}: more than {times:.2g} times as much"
    return f"{place}: {above(request.draw)}"


def _calls(decision: EvaluatorDecision, evaluator: EvaluatorSetup | None) -> Iterator[ExplanationStep]:
    name = decision.evaluator
    if evaluator is None or evaluator.cost == "judge":
        if decision.waited is not None and not decision.missing:
            yield ExplanationStep(
                "queue", f"waited {human_duration(decision.waited)} for its turn at the judge", evaluator=name
            )
        if decision.cached:
            yield ExplanationStep(
                "cache", "the same question was asked before: the result is from the cache", evaluator=name
            )
    for number, one in enumerate(decision.tries, 1):
        detail = f" ({one.detail})" if one.detail else ""
        yield ExplanationStep(
            f"attempt {number}", f"{human_duration(one.seconds)}: {one.result}{detail}", evaluator=name
        )


def _second(decision: EvaluatorDecision) -> str:
    score = "" if decision.second_score is None else f" (score {decision.second_score:g})"
    return f"the answer was judged severe, so it was judged again: {SECOND[decision.second]}{score}"


def _end(decision: EvaluatorDecision, evaluator: EvaluatorSetup | None, setup: MonitorSetup) -> ExplanationStep:
    name = decision.evaluator
    if decision.outcome == "score":
        return _scored(name, decision.scope, human_duration(decision.seconds), setup)
    if decision.outcome == "skipped" or (decision.missing and not decision.outcome):
        found = reasons.of_skipped(decision.reason or decision.missing)
        cause = Cause.DOES_NOT_APPLY if decision.missing else Cause.SKIPPED
        return ExplanationStep("applies", found.text, found.setting, name, cause, decision.reason or decision.missing)
    if decision.outcome == "unscored":
        found = reasons.of_unscored(decision.reason, decision.detail, evaluator)
        return ExplanationStep("no score", found.text, found.setting, name, Cause.UNSCORED, decision.reason)
    place = "is with the judge" if decision.waited is not None else "is waiting for its turn at the judge"
    setting = f"{evaluator.judge_place}.max_concurrency: higher, if many are waiting" if evaluator else ""
    return ExplanationStep("waiting", f"it was selected, and {place} now", setting, name, Cause.WAITING)


def _scored(name: str, scope: str, took: str, setup: MonitorSetup) -> ExplanationStep:
    if scope == "late":
        text = f"scored more than {human_duration(setup.late_after)} after the answer"
        return ExplanationStep("score", text, "traffic.late_after: longer", name, Cause.LATE)
    if scope == "non_production":
        text = "scored, but it is not production traffic"
        return ExplanationStep("score", text, "traffic.class_attribute", name, Cause.NON_PRODUCTION)
    if scope == "backfill":
        return ExplanationStep("score", "scored later, by a backfill", "", name, Cause.NON_PRODUCTION)
    return ExplanationStep("score", f"scored in {took}" if took else "scored", "", name, Cause.EVALUATED)


def from_row(row: Mapping[str, Any], evaluator: EvaluatorSetup | None, setup: MonitorSetup) -> ExplanationStep:
    """Explain how it ended, from a result in the history."""
    name, outcome = str(row.get("evaluator") or ""), row.get("outcome")
    reason, detail = str(row.get("reason") or ""), str(row.get("detail") or "")
    if outcome == "score":
        return _scored(name, str(row.get("scope") or "live"), "", setup)
    if outcome == "skipped":
        found = reasons.of_skipped(reason)
        return ExplanationStep("applies", found.text, found.setting, name, Cause.SKIPPED, reason)
    found = reasons.of_unscored(reason, detail, evaluator)
    attempts = row.get("judge", {}).get("attempts", 0) if isinstance(row.get("judge"), Mapping) else 0
    calls = f", after {number_of(attempts, 'call')}" if attempts else ""
    return ExplanationStep("no score", f"{found.text}{calls}", found.setting, name, Cause.UNSCORED, reason)
