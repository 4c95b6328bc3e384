"""Explains an evaluator over a period of time: how many cases arrived, applied, were selected, and how they ended.

An evaluator without scores always has a named cause: the first step after which no case was left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from monitor.pipeline.introspection.explain import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    Explanation,
    ExplanationStep,
    ExternalScores,
    MonitorSetup,
    at_least,
    clock_time,
    reasons,
    share,
)
from monitor.quantities import human_duration, human_number, number_of

_MANY: Final = 0.1
"""Share of evaluations without a score that is worth mentioning even if there are scores."""
_EVALUATED: Final = "evaluated"


class _OutcomeSums:
    """The sums, by outcome and by step of the evaluator."""

    def __init__(self, facts: EvaluatorFacts) -> None:
        self.outcomes: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.expected = 0.0
        for step, number, expected, _ in facts.sums:
            if not step.evaluator:
                self.outcomes[step.step] += number
            elif step.evaluator == facts.name:
                self.steps[step.step] += number
                if not step.step.startswith("missing"):
                    self.expected += expected
        self.received = sum(self.outcomes.values())
        self.evaluable = self.outcomes[_EVALUATED]
        self.missing = self._by_reason("missing")
        self.skipped = self._by_reason("skipped")
        self.unscored = self._by_reason("unscored")
        self.live, self.late = self.steps["score"], self.steps["late"]
        self.non_production = self.steps["non_production"]
        self.scored = self.live + self.late + self.non_production
        self.selected = self.scored + sum(self.skipped.values()) + sum(self.unscored.values())
        self.repeated = self.steps["repeated"]
        self.applies = self.selected + self.steps["not_chosen"] + self.repeated

    def _by_reason(self, kind: str) -> Counter[str]:
        start = f"{kind}:"
        return Counter({key[len(start) :]: number for key, number in self.steps.items() if key.startswith(start)})


def explain_evaluator(facts: EvaluatorFacts, setup: MonitorSetup) -> Explanation:
    """Explain why an evaluator ran as often as it did in the given time."""
    name, evaluator = facts.name, setup.evaluator(facts.name)
    of_app = f" on {facts.app}" if facts.app else ""
    subject = f"{name}{of_app}, the last {human_duration(facts.until - facts.since)}"
    if evaluator is None and facts.external is not None:
        return _external(subject, name, facts.external)
    if evaluator is None:
        found = reasons.not_configured(name, setup)
        return Explanation(subject, Cause.NOT_ASKED, f"It did not run: {found.text}.", found.setting)
    counts = _OutcomeSums(facts)
    steps = [*_configured(evaluator), *_received(facts, counts, setup), *_evaluated(facts, counts, evaluator)]
    end = _end(facts, counts, evaluator, setup)
    if not evaluator.watched:
        text = "no alert is configured for it: its rate is measured, but cannot alert anybody"
        steps.append(ExplanationStep("alerts", text, f"alerts: - {{evaluator: {name}, warning: 5%}}", name))
    steps = [replace(one, evaluator="") for one in steps]  # they are all about this one
    return Explanation(subject, end.cause or Cause.EVALUATED, f"{end.text}.", end.setting, end.reason, steps)


def _external(subject: str, name: str, found: ExternalScores) -> Explanation:
    """Explain where external scores of this name come from, and how many arrived."""
    source = f"it is not an evaluator of this monitor but {reasons.external(found.source)}"
    steps = [ExplanationStep("source", f"{source} (docs/feedback.md)")]
    defects, passed, unread = (found.numbers.get(one, 0) for one in ("defect", "passed", "unscored"))
    scored = defects + passed
    setting = ""
    if scored:
        steps.append(ExplanationStep("scores", f"{scored:,} arrived: {defects:,} are defects, {passed:,} are not"))
    if unread:
        setting = f"feedback.evaluators.{name}: its scale, and which labels are bad"
        steps.append(ExplanationStep("no score", f"{unread:,} arrived that cannot be read as good or bad", setting))
    if scored or unread:
        more = f"; {unread:,} more cannot be read as good or bad" if unread else ""
        text = f"{number_of(scored, 'score')} arrived, {defects:,} of them defects{more}; {source}"
        return Explanation(subject, Cause.EVALUATED if scored else Cause.UNSCORED, f"{text}.", setting, steps=steps)
    last = f"; the last one arrived {clock_time(found.newest)}" if found.newest is not None else ""
    steps.append(ExplanationStep("scores", f"none arrived in that time{last}"))
    return Explanation(subject, Cause.NOT_ASKED, f"No score arrived{last}; {source}.", steps=steps)


def _configured(evaluator: EvaluatorSetup) -> list[ExplanationStep]:
    name = evaluator.name
    if not evaluator.works:
        found = reasons.off(evaluator)
        return [ExplanationStep("configured", found.text, found.setting, name, Cause.OFF)]
    who = f"asks {evaluator.judge.get('model')} ({evaluator.judge_place})" if evaluator.cost == "judge" else "local"
    if evaluator.rate is not None:
        part = "all cases" if evaluator.rate >= 1 else f"{share(evaluator.rate)} of the cases"
        rate = f"takes {part} that it applies to"
    else:
        rate = f"takes what {evaluator.place}.sample ({evaluator.sampler}) allows"
    return [ExplanationStep("configured", f"{evaluator.place}: {who}, {rate}", evaluator=name)]


def _received(facts: EvaluatorFacts, counts: _OutcomeSums, setup: MonitorSetup) -> list[ExplanationStep]:
    steps = []
    if facts.reaches_back is None or facts.reaches_back > facts.since + 60:
        begins = "nothing yet" if facts.reaches_back is None else f"only from {clock_time(facts.reaches_back)}"
        off = "" if setup.request_log > 0 else "; request logging is off (storage.request_log: 0)"
        steps.append(ExplanationStep("recorded", f"the request log does not cover all of that time: {begins}{off}"))
    by_outcome = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.outcomes.most_common())
    ended = f"{number_of(counts.received, 'request')} ended{f': {by_outcome}' if by_outcome else ''}"
    steps.append(ExplanationStep("received", ended))
    if facts.pending:
        steps.append(ExplanationStep("in progress", f"{number_of(facts.pending, 'request')} not ended yet"))
    return steps


def _evaluated(facts: EvaluatorFacts, counts: _OutcomeSums, evaluator: EvaluatorSetup) -> list[ExplanationStep]:
    name, steps = evaluator.name, []
    for reason, number in counts.missing.most_common():
        found = reasons.of_skipped(reason)
        steps.append(ExplanationStep("applies", f"not to {number:,}: {found.text}", found.setting, name, reason=reason))
    if counts.applies:
        expected = human_number(counts.expected)
        text = f"{counts.selected:,} of the {counts.applies:,} it applies to; {expected} expected by its rate"
        text += f"; {counts.repeated:,} evaluated before" if counts.repeated else ""
        steps.append(ExplanationStep("selected", text, evaluator=name))
    if facts.waiting:
        steps.append(ExplanationStep("queue", _waiting(facts.waiting), _more_at_once(evaluator), name))
    for reason, number in counts.skipped.most_common():
        found = reasons.of_skipped(reason)
        steps.append(
            ExplanationStep("skipped", f"{number:,}: {found.text}", found.setting, name, Cause.SKIPPED, reason)
        )
    for reason, number in counts.unscored.most_common():
        found = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
        steps.append(
            ExplanationStep("no score", f"{number:,}: {found.text}", found.setting, name, Cause.UNSCORED, reason)
        )
    if counts.scored:
        kinds = ((counts.late, "late"), (counts.non_production, "non-production"))
        apart = [f"{number:,} {word}" for number, word in kinds if number]
        of_them = f", of which {' and '.join(apart)}" if apart else ""
        steps.append(ExplanationStep("scores", f"{counts.scored:,}{of_them}", evaluator=name))
    return steps


def _waiting(number: int) -> str:
    return f"{number_of(number, 'case')} waiting for the judge or being evaluated now"


def _more_at_once(evaluator: EvaluatorSetup) -> str:
    return f"{evaluator.judge_place}.max_concurrency: higher, if this persists"


def _end(  # noqa: PLR0911 - read from the top, the first match is the answer
    facts: EvaluatorFacts, counts: _OutcomeSums, evaluator: EvaluatorSetup, setup: MonitorSetup
) -> ExplanationStep:
    """Find the first step after which no case was left; if there are scores, why other cases have none."""
    if counts.live:
        return _with_scores(facts, counts, evaluator)
    if counts.scored:
        return _in_no_live_rate(counts, setup)
    if not evaluator.works:
        found = reasons.off(evaluator)
        return ExplanationStep("", f"It did not run: {found.text}", found.setting, cause=Cause.OFF)
    if counts.unscored:
        reason, number = counts.unscored.most_common(1)[0]
        found = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
        text = f"It produced no score: {number_of(number, 'time')} of {sum(counts.unscored.values()):,}, {found.text}"
        return ExplanationStep("", text, found.setting, cause=Cause.UNSCORED, reason=reason)
    if facts.waiting:
        return ExplanationStep(
            "", f"No score yet: {_waiting(facts.waiting)}", _more_at_once(evaluator), cause=Cause.WAITING
        )
    if counts.skipped:
        reason = counts.skipped.most_common(1)[0][0]
        found = reasons.of_skipped(reason)
        return ExplanationStep("", f"No score: {found.text}", found.setting, cause=Cause.SKIPPED, reason=reason)
    if counts.repeated and not counts.steps["not_chosen"]:
        return ExplanationStep(
            "", "It did not run: everything that arrived had been evaluated before", cause=Cause.REPEATED
        )
    if counts.applies:
        return _never_selected(counts, evaluator)
    if counts.missing:
        reason = counts.missing.most_common(1)[0][0]
        found = reasons.of_skipped(reason)
        text = f"It did not run: it applies to none of {number_of(sum(counts.missing.values()), 'case')}: {found.text}"
        return ExplanationStep("", text, found.setting, cause=Cause.DOES_NOT_APPLY, reason=reason)
    return _nothing_arrived(facts, counts, setup)


def _with_scores(facts: EvaluatorFacts, counts: _OutcomeSums, evaluator: EvaluatorSetup) -> ExplanationStep:
    failed = sum(counts.unscored.values())
    text = f"It ran: {number_of(counts.live, 'score')} in the live rates"
    if failed < _MANY * (failed + counts.scored):
        return ExplanationStep("", text, cause=Cause.EVALUATED)
    reason, number = counts.unscored.most_common(1)[0]
    found = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
    text += f"; but {number_of(failed, 'evaluation')} produced none, {number:,} of them because {found.text}"
    return ExplanationStep("", text, found.setting, cause=Cause.EVALUATED, reason=reason)


def _in_no_live_rate(counts: _OutcomeSums, setup: MonitorSetup) -> ExplanationStep:
    if counts.late >= counts.non_production:
        after = human_duration(setup.late_after)
        text = (
            f"It ran too late: {number_of(counts.late, 'score')} more than {after} after the answer,"
            " not in the live rates"
        )
        return ExplanationStep("", text, "traffic.late_after: longer; or a faster judge", cause=Cause.LATE)
    text = f"It ran, but not on production traffic: {number_of(counts.non_production, 'score')}, not in the live rates"
    setting = "traffic.class_attribute: the attribute that says what is production"
    return ExplanationStep("", text, setting, cause=Cause.NON_PRODUCTION)


def _never_selected(counts: _OutcomeSums, evaluator: EvaluatorSetup) -> ExplanationStep:
    number = counts.steps["not_chosen"]
    text = f"It did not run: none of the {number_of(number, 'case')} it applies to was selected; at its rate,"
    text += f" {counts.expected:.2g} were expected"
    place = f"{evaluator.place}.sample"
    if evaluator.rate is None:
        key = f".{evaluator.budget}" if evaluator.budget else ""
        return ExplanationStep("", text, f"{place}{key}: higher", cause=Cause.NOT_CHOSEN)
    enough = max(3 / number, evaluator.rate)  # with three expected, one in twenty such times has none
    return ExplanationStep("", text, f"{place}: {at_least(enough)}", cause=Cause.NOT_CHOSEN)


def _nothing_arrived(facts: EvaluatorFacts, counts: _OutcomeSums, setup: MonitorSetup) -> ExplanationStep:  # noqa: PLR0911 - as above
    if counts.evaluable:
        text = f"It did not run: it was not running while others evaluated {number_of(counts.evaluable, 'case')}"
        return ExplanationStep("", text, cause=Cause.NOT_RECORDED)
    others = [(outcome, number) for outcome, number in counts.outcomes.most_common() if outcome != _EVALUATED]
    if not others:
        if facts.pending:
            text = f"It has not run yet: {number_of(facts.pending, 'request')} in progress, none has ended"
            return ExplanationStep("", text, cause=Cause.OPEN)
        if facts.reaches_back is None and setup.request_log <= 0:
            return ExplanationStep(
                "", "Nothing is known: request logging is off", "storage.request_log: 1d", cause=Cause.NOT_RECORDED
            )
        from_app = f" from {facts.app}" if facts.app else ""
        text = (
            f"It did not run: no request{from_app} ended in that time. Check whether the service sends its traces here"
        )
        return ExplanationStep("", text, cause=Cause.NO_TRACES)
    outcome, number = others[0]
    if outcome == "sampled_out":
        text = f"It did not run: head sampling left out {number:,} of {number_of(counts.received, 'request')}"
        least = at_least(3 / counts.received) if setup.head_rate < 1 else "as it is"
        rates = "" if setup.head_rate < 1 else ", or traffic.rates: higher"
        return ExplanationStep("", text, f"sampling.traces: {least}{rates}", cause=Cause.SAMPLED_OUT)
    if outcome == "filtered":
        text = f"It did not run: the configuration left out {number:,} of {number_of(counts.received, 'request')}"
        return ExplanationStep("", text, "traffic.drop and traffic.health_checks", cause=Cause.FILTERED)
    found = reasons.of_outcome(outcome, "", setup)
    text = f"It did not run: none of {number_of(counts.received, 'request')} could be evaluated"
    text += f"; for {number:,}: {found.text}"
    return ExplanationStep("", text, found.setting, cause=reasons.CAUSE_OF_OUTCOME.get(outcome, Cause.INVALID))


def _detail(facts: EvaluatorFacts, reason: str) -> str:
    """Return the detail of the newest result with this reason, such as which cap of a budget is spent."""
    row = facts.unscored
    return str(row.get("detail") or "") if row is not None and row.get("reason") == reason else ""
