"""An evaluator over a span of time: how many came, applied, were chosen, and what came of them. A zero is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from monitor.model.trail import Sum
from monitor.quantities import human_duration
from monitor.why import reasons
from monitor.why.foreign import Foreign, of_foreign
from monitor.why.values import Answer, Cause, Evaluating, Situation, Step, at_least, clock_time, several, share

_MANY: Final = 0.1
"""Share of evaluations without a verdict from which on it is worth a word although there are verdicts."""
_JUDGEABLE: Final = ("evaluated", "no_context")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFacts:
    """What is known of an evaluator between two wall-clock seconds.

    `waiting` are cases that it has chosen and that have no outcome yet, `pending` requests that have not ended, both
    None where no running monitor was asked. `unscored` is its newest result without a verdict, `reaches_back` when the
    sums begin. `foreign` is there where it is not ours.
    """

    name: str
    since: float
    until: float
    app: str = ""
    sums: Sequence[Sum] = ()
    waiting: int | None = None
    pending: int | None = None
    unscored: Mapping[str, Any] | None = None
    reaches_back: float | None = None
    foreign: Foreign | None = None


class _Counts:
    """The sums, by outcome and by the evaluator's steps."""

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
        self.judgeable = sum(self.outcomes[one] for one in _JUDGEABLE)
        self.missing = self._by_reason("missing")
        self.skipped = self._by_reason("skipped")
        self.unscored = self._by_reason("unscored")
        self.live, self.late, self.non_production = (
            self.steps["score"],
            self.steps["late"],
            self.steps["non_production"],
        )
        self.scored = self.live + self.late + self.non_production
        self.chosen = self.scored + sum(self.skipped.values()) + sum(self.unscored.values())
        self.repeated = self.steps["repeated"]
        self.applies = self.chosen + self.steps["not_chosen"] + self.repeated

    def _by_reason(self, kind: str) -> Counter[str]:
        start = f"{kind}:"
        return Counter({key[len(start) :]: number for key, number in self.steps.items() if key.startswith(start)})


def of_evaluator(facts: EvaluatorFacts, situation: Situation) -> Answer:
    """Why an evaluator ran as often as it did in that time."""
    name, evaluator = facts.name, situation.evaluator(facts.name)
    of_app = f" on {facts.app}" if facts.app else ""
    subject = f"{name}{of_app}, the last {human_duration(facts.until - facts.since)}"
    counts = _Counts(facts)
    if evaluator is None and facts.foreign is not None:
        return of_foreign(subject, name, facts.foreign)
    if evaluator is None:
        told = reasons.not_configured(name, situation)
        return Answer(subject, Cause.NOT_ASKED, f"It did not run: {told.text}.", told.setting)
    steps = [*_configured(evaluator), *_arrived(facts, counts, situation)]
    steps += _worked(facts, counts, evaluator)
    end = _end(facts, counts, evaluator, situation)
    if not evaluator.watched:
        text = "no alert looks at it: its rate is measured, and nobody is told"
        steps.append(Step("alerts", text, f"alerts: - {{evaluator: {name}, warning: 5%}}", name))
    steps = [replace(one, evaluator="") for one in steps]  # they are all about this one
    return Answer(subject, end.cause or Cause.EVALUATED, f"{end.text}.", end.setting, end.reason, steps)


def _configured(evaluator: Evaluating) -> list[Step]:
    name = evaluator.name
    if not evaluator.works:
        told = reasons.off(evaluator)
        return [Step("configured", told.text, told.setting, name, Cause.OFF)]
    who = f"asks {evaluator.judge.get('model')} ({evaluator.judge_place})" if evaluator.cost == "judge" else "local"
    if evaluator.rate is not None:
        part = "all cases" if evaluator.rate >= 1 else f"{share(evaluator.rate)} of the cases"
        rate = f"takes {part} that it applies to"
    else:
        rate = f"takes what {evaluator.place}.sample ({evaluator.sampler}) allows"
    return [Step("configured", f"{evaluator.place}: {who}, {rate}", evaluator=name)]


