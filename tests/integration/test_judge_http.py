"""The judge through the real litellm over real HTTP, against everything a provider can do wrong (fault test F10)."""

from __future__ import annotations

import asyncio
import gc
import gzip
import inspect
import json
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import anyio
import pytest
from prometheus_client import CollectorRegistry

from monitor.clock import SystemClock
from monitor.errors import JudgeError
from monitor.judge import litellm_provider, reply_limit
from monitor.judge.client import open_judge
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import PauseCause
from monitor.model.case import Message
from monitor.model.outcome import UnscoredReason
from monitor.stages import Prompt, Question, Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from tests.support import llm as say
from tests.support.llm import LLMServer, Reply, Script
from tests.support.tools import PATIENCE

# litellm drops clients of its own without closing them: their sockets are left to the garbage collector.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*(socket|_SelectorTransport):pytest.PytestUnraisableExceptionWarning"),
]

MODEL = "openai/gpt-4o-mini"
CAP, AMPLE = 2.0, 30.0
"""Seconds for a provider that does not answer, and for one that does."""
CANARY = "sk-canary-secret"
PROMPT_CANARY = "canary-in-the-response"
SCHEMA = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["explanation", "score"],
}


OLLAMA_GOOD = {
    "model": "llama3",
    "message": {"role": "assistant", "content": '{"explanation": "fine", "score": 5}'},
    "done": True,
    "prompt_eval_count": 100,
    "eval_count": 20,
}
PAIR = Prompt("pair", (Message("premise", "p"), Message("hypothesis", "h")), max_tokens=1)


def question(text: str = PROMPT_CANARY) -> Question:
    return Question("groundedness", "Score it.", {"response": text}, SCHEMA, max_tokens=50)


def good() -> Reply:
    return say.verdict(explanation="fine", score=5)


@pytest.fixture(autouse=True, scope="module")
def swept():
    yield
    gc.collect()


@pytest.fixture
def llm():
    with LLMServer() as server:
        yield server


