"""Each call to a judge is remembered with what came of it, along with the verdict or the reason for none."""

from __future__ import annotations

import anyio
import pytest

from monitor.errors import JudgeError
from monitor.judge.grouped_judge import QuestionGroup
from monitor.judge.metered import MeteredJudge
from monitor.model.outcome import Attempt, UnscoredReason
from monitor.stages import Question, Verdict
from tests.support.judge import GOOD, FakeProvider, Rig, down, question

pytestmark = pytest.mark.anyio


async def test_a_verdict_brings_all_calls_that_it_took_in_their_order():
    rig = Rig(FakeProvider(lambda call: GOOD if call == 3 else down(UnscoredReason.RATE_LIMITED)))
    tries = (await rig.ask()).tries
    assert [(one.result, one.detail) for one in tries] == [
        ("rate_limited", "down"),
        ("rate_limited", "down"),
        ("ok", ""),
    ]
    assert [one.seconds for one in tries] == pytest.approx([0.5, 0.5, 0.5])


async def test_a_reason_for_none_brings_the_calls_that_came_to_nothing():
    rig = Rig(FakeProvider(lambda _: down()), max_attempts=2)
    with pytest.raises(JudgeError) as failed:
        await rig.ask()
    assert [one.result for one in failed.value.tries] == ["provider_error", "provider_error"]


async def test_what_stopped_before_a_call_is_no_attempt():
    rig = Rig(FakeProvider(lambda _: GOOD), budget={"evaluations_per_day": 1})
    await rig.ask()
    with pytest.raises(JudgeError) as failed:
        await rig.ask("another")
    assert (failed.value.reason, failed.value.tries) == (UnscoredReason.BUDGET, ())


async def test_an_answer_from_the_cache_took_no_call():
    rig = Rig(FakeProvider(lambda _: GOOD), cache={"max_entries": 10})
    assert len((await rig.ask()).tries) == 1
    again = await rig.ask()
    assert (again.cached, again.tries) == (True, ())


class Failing:
    """A judge that fails at everything but the question `good`."""

    model = "m"
    max_characters = 1000

    async def ask(self, asked: Question) -> Verdict:
        if asked.name == "good":
            return Verdict({}, "m", tries=(Attempt(1.0, "ok"),))
        raise JudgeError(UnscoredReason.TIMEOUT, "too slow", (Attempt(2.0, "timeout"),))


async def test_an_evaluation_adds_up_the_calls_of_all_its_questions():
    metered = MeteredJudge(Failing())
    await metered.ask(question("good"))
    with pytest.raises(JudgeError):
        await metered.ask(question("bad"))
    assert metered.spending(3.0).tries == (Attempt(1.0, "ok"), Attempt(2.0, "timeout"))


async def test_those_who_ask_together_share_the_calls_that_failed():
    questions = QuestionGroup(Failing())
    first, second = questions.judge(), questions.judge()
    caught = []

    async def ask(mine, name: str) -> None:
        try:
            await mine.ask(question(name))
        except JudgeError as error:
            caught.append(error.tries)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, first, "a")
        group.start_soon(ask, second, "b")
    assert caught == [(Attempt(2.0, "timeout"),)] * 2