def _arrived(facts: EvaluatorFacts, counts: _Counts, situation: Situation) -> list[Step]:
    steps = []
    if facts.reaches_back is None or facts.reaches_back > facts.since + 60:
        begins = "nothing is recorded yet" if facts.reaches_back is None else f"from {clock_time(facts.reaches_back)}"
        kept = "" if situation.request_log > 0 else ": it is not kept what becomes of requests (storage.request_log: 0)"
        steps.append(Step("recorded", f"not all of that time is recorded: {begins}{kept}"))
    told = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.outcomes.most_common())
    steps.append(Step("received", f"{several(counts.received, 'request')} ended{f': {told}' if told else ''}"))
    if facts.pending:
        steps.append(Step("under way", f"{several(facts.pending, 'request')} have not ended yet"))
    return steps


def _worked(facts: EvaluatorFacts, counts: _Counts, evaluator: Evaluating) -> list[Step]:
    name, steps = evaluator.name, []
    for reason, number in counts.missing.most_common():
        told = reasons.of_skipped(reason)
        steps.append(Step("applies", f"{number:,} times not: {told.text}", told.setting, name, reason=reason))
    if counts.applies:
        text = (
            f"{counts.chosen:,} of {counts.applies:,} that it applies to; {counts.expected:,.4g} expected by its rates"
        )
        text += f"; {counts.repeated:,} judged before" if counts.repeated else ""
        steps.append(Step("chosen", text, evaluator=name))
    if facts.waiting:
        text = f"{several(facts.waiting, 'case')} waiting for the judge, or with it now"
        steps.append(Step("queue", text, f"{evaluator.judge_place}.max_concurrency: more, if it stays so", name))
    for reason, number in counts.skipped.most_common():
        told = reasons.of_skipped(reason)
        steps.append(Step("skipped", f"{number:,}: {told.text}", told.setting, name, Cause.SKIPPED, reason))
    for reason, number in counts.unscored.most_common():
        told = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
        steps.append(Step("no verdict", f"{number:,}: {told.text}", told.setting, name, Cause.UNSCORED, reason))
    if counts.scored:
        apart = [
            f"{number:,} {word}"
            for number, word in ((counts.late, "late"), (counts.non_production, "not production"))
            if number
        ]
        of_them = f", of them {' and '.join(apart)}" if apart else ""
        steps.append(Step("verdicts", f"{counts.scored:,}{of_them}", evaluator=name))
    return steps


def _end(facts: EvaluatorFacts, counts: _Counts, evaluator: Evaluating, situation: Situation) -> Step:  # noqa: PLR0911 - a way, read from above
    """The first place of its way where nothing is left; where verdicts came, what keeps others from it."""
    if counts.live:
        return _with_verdicts(facts, counts, evaluator)
    if counts.scored:
        return _apart(counts, situation)
    if not evaluator.works:
        told = reasons.off(evaluator)
        return Step("", f"It did not run: {told.text}", told.setting, cause=Cause.OFF)
    if counts.unscored:
        reason, number = counts.unscored.most_common(1)[0]
        told = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
        text = f"It came to no verdict: {several(number, 'time')} of {sum(counts.unscored.values()):,}, {told.text}"
        return Step("", text, told.setting, cause=Cause.UNSCORED, reason=reason)
    if facts.waiting:
        text = f"No verdict yet: {several(facts.waiting, 'case')} waiting for the judge, or with it now"
        return Step("", text, f"{evaluator.judge_place}.max_concurrency: more, if it stays so", cause=Cause.WAITING)
    if counts.skipped:
        reason = counts.skipped.most_common(1)[0][0]
        told = reasons.of_skipped(reason)
        return Step("", f"No verdict: {told.text}", told.setting, cause=Cause.SKIPPED, reason=reason)
    if counts.repeated and not counts.steps["not_chosen"]:
        return Step("", "It did not run: all that came had been judged before", cause=Cause.REPEATED)
    if counts.applies:
        return _never_chosen(counts, evaluator)
    if counts.missing:
        reason = counts.missing.most_common(1)[0][0]
        told = reasons.of_skipped(reason)
        text = f"It did not run: it applies to none of {several(sum(counts.missing.values()), 'case')}: {told.text}"
        return Step("", text, told.setting, cause=Cause.DOES_NOT_APPLY, reason=reason)
    return _nothing_came(facts, counts, situation)