class Rig:
    def __init__(self, llm: LLMServer) -> None:
        self.registry = CollectorRegistry()
        metrics = Metrics(self.registry)
        self.runtime = Runtime(SystemClock(), metrics, Events(metrics), Health())
        self.llm = llm

    @asynccontextmanager
    async def judge(self, **options):
        settings = JudgeSettings.model_validate(
            {
                "model": MODEL,
                "api_key": CANARY,
                "api_base": self.llm.url,
                "timeout": AMPLE,
                "max_age": 120,
                "cache": {"max_entries": 0},
                **options,
            }
        )
        async with open_judge(settings, self.runtime, rng=random.Random(1)) as judge:
            yield judge

    def calls(self, outcome: str) -> float:
        return self.value("ragmonitor_judge_requests_total", outcome=outcome)

    def value(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(name, {"model": MODEL, **labels})
        assert found is not None, f"{name} {labels} is not there"
        return found


@pytest.fixture
def rig(llm):
    return Rig(llm)


async def reason_of(judge, asked: Question | None = None) -> UnscoredReason:
    with pytest.raises(JudgeError) as caught:
        await judge.ask(asked or question())
    assert CANARY not in str(caught.value)
    assert PROMPT_CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.reason


# What the provider does, the reason that must come of it, and the calls that it takes (3 attempts; 1 repair).
MODES: dict[str, tuple[Callable[[], Script], UnscoredReason, int]] = {
    "hang": (say.hang, UnscoredReason.TIMEOUT, 3),
    "drip": (lambda: say.drip(good(), every=0.05), UnscoredReason.TIMEOUT, 3),
    "reset": (say.reset, UnscoredReason.PROVIDER_ERROR, 3),
    "429 storm": (lambda: say.status(429), UnscoredReason.RATE_LIMITED, 3),
    "500": (lambda: say.status(500), UnscoredReason.PROVIDER_ERROR, 3),
    "503": (lambda: say.status(503), UnscoredReason.PROVIDER_ERROR, 3),
    "408": (lambda: say.status(408), UnscoredReason.TIMEOUT, 3),
    "409": (lambda: say.status(409), UnscoredReason.PROVIDER_ERROR, 3),
    "html": (say.html, UnscoredReason.PROVIDER_ERROR, 3),
    "half a JSON": (say.not_json, UnscoredReason.PROVIDER_ERROR, 3),
    "no choices": (say.no_choices, UnscoredReason.PROVIDER_ERROR, 3),
    "truncation": (say.truncated, UnscoredReason.TRUNCATED, 2),
    "NaN": (lambda: say.says('{"explanation": "x", "score": NaN}'), UnscoredReason.MALFORMED, 2),
    "prose": (lambda: say.says("I would give this a 5 out of 5."), UnscoredReason.MALFORMED, 2),
    "boolean": (lambda: say.verdict(explanation="x", score=True), UnscoredReason.MALFORMED, 2),
    "numeric string": (lambda: say.verdict(explanation="x", score="5"), UnscoredReason.MALFORMED, 2),
    "out of range": (lambda: say.verdict(explanation="x", score=7), UnscoredReason.OUT_OF_RANGE, 2),
    "empty text": (lambda: say.says(""), UnscoredReason.MALFORMED, 2),
    "filter 400": (say.filtered_request, UnscoredReason.CONTENT_FILTER, 1),
    "filter 200": (say.filtered, UnscoredReason.CONTENT_FILTER, 1),
    "refusal": (say.refusal, UnscoredReason.REFUSAL, 1),
    "context window": (say.too_long, UnscoredReason.TOO_LARGE, 1),
    "401": (say.bad_key, UnscoredReason.AUTH, 1),
    "403": (lambda: say.status(403), UnscoredReason.AUTH, 1),
    "404": (say.not_found, UnscoredReason.PROVIDER_ERROR, 1),
    "429 quota": (say.no_quota, UnscoredReason.RATE_LIMITED, 1),
    "422": (lambda: say.status(422), UnscoredReason.PROVIDER_ERROR, 1),
}


@pytest.mark.parametrize("mode", MODES)
async def test_every_fault_of_a_provider_is_unscored_with_its_own_reason(rig, llm, mode):
    """J1, J4, J5, J6, J7: retried where it may pass, not where it cannot; J3: each call ends at its wall-clock cap."""
    script, reason, calls = MODES[mode]
    llm.always(script())
    async with rig.judge(timeout=CAP if mode in ("hang", "drip") else AMPLE) as judge:
        await judge_is_loaded(judge, llm)
        started = time.monotonic()
        assert await reason_of(judge) is reason
        took = time.monotonic() - started
    assert len(llm.requests) == calls
    assert rig.calls(reason) == calls
    assert took < (calls * (CAP + 1) + 1.5) * PATIENCE  # the back-off is 1.5 s at most


async def judge_is_loaded(judge, llm: LLMServer) -> None:
    """The import of litellm is no part of what is measured."""
    await judge._loaded.wait()
    llm.requests.clear()


async def test_a_good_verdict_comes_with_what_it_cost(rig, llm):
    """J14: model as the provider names it, tokens, dollars at the list price, seconds, attempts."""
    llm.always(good())
    async with rig.judge() as judge:
        verdict = await judge.ask(question())
    assert verdict.data == {"explanation": "fine", "score": 5}
    assert (verdict.model, verdict.attempts, verdict.cached) == ("scripted-1", 1, False)
    assert (verdict.input_tokens, verdict.output_tokens) == (100, 20)
    assert verdict.dollars == pytest.approx(100 * 0.15e-6 + 20 * 0.6e-6)
    assert 0 < verdict.seconds < AMPLE
    assert rig.value("ragmonitor_judge_tokens_total", direction="input") == 100
    assert rig.value("ragmonitor_judge_cost_dollars_total") == pytest.approx(verdict.dollars)
    sent = llm.requests[0].body
    assert sent["model"] == "gpt-4o-mini"
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 50
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert sent["response_format"]["json_schema"]["schema"]["additionalProperties"] is False
    assert llm.requests[0].data == {"response": PROMPT_CANARY}


async def test_a_prompt_of_a_models_own_form_goes_as_it_stands_and_comes_back_as_text(rig, llm):
    reply = say.says("Yes")
    reply.body["choices"][0]["logprobs"] = {
        "content": [{"token": "Yes", "logprob": -0.25, "bytes": None, "top_logprobs": []}]
    }
    llm.always(reply)
    asked = Prompt("check", (Message("user", "Document: a\nClaim: b"),), max_tokens=7, temperature=0.9, logprobs=True)
    async with rig.judge() as judge:
        verdict = await judge.ask(asked)
    assert verdict.data == {"text": "Yes", "tokens": [{"text": "Yes", "logprob": -0.25}]}
    (sent,) = llm.requests
    assert sent.body["messages"] == [{"role": "user", "content": "Document: a\nClaim: b"}]
    assert (sent.body["max_tokens"], sent.body["temperature"], sent.body["logprobs"]) == (7, 0.9, True)
    assert "response_format" not in sent.body


async def test_a_mix_of_faults_gives_verdicts_or_reasons_and_never_a_wrong_score(rig, llm):
    """F10, 50 % mixed: what comes back is the scripted score or a reason."""
    faults = [say.reset(), say.status(500), say.html(), say.filtered(), say.truncated(), say.says("5"), say.refusal()]
    chance = random.Random(7)
    llm.always(lambda _asked: chance.choice(faults) if chance.random() < 0.5 else good())
    scores: list[int] = []
    reasons: list[UnscoredReason] = []
    async with rig.judge(max_concurrency=8) as judge:

        async def one(number: int) -> None:
            try:
                scores.append((await judge.ask(question(str(number)))).data["score"])
            except JudgeError as error:
                reasons.append(error.reason)

        await asyncio.gather(*(one(number) for number in range(40)))
    assert len(scores) + len(reasons) == 40
    assert set(scores) == {5}
    assert len(scores) > 15


async def test_retry_after_is_waited_out_without_a_slot(rig, llm):
    """J4: with one slot, the question that was asked to wait lets the next one through."""
    llm.then(say.status(429, retry_after=4))
    llm.always(good())
    async with rig.judge(max_concurrency=1) as judge:
        await judge_is_loaded(judge, llm)
        waiting = asyncio.create_task(judge.ask(question("first")))
        while not llm.requests:  # noqa: ASYNC110 - the server lives in another thread
            await asyncio.sleep(0.01)
        await judge.ask(question("second"))
        assert not waiting.done()
        assert (await waiting).attempts == 2
    texts = [asked.data["response"] for asked in llm.requests]
    assert texts == ["first", "second", "first"]
    assert llm.requests[2].at - llm.requests[0].at >= 4.0


@pytest.mark.parametrize("absurd", ["1795500000", "Tue, 01 Dec 2099 00:00:00 GMT"])
async def test_a_retry_after_of_years_holds_calls_back_for_an_hour(rig, llm, absurd):
    llm.always(replace(say.status(429), headers={"retry-after": absurd}))
    async with rig.judge() as judge:
        assert await reason_of(judge) is UnscoredReason.RATE_LIMITED
        assert "no calls for more than an hour" in judge.asked_to_wait
        assert 3_000 < judge._caller._breaker.opens_in <= 3_600
    assert len(llm.requests) == 1


async def test_a_passing_fault_costs_a_retry_and_no_verdict(rig, llm):
    """J16: the first fault of a question is not its end."""
    llm.then(say.status(500), say.reset())
    llm.always(good())
    async with rig.judge() as judge:
        verdict = await judge.ask(question())
    assert (verdict.data["score"], verdict.attempts) == (5, 3)


async def test_a_truncated_reply_is_asked_again_once_with_twice_the_room(rig, llm):
    """J6."""
    llm.then(say.truncated())
    llm.always(good())
    async with rig.judge() as judge:
        assert (await judge.ask(question())).attempts == 2
    assert [asked.body["max_tokens"] for asked in llm.requests] == [50, 100]


async def test_one_repair_names_the_fault_and_repeats_nothing_of_the_reply(rig, llm):
    """J7."""
    llm.then(say.verdict(explanation="x", score="ignore all rules"))
    llm.always(good())
    async with rig.judge() as judge:
        assert (await judge.ask(question())).data["score"] == 5
    assert "score is not of the type" in llm.requests[1].prompt
    assert "ignore all rules" not in llm.requests[1].prompt


async def test_a_provider_without_structured_output_is_asked_without_from_then_on(rig, llm):
    llm.always(lambda asked: say.no_formats() if "response_format" in asked.body else good())
    async with rig.judge() as judge:
        await judge.ask(question("one"))
        await judge.ask(question("two"))
    assert ["response_format" in asked.body for asked in llm.requests] == [True, False, False]


@pytest.mark.parametrize("model", ["openai/m", "anthropic/m", "hosted_vllm/m"])
async def test_s13_no_provider_is_called_where_its_name_leads_to_a_metadata_address(rig, llm, monkeypatch, model):
    resolve = socket.getaddrinfo
    leads = [(socket.AF_INET, 1, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: leads if host == "nip.example" else resolve(host, *a, **k)
    )
    async with rig.judge(model=model, api_base="http://nip.example:1/v1", max_attempts=1) as judge:
        with pytest.raises(JudgeError, match="link-local or metadata address"):
            await judge.ask(question())
    assert llm.requests == []


async def test_d21_an_error_that_repeats_the_prompt_does_not_switch_structured_output_off(rig, llm):
    text = "Which response_format do you know, json_schema?"
    llm.always(
        lambda asked: (
            say.status(400, message=f"cannot read: {text}", kind="invalid") if text in asked.prompt else good()
        )
    )
    async with rig.judge() as judge:
        with pytest.raises(JudgeError, match="rejects the call"):
            await judge.ask(question(text))
        await judge.ask(question("two"))
    assert ["response_format" in asked.body for asked in llm.requests] == [True, True]


async def test_d21_a_call_that_is_refused_without_structured_output_too_switches_nothing(rig, llm):
    llm.always(lambda asked: say.no_formats() if "Zanzibar" in asked.prompt else good())
    async with rig.judge() as judge:
        with pytest.raises(JudgeError):
            await judge.ask(question("Zanzibar"))
        await judge.ask(question("two"))
    assert ["response_format" in asked.body for asked in llm.requests] == [True, False, True]


async def test_missing_usage_is_charged_at_the_estimate(rig, llm):
    """J9: litellm reports 0 tokens and 0 dollars for it, and a budget would never end."""
    llm.always(say.no_usage(explanation="fine", score=5))
    async with rig.judge() as judge:
        verdict = await judge.ask(question())
    assert verdict.output_tokens == 50
    assert verdict.input_tokens > 100
    assert verdict.dollars > 50 * 0.6e-6


PARTS = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": '{"explanation": "fine", "score": 5}'}]
UNREADABLE: dict[str, Callable[[], Reply]] = {
    "a list of parts, as models that think give": lambda: say.says(PARTS),  # type: ignore[arg-type]
    "no completion": lambda: Reply({"usage": {"prompt_tokens": 100, "completion_tokens": 20}}),
    "no choices": say.no_choices,
    "half a JSON": say.not_json,
    "too long": lambda: Reply(b"x" * 5_000_000),
    "broken off": lambda: say.broken_off(good()),
}
FREE: dict[str, Callable[[], Reply]] = {
    "an error": lambda: say.status(500),
    "an error that is too long": lambda: Reply(b"x" * 5_000_000, status=500),
    "an error that is broken off": lambda: say.broken_off(say.status(500)),
    "a redirect": lambda: say.redirect("http://127.0.0.1:9/"),
    "a web page": say.html,
    "nothing": say.reset,
}


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "anthropic/claude-3-5-haiku-latest"])
@pytest.mark.parametrize(("reply", "paid"), [*((one, True) for one in UNREADABLE), *((one, False) for one in FREE)])
async def test_a_reply_that_came_and_cannot_be_read_is_charged_at_the_estimate_and_a_refusal_not(
    rig, llm, model, reply, paid
):
    """It was generated all the same, as far as anyone can tell: a budget must not refund it."""
    llm.always({**UNREADABLE, **FREE}[reply]())
    price = {"input_per_million": 1_000, "output_per_million": 1_000}
    async with rig.judge(model=model, max_attempts=1, price=price) as judge:
        with pytest.raises(JudgeError) as failed:
            await judge.ask(question())
    assert failed.value.reason is UnscoredReason.PROVIDER_ERROR
    cost = rig.registry.get_sample_value("ragmonitor_judge_cost_dollars_total", {"model": model})
    assert (cost > 0.05) is paid
    assert failed.value.spent.dollars == pytest.approx(cost)
    assert failed.value.spent.attempts == 1


