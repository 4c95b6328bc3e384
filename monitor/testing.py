"""Helpers for tests of plug-ins: a judge that answers from a script, a sink that keeps results, a manual clock.

A case is built by `monitor.Case.from_texts`. docs/python.md shows such tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import PrivateAttr

from monitor.clock import ManualClock
from monitor.errors import JudgeError
from monitor.model.outcome import EvaluationResult, UnscoredReason
from monitor.stages import Prompt, Question, Sink, Verdict

__all__ = ["ManualClock", "RecordingSink", "ScriptedAnswer", "ScriptedJudge"]

ScriptedAnswer: TypeAlias = "Verdict | Mapping[str, Any] | JudgeError"
"""An answer of a scripted judge: the data of a verdict, a whole verdict, or an error to raise."""


class ScriptedJudge:
    """A judge that answers by a function of the question, or from a list in order. It records the questions.

    A question after the end of the list raises `JudgeError` with the reason `shutdown`.
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
        """The questions so far, each a `Question` or a `Prompt`."""
        if callable(answers):
            self._answer: Callable[[Any], ScriptedAnswer] = answers
        else:
            end = JudgeError(UnscoredReason.SHUTDOWN, "the script has ended")
            listed = iter(answers)
            self._answer = lambda _question: next(listed, end)

    async def ask(self, question: Question | Prompt) -> Verdict:
        """Return the next answer. Raises `JudgeError` if the script says so."""
        self.questions.append(question)
        answer = self._answer(question)
        if isinstance(answer, JudgeError):
            raise answer
        return answer if isinstance(answer, Verdict) else Verdict(answer, self.model)


class RecordingSink(Sink):
    """A sink that keeps every result in memory."""

    _results: list[EvaluationResult] = PrivateAttr(default_factory=list)

    @property
    def results(self) -> list[EvaluationResult]:
        """The results so far, in order of arrival."""
        return self._results

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Keep results."""
        self._results.extend(results)
