"""Who evaluates what, by which judge, and what that costs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.errors import JudgeError
from monitor.model.outcome import Attempt, DefectRule, Spending
from monitor.stages import Evaluator, Judge, Prompt, Question, Sampler, Verdict

DEFAULT_JUDGE = ""
"""The name of the judge that the section `judge` describes; others have the names that `judges` gives them."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An evaluator at work: who is sampled for it, what counts as a defect, who judges, and with whom together."""

    evaluator: Evaluator
    sampler: Sampler
    defect: DefectRule
    judge: str = DEFAULT_JUDGE
    group: str = ""


class Tally:
    """A judge for one evaluation, which adds up what the answers cost: evaluators keep no state, so it is kept here."""

    def __init__(self, judge: Judge, repeat: int = 0) -> None:
        self._judge = judge
        self._repeat = repeat
        self.model = judge.model
        self.max_characters = judge.max_characters
        self.verdicts: list[Verdict] = []
        self._tries: list[Attempt] = []

    async def ask(self, question: Question | Prompt) -> Verdict:
        """See `stages.Judge.ask`."""
        asked = replace(question, repeat=question.repeat + self._repeat) if self._repeat else question
        try:
            verdict = await self._judge.ask(asked)
        except JudgeError as error:
            self._tries += error.tries
            raise
        self._tries += verdict.tries
        self.verdicts.append(verdict)
        return verdict

    def spending(self, seconds: float) -> Spending:
        """What all answers cost together; `seconds` is the wall clock of the whole evaluation."""
        return Spending(
            model=self.verdicts[-1].model if self.verdicts else self.model,
            dollars=sum(one.dollars for one in self.verdicts),
            input_tokens=sum(one.input_tokens for one in self.verdicts),
            output_tokens=sum(one.output_tokens for one in self.verdicts),
            seconds=seconds,
            attempts=sum(one.attempts for one in self.verdicts),
            cached=bool(self.verdicts) and all(one.cached for one in self.verdicts),
            tries=tuple(self._tries),
        )


def versions(assignments: Sequence[Assignment], judges: Mapping[str, Judge]) -> dict[str, str]:
    """By evaluator, its version in this process.

    With options of its own it is another instrument; a judged one also with another model, or asked together with
    others.
    """
    return {one.evaluator.name: _version(one, assignments, judges) for one in assignments}


def _version(one: Assignment, assignments: Sequence[Assignment], judges: Mapping[str, Judge]) -> str:
    options = one.evaluator.model_dump_json(exclude_defaults=True)
    judge = judges.get(one.judge) if one.evaluator.cost == "judge" else None
    told = [] if options == "{}" else [options]
    if judge is not None:
        told.append(judge.model)
    if judge is not None and one.group:
        told += sorted(other.evaluator.name for other in assignments if other.group == one.group)
    if not told:
        return one.evaluator.version
    return f"{one.evaluator.version}+{hashlib.blake2b(chr(10).join(told).encode(), digest_size=4).hexdigest()}"