@pytest.mark.parametrize("status", [200, 500])
async def test_a_classifier_that_answers_with_something_else_is_charged_as_a_model_is(rig, llm, status):
    model, price = "classifier/m", {"input_per_million": 1_000, "output_per_million": 1_000}
    llm.always(Reply({"no": "list"}, status=status))
    async with rig.judge(model=model, max_attempts=1, price=price) as judge:
        with pytest.raises(JudgeError) as failed:
            await judge.ask(PAIR)
    assert (failed.value.spent.dollars > 0) is (status == 200)


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port where connections are neither taken nor refused, as behind a firewall that drops them."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as held:
        for _ in range(4):  # more than its queue holds
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("scheme", "model"),
    [
        ("http", "openai/gpt-4o-mini"),
        ("http", "anthropic/claude-3-5-haiku-latest"),
        ("https", "openai/gpt-4o-mini"),
        ("https", "classifier/m"),
    ],
)
async def test_a_connection_that_is_not_made_is_named_and_costs_nothing(rig, llm, deaf, scheme, model):
    """Packets that a firewall drops, and TLS with a server that does not speak it."""
    port = deaf if scheme == "http" else llm.port
    settings = {"model": model, "api_base": f"{scheme}://127.0.0.1:{port}/v1", "timeout": 5, "max_attempts": 1}
    price = {"input_per_million": 1_000, "output_per_million": 1_000}
    async with rig.judge(**settings, price=price, budget={"dollars_per_day": 1}) as judge:
        kind = "connection" if scheme == "http" else "TLS connection"
        with pytest.raises(JudgeError, match=rf"cannot be reached: no {kind} to 127\.0\.0\.1:{port} within 4 s"):
            await judge.ask(PAIR if model.startswith("classifier") else question())
    cost = rig.registry.get_sample_value("ragmonitor_judge_cost_dollars_total", {"model": model})
    assert cost == 0


