"""Evaluators with a form of prompt of their own, from the case to the score, over real HTTP to a scripted model."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry

from monitor import registry
from monitor.clock import SystemClock
from monitor.errors import JudgeError
from monitor.judge import litellm_provider
from monitor.judge.client import open_judge
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case, Document, Message, Request
from monitor.model.outcome import Outcome, Score, UnscoredReason
from monitor.stages import Evaluator, Judge, Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from tests.support import llm as say
from tests.support.llm import Asked, LLMServer, Reply, Script

pytestmark = pytest.mark.anyio

CASE = Case(
    request_id="1",
    request=Request("How many moons has Mars?"),
    retrieved_context=(Document("Mars has two moons."), Document("They were found in 1877.")),
    prompt=(Message("system", "Use: Mars has two moons."), Message("user", "How many moons has Mars?")),
    response="Mars has two moons. They were found in 1789.",
)
CAP, AMPLE = 2.0, 30.0
"""Seconds for a server that does not answer, and for one that does."""
KEY = "sk-canary-secret"


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        yield server


@asynccontextmanager
async def judge_at(model: str, api_base: str, **options: Any) -> AsyncIterator[Judge]:
    metrics = Metrics(CollectorRegistry())
    runtime = Runtime(SystemClock(), metrics, Events(metrics), Health())
    chosen = {"model": model, "api_base": api_base, "api_key": KEY, "timeout": AMPLE, "max_age": 120, **options}
    async with open_judge(JudgeSettings.model_validate(chosen), runtime, rng=random.Random(1)) as judge:
        yield judge


async def judged(llm: LLMServer, type_name: str, **options: Any) -> Outcome:
    evaluator = registry.read("evaluators", {"type": type_name, **options}, Evaluator, "evaluators[0]")
    async with judge_at("openai/scripted", llm.url) as judge:
        return await evaluator.evaluate(CASE, judge)


class TestThroughLiteLLM:
    async def test_fact_check_asks_of_each_claim_and_scores_the_share_that_is_supported(self, llm):
        llm.always(lambda asked: say.says("No" if "1789" in asked.prompt else "Yes"))
        found = await judged(llm, "fact_check")
        assert isinstance(found, Score)
        assert found.value == 0.5
        assert [one.verdict for one in found.evidence] == ["supported", "absent"]
        assert sorted(asked.prompt for asked in llm.requests) == [
            "Document: Mars has two moons.\n\nThey were found in 1877.\nClaim: Mars has two moons.",
            "Document: Mars has two moons.\n\nThey were found in 1877.\nClaim: They were found in 1789.",
        ]
        assert all("response_format" not in asked.body for asked in llm.requests)

    async def test_fact_check_by_ollama_gets_the_document_and_the_claim_and_nothing_around_them(self, llm):
        """LiteLLM's provider `ollama` would write a heading of its own before them; `ollama_chat` does not."""
        body = {"model": "m", "message": {"role": "assistant", "content": "Yes"}, "done": True, "done_reason": "stop"}
        llm.always(Reply({**body, "prompt_eval_count": 9, "eval_count": 1}))
        evaluator = registry.read("evaluators", {"type": "fact_check"}, Evaluator, "evaluators[0]")
        async with judge_at("ollama_chat/bespoke-minicheck", f"http://127.0.0.1:{llm.port}") as judge:
            found = await evaluator.evaluate(CASE, judge)
        assert isinstance(found, Score)
        assert found.value == 1.0
        sent = [asked for asked in llm.requests if asked.path == "/api/chat"]
        assert [one.body["messages"][0]["content"].partition("\nClaim: ")[0] for one in sent] == [
            "Document: Mars has two moons.\n\nThey were found in 1877."
        ] * 2

    async def test_prometheus_rubric_takes_the_number_behind_its_feedback(self, llm):
        llm.always(say.says("Feedback: The year is another one. [RESULT] 2"))
        assert await judged(llm, "prometheus_rubric") == Score(2, "The year is another one.", "score_2")
        assert llm.requests[0].prompt.endswith("###Feedback: ")

    async def test_lynx_fails_an_answer_even_in_json_that_is_none(self, llm):
        llm.always(say.says('```json\n{"REASONING": [\'The year isn\'t there.\'], "SCORE": FAIL}\n```'))
        assert await judged(llm, "lynx") == Score(0.0, "The year isn't there.", "fail")

    async def test_trustworthiness_joins_new_answers_a_reflection_and_token_probabilities(self, llm):
        def answer(asked: Asked) -> Reply:
            if asked.data:
                return say.verdict(explanation="The year is wrong.", verdict="incorrect")
            reply = say.says("Mars has two moons. They were found in 1877.")
            token = {"token": "Mars", "logprob": -0.5, "bytes": None, "top_logprobs": []}
            reply.body["choices"][0]["logprobs"] = {"content": [token]}
            return reply

        llm.always(answer)
        found = await judged(llm, "trustworthiness", samples=2)
        assert isinstance(found, Score)
        assert 0.3 < found.value < 0.7
        assert "reflection 0.00, probability of the tokens 0.61. The year is wrong." in found.explanation
        anew = [asked.body for asked in llm.requests if not asked.data]
        assert [(one["temperature"], one["logprobs"]) for one in anew] == [(1.0, True)] * 2
        assert [[m["role"] for m in one["messages"]] for one in anew] == [["system", "user"]] * 2
        assert len(llm.requests) == 4

    async def test_trustworthiness_leaves_out_token_probabilities_where_there_are_none(self, llm):
        llm.always(
            lambda asked: say.verdict(explanation="x", verdict="correct") if asked.data else say.says(CASE.response)
        )
        found = await judged(llm, "trustworthiness")
        assert isinstance(found, Score)
        assert found.value == pytest.approx(1.0)
        assert "without the probability of the tokens" in found.explanation

    @pytest.mark.parametrize("type_name", ["fact_check", "prometheus_rubric", "lynx"])
    @pytest.mark.parametrize("reply", ["I would rather not say.", "", '{"score": 5}', "5"])
    async def test_a_reply_in_another_form_is_malformed(self, llm, type_name, reply):
        llm.always(say.says(reply))
        with pytest.raises(JudgeError) as caught:
            await judged(llm, type_name)
        assert caught.value.reason is UnscoredReason.MALFORMED
        assert not reply or reply not in str(caught.value)


