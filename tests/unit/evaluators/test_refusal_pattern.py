"""Refusals: told in ten languages, by position and share; an answer with a caveat is an answer."""

from __future__ import annotations

import pytest

from monitor.evaluators.refusal_pattern import RefusalPattern
from monitor.model.outcome import Skipped, SkippedReason
from tests.support.local_evaluators import assert_hostile_texts_take_linear_time, outcome, score

pytestmark = pytest.mark.anyio

REFUSALS = [
    "I don't know.",
    "I do not have specific information.",
    "I'm sorry, but I can't help with that.",
    "I\u2019m sorry, but I can\u2019t assist with that request.",
    "The provided documents do not contain information about the price. Please contact the library.",
    "There is no information available in the context to answer this question.",
    "As an AI language model, I cannot give medical advice.",
    "I must decline. Picking locks is illegal. It may harm others.",
    "**I cannot answer that.** Is there anything else I can help with?",
    "The response was filtered because the prompt was flagged by a content policy. This request was blocked.",
    "Das weiß ich leider nicht.",
    "Es tut mir leid, aber dazu habe ich keine Informationen.",
    "Ich kann Ihnen dabei leider nicht helfen.",
    "Je ne sais pas.",
    "Désolé, je ne peux pas vous aider avec cette demande.",
    "Lo siento, pero no puedo ayudarte con eso.",
    "No tengo información sobre ese tema.",
    "Mi dispiace, ma non posso aiutarti.",
    "Non lo so.",
    "Desculpe, mas não posso ajudar com isso.",
    "Não sei.",
    "К сожалению, я не могу ответить на этот вопрос.",  # noqa: RUF001
    "Я не знаю.",
    "抱歉，我无法回答这个问题。",  # noqa: RUF001
    "我不知道。",
    "申し訳ありませんが、お答えできません。",
    "わかりません。",
    "죄송합니다. 해당 질문에 답변을 드릴 수 없습니다.",
    "모르겠습니다.",
]
ANSWERS = [
    "The library opens at nine. I don't know about Sundays.",
    "Books may be kept for three weeks.",
    "No, Vulnerability Advisor does not scan encrypted images.",
    "Unfortunately, the museum is not open on Mondays.",
    "Leider ist das Museum montags nicht geöffnet.",
    "抱歉，博物馆周一不开放，周二至周日上午九点到下午五点开放。",  # noqa: RUF001
    "申し訳ございませんが、月曜日は営業しておりません。火曜日から日曜日まで九時に開館します。",
    "No se puede entrar sin entrada.",
    "Its policy is to say \"I'm sorry, but I can't help with that\" to such calls.",
    "The documents do not give the exact price, but a card costs about twelve euros a year and is free for children.",
    "I don't have the price. However, the fee schedule names twelve euros for adults, six for students.",
    "While the documents do not name the founder, they say that the library was founded in 1912 by citizens.",
    "If a card is lost you can't borrow books. You will not be charged for a new one.",
    '```\nraise SystemExit("I don\'t know")\n```\nThis line ends the program with a message.',
]


@pytest.mark.parametrize("response", REFUSALS)
async def test_a_refusal_is_told_in_ten_languages(response: str) -> None:
    found = await score(RefusalPattern(), response)
    assert (found.value, found.label) == (1, "refusal")
    assert RefusalPattern.default_defect.matches(found)


@pytest.mark.parametrize("response", ANSWERS)
async def test_an_answer_is_not_a_refusal_though_it_denies_concedes_or_quotes(response: str) -> None:
    found = await score(RefusalPattern(), response)
    assert (found.value, found.label) == (0, "answer"), found


async def test_reasons_may_follow_a_refusal_by_policy_and_an_answer_may_not() -> None:
    refusal = "I can't help with that. "
    assert (await score(RefusalPattern(), refusal + "It is against the law here.")).label == "refusal"
    assert (
        await score(RefusalPattern(), refusal + "Instead, here is how to call a locksmith: dial 12.")
    ).label == "answer"


async def test_the_evidence_is_the_refusing_stretch() -> None:
    response = "  I'm sorry. I don't know. "
    [one] = (await score(RefusalPattern(), response)).evidence
    assert response[one.start : one.end] == one.claim == "I don't know."
    assert one.note == "unknown"


@pytest.mark.parametrize("response", ["", " ", ":", "Answer:"])
async def test_a_response_without_content_is_skipped(response: str) -> None:
    assert await outcome(RefusalPattern(), response) == Skipped(SkippedReason.NO_RESPONSE)


def test_hostile_texts_cost_no_more_than_others() -> None:
    assert_hostile_texts_take_linear_time(RefusalPattern())