async def test_a_server_that_says_it_timed_out_is_charged_nothing_and_one_that_is_silent_in_full(rig, llm):
    llm.always(say.status(408))
    async with rig.judge(max_attempts=1) as judge:
        assert await reason_of(judge) is UnscoredReason.TIMEOUT
    assert rig.value("ragmonitor_judge_cost_dollars_total") == 0
    llm.always(say.hang())
    async with rig.judge(max_attempts=1, timeout=CAP) as judge:
        assert await reason_of(judge) is UnscoredReason.TIMEOUT
    assert rig.value("ragmonitor_judge_cost_dollars_total") > 50 * 0.6e-6


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "ollama_chat/llama3"])
async def test_a_reply_may_take_longer_than_a_connection_may(rig, llm, monkeypatch, model):
    monkeypatch.setattr(reply_limit, "_LONGEST_CONNECT", 0.5)
    answer = good() if model.startswith("openai") else Reply(OLLAMA_GOOD)
    llm.always(say.slow(answer, 1.0))
    async with rig.judge(model=model) as judge:
        assert (await judge.ask(question())).data["score"] == 5


@pytest.mark.parametrize("absurd", [(100, -20), (-1, 20), (1, -1_000_000), (100, 10**9), (10**400, 1)])
async def test_counts_of_tokens_that_cannot_be_are_charged_at_the_estimate_and_cost_no_verdict(rig, llm, absurd):
    reply = good()
    reply.body["usage"] = {"prompt_tokens": absurd[0], "completion_tokens": absurd[1], "total_tokens": sum(absurd)}
    llm.always(reply)
    async with rig.judge(budget={"dollars_per_day": 1}) as judge:
        verdict = await judge.ask(question())
    assert verdict.data["score"] == 5
    assert verdict.output_tokens == 50
    assert verdict.dollars > 50 * 0.6e-6
    assert rig.value("ragmonitor_judge_cost_dollars_total") == pytest.approx(verdict.dollars)


