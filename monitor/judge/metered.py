"""Adds up what one evaluation costs, over all the questions that its evaluator asks."""

from __future__ import annotations

from dataclasses import replace

from monitor.errors import JudgeError
from monitor.model.outcome import Attempt, Cost
from monitor.stages import Judge, Prompt, Question, Verdict


class MeteredJudge:
    """Wraps a judge for one evaluation and adds up what its answers cost.

    `repeat` is added to the `repeat` of each question: a new number asks the same question again instead of using the
    cache.
    """

    def __init__(self, judge: Judge, repeat: int = 0) -> None:
        self._judge = judge
        self._repeat = repeat
        self.model = judge.model
        self.max_characters = judge.max_characters
        self._verdicts: list[Verdict] = []
        self._attempts: list[Attempt] = []

    async def ask(self, question: Question | Prompt) -> Verdict:
        """See `stages.Judge.ask`."""
        asked = replace(question, repeat=question.repeat + self._repeat) if self._repeat else question
        try:
            verdict = await self._judge.ask(asked)
        except JudgeError as error:
            self._attempts += error.tries
            raise
        self._attempts += verdict.tries
        self._verdicts.append(verdict)
        return verdict

    def spending(self, seconds: float) -> Cost:
        """Return what all answers cost together; `seconds` is the wall-clock time of the whole evaluation."""
        given = self._verdicts
        return Cost(
            model=given[-1].model if given else self.model,
            dollars=sum(one.dollars for one in given),
            input_tokens=sum(one.input_tokens for one in given),
            output_tokens=sum(one.output_tokens for one in given),
            seconds=seconds,
            attempts=sum(one.attempts for one in given),
            cached=bool(given) and all(one.cached for one in given),
            tries=tuple(self._attempts),
        )
