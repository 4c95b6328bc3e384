"""Asks several rubrics about the same case in one call, so that the case is sent and paid for once.

Each evaluator of a group gets its own judge, a `GroupedJudge`, and need not know about the group. When all of them have
asked or left, their questions go out as one, and each evaluator gets its part of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import anyio

from monitor.errors import JudgeError
from monitor.model.outcome import Cost, UnscoredReason
from monitor.stages import Judge, Prompt, Question, Verdict

_ORDER: Final = ("context", "history", "query", "reference", "response")
"""The order of the material. Parts that several calls about one case share come first: providers cache prefixes."""

_TASK: Final = (
    "Your task has {number} parts. Do each by its own rules and as if the others were not there: what one part asks "
    "for or finds has no bearing on another. Your reply has one key for each part, by its name."
)
_APART: Final = (
    UnscoredReason.MALFORMED,
    UnscoredReason.OUT_OF_RANGE,
    UnscoredReason.TRUNCATED,
    UnscoredReason.TOO_LARGE,
)
"""Faults of the joint answer after which each question is asked on its own: one bad part must not spoil the others."""


_Spent = TypeVar("_Spent", Verdict, Cost)


@dataclass(slots=True, eq=False)
class _WaitingQuestion:
    question: Question
    answered: anyio.Event
    answer: Verdict | JudgeError | None = None


class QuestionGroup:
    """The questions of a group of evaluators about one case. Call `judge` for each before the first one asks."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._members = 0
        self._waiting: list[_WaitingQuestion] = []

    def judge(self) -> GroupedJudge:
        """Return the judge for one evaluator."""
        self._members += 1
        return GroupedJudge(self, self._judge)

    async def ask(self, question: Question) -> Verdict:
        """Answer one evaluator's question, as soon as all others have asked or left. Raises `JudgeError`."""
        mine = _WaitingQuestion(question, anyio.Event())
        self._waiting.append(mine)
        if len(self._waiting) == self._members:
            await self._ask_all()
        await mine.answered.wait()
        if isinstance(mine.answer, Verdict):
            return mine.answer
        raise mine.answer or JudgeError(UnscoredReason.SHUTDOWN, "the group was cancelled")

    async def leave(self) -> None:
        """Stop waiting for one evaluator."""
        self._members -= 1
        if self._waiting and len(self._waiting) == self._members:
            await self._ask_all()

    async def _ask_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._members -= len(waiting)
        try:
            if len(waiting) == 1 or not _agree([one.question for one in waiting]):
                await self._ask_each(waiting)
            else:
                await self._ask_together(waiting)
        finally:
            for one in waiting:
                one.answered.set()

    async def _ask_together(self, waiting: Sequence[_WaitingQuestion]) -> None:
        questions = [one.question for one in waiting]
        try:
            verdict = await self._judge.ask(merged(questions))
        except JudgeError as error:
            shares = [_share(error.spent, number, len(waiting)) for number in range(len(waiting))]
            if error.reason in _APART:
                await self._ask_each(waiting)
                for one, share in zip(waiting, shares, strict=True):
                    one.answer = _paid_before(one.answer, share)
                return
            for one, share in zip(waiting, shares, strict=True):
                one.answer = JudgeError(error.reason, str(error), share)
        else:
            for number, one in enumerate(waiting):
                share_of_it = _share(verdict, number, len(waiting))
                one.answer = replace(share_of_it, data=verdict.data[one.question.name])

    async def _ask_each(self, waiting: Sequence[_WaitingQuestion]) -> None:
        async def ask(one: _WaitingQuestion) -> None:
            try:
                one.answer = await self._judge.ask(one.question)
            except JudgeError as error:
                one.answer = error

        async with anyio.create_task_group() as each:
            for one in waiting:
                each.start_soon(ask, one)


class GroupedJudge:
    """A `Judge` for one evaluator of a group. Its first question goes to the group, later ones to the judge itself."""

    def __init__(self, group: QuestionGroup, judge: Judge) -> None:
        self._group = group
        self._judge = judge
        self._pending = True
        self.model = judge.model
        self.max_characters = judge.max_characters

    async def ask(self, question: Question | Prompt) -> Verdict:
        """See `stages.Judge.ask`."""
        if self._pending and isinstance(question, Question):
            self._pending = False
            return await self._group.ask(question)
        return await self._judge.ask(question)

    async def leave(self) -> None:
        """Leave the group: the evaluator is done, whether or not it has asked."""
        if self._pending:
            self._pending = False
            await self._group.leave()


def merged(questions: Sequence[Question]) -> Question:
    """Merge questions about the same material into one. Its answer is an object with each answer under its name."""
    material = {name: text for one in questions for name, text in one.material.items()}
    parts = [f"## Part `{one.name}`\n\n{one.instructions}" for one in questions]
    return Question(
        name="group",
        instructions="\n\n".join([_TASK.format(number=len(questions)), *parts]),
        material={name: material[name] for name in sorted(material, key=_place)},
        schema={
            "type": "object",
            "properties": {one.name: dict(one.schema) for one in questions},
            "required": [one.name for one in questions],
        },
        max_tokens=sum(one.max_tokens for one in questions),
        repeat=questions[0].repeat,
    )


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _agree(questions: Sequence[Question]) -> bool:
    """Return whether the questions have different names and agree on each piece of material that they share."""
    seen: dict[str, str] = {}
    same = all(seen.setdefault(name, text) == text for one in questions for name, text in one.material.items())
    return same and len({one.name for one in questions}) == len(questions)


def _share(spent: _Spent, number: int, of: int) -> _Spent:
    """Return one part's share of the cost of a joint call. The first part takes the remainder."""
    return replace(
        spent,
        dollars=spent.dollars / of,
        input_tokens=spent.input_tokens // of + (spent.input_tokens % of if number == 0 else 0),
        output_tokens=spent.output_tokens // of + (spent.output_tokens % of if number == 0 else 0),
        attempts=spent.attempts if number == 0 else 0,
    )


def _paid_before(answer: Verdict | JudgeError | None, share: Cost) -> Verdict | JudgeError | None:
    """Return the answer to a question asked on its own, plus its share of the cost of the joint call before that."""
    if isinstance(answer, Verdict):
        return _added(answer, share)
    if answer is not None:
        answer.spent = _added(answer.spent, share)
    return answer


def _added(spent: _Spent, before: Cost) -> _Spent:
    return replace(
        spent,
        dollars=before.dollars + spent.dollars,
        input_tokens=before.input_tokens + spent.input_tokens,
        output_tokens=before.output_tokens + spent.output_tokens,
        seconds=before.seconds + spent.seconds,
        attempts=before.attempts + spent.attempts,
        tries=before.tries + spent.tries,
    )
