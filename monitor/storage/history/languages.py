"""The language of a short text, by its script and its most common words: no model, and always the same result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

OTHER: Final = "other"
"""Any other language, or several that are equally likely."""

_READ: Final = 500  # characters
_LEAST_WORDS: Final = 2  # a product may be called like a word
_TOKEN: Final = re.compile(r"[^\W\d_]+")
_SCRIPTS: Final[Mapping[str, str]] = {
    "ko": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "th": "\u0e00-\u0e7f",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "he": "\u0590-\u05ff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "my": "\u1000-\u109f",
    "ka": "\u10a0-\u10ff",
    "am": "\u1200-\u137f",
    "km": "\u1780-\u17ff",
    "hy": "\u0530-\u058f",
    "kana": "\u3040-\u30ff\uff66-\uff9f",
    "han": "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "cyrillic": "\u0400-\u052f",
    "latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
}
"""The characters of each script. A script with one dominant language has the code of that language."""

_OF_SCRIPT: Final = {name: re.compile(f"[{span}]") for name, span in _SCRIPTS.items()}
_OF_OTHERS: Final = re.compile("[^\x00-\u024f\u1e00-\u206f]")
_DENSE: Final[Mapping[str, int]] = {"han": 3, "kana": 3, "ko": 2}
"""How many letters of other scripts a character is worth."""

_SIGNS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "arabic": (("ur", "\u0679\u0688\u0691\u06ba\u06d2"), ("fa", "\u067e\u0686\u0698\u06af\u06a9\u06cc")),
    "cyrillic": (("uk", "\u0456\u0457\u0454\u0491"), ("ru", "\u044b\u044d\u0451")),
}
"""By script, letters that are unique to one of its languages; the first language with a match counts."""

_WORDS: Final[Mapping[str, str]] = {
    "en": "the of and is are was what how why where when which who do does did can could would should my your i you"
    " to in it for with this that have has be not from please there",
    "de": "der die das den dem des und ist sind wie was wo wann warum wer welche welcher welches ich mein meine meinen"
    " nicht ein eine einen einer für mit auf von zu zum zur im kann wird es gibt auch bei wenn oder habe",
    "fr": "le la les des du un une et est sont je mon ma mes vous votre nous pour avec dans sur que quel quelle quels"
    " comment pourquoi où quand puis peut pas ne il au aux ce cette qui combien",
    "es": "el los las un una y es son yo mi mis para con por que qué cómo dónde cuándo cuál cuánto puedo del al no en"
    " se lo hay está tengo cuánta cuántos su",
    "pt": "o os as um uma e é são eu meu minha para com por que como onde quando qual quanto posso do da dos das no na"
    " em não se há está tenho você pelo",
    "it": "il lo gli un una e è sono io mio mia per con che come dove quando quale quanto posso del della dei di nel"
    " non si c'è ho perché alla questo sul",
    "nl": "de het een en is zijn ik mijn voor met op van wat hoe waar wanneer waarom welke kan niet te dat er wordt ook"
    " je bij naar heb moet",
    "sv": "och är jag min mitt för med på av vad hur var när varför vilken kan inte att det en ett den som har till om",
    "da": "og er jeg min mit for med på af hvad hvordan hvor hvornår hvorfor hvilken kan ikke at det en et den som har"
    " til blev nogen",
    "no": "og er jeg min mitt for med på av hva hvordan hvor når hvorfor hvilken kan ikke å det en et den som har til"
    " noen ble",
    "fi": "ja on ovat minä minun mitä miten missä milloin miksi kuka mikä voi voinko ei se että tai kuinka onko jos"
    " kun saan",
    "pl": "i jest są ja mój moja dla z na do co jak gdzie kiedy dlaczego który która czy nie się że mogę w po to jaki",
    "cs": "a je jsou já můj moje pro s na do co jak kde kdy proč který která mohu ne se že v po to jaký jaká nebo za",
    "hu": "a az és van egy hogy hogyan mi hol mikor miért melyik nem meg kell lehet milyen mennyi ha vagy csak ez",
    "ro": "și este sunt eu meu mea pentru cu pe de la ce cum unde când care cât nu un o în pot poate din sau dacă",
    "tr": "ve bir bu ne nasıl nerede zaman neden hangi kim için ile mı mi mu mü var yok benim da de olan kaç değil",
    "id": "dan yang di ke dari untuk dengan apa bagaimana mana kapan mengapa siapa saya ini itu tidak bisa adalah ada"
    " berapa atau",
    "vi": "và là của tôi cho với trong có không gì như thế nào đâu khi tại sao ai được các những này bao nhiêu một",
    "ru": "и в на не что как где когда почему кто какой какая мой моя я для с по это есть ли могу можно или от за",
    "bg": "и в на не какво как къде кога защо кой каква моят аз за с по това е са ли мога да или от който се има",
    "uk": "і в на не що як де коли чому хто який яка мій моя я для з по це є чи можу або від за та",
}
_LANGUAGES: Final[dict[str, tuple[str, ...]]] = {}
for _code, _listed in _WORDS.items():
    for _word in _listed.split():
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _code)
_OF_CYRILLIC: Final = frozenset({"ru", "bg", "uk"})


def language_of(text: str) -> str:
    """Return the code (ISO 639-1) of the language of a text, `other` if uncertain, empty without letters."""
    text = text[:_READ]
    script = _script(text)
    if not script or len(script) == 2:  # noqa: PLR2004 - a code
        return script
    if script in ("kana", "han"):
        return "ja" if _OF_SCRIPT["kana"].search(text) else "zh"
    folded = text.casefold()
    for code, signs in _SIGNS.get(script, ()):
        if any(sign in folded for sign in signs):
            return code
    return "ar" if script == "arabic" else _by_words(folded, cyrillic=script == "cyrillic")


def _script(text: str) -> str:
    """Return the script of most of a text; empty without any letter."""
    if _OF_OTHERS.search(text) is None:
        return "latin" if _TOKEN.search(text) else ""
    counts = {name: len(found) * _DENSE.get(name, 1) for name, of in _OF_SCRIPT.items() if (found := of.findall(text))}
    return max(sorted(counts), key=counts.__getitem__) if counts else ""


def _by_words(text: str, *, cyrillic: bool) -> str:
    """Return the language that most words are common in; a word counts less, the more languages share it."""
    points: dict[str, float] = {}
    words: dict[str, int] = {}
    for token in _TOKEN.findall(text):
        shared = _LANGUAGES.get(token)
        if shared is None or (shared[0] in _OF_CYRILLIC) != cyrillic:
            continue
        for code in shared:
            points[code] = points.get(code, 0.0) + 1 / len(shared)
            words[code] = words.get(code, 0) + 1
    likely = [code for code, one in points.items() if one == max(points.values())]
    return likely[0] if len(likely) == 1 and words[likely[0]] >= _LEAST_WORDS else OTHER