def scores(consistent: Any = 0.75, hallucinated: Any = 0.25) -> Reply:
    labels = [{"label": "consistent", "score": consistent}, {"label": "hallucinated", "score": hallucinated}]
    return Reply([labels])


def raw(text: str) -> Reply:
    return Reply(text.encode())


@asynccontextmanager
async def classifier(llm: LLMServer, **options: Any) -> AsyncIterator[Callable[[], Any]]:
    hhem = registry.read("evaluators", {"type": "hhem"}, Evaluator, "evaluators[0]")
    async with judge_at("classifier/hhem", f"http://127.0.0.1:{llm.port}/predict", **options) as judge:
        yield lambda: hhem.evaluate(CASE, judge)


# What the server does, the reason that must come of it, and the calls that it takes (2 attempts).
FAULTS: dict[str, tuple[Callable[[], Script], UnscoredReason, int]] = {
    "hang": (say.hang, UnscoredReason.TIMEOUT, 2),
    "drip": (lambda: say.drip(scores(), every=0.05), UnscoredReason.TIMEOUT, 2),
    "reset": (say.reset, UnscoredReason.PROVIDER_ERROR, 2),
    "500": (lambda: say.status(500), UnscoredReason.PROVIDER_ERROR, 2),
    "429": (lambda: say.status(429), UnscoredReason.RATE_LIMITED, 2),
    "401": (lambda: say.status(401), UnscoredReason.AUTH, 1),
    "404": (say.not_found, UnscoredReason.PROVIDER_ERROR, 1),
    "413": (lambda: say.status(413), UnscoredReason.TOO_LARGE, 1),
    "424": (lambda: say.status(424), UnscoredReason.PROVIDER_ERROR, 1),
    "redirect": (lambda: say.redirect("http://127.0.0.1:9/"), UnscoredReason.PROVIDER_ERROR, 1),
    "html": (say.html, UnscoredReason.PROVIDER_ERROR, 2),
    "half a JSON": (lambda: raw('[[{"label": "con'), UnscoredReason.PROVIDER_ERROR, 2),
    "an object": (lambda: raw('{"error": "loading"}'), UnscoredReason.PROVIDER_ERROR, 2),
    "deep": (lambda: raw("[" * 100_000), UnscoredReason.PROVIDER_ERROR, 2),
    "endless": (lambda: raw("[" + " " * 2_000_000 + "]"), UnscoredReason.PROVIDER_ERROR, 1),
    "no scores": (lambda: raw("[]"), UnscoredReason.MALFORMED, 1),
    "NaN": (lambda: raw('[[{"label": "consistent", "score": NaN}]]'), UnscoredReason.MALFORMED, 1),
    "a string": (lambda: scores("0.75"), UnscoredReason.MALFORMED, 1),
    "a boolean": (lambda: scores(True), UnscoredReason.MALFORMED, 1),
    "other labels": (lambda: Reply([[{"label": "LABEL_1", "score": 0.75}]]), UnscoredReason.MALFORMED, 1),
    "above one": (lambda: scores(1.5), UnscoredReason.OUT_OF_RANGE, 1),
    "below zero": (lambda: scores(-0.25), UnscoredReason.OUT_OF_RANGE, 1),
    "infinite": (lambda: raw('[[{"label": "consistent", "score": Infinity}]]'), UnscoredReason.OUT_OF_RANGE, 1),
}


