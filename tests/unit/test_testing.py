from __future__ import annotations

import pytest

from monitor.errors import JudgeError
from monitor.model.outcome import UnscoredReason
from monitor.stages import Question, Verdict
from monitor.testing import ScriptedJudge

pytestmark = pytest.mark.anyio

QUESTION = Question("q", "", {"response": "r"}, {})


async def test_it_answers_from_a_list_and_records_what_it_was_asked():
    whole = Verdict({"score": 2}, "other", dollars=1.0)
    judge = ScriptedJudge([{"score": 1}, whole, JudgeError(UnscoredReason.REFUSAL, "no")])
    assert (await judge.ask(QUESTION)).data == {"score": 1}
    assert await judge.ask(QUESTION) is whole
    for reason in (UnscoredReason.REFUSAL, UnscoredReason.SHUTDOWN):
        with pytest.raises(JudgeError) as caught:
            await judge.ask(QUESTION)
        assert caught.value.reason is reason
    assert judge.questions == [QUESTION] * 4


async def test_it_answers_by_a_function_of_the_question():
    judge = ScriptedJudge(lambda question: {"score": len(question.material["response"])})
    assert (await judge.ask(QUESTION)).data == {"score": 1}