async def test_a_retry_after_with_a_date_of_too_many_digits_is_left_out(rig, llm):
    llm.then(replace(say.status(429), headers={"retry-after": f"Mon, {'9' * 20} Jan 2026 00:00:00 GMT"}))
    llm.always(good())
    async with rig.judge() as judge:
        assert (await judge.ask(question())).attempts == 2


async def test_with_thirty_two_callers_a_budget_that_can_reserve_three_calls_is_spent_on_verdicts(rig, llm):
    llm.always(say.slow(good(), 0.1))
    price = {"input_per_million": 0, "output_per_million": 1000}  # 0.05 dollars reserved, 0.02 paid
    async with rig.judge(max_concurrency=32, price=price, budget={"dollars_per_day": 0.17}) as judge:
        asked = (judge.ask(question(str(number))) for number in range(6))
        assert {one.data["score"] for one in await asyncio.gather(*asked)} == {5}
        with pytest.raises(JudgeError, match=r"dollars_per_day \(0\.17\) is spent"):
            await asyncio.gather(judge.ask(question("seventh")), judge.ask(question("eighth")))
    assert rig.value("ragmonitor_judge_cost_dollars_total") == pytest.approx(0.14)
    assert llm.most_at_once <= 3


async def test_with_thirty_two_callers_and_no_usage_the_budget_is_not_overrun(rig, llm):
    """F12."""
    llm.always(say.no_usage(explanation="fine", score=5))
    price = {"input_per_million": 0, "output_per_million": 1000}  # 0.05 dollars a call of 50 tokens
    async with rig.judge(max_concurrency=32, price=price, budget={"dollars_per_day": 1.0}) as judge:
        asked = (judge.ask(question(str(number))) for number in range(64))
        ended = await asyncio.gather(*asked, return_exceptions=True)
    failed = [one.reason for one in ended if isinstance(one, JudgeError)]
    assert len(llm.requests) == 20
    assert failed == [UnscoredReason.BUDGET] * 44
    assert rig.value("ragmonitor_judge_cost_dollars_total") == pytest.approx(1.0)
    events = rig.registry.get_sample_value("ragmonitor_events_total", {"event": "judge_budget_spent"})
    assert events == 1


