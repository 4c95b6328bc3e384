"""A judge whose provider refuses until someone acts, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from monitor.errors import ConfigError, JudgeError
from monitor.judge.api_key import ApiKey
from monitor.judge.budget import Tariff
from monitor.judge.client import JudgeClient
from monitor.judge.pause import Pause
from monitor.judge.provider import Reply
from monitor.judge.retry import CallFault
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import PauseCause
from monitor.model.outcome import UnscoredReason
from tests.support.judge import GOOD, FakeProvider, Rig, down
from tests.support.virtual_time import LoopClock

pytestmark = pytest.mark.anyio

KEY = CallFault(UnscoredReason.AUTH, "the key", pauses=PauseCause.REFUSED)
BILL = CallFault(UnscoredReason.PROVIDER_ERROR, "the bill", pauses=PauseCause.UNPAID)


class PausedRig(Rig):
    """A rig whose pause is lent, as the app does it."""

    def __init__(self, provider: FakeProvider, **options: Any) -> None:
        super().__init__(provider, **options)
        self.pause = Pause(LoopClock(), self.runtime.events, place="judge", model="m")
        settings = JudgeSettings.model_validate({"model": "m", "cache": {"max_entries": 0}, **options})
        self.judge = JudgeClient(
            settings, self.runtime, provider, Tariff(0.001, 0.001), rng=self.judge._rng, pause=self.pause
        )
        self.judge.ready()

    async def ask_until(self, seconds: float, every: float = 1.0) -> list[UnscoredReason | None]:
        reasons = []
        while asyncio.get_running_loop().time() < seconds:
            reasons.append(await self.reason())
            await asyncio.sleep(every)
        return reasons


def refuses_until(cured: float, fault: CallFault = KEY) -> FakeProvider:
    loop = asyncio.get_running_loop()
    return FakeProvider(lambda _: fault if loop.time() < cured else GOOD, seconds=0.1)


async def test_the_probes_of_a_paused_judge_are_real_questions_at_intervals_that_double_from_15_s_to_5_minutes():
    provider = refuses_until(float("inf"))
    rig = PausedRig(provider)
    assert set(await rig.ask_until(2000)) == {UnscoredReason.PAUSED}
    gaps = [later - earlier for earlier, later in zip(provider.calls, provider.calls[1:], strict=False)]
    assert [round(gap) for gap in gaps[:6]] == pytest.approx([15, 30, 60, 120, 240, 300], abs=2)
    assert all(300 <= gap < 303 for gap in gaps[5:])
    assert rig.events("judge_paused") == 1
    assert rig.count("auth") == len(provider.calls)


async def test_a_judge_that_is_cured_is_asked_again_and_says_what_was_missed():
    told: list[tuple[str, dict[str, object]]] = []
    rig = PausedRig(refuses_until(40))
    rig.runtime.events.also(lambda _level, event, message, fields: told.append((message, {"event": event, **fields})))
    while await rig.reason() is not None:
        rig.pause.missed()
        await asyncio.sleep(1)
    assert 45 <= asyncio.get_running_loop().time() <= 50
    message, fields = told[-1]
    assert fields["event"] == "judge_resumed"
    assert fields["missed"] > 30
    assert "rag-monitor backfill --missed" in message
    assert rig.pause.now is None
    assert await rig.reason() is None


async def test_what_waits_for_a_call_when_the_pause_begins_ends_at_once_without_one():
    """Also behind a slow pace, and in the wait before another try."""
    for options in ({"max_concurrency": 1}, {"budget": {"requests_per_minute": 6}}):
        provider = FakeProvider(lambda _: KEY)
        rig = PausedRig(provider, **options)
        began = asyncio.get_running_loop().time()
        reasons = await asyncio.gather(*(rig.reason(str(number)) for number in range(50)))
        assert set(reasons) == {UnscoredReason.PAUSED}
        assert len(provider.calls) == 1
        assert asyncio.get_running_loop().time() - began < 1
    later = FakeProvider(lambda number: down(retry_after=50) if number == 1 else KEY)
    rig = PausedRig(later)
    began = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(rig.reason("first"))
    await asyncio.sleep(5)
    await rig.reason("second")
    assert await waiting is UnscoredReason.PAUSED
    assert asyncio.get_running_loop().time() - began < 6


async def test_a_probe_that_hangs_holds_up_nobody():
    provider = FakeProvider(lambda number: KEY if number == 1 else GOOD, seconds=0.1)
    rig = PausedRig(provider, timeout=100, max_concurrency=1)
    await rig.reason()
    await asyncio.sleep(15)
    provider.seconds = 90
    probe = asyncio.create_task(rig.reason())
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    assert await rig.reason() is UnscoredReason.PAUSED
    assert asyncio.get_running_loop().time() == began
    assert await probe is None


async def test_a_probe_that_meets_an_outage_cures_nothing_and_one_that_is_answered_with_rubbish_does():
    replies: list[Reply | CallFault] = [KEY, down(), Reply("rubbish", "stop"), GOOD]
    rig = PausedRig(FakeProvider(lambda number: replies[number - 1], seconds=0.1), max_attempts=1)
    assert await rig.reason() is UnscoredReason.PAUSED
    await asyncio.sleep(15)
    assert await rig.reason() is UnscoredReason.PROVIDER_ERROR
    assert rig.pause.now is not None
    await asyncio.sleep(30)
    assert await rig.reason() is None  # the repair of the rubbish is GOOD
    assert rig.pause.now is None


async def test_calls_that_were_out_before_the_pause_neither_end_it_nor_count_as_probes():
    replies = {1: GOOD, 2: KEY}
    provider = FakeProvider(lambda number: replies[number], seconds=0.1)
    rig = PausedRig(provider)

    async def slowly() -> UnscoredReason | None:
        provider.seconds = 5
        return await rig.reason("slow")

    slow = asyncio.create_task(slowly())
    await asyncio.sleep(0.01)
    provider.seconds = 0.1
    await rig.reason("refused")
    assert await slow is None
    assert rig.pause.now is not None


async def test_another_cause_is_told_anew_and_the_pause_goes_on():
    faults = [KEY, BILL]
    rig = PausedRig(FakeProvider(lambda number: faults[min(number, 2) - 1]))
    await rig.reason()
    since = rig.pause.now.since
    await asyncio.sleep(16)
    await rig.reason()
    assert rig.pause.now.cause is PauseCause.UNPAID
    assert rig.pause.now.since == since
    assert rig.events("judge_paused") == 2


async def test_another_key_makes_the_next_question_a_probe():
    rig = PausedRig(refuses_until(3))
    assert await rig.reason() is UnscoredReason.PAUSED
    await asyncio.sleep(4)
    assert await rig.reason() is UnscoredReason.PAUSED
    rig.pause.hasten()
    assert await rig.reason() is None


async def test_a_cached_verdict_is_served_while_the_judge_is_paused():
    replies = [GOOD, KEY]
    rig = PausedRig(FakeProvider(lambda number: replies[number - 1]), cache={"max_entries": 10})
    assert await rig.reason("known") is None
    assert await rig.reason("other") is UnscoredReason.PAUSED
    assert await rig.reason("known") is None
    assert await rig.reason("other") is UnscoredReason.PAUSED


async def test_without_a_pause_of_its_owner_the_first_question_keeps_the_reason_of_its_call():
    """As commands want it: `try` and `doctor` say what the provider said."""
    rig = Rig(FakeProvider(lambda _: KEY))
    assert await rig.reason() is UnscoredReason.AUTH
    assert await rig.reason() is UnscoredReason.PAUSED


@pytest.mark.parametrize("cause", PauseCause)
@pytest.mark.parametrize("key_file", [True, False])
async def test_every_cause_says_what_to_do_in_words_of_the_configuration(cause, key_file):
    rig = Rig(FakeProvider(lambda _: GOOD))
    pause = Pause(LoopClock(), rig.runtime.events, place="judges.small", model="m", key_file=key_file)
    pause.refused(cause, "why")
    assert "judges.small" in pause.now.remedy
    with pytest.raises(JudgeError, match="why"):
        pause.enter()


def key_of(path: Any) -> ApiKey:
    return ApiKey(JudgeSettings(model="m", api_key_file=path))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"x" * 100_000])
async def test_a_file_without_a_key_is_an_error_at_the_start(tmp_path, content):
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="api_key_file"):
        key_of(file).load()
    with pytest.raises(ConfigError, match="No such file"):
        key_of(tmp_path / "none").load()


async def test_a_file_that_can_no_longer_be_read_leaves_the_key_as_it_was(tmp_path):
    file = tmp_path / "key"
    file.write_text("one\n")
    told: list[str] = []
    key = ApiKey(JudgeSettings(model="m", api_key_file=file), told.append)
    key.load()
    file.unlink()
    assert not await key.refresh()
    assert not await key.refresh()
    assert told == ["No such file or directory"]
    assert key.current == "one"
    file.write_text("two")
    assert await key.refresh()
    assert key.current == "two"


def test_a_key_and_a_file_for_it_are_an_error():
    with pytest.raises(ValueError, match="api_key_file: `api_key` is set too"):
        JudgeSettings.model_validate({"model": "m", "api_key": "k", "api_key_file": "f"})
