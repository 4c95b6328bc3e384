"""Adds up the cost of one evaluation over all the questions that its evaluator asks."""

from __future__ import annotations

from dataclasses import replace

from monitor.errors import JudgeError
from monitor.model.outcome import Cost
from monitor.stages import Judge, Prompt, Question, Verdict


class MeteredJudge:
    """Wraps a judge for one evaluation and adds up the cost of its questions, including those without a verdict.

    `repeat` is added to the `repeat` of each question: a new number asks the same question again instead of using the
    cache.
    """

    def __init__(self, judge: Judge, repeat: int = 0) -> None:
        self._judge = judge
        self._repeat = repeat
        self.model = judge.model
        self.max_characters = judge.max_characters
        self._verdicts: list[Verdict] = []
        self._spent: list[Verdict | Cost] = []

    async def ask(self, question: Question | Prompt) -> Verdict:
        """See `stages.Judge.ask`."""
        asked = replace(question, repeat=question.repeat + self._repeat) if self._repeat else question
        try:
            verdict = await self._judge.ask(asked)
        except JudgeError as error:
            self._spent.append(error.spent)
            raise
        self._spent.append(verdict)
        self._verdicts.append(verdict)
        return verdict

    def spending(self, seconds: float) -> Cost:
        """Return the total cost of all questions; `seconds` is the wall-clock time of the whole evaluation."""
        given, spent = self._verdicts, self._spent
        return Cost(
            model=given[-1].model if given else self.model,
            dollars=sum(one.dollars for one in spent),
            input_tokens=sum(one.input_tokens for one in spent),
            output_tokens=sum(one.output_tokens for one in spent),
            seconds=seconds,
            attempts=sum(one.attempts for one in spent),
            cached=bool(given) and all(one.cached for one in given),
            tries=tuple(call for one in spent for call in one.tries),
            asked=any(not one.cached for one in given),
        )
