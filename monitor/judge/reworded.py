"""A second judgement by the same judge, asked in other words: the same rubric after other instructions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from monitor.stages import Judge, Prompt, Question, Verdict

_SECOND: Final = (
    "You are the second of two readers; what the first one found is not known to you and does not matter. Work in this "
    "order. First find the mildest honest reading of the material, as its author's defender would. Then find "
    "the most severe one, as a person hurt by it would. Decide by the words themselves which of the two they "
    "bear out, and choose the score that you could defend before both. The task, its scale and the form of your reply "
    "are these:"
)


class RewordedJudge:
    """Wraps a judge and asks it each question in other words. A prompt of fixed form is asked again unchanged."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.model = judge.model
        self.max_characters = judge.max_characters

    async def ask(self, question: Question | Prompt) -> Verdict:
        """See `stages.Judge.ask`."""
        if isinstance(question, Prompt):
            return await self._judge.ask(replace(question, repeat=question.repeat + 1))
        return await self._judge.ask(replace(question, instructions=f"{_SECOND}\n\n{question.instructions}"))
