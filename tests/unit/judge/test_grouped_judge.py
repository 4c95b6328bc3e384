"""Several questions about one case in one call."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from monitor.errors import JudgeError
from monitor.judge.grouped_judge import GroupedJudge, QuestionGroup, merged
from monitor.model.case import Message
from monitor.model.outcome import Attempt, Cost, UnscoredReason
from monitor.stages import Prompt, Question, Verdict
from monitor.testing import ScriptedJudge
from tests.support.judge import question

pytestmark = pytest.mark.anyio


def each_its_own(asked: Question) -> Verdict:
    """Gives every part another score, by its name."""
    data = {"score": len(asked.name)}
    if asked.name == "group":
        data = {name: {"score": len(name)} for name in asked.schema["properties"]}
    return Verdict(data, "m", dollars=0.6, input_tokens=10, output_tokens=5, seconds=1.0, attempts=1)


async def ask(judge: ScriptedJudge, *questions: Question | None) -> list[Verdict | JudgeError | None]:
    """Ask all at the same time; None is an evaluator that asks nothing."""
    asked_together = QuestionGroup(judge)
    judges = [asked_together.judge() for _ in questions]
    answers: list[Verdict | JudgeError | None] = [None] * len(questions)

    async def one(at: int, mine: GroupedJudge, asked: Question | None) -> None:
        try:
            if asked is not None:
                answers[at] = await mine.ask(asked)
        except JudgeError as error:
            answers[at] = error
        finally:
            await mine.leave()

    async with anyio.create_task_group() as group:
        for at, (mine, asked) in enumerate(zip(judges, questions, strict=True)):
            group.start_soon(one, at, mine, asked)
    return answers


async def test_questions_about_the_same_case_are_one_call_and_each_gets_its_part():
    judge = ScriptedJudge(each_its_own)
    found = await ask(judge, question("a"), question("bbb"), question("cc"))
    assert [verdict.data for verdict in found] == [{"score": 1}, {"score": 3}, {"score": 2}]
    (asked,) = judge.questions
    assert asked.max_tokens == 300
    assert [asked.instructions.index(f"Do {name}.") for name in ("a", "bbb", "cc")] == sorted(
        asked.instructions.index(f"Do {name}.") for name in ("a", "bbb", "cc")
    )


async def test_the_shares_of_the_cost_add_up_to_the_whole():
    found = await ask(ScriptedJudge(each_its_own), question("a"), question("b"), question("c"))
    assert sum(one.dollars for one in found) == pytest.approx(0.6)
    assert (sum(one.input_tokens for one in found), sum(one.output_tokens for one in found)) == (10, 5)
    assert sum(one.attempts for one in found) == 1


async def test_a_common_answer_that_cannot_be_used_is_paid_for_by_those_who_asked():
    """They are asked one by one after it; what it cost must not get lost."""
    spent = Cost("", 0.9, 31, 7, 2.0, 2, tries=(Attempt(2.0, "malformed"),))

    def answer(asked):
        if asked.name == "group":
            return JudgeError(UnscoredReason.MALFORMED, "no", spent)
        own = Cost("", 0.1, 10, 5, 1.0, 1, tries=(Attempt(1.0, "out_of_range"),))
        return JudgeError(UnscoredReason.OUT_OF_RANGE, "9", own) if asked.name == "bad" else each_its_own(asked)

    good, other, bad = await ask(ScriptedJudge(answer), question("good"), question("other"), question("bad"))
    assert good.dollars == pytest.approx(0.6 + 0.3)
    assert bad.spent.dollars == pytest.approx(0.1 + 0.3)
    assert [good.input_tokens, other.input_tokens, bad.spent.input_tokens] == [10 + 11, 10 + 10, 10 + 10]
    assert [good.output_tokens, other.output_tokens, bad.spent.output_tokens] == [5 + 3, 5 + 2, 5 + 2]
    assert [good.attempts, other.attempts, bad.spent.attempts] == [3, 1, 1]
    assert [good.seconds, bad.spent.seconds] == [3.0, 3.0]
    assert [one.result for one in bad.spent.tries] == ["malformed", "out_of_range"]


async def test_the_shares_of_a_failure_add_up_to_what_it_cost():
    spent = Cost("", 0.9, 31, 7, 2.0, 2)
    found = await ask(ScriptedJudge([JudgeError(UnscoredReason.TIMEOUT, "no", spent)]), question("a"), question("b"))
    assert sum(error.spent.dollars for error in found) == pytest.approx(0.9)
    assert [(e.spent.input_tokens, e.spent.output_tokens, e.spent.attempts) for e in found] == [(16, 4, 2), (15, 3, 0)]


async def test_an_evaluator_that_asks_nothing_holds_nobody_up():
    judge = ScriptedJudge(each_its_own)
    assert [v.data if v else None for v in await ask(judge, None, question("a"), None)] == [None, {"score": 1}, None]
    assert [one.name for one in judge.questions] == ["a"]
    assert await ask(judge, None, None) == [None, None]


async def test_an_answer_that_cannot_be_used_is_asked_for_part_by_part():
    """One bad part must not cost the others their verdict."""

    def answer(asked):
        if asked.name == "group":
            return JudgeError(UnscoredReason.MALFORMED, "no")
        return JudgeError(UnscoredReason.OUT_OF_RANGE, "9") if asked.name == "bad" else each_its_own(asked)

    judge = ScriptedJudge(answer)
    good, bad = await ask(judge, question("good"), question("bad"))
    assert good.data == {"score": 4}
    assert bad.reason is UnscoredReason.OUT_OF_RANGE
    assert sorted(one.name for one in judge.questions) == ["bad", "good", "group"]


@pytest.mark.parametrize("reason", [UnscoredReason.TIMEOUT, UnscoredReason.BUDGET, UnscoredReason.CONTENT_FILTER])
async def test_a_fault_of_the_provider_is_that_of_every_part_and_not_asked_again(reason):
    judge = ScriptedJudge(lambda _: JudgeError(reason, "no"))
    assert [error.reason for error in await ask(judge, question("a"), question("b"))] == [reason, reason]
    assert len(judge.questions) == 1


async def test_questions_that_mean_other_things_by_the_same_name_are_asked_apart():
    judge = ScriptedJudge(each_its_own)
    await ask(judge, question("a", context="one"), question("b", context="two"))
    assert sorted(one.name for one in judge.questions) == ["a", "b"]


async def test_a_second_question_and_a_models_own_prompt_go_straight_to_the_judge():
    judge = ScriptedJudge(each_its_own)
    questions = QuestionGroup(judge)
    mine, other = questions.judge(), questions.judge()
    await mine.ask(Prompt("p", (Message("user", "x"),)))
    assert [one.name for one in judge.questions] == ["p"]
    await other.leave()
    await mine.ask(question("a"))
    await mine.ask(question("b"))
    assert [one.name for one in judge.questions] == ["p", "a", "b"]


async def test_everybody_is_told_when_the_call_is_broken_off():
    started, found = anyio.Event(), []

    class Hanging:
        model = "m"
        max_characters = 400_000

        async def ask(self, _):
            started.set()
            await anyio.sleep_forever()

    questions = QuestionGroup(Hanging())
    first, second = questions.judge(), questions.judge()

    async def follower():
        try:
            await first.ask(question("a"))
        except JudgeError as error:
            found.append(error.reason)

    async with anyio.create_task_group() as group:
        group.start_soon(follower)
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(5) as scope:
            async with anyio.create_task_group() as leader:
                leader.start_soon(second.ask, question("b"))
                await started.wait()
                leader.cancel_scope.cancel()
        assert not scope.cancelled_caught
    assert found == [UnscoredReason.SHUTDOWN]


def test_what_is_shared_comes_first_in_the_material():
    whole = merged([question("a", query="q", response="r"), question("b", response="r", context="c")])
    assert list(whole.material) == ["context", "query", "response"]
