"""A judge that answers from a script, for tests and for trying a configuration without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from monitor.errors import JudgeError
from monitor.model.outcome import UnscoredReason
from monitor.stages import Prompt, Question, Verdict

ScriptedAnswer: TypeAlias = "Verdict | Mapping[str, Any] | JudgeError"


class ScriptedJudge:
    """Answers with a function of the question or from a list in order, and records the questions.

    An answer is the data of a verdict, a `Verdict`, or a `JudgeError` to raise. A question after the end of the list
    gets `JudgeError(shutdown)`.
    """

    def __init__(
        self,
        answers: Callable[[Any], ScriptedAnswer] | Iterable[ScriptedAnswer],
        *,
        model: str = "scripted",
        max_characters: int = 400_000,
    ) -> None:
        self.model = model
        self.max_characters = max_characters
        self.questions: list[Any] = []
        if callable(answers):
            self._answer: Callable[[Any], ScriptedAnswer] = answers
        else:
            end = JudgeError(UnscoredReason.SHUTDOWN, "the script is over")
            listed = iter(answers)
            self._answer = lambda _question: next(listed, end)

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Return the next answer."""
        self.questions.append(question)
        answer = self._answer(question)
        if isinstance(answer, JudgeError):
            raise answer
        return answer if isinstance(answer, Verdict) else Verdict(answer, self.model)
