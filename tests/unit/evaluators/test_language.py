# ruff: noqa: RUF001, ISC004 - sentences in twenty languages
"""An answer in another language than its documents is recognised; what gives no clear sign differs from nothing."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators._language import in_another_language
from tests.support.local_evaluators import HOSTILE
from tests.support.work import assert_linear

# An answer, and a document with what it says and more.
TEXTS = {
    "en": (
        "You have two years of warranty, and you can return the device within 30 days.",
        "The warranty of all devices is two years. If the device does not work, you can send it back to us within 30 "
        "days of the purchase, and we will repair it or give you a new one.",
    ),
    "de": (
        "Die Garantie gilt zwei Jahre, und Sie können das Gerät innerhalb von 30 Tagen zurückgeben.",
        "Die Garantie aller Geräte beträgt zwei Jahre. Wenn das Gerät nicht funktioniert, können Sie es innerhalb von "
        "30 Tagen nach dem Kauf an uns zurücksenden, und wir werden es reparieren oder ersetzen.",
    ),
    "fr": (
        "La garantie est de deux ans et vous pouvez rendre l'appareil dans les 30 jours.",
        "La garantie de tous les appareils est de deux ans. Si l'appareil ne fonctionne pas, vous pouvez nous le "
        "renvoyer dans les 30 jours après l'achat, et nous allons le réparer ou le remplacer.",
    ),
    "es": (
        "La garantía es de dos años y usted puede devolver el aparato en los 30 días siguientes.",
        "La garantía de todos los aparatos es de dos años. Si el aparato no funciona, puede devolverlo en un plazo de "
        "30 días después de la compra, y nosotros lo vamos a reparar o cambiar por otro.",
    ),
    "it": (
        "La garanzia è di due anni e può restituire l'apparecchio entro 30 giorni.",
        "La garanzia di tutti gli apparecchi è di due anni. Se l'apparecchio non funziona, può essere restituito entro "
        "30 giorni dopo l'acquisto, e noi lo ripariamo o lo sostituiamo con uno nuovo.",
    ),
    "pt": (
        "A garantia é de dois anos e você pode devolver o aparelho até 30 dias depois da compra.",
        "A garantia de todos os aparelhos é de dois anos. Se o aparelho não funcionar, você pode devolver em até 30 "
        "dias depois da compra, e nós vamos consertar ou trocar por um novo.",
    ),
    "nl": (
        "De garantie geldt voor twee jaar en u kunt het apparaat binnen 30 dagen terugsturen.",
        "De garantie van alle apparaten is twee jaar. Als het apparaat niet werkt, kunt u het binnen 30 dagen na de "
        "aankoop aan ons terugsturen, en wij zullen het repareren of door een nieuw vervangen.",
    ),
    "pl": (
        "Gwarancja jest ważna przez dwa lata, a urządzenie można zwrócić w ciągu 30 dni.",
        "Gwarancja na wszystkie urządzenia jest ważna dwa lata. Jeśli urządzenie nie działa, można je zwrócić do nas w "
        "ciągu 30 dni od zakupu, a my je naprawimy lub wymienimy na nowe.",
    ),
    "sv": (
        "Garantin gäller i två år och du kan lämna tillbaka apparaten inom 30 dagar.",
        "Garantin för alla apparater är två år. Om apparaten inte fungerar kan du skicka den till oss inom 30 dagar "
        "efter köpet, och vi ska laga den eller byta ut den mot en ny.",
    ),
    "tr": (
        "Garanti iki yıl için geçerlidir ve cihazı 30 gün içinde geri gönderebilirsiniz.",
        "Tüm cihazların garantisi iki yıldır. Cihaz çalışmıyorsa, satın aldıktan sonra 30 gün içinde bize geri "
        "gönderebilirsiniz, biz de onu onarır veya yeni bir cihaz ile değiştiririz.",
    ),
    "ru": (
        "Гарантия действует два года, и вы можете вернуть прибор в течение 30 дней.",
        "Гарантия на все приборы составляет два года. Если прибор не работает, вы можете вернуть его в течение 30 дней "
        "после покупки, и мы его отремонтируем или заменим на новый.",
    ),
    "uk": (
        "Гарантія діє два роки, і ви можете повернути прилад протягом 30 днів.",
        "Гарантія на всі прилади становить два роки. Якщо прилад не працює, ви можете повернути його протягом 30 днів "
        "після покупки, і ми його відремонтуємо або замінимо на новий.",
    ),
    "ar": (
        "الضمان صالح لمدة سنتين ويمكن إعادة الجهاز في خلال ثلاثين يوما.",
        "مدة الضمان على جميع الأجهزة سنتان. إذا كان الجهاز لا يعمل، يمكن إعادة الجهاز في خلال ثلاثين يوما بعد الشراء.",
    ),
    "he": (
        "האחריות תקפה לשנתיים ואפשר להחזיר את המכשיר תוך 30 יום.",
        "האחריות על כל המכשירים היא שנתיים. אם המכשיר לא עובד, אפשר להחזיר אותו תוך 30 יום אחרי הקנייה.",
    ),
    "hi": (
        "वारंटी दो साल की है और आप 30 दिनों में उपकरण लौटा सकते हैं।",
        "सभी उपकरणों की वारंटी दो साल की है। यदि उपकरण काम नहीं करता है, तो आप उसे 30 दिनों में लौटा सकते हैं।",
    ),
    "zh": (
        "保修期为两年，您可以在三十天内退货。",
        "所有设备的保修期为两年。如果设备无法工作，您可以在购买后三十天内退货，我们会为您维修或者更换。",
    ),
    "ja": (
        "保証期間は二年で、三十日以内に返品できます。",
        "すべての機器の保証期間は二年です。機器が動かない場合は、購入後三十日以内に返品することができます。",
    ),
    "ko": (
        "보증 기간은 2년이며 30일 이내에 반품할 수 있습니다.",
        "모든 기기의 보증 기간은 2년입니다. 기기가 작동하지 않으면 구입 후 30일 이내에 반품할 수 있습니다.",
    ),
    "vi": (
        "Bảo hành có giá trị trong hai năm và bạn có thể trả lại thiết bị trong 30 ngày.",
        "Thời gian bảo hành của tất cả các thiết bị là hai năm. Nếu thiết bị không hoạt động, bạn có thể trả lại cho "
        "chúng tôi trong 30 ngày sau khi mua.",
    ),
    "id": (
        "Garansi berlaku selama dua tahun dan Anda dapat mengembalikan perangkat dalam 30 hari.",
        "Garansi untuk semua perangkat adalah dua tahun. Jika perangkat tidak berfungsi, Anda dapat mengembalikannya "
        "kepada kami dalam 30 hari setelah pembelian.",
    ),
}
ENGLISH = TEXTS["en"][1]
GERMAN = TEXTS["de"][1]


@pytest.mark.parametrize(("one", "other"), list(permutations(TEXTS, 2)))
def test_two_languages_differ(one: str, other: str) -> None:
    assert in_another_language(TEXTS[one][0], [TEXTS[other][1]])


@pytest.mark.parametrize("language", TEXTS)
def test_one_language_does_not_differ_from_itself(language: str) -> None:
    answer, document = TEXTS[language]
    assert not in_another_language(answer, [document])
    assert not in_another_language(document, [answer])


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "42",
        "3.14, 2.72 (±0.01)",
        "Angela Merkel",
        "Nürnberg, Köln, Düsseldorf",
        "Müller GmbH & Co. KG",
        "kubectl get pods -n kube-system",
        "for i in range(10):\n    print(i)",
        "SELECT name FROM users WHERE id = 7;",
        "https://example.com/de/die-und-der",
        "ok",
        "A",
        "!!!",
        "\u200b\u200b",
        "\ud800",
    ],
)
def test_names_numbers_code_and_addresses_differ_from_nothing(answer: str) -> None:
    assert not in_another_language(answer, [ENGLISH])


def test_latin_names_do_not_differ_from_documents_in_another_script() -> None:
    for language in ("ru", "zh", "ar", "hi", "ko"):
        assert not in_another_language("PostgreSQL 15, Redis", [TEXTS[language][1]])


def test_an_answer_that_quotes_the_script_of_its_documents_does_not_differ() -> None:
    assert not in_another_language("The documents say: Гарантия на все приборы составляет два года.", [TEXTS["ru"][1]])


@pytest.mark.parametrize("documents", [[], [""], ["42 17 8"], ["ACME-4711 | 12.5 | 13.7"], ["x = foo(bar)"]])
def test_without_a_language_in_the_documents_nothing_differs(documents: list[str]) -> None:
    assert not in_another_language(TEXTS["de"][0], documents)


def test_one_document_in_the_language_of_the_answer_is_enough() -> None:
    german, english = TEXTS["de"][0], [ENGLISH] * 4
    assert in_another_language(german, english)
    assert not in_another_language(german, [*english, GERMAN])
    assert not in_another_language(german, [GERMAN, *english])
    assert in_another_language(german, [*english, TEXTS["fr"][1]]), "a third language is no help"
    assert not in_another_language(TEXTS["en"][0], [TEXTS["zh"][1], TEXTS["zh"][1], ENGLISH])
    assert not in_another_language(TEXTS["ja"][0], [TEXTS["zh"][1], TEXTS["ja"][1]])


def test_a_few_foreign_words_make_no_other_language() -> None:
    answer = "The zeitgeist of the 1920s was, as the text says, a 'joie de vivre' and 'la dolce vita' after the war."
    assert not in_another_language(answer, [ENGLISH])


def test_simplified_and_traditional_characters_differ() -> None:
    simplified, traditional = (
        TEXTS["zh"][1],
        "所有設備的保修期為兩年。如果設備無法運作，您可以在購買後三十天內退貨，我們會為您維修。",
    )
    assert in_another_language("设备的保修期为两年，我们会维修。", [traditional])
    assert in_another_language("設備的保修期為兩年，我們會維修。", [simplified])


def test_of_very_many_documents_some_are_read_from_all_parts() -> None:
    german = TEXTS["de"][0]
    assert in_another_language(german, [ENGLISH] * 10_000)
    assert not in_another_language(german, [ENGLISH] * 5_000 + [GERMAN] * 5_000)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_takes_linear_time(text: str) -> None:
    assert_linear(lambda part: in_another_language(part, [part, ENGLISH]), text)


@given(st.text(max_size=1_000))
def test_no_text_differs_from_itself(text: str) -> None:
    assert not in_another_language(text, [text])


WORDS = sorted({word for texts in TEXTS.values() for text in texts for word in text.split()})


@given(st.lists(st.sampled_from(WORDS), max_size=80), st.lists(st.sampled_from(WORDS), max_size=80))
def test_no_mixture_of_languages_differs_from_documents_that_hold_it(answer: list[str], more: list[str]) -> None:
    document = " ".join(answer)
    assert not in_another_language(document[:1_000], [document[:1_000], " ".join(more)])
