# ruff: noqa: RUF001 - sentences in 22 languages
"""What refuses and claims nothing beside: such a response has nothing that documents could support."""

from __future__ import annotations

import pytest

from monitor.evaluators._refusals import is_pure_refusal
from monitor.model.case import Case, Message
from tests.support.work import assert_linear

READ = 4_000  # characters; a longer response is no pure refusal

PURE = [
    "I don't know.",
    "I do not know the answer to that.",
    "Sorry, I don't know.",
    "I don't have that information.",
    "I couldn't find any information about that in the documents.",
    "Based on the documents, I cannot answer this question.",
    "The documents do not mention this [1].",
    "I'm sorry, but the provided context does not contain information about the 2025 roadmap.",
    "I can't help with that. I am designed to answer questions about our library. May I help with anything else?",
    "Das weiß ich leider nicht.",
    "Das steht leider nicht in den Dokumenten.",
    "Dazu habe ich leider keine Informationen gefunden. Bitte wenden Sie sich an den Support.",
    "Je n'ai pas trouvé cette information dans les documents.",
    "No tengo esa información.",
    "Non lo so.",
    "Não sei.",
    "Dat weet ik helaas niet.",
    "Het spijt me, maar ik kan u daar niet mee helpen.",
    "Nie wiem.",
    "Przykro mi, nie mogę odpowiedzieć na to pytanie.",
    "Dokumenty nie zawierają tej informacji.",
    "Det vet jag tyvärr inte.",
    "Jag hittar ingen information om detta.",
    "Beklager, jeg kan ikke svare på det.",
    "Bilmiyorum.",
    "Üzgünüm, bu konuda yardımcı olamıyorum.",
    "Bu soruyu yanıtlayamam.",
    "Я не знаю.",
    "К сожалению, я не могу ответить на этот вопрос.",
    "На жаль, я не можу відповісти на це питання.",
    "У документах немає інформації про це.",
    "لا أعرف.",
    "عذرًا، لا أستطيع الإجابة على هذا السؤال.",
    "אני לא יודע.",
    "מצטער, אני לא יכול לענות על השאלה הזו.",
    "मुझे नहीं पता।",
    "क्षमा करें, मैं इस प्रश्न का उत्तर नहीं दे सकता।",
    "我不知道。",
    "抱歉，我无法回答这个问题。",
    "わかりません。",
    "申し訳ありませんが、お答えできません。",
    "모르겠습니다.",
    "Tôi không biết.",
    "Xin lỗi, tôi không thể trả lời câu hỏi này.",
    "Saya tidak tahu.",
    "Maaf, saya tidak dapat menjawab pertanyaan itu.",
]
CLAIMING = [
    "I don't know exactly, but it was 1492.",
    "I don't know exactly, it was in 1492.",
    "I am not sure, it was probably Columbus.",
    "I'm not sure. It was Columbus.",
    "I'm not sure I would call it a comedy at all.",
    "i am not sure but divorce laws vary considerably around the world .",
    "Sorry, the museum is closed. I don't know when it opens.",
    "I cannot give medical advice. Ibuprofen is safe for most adults.",
    "The documents do not give the price, but a card costs about twelve euros.",
    "The documents describe the warranty, they do not mention its price.",
    'I don\'t know. "Paris has been the capital of France for a very long time, since the kings moved there."',
    "I don't know.\n> Paris is the capital.",
    "I don't know.\n```\nx = 1\n```",
    "I don't know. Please call 0800 123 456.",
    "Ich weiß es nicht genau, vermutlich war es Kolumbus.",
    "Je ne sais pas exactement, c'était probablement Colomb.",
    "I don't know. " + "The museum was founded by citizens. " * 60,
    "I don't know " + "the museum and the gallery and the garden " * 20,
]
ANSWERS = ["Unfortunately, the museum is not open on Mondays.", "No fees apply.", "No.", "Paris", "", "42"]


def _case(response: str, query: str = "What is on the 2025 roadmap?") -> Case:
    return Case.from_texts(query, response, ["A document."])


@pytest.mark.parametrize("response", PURE)
def test_a_refusal_without_a_claim_is_pure(response: str) -> None:
    assert is_pure_refusal(_case(response))


@pytest.mark.parametrize("response", CLAIMING)
def test_a_refusal_that_claims_something_beside_is_not_pure(response: str) -> None:
    assert not is_pure_refusal(_case(response))


@pytest.mark.parametrize("response", ANSWERS)
def test_an_answer_is_no_refusal(response: str) -> None:
    assert not is_pure_refusal(_case(response))


def test_a_number_is_a_claim_unless_the_user_gave_it() -> None:
    response = "I could not find the order 4711."
    assert not is_pure_refusal(_case(response))
    assert is_pure_refusal(_case(response, "Where is order 4711?"))
    asked_before = Case.from_texts("Where is it?", response, ["d"], history=[Message("user", "Order 4711, please.")])
    assert is_pure_refusal(asked_before)


@pytest.mark.parametrize(
    "unit", ["I don't know. ", "not sure, ", '"', "> a\n", "(", "[", "no information ", "1.", " - ", "but "]
)
def test_a_hostile_text_takes_linear_time(unit: str) -> None:
    text = "I don't know. " + unit * (READ // len(unit))
    assert_linear(lambda part: is_pure_refusal(_case(part, part)), text[:READ])
    assert not is_pure_refusal(_case(text * 100))
