from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from monitor.clock import ManualClock
from monitor.judge.cache import Cache, question_key
from monitor.judge.settings import CacheSettings
from monitor.model.case import Message
from monitor.stages import Prompt, Question, Verdict

QUESTION = Question("groundedness", "Score it.", {"context": "c", "response": "r"}, {"type": "object"})
VERDICT = Verdict({"score": 5}, "model")


def test_the_least_recently_used_verdict_leaves_first():
    cache = Cache(CacheSettings(max_entries=2), ManualClock())
    cache.put("a", VERDICT)
    cache.put("b", VERDICT)
    cache.get("a")
    cache.put("c", VERDICT)
    assert [key for key in "abc" if cache.get(key)] == ["a", "c"]
    assert len(cache) == 2


def test_a_verdict_beyond_its_age_is_not_used():
    clock = ManualClock()
    cache = Cache(CacheSettings(ttl=60), clock)
    cache.put("a", VERDICT)
    clock.advance(60)
    assert cache.get("a") is VERDICT
    clock.advance(1)
    assert cache.get("a") is None
    assert len(cache) == 0


@pytest.mark.parametrize(
    "other",
    [
        replace(QUESTION, name="relevance"),
        replace(QUESTION, instructions="Score it!"),
        replace(QUESTION, material={"context": "c", "response": "R"}),
        replace(QUESTION, material={"response": "r", "context": "c"}),
        replace(QUESTION, material={"context": "cresponse", "response": "r"}),
        replace(QUESTION, schema={"type": "object", "required": []}),
    ],
)
def test_whatever_decides_the_answer_is_part_of_the_key(other):
    assert question_key("m", QUESTION) != question_key("m", other)
    assert question_key("m", QUESTION) != question_key("n", QUESTION)
    assert question_key("m", QUESTION) == question_key("m", replace(QUESTION))


def test_text_that_is_not_unicode_has_a_key():
    assert question_key("m", replace(QUESTION, material={"response": "\ud800"}))


@pytest.mark.anyio
async def test_turns_are_taken_one_at_a_time_for_a_key_and_forgotten_after():
    cache = Cache(CacheSettings(), ManualClock())
    inside: list[str] = []

    async def one(key: str) -> None:
        async with cache.turn(key):
            assert key not in inside
            inside.append(key)
            await asyncio.sleep(1)
            inside.remove(key)

    await asyncio.gather(one("a"), one("a"), one("b"))
    assert cache._turns == {}


def test_a_prompt_of_a_models_own_form_has_a_key_of_its_own():
    prompt = Prompt("check", (Message("user", "Document: a"),))
    others = [replace(prompt, max_tokens=9), replace(prompt, temperature=0.5), replace(prompt, logprobs=True)]
    others += [replace(prompt, messages=(Message("user", "Document: b"),)), replace(prompt, repeat=1), QUESTION]
    assert question_key("m", prompt) == question_key("m", replace(prompt))
    assert len({question_key("m", one) for one in (prompt, *others)}) == len(others) + 1