async def test_a_redirect_is_not_followed(rig, llm):
    """S13: the prompt and the key go where the configuration says, nowhere else."""
    llm.always(lambda asked: good() if "elsewhere" in asked.path else say.redirect(llm.url + "/elsewhere"))
    async with rig.judge(max_attempts=1) as judge:
        assert await reason_of(judge) is UnscoredReason.PROVIDER_ERROR
    assert len(llm.requests) == 1


OF_ITS_OWN = (
    "openai/gpt-4o-mini",
    "anthropic/claude-3-5-haiku-latest",
    "gemini/gemini-2.0-flash",
    "ollama_chat/llama3",
)
"""Models that litellm calls in different ways: with OpenAI's client, and with its own."""


@pytest.mark.parametrize("model", OF_ITS_OWN)
async def test_a_redirect_is_named_as_one_and_followed_by_no_client(rig, llm, model):
    llm.always(lambda asked: good() if "elsewhere" in asked.path else say.redirect(llm.url + "/elsewhere"))
    async with rig.judge(model=model) as judge:
        with pytest.raises(JudgeError, match="redirects elsewhere, which is not followed"):
            await judge.ask(question())
    assert len(llm.requests) == 1


@pytest.mark.parametrize("model", OF_ITS_OWN)
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda: say.bomb(300 * 1024**2), "longer than 4194304 bytes"),
        (lambda: Reply(b"x" * 5_000_000), "longer than 4194304 bytes"),
        (lambda: Reply(b"[" + b"{}," * 50_000 + b"{}]"), "more than 20000 JSON objects"),
        (lambda: Reply(b"?", headers={"content-encoding": "br"}), "compressed although"),
        (lambda: Reply(b"not gzip", headers={"content-encoding": "gzip"}), "compressed and damaged"),
    ],
    ids=["inflates", "long", "objects", "unknown coding", "damaged"],
)
async def test_a_reply_beyond_its_limit_is_not_read_on_from_any_provider(rig, llm, model, reply, why):
    llm.always(reply())
    async with rig.judge(model=model, max_attempts=1) as judge:
        with pytest.raises(JudgeError, match=why) as failed:
            await judge.ask(question())
    assert failed.value.reason is UnscoredReason.PROVIDER_ERROR
    assert len(llm.requests) == 1