def _with_verdicts(facts: EvaluatorFacts, counts: _Counts, evaluator: Evaluating) -> Step:
    failed = sum(counts.unscored.values())
    text = f"It ran: {several(counts.live, 'verdict')} in the live rates"
    if failed < _MANY * (failed + counts.scored):
        return Step("", text, cause=Cause.EVALUATED)
    reason, number = counts.unscored.most_common(1)[0]
    told = reasons.of_unscored(reason, _detail(facts, reason), evaluator)
    text += f"; but {failed:,} came to none, {number:,} of them since {told.text}"
    return Step("", text, told.setting, cause=Cause.EVALUATED, reason=reason)


def _apart(counts: _Counts, situation: Situation) -> Step:
    if counts.late >= counts.non_production:
        text = f"It ran, and all that counts came too late: {several(counts.late, 'verdict')} were reached more than"
        text += f" {human_duration(situation.late_after)} after the answer, and are in no live rate"
        return Step("", text, "traffic.late_after: longer; or a faster judge", cause=Cause.LATE)
    text = f"It ran, but none of it was production traffic: {several(counts.non_production, 'verdict')} stand aside"
    return Step(
        "", text, "traffic.class_attribute: the attribute that says what is production", cause=Cause.NON_PRODUCTION
    )


def _never_chosen(counts: _Counts, evaluator: Evaluating) -> Step:
    number = counts.steps["not_chosen"]
    text = f"It did not run: of {several(number, 'case')} that it applies to none was chosen; at its rate"
    text += f" {counts.expected:.2g} were to be expected"
    place = f"{evaluator.place}.sample"
    if evaluator.rate is None:
        key = f".{evaluator.budget}" if evaluator.budget else ""
        return Step("", text, f"{place}{key}: more", cause=Cause.NOT_CHOSEN)
    one = min(3 / max(number, 1), 1.0)  # with three expected, none comes in one of twenty such times
    return Step("", text, f"{place}: {at_least(max(one, evaluator.rate))}", cause=Cause.NOT_CHOSEN)


def _nothing_came(facts: EvaluatorFacts, counts: _Counts, situation: Situation) -> Step:  # noqa: PLR0911 - as above
    if counts.judgeable:
        text = f"It did not run: it was not at work while {several(counts.judgeable, 'case')} were judged by others"
        return Step("", text, cause=Cause.NOT_RECORDED)
    others = [(outcome, number) for outcome, number in counts.outcomes.most_common() if outcome not in _JUDGEABLE]
    if not others:
        if facts.pending:
            text = f"It did not run yet: {several(facts.pending, 'request')} are under way, and none has ended"
            return Step("", text, cause=Cause.OPEN)
        if facts.reaches_back is None and situation.request_log <= 0:
            text = "Nothing is known: it is not kept what becomes of requests"
            return Step("", text, "storage.request_log: 1d", cause=Cause.NOT_RECORDED)
        from_app = f" of {facts.app}" if facts.app else ""
        text = (
            f"It did not run: no request{from_app} ended in that time. Look whether the service sends its traces here"
        )
        return Step("", text, cause=Cause.NO_TRACES)
    outcome, number = others[0]
    if outcome == "sampled_out":
        text = f"It did not run: head sampling left out {several(number, 'request')} of {counts.received:,}"
        least = at_least(min(3 / max(counts.received, 1), 1.0)) if situation.head_rate < 1 else "as it is"
        rates = "" if situation.head_rate < 1 else ", or traffic.rates: more"
        return Step("", text, f"sampling.traces: {least}{rates}", cause=Cause.SAMPLED_OUT)
    if outcome == "filtered":
        text = f"It did not run: the configuration left out {several(number, 'request')} of {counts.received:,}"
        return Step("", text, "traffic.drop and traffic.health_checks", cause=Cause.FILTERED)
    told = reasons.of_outcome(outcome, "", situation)
    text = f"It did not run: of {several(counts.received, 'request')} none could be judged; of {number:,} {told.text}"
    return Step("", text, told.setting, cause=reasons.CAUSE_OF_OUTCOME.get(outcome, Cause.INVALID))


def _detail(facts: EvaluatorFacts, reason: str) -> str:
    """What the newest such result says, such as which cap of a budget is spent."""
    row = facts.unscored
    return str(row.get("detail") or "") if row is not None and row.get("reason") == reason else ""
