"""Each call to a judge is remembered with what came of it, along with the verdict or the reason for none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import anyio
import pytest

from monitor.errors import JudgeError
from monitor.judge.grouped_judge import QuestionGroup
from monitor.judge.metered import MeteredJudge
from monitor.judge.pause import Pause
from monitor.judge.retry import CallFault
from monitor.judge.setup import PauseCause
from monitor.model.outcome import Attempt, Cost, UnscoredReason
from monitor.stages import Question, Verdict
from tests.support.judge import GOOD, FakeProvider, Rig, down, question
from tests.support.runtime import total

pytestmark = pytest.mark.anyio
REFUSED = CallFault(UnscoredReason.AUTH, "the key", pauses=PauseCause.REFUSED)


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
    assert [one.result for one in failed.value.spent.tries] == ["provider_error", "provider_error"]


async def test_what_stopped_before_a_call_is_no_attempt():
    rig = Rig(FakeProvider(lambda _: GOOD), budget={"evaluations_per_day": 1})
    await rig.ask()
    with pytest.raises(JudgeError) as failed:
        await rig.ask("another")
    assert (failed.value.reason, failed.value.spent) == (UnscoredReason.BUDGET, Cost())


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
        raise JudgeError(UnscoredReason.TIMEOUT, "too slow", Cost(tries=(Attempt(2.0, "timeout"),)))


async def test_an_evaluation_adds_up_the_calls_of_all_its_questions():
    metered = MeteredJudge(Failing())
    await metered.ask(question("good"))
    with pytest.raises(JudgeError):
        await metered.ask(question("bad"))
    assert metered.spending(3.0).tries == (Attempt(1.0, "ok"), Attempt(2.0, "timeout"))


async def test_a_question_without_a_verdict_is_paid_for_too():
    """A reply that cannot be used costs as much as one that can."""

    class Wordy:
        model = "m"
        max_characters = 1000

        async def ask(self, asked: Question) -> Verdict:
            if asked.name == "good":
                return Verdict({}, "m", dollars=0.25, input_tokens=10, output_tokens=5, attempts=1)
            raise JudgeError(UnscoredReason.MALFORMED, "prose", Cost("", 0.5, 20, 7, 1.0, 2))

    metered = MeteredJudge(Wordy())
    for name in ("good", "bad", "bad"):
        with suppress(JudgeError):
            await metered.ask(question(name))
    assert metered.spending(3.0) == Cost("m", 1.25, 50, 19, 3.0, 5, asked=True)


async def test_what_a_reply_that_cannot_be_used_cost_is_told_with_the_reason():
    rig = Rig(FakeProvider(lambda _: replace(GOOD, text="five of five")))
    with pytest.raises(JudgeError) as failed:
        await rig.ask()
    assert failed.value.reason is UnscoredReason.MALFORMED
    spent = failed.value.spent
    assert (spent.attempts, spent.input_tokens, spent.output_tokens, spent.seconds) == (2, 20, 10, 1.0)
    assert spent.dollars == pytest.approx(total(rig.runtime.metrics, "ragmonitor_judge_cost_dollars_total"))
    assert spent.dollars > 0


async def test_what_was_paid_before_the_judge_was_paused_is_told_with_the_pause():
    rig = Rig(
        FakeProvider(lambda call: replace(GOOD, text="prose") if call == 1 else REFUSED),
        pause=lambda lent: Pause(lent.clock, lent.events, place="judge", model="m"),
    )
    with pytest.raises(JudgeError) as failed:
        await rig.ask()
    assert failed.value.reason is UnscoredReason.PAUSED
    assert (failed.value.spent.input_tokens, failed.value.spent.attempts) == (10, 2)
    assert [one.result for one in failed.value.spent.tries] == ["malformed", "auth"]


async def test_what_was_paid_is_told_with_the_first_cause():
    """The second reply is a failure that says less than the first; both calls were made, and one is paid for."""
    replies = [down(), replace(GOOD, text="prose"), down(UnscoredReason.RATE_LIMITED)]
    rig = Rig(FakeProvider(lambda call: replies[call - 1]), max_attempts=2)
    with pytest.raises(JudgeError) as failed:
        await rig.ask()
    assert failed.value.reason is UnscoredReason.PROVIDER_ERROR
    assert (failed.value.spent.input_tokens, failed.value.spent.attempts) == (10, 3)


async def test_a_call_that_the_end_of_the_monitor_cuts_off_is_told_as_paid():
    rig = Rig(FakeProvider(lambda _: GOOD, seconds=10_000), timeout=600)
    caught = []

    async def ask() -> None:
        try:
            await rig.ask()
        except JudgeError as error:
            caught.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(1)
        rig.judge.close()
    (error,) = caught
    assert (error.reason, error.spent.attempts) == (UnscoredReason.SHUTDOWN, 1)
    assert error.spent.dollars == pytest.approx(total(rig.runtime.metrics, "ragmonitor_judge_cost_dollars_total"))
    assert error.spent.dollars > 0


@pytest.mark.parametrize(("cached", "asked"), [((), False), ((True,), False), ((False,), True), ((True, False), True)])
async def test_a_judge_was_asked_if_a_verdict_is_not_from_its_cache(cached: tuple[bool, ...], asked: bool):
    """How often it was called does not tell: of evaluators that share a call one has it."""
    given = iter(cached)

    class Remembers:
        model = "m"
        max_characters = 1000

        async def ask(self, _: Question) -> Verdict:
            return Verdict({}, "m", attempts=0, cached=next(given))

    metered = MeteredJudge(Remembers())
    for _ in cached:
        await metered.ask(question("q"))
    assert metered.spending(1.0).asked is asked


async def test_those_who_ask_together_share_the_calls_that_failed():
    questions = QuestionGroup(Failing())
    first, second = questions.judge(), questions.judge()
    caught = []

    async def ask(mine, name: str) -> None:
        try:
            await mine.ask(question(name))
        except JudgeError as error:
            caught.append(error.spent.tries)

    async with anyio.create_task_group() as group:
        group.start_soon(ask, first, "a")
        group.start_soon(ask, second, "b")
    assert caught == [(Attempt(2.0, "timeout"),)] * 2