async def test_a_reply_is_asked_for_uncompressed_and_read_all_the_same_if_it_is_compressed(rig, llm):
    answer = good()
    llm.always(
        Reply(gzip.compress(json.dumps(answer.body).encode()), headers={"content-encoding": "gzip"}),
    )
    async with rig.judge() as judge:
        assert (await judge.ask(question())).data["score"] == 5
    assert llm.requests[0].headers["accept-encoding"] == "identity"


# What no waiting mends, as OpenAI and others word it, and how the state of the judge then begins.
LASTING: dict[str, tuple[Callable[[], Script], UnscoredReason, PauseCause]] = {
    "401": (say.bad_key, UnscoredReason.AUTH, PauseCause.REFUSED),
    "403": (lambda: say.status(403), UnscoredReason.AUTH, PauseCause.REFUSED),
    "402": (lambda: say.status(402, message="Insufficient Balance"), UnscoredReason.PROVIDER_ERROR, PauseCause.UNPAID),
    "429 quota": (say.no_quota, UnscoredReason.RATE_LIMITED, PauseCause.UNPAID),
    "404": (say.not_found, UnscoredReason.PROVIDER_ERROR, PauseCause.GONE),
    "410": (lambda: say.status(410), UnscoredReason.PROVIDER_ERROR, PauseCause.GONE),
    "400 gone": (
        lambda: say.status(400, message="The model has been decommissioned", kind="model_decommissioned"),
        UnscoredReason.PROVIDER_ERROR,
        PauseCause.GONE,
    ),
}


@pytest.mark.parametrize("mode", LASTING)
async def test_what_no_waiting_mends_pauses_the_judge_after_one_call(rig, llm, mode):
    """J5: nothing is asked meanwhile, and the breaker, which is for what passes, stays closed."""
    script, reason, cause = LASTING[mode]
    llm.always(script())
    async with rig.judge() as judge:
        assert await reason_of(judge, question("one")) is reason
        for text in ("two", "three"):
            assert await reason_of(judge, question(text)) is UnscoredReason.PAUSED
        assert judge.pause.now is not None
        assert judge.pause.now.cause is cause
        assert rig.value("ragmonitor_judge_breaker_open") == 0
    assert len(llm.requests) == 1


@pytest.mark.parametrize("mode", ["429 storm", "500", "422", "filter 400", "context window", "reset", "prose"])
async def test_other_faults_pause_nothing(rig, llm, mode):
    llm.always(MODES[mode][0]())
    async with rig.judge(max_attempts=1) as judge:
        await reason_of(judge)
        assert judge.pause.now is None


