"""`evaluate` from Python with a judge: through LiteLLM, over real HTTP, to a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from monitor import Case, aevaluate, evaluate
from monitor.model.outcome import Score
from tests.support import llm as say
from tests.support.llm import Asked, LLMServer

GOOD, BAD = "Books may be kept for three weeks.", "Novels must be returned within ten days."


def case(response: str = GOOD, **fields: Any) -> Case:
    return Case.from_texts("How long?", response, ["Books may be kept for three weeks."], **fields)


def answers(score: int) -> say.Reply:
    return say.verdict(claims=[], explanation="scripted", score=score)


def by_answer(asked: Asked) -> say.Reply:
    return answers(1 if "Novels" in asked.data["response"] else 5)


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer() as server:
        server.always(by_answer)
        yield server


@pytest.fixture
def judge(llm: LLMServer) -> dict[str, Any]:
    price = {"input_per_million": 5.0, "output_per_million": 25.0}  # 100 tokens in and 20 out: $0.001 a call
    return {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "price": price, "max_attempts": 1}


def test_the_name_of_a_model_is_enough_where_the_environment_says_the_rest(
    llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", llm.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = evaluate([case(), case(BAD)], ["groundedness"], judge="openai/gpt-4o-mini")
    assert [one.outcome.value for one in found.results if isinstance(one.outcome, Score)] == [5, 1]
    assert found["groundedness"].defects == 1
    assert found.dollars > 0, "LiteLLM knows its price"


def test_what_goes_wrong_at_the_judge_is_unscored_and_all_calls_are_in_the_costs(
    llm: LLMServer, judge: dict[str, Any]
) -> None:
    llm.then(answers(5), say.status(500), say.truncated(), say.truncated())
    cases = [case(f"{GOOD} {number}") for number in range(3)]
    found = evaluate(cases, ["groundedness"], judge={**judge, "max_concurrency": 1})
    one = found["groundedness"]
    assert (one.scored, one.unscored) == (1, {"provider_error": 1, "truncated": 1})
    assert one.dollars == pytest.approx(0.003), "replies that were cut off are paid for"
    assert found.dollars == pytest.approx(one.dollars)
    assert len(found.problems) == 2


def test_one_answer_is_asked_about_once_however_often_it_is_given(llm: LLMServer, judge: dict[str, Any]) -> None:
    found = evaluate([case(), case(), case()], ["groundedness"], judge={**judge, "max_concurrency": 1})
    assert found["groundedness"].scored == 3
    assert len(llm.requests) == 1
    assert [one["cached"] for one in found.records()] == [False, True, True]


@pytest.mark.anyio
async def test_many_cases_are_asked_about_side_by_side_within_the_limit_of_the_judge(
    llm: LLMServer, judge: dict[str, Any]
) -> None:
    llm.always(say.slow(answers(5), 0.2))
    await aevaluate([case()], ["groundedness"], judge=judge)  # so that LiteLLM is loaded
    cases = [case(f"{GOOD} {number}") for number in range(40)]
    found = await aevaluate(cases, ["groundedness"], judge={**judge, "max_concurrency": 10})
    assert found["groundedness"].scored == 40
    assert 1 < llm.most_at_once <= 10


def test_texts_that_are_no_unicode_reach_the_judge(llm: LLMServer, judge: dict[str, Any]) -> None:
    half = "\ud800 half a pair \udc00"
    found = evaluate(
        [case(GOOD + half), {"question": half, "contexts": [half], "answer": half}], ["groundedness"], judge=judge
    )
    assert found["groundedness"].scored == 2
    assert len(llm.requests) == 2


def test_a_judge_that_is_not_there_is_unscored_and_never_raises(judge: dict[str, Any]) -> None:
    gone = {**judge, "api_base": "http://127.0.0.1:9/v1", "max_age": 2}
    found = evaluate([case()], ["groundedness"], judge=gone)
    assert found["groundedness"].unscored == {"provider_error": 1}
    assert found["groundedness"].defect_rate.upper == 1
