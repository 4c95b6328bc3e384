"""The language of a question: by script and common words, and `other` where that does not tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.storage.history.languages import _SCRIPTS, _WORDS, OTHER, language_of

KNOWN = {*_WORDS, *(name for name in _SCRIPTS if len(name) == 2), "ja", "zh", "ar", "fa", "ur", OTHER, ""}
QUESTIONS = {
    "en": "How long is the warranty of my phone?",
    "de": "Wie lange habe ich Garantie auf mein Telefon?",
    "fr": "Combien de temps dure la garantie de mon téléphone ?",
    "es": "¿Cuánto dura la garantía del teléfono y dónde puedo verla?",
    "pt": "Qual é a duração da garantia do meu telefone?",
    "it": "Quanto dura la garanzia del mio telefono?",
    "nl": "Hoe lang is de garantie van mijn telefoon?",
    "sv": "Hur lång är garantin på min telefon och vad gäller inte?",
    "da": "Hvornår udløber garantien, og hvad dækker den af skader?",
    "no": "Når utløper garantien, og hva dekker den av skader?",
    "fi": "Kuinka pitkä on puhelimen takuu ja mitä se kattaa?",
    "pl": "Jak długa jest gwarancja na mój telefon i co obejmuje?",
    "cs": "Jak dlouhá je záruka na můj telefon a co pokrývá?",
    "hu": "Mennyi a telefon garanciája, és hogyan lehet érvényesíteni?",
    "ro": "Cât este garanția pentru telefonul meu și unde pot întreba?",
    "tr": "Telefonun garantisi ne kadar ve nasıl uzatılır?",
    "id": "Berapa lama garansi untuk telepon saya?",
    "vi": "Thời gian bảo hành của điện thoại là bao nhiêu?",
    "ru": "Какой срок гарантии на мой телефон?",
    "uk": "Який термін гарантії на мій телефон і де її оформити?",
    "bg": "Каква е гаранцията на телефона и къде мога да питам?",
    "el": "Πόσο διαρκεί η εγγύηση του τηλεφώνου μου;",
    "he": "כמה זמן נמשכת האחריות על הטלפון שלי?",
    "ar": "ما هي مدة ضمان هاتفي؟",
    "fa": "گارانتی گوشی من چند سال است؟",
    "hi": "मेरे फ़ोन की वारंटी कितनी है?",
    "th": "การรับประกันโทรศัพท์ของฉันนานเท่าไหร่",
    "ko": "제 휴대전화의 보증 기간은 얼마나 되나요?",
    "ja": "私の携帯電話の保証期間はどのくらいですか。",
    "zh": "我的手机保修期是多久？",
}


@pytest.mark.parametrize("code", QUESTIONS)
def test_a_question_has_the_language_it_is_written_in(code: str) -> None:
    assert language_of(QUESTIONS[code]) == code
    assert language_of(QUESTIONS[code].upper()) == code


@pytest.mark.parametrize("text", ["iPhone 15 Pro", "XK-200", "OK", "de", "Lorem", "\u16a0\u16a2 the"])
def test_where_nothing_tells_the_language_is_other(text: str) -> None:
    assert language_of(text) == OTHER


@pytest.mark.parametrize("text", ["", "   ", "12345", "?!", "\U0001f600", "\x00\u202e"])
def test_without_letters_there_is_no_language(text: str) -> None:
    assert language_of(text) == ""


def test_a_question_with_a_foreign_name_keeps_its_language() -> None:
    assert language_of("Wie richte ich das iPhone 15 Pro Max Ultra ein?") == "de"
    assert language_of("私の iPhone の保証期間") == "ja"


@given(st.text(max_size=2_000))
def test_any_text_has_one_of_the_known_languages_and_always_the_same(text: str) -> None:
    found = language_of(text)
    assert found in KNOWN
    assert language_of(text) == found


def test_a_huge_text_is_read_no_further_than_its_beginning() -> None:
    assert language_of(QUESTIONS["de"] * 20 + "the of and " * 1_000_000) == "de"