class TestClassifierServer:
    async def test_the_pair_goes_as_servers_take_it_and_the_score_comes_back(self, llm):
        llm.always(scores())
        async with classifier(llm) as ask:
            found = await ask()
        assert found == Score(0.75, "The classifier gives `consistent` a probability of 0.750.", "consistent")
        (asked,) = llm.requests
        assert asked.path == "/predict"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        premise = "Mars has two moons.\n\nThey were found in 1877.\n\nHow many moons has Mars?"
        assert asked.body == {"inputs": [[premise, CASE.response]]}

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_every_fault_is_its_own_reason_and_never_a_score(self, llm, fault):
        script, reason, calls = FAULTS[fault]
        llm.always(script())
        async with classifier(llm, max_attempts=2, timeout=CAP if fault in ("hang", "drip") else AMPLE) as ask:
            with pytest.raises(JudgeError) as caught:
                await ask()
        assert caught.value.reason is reason
        assert len(llm.requests) == calls
        assert KEY not in str(caught.value)
        assert not re.search(r"https?://|127\.0\.0\.1[^:]|:\d+/", str(caught.value))  # host and port, but no path

    async def test_an_overloaded_server_is_asked_again_when_it_says(self, llm):
        llm.then(say.status(429, retry_after=0.5))
        llm.always(scores())
        async with classifier(llm) as ask:
            assert (await ask()).value == 0.75
        first, second = llm.requests
        assert second.at - first.at >= 0.5

    async def test_a_slow_answer_within_the_time_limit_counts(self, llm):
        llm.always(say.slow(scores(), 0.5))
        async with classifier(llm) as ask:
            assert (await ask()).value == 0.75

    async def test_budget_and_cache_hold_for_a_classifier_too(self, llm):
        llm.always(scores())
        async with classifier(llm, budget={"evaluations_per_day": 1}) as ask:
            assert await ask() == await ask()
            assert len(llm.requests) == 1
        async with classifier(llm, budget={"evaluations_per_day": 1}, cache={"max_entries": 0}) as ask:
            await ask()
            with pytest.raises(JudgeError) as caught:
                await ask()
            assert caught.value.reason is UnscoredReason.BUDGET

    async def test_litellm_is_not_imported(self, llm, monkeypatch):
        """A classifier needs none of the seconds and megabytes of its import."""
        monkeypatch.setattr(litellm_provider, "_imported", lambda: pytest.fail("litellm is imported"))
        llm.always(scores())
        async with classifier(llm) as ask:
            assert (await ask()).value == 0.75

    async def test_leaving_ends_an_open_question(self, llm):
        llm.always(say.hang())
        reasons: list[UnscoredReason] = []

        async def asking(ask: Callable[[], Any]) -> None:
            with pytest.raises(JudgeError) as caught:
                await ask()
            reasons.append(caught.value.reason)

        async with anyio.create_task_group() as group, classifier(llm, timeout=60.0) as ask:
            group.start_soon(asking, ask)
            while not llm.requests:  # noqa: ASYNC110 - the server runs in another thread
                await anyio.sleep(0.01)
        assert reasons == [UnscoredReason.SHUTDOWN]