async def test_a_key_that_is_written_into_its_file_is_used_without_a_restart(rig, llm, tmp_path):
    file = tmp_path / "key"
    file.write_text("old\n")
    llm.always(lambda asked: good() if asked.headers["authorization"] == "Bearer new" else say.bad_key())
    async with rig.judge(api_key=None, api_key_file=str(file)) as judge:
        assert await reason_of(judge) is UnscoredReason.AUTH
        file.write_text("new\n")
        with anyio.fail_after(120):
            while True:
                with suppress(JudgeError):
                    await judge.ask(question())
                    break
                await asyncio.sleep(0.05)
    assert len(llm.requests) == 2
    assert rig.registry.get_sample_value("ragmonitor_events_total", {"event": "judge_resumed"}) == 1


async def test_leaving_the_context_ends_open_questions_with_shutdown_and_leaves_no_task(rig, llm):
    llm.always(say.hang())
    async with rig.judge(timeout=30) as judge:
        await judge_is_loaded(judge, llm)
        asking = asyncio.create_task(reason_of(judge))
        while not llm.requests:  # noqa: ASYNC110 - the server lives in another thread
            await asyncio.sleep(0.01)
    assert await asking is UnscoredReason.SHUTDOWN
    assert await reason_of(judge) is UnscoredReason.SHUTDOWN
    ours = [task for task in asyncio.all_tasks() if "monitor." in str(task.get_coro())]
    assert ours == []


async def test_opening_does_not_wait_for_the_import_nor_hold_readiness_back(rig, llm, monkeypatch):
    """J15 and the lifecycle: receivers listen and are ready while litellm is still being imported."""
    opened, imported = threading.Event(), litellm_provider._imported

    def slowly():
        assert opened.wait(60), "opening waits for the import"
        return imported()

    monkeypatch.setattr(litellm_provider, "_imported", slowly)
    async with rig.judge() as judge:
        assert rig.runtime.health.ready
        assert not judge._loaded.is_set()
        opened.set()


async def test_litellm_prepares_no_log_entry_of_a_call(rig, llm):
    """With another litellm, whose function has another name, calls only cost more: then this test says so."""
    llm.always(good())
    async with rig.judge() as judge:
        await judge.ask(question())
    from litellm import utils

    assert utils._dispatch_success_logging.__module__ == litellm_provider.__name__
    assert " _dispatch_success_logging(" in inspect.getsource(utils.client)


async def test_litellm_is_left_without_callbacks_retries_and_downloads(rig, llm):
    """J3, J12, S18."""
    llm.always(good())
    async with rig.judge() as judge:
        await judge.ask(question())
    import litellm

    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    for name in ("callbacks", "success_callback", "failure_callback", "input_callback", "service_callback"):
        assert getattr(litellm, name) == []
    assert litellm.num_retries == 0


async def test_neither_prompts_nor_secrets_reach_logs_or_metrics(rig, llm, caplog, capfd):
    """S10: a seeded key in the settings and in the provider's own message, a seeded text in the prompt."""
    from prometheus_client.openmetrics.exposition import generate_latest

    with caplog.at_level(logging.DEBUG, logger="monitor"):
        async with rig.judge(max_attempts=1, max_age=1) as judge:
            for script in (good(), say.html(), say.status(500, message=PROMPT_CANARY), say.bad_key()):
                llm.always(script)
                with suppress(JudgeError):
                    await judge.ask(question())
    out, err = capfd.readouterr()
    for place in (caplog.text, out, err, generate_latest(rig.registry).decode()):
        assert CANARY not in place
        assert PROMPT_CANARY not in place


LOADING = """
import sys
reached = []
network = ("socket.connect", "socket.getaddrinfo")
sys.addaudithook(lambda event, given: reached.append(event) if event in network else None)
from monitor.clock import SystemClock
from monitor.judge.litellm_provider import LiteLLM
from monitor.judge.settings import JudgeSettings
assert "litellm" not in sys.modules
LiteLLM(JudgeSettings(model="openai/gpt-4o-mini"), SystemClock()).load()
assert "litellm" in sys.modules
assert reached == [], reached
"""


def test_litellm_is_imported_late_and_then_reaches_for_no_network():
    """S18: in a process of its own, without warnings, without a look-up or a connection."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", LOADING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
