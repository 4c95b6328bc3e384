"""Splits a response into claims: its sentences that claim something, with offsets. Works in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.evaluators._text import Word, words

_BEFORE: Final = frozenset("\"'([{\u00ab\u201c\u201e\u2018+-\u2212#@$\u20ac\u00a3\u00a5")
"""Characters that belong to the word that follows them."""
_OPENING: Final = frozenset({"Ps", "Pi"})
_QUESTION: Final = ("?", "\uff1f", "\u061f", "\u037e")
_COLON: Final = (":", "\uff1a")
_SAME_LINE: Final = re.compile(r"\.[\"')\]\u201d\u2019]?[ \t]+[\"'(\[\u201c\u2018]?")
_ABBREVIATIONS: Final = frozenset(
    """
    al approx art bzw ca cf ch co corp dept dr e.g ed eds eq est etc fig figs gen hon i.e inc jr ltd mr mrs ms mt no nr
    op p par pp prof rev sec sen sr st tel u.a vgl vol vs z.b
    """.split()  # noqa: SIM905
)
_ORDINAL_DIGITS: Final = 2  # "am 3. Mai": a short number before a full stop does not end a sentence
_GREETINGS: Final = frozenset(
    """
    hello hi hey dear greetings hallo moin servus bonjour bonsoir salut hola buenas ciao salve buongiorno olá oi привет
    здравствуйте merhaba hej cześć مرحبا שלום
    """.split()  # noqa: SIM905
)
_GREETING_WORDS: Final = 4
_PHRASES: Final = frozenset(
    """
    sure|sure thing|certainly|absolutely|of course|gladly|okay|ok|alright|thanks|thank you|thank you very much
    sorry|i am sorry|i m sorry|i do not know|i don t know|you are welcome|you re welcome|good morning
    good afternoon|good evening|best regards|kind regards|best wishes|sincerely|yours sincerely|in summary
    in conclusion|to summarize|gerne|natürlich|klar|selbstverständlich|danke|vielen dank|guten tag|guten morgen
    guten abend|viele grüße|mit freundlichen grüßen|das weiß ich nicht|ich weiß es nicht|bien sûr|merci
    merci beaucoup|cordialement|je ne sais pas|claro|por supuesto|gracias|muchas gracias|saludos|no lo sé|certo
    grazie|non lo so|obrigado|obrigada|não sei|конечно|спасибо|я не знаю|你好|您好|谢谢|当然|好的|我不知道|こんにちは
    ありがとうございます|もちろんです|わかりません|안녕하세요|감사합니다|물론입니다|모르겠습니다
    """.replace("\n", "|")
    .replace("  ", "")
    .split("|")
)
_BEGINNINGS: Final = tuple(
    """
    thank you for|thanks for your|i hope this|i hope that helps|hope this helps|let me know|please let me know
    feel free to|please feel free|do not hesitate|don t hesitate|please do not hesitate|please don t hesitate
    if you have any questions|if you have any other|if you have any further|if you have any more
    if you need anything|happy to help|glad to help|i am happy to help|i m happy to help|i would be happy to
    i d be happy to|here is what|here s what|great question|good question|ich hoffe das hilft|ich helfe gerne
    melden sie sich|n hésitez pas|j espère que|espero que|no dude en|spero che|надеюсь|希望这
    如果您有|ご不明な点|お役に立て
    """.replace("\n", "|")
    .replace("  ", "")
    .split("|")[1:-1]
)


class Claim(NamedTuple):
    """A sentence that claims something. Offsets in characters, end exclusive."""

    text: str
    start: int
    end: int


def claims_of(response: str) -> list[Claim]:
    """Return the sentences of `response` that claim something, in order.

    These are not claims: sentences without a word of content, questions, lead-ins that end in a colon, greetings,
    thanks, offers of help and a plain "I do not know".
    """
    found = []
    begun = 0
    sentences = _sentences(response)
    for number, sentence in enumerate(sentences):
        limit = sentences[number + 1][0].start if number + 1 < len(sentences) else len(response)
        start, end = _span(response, sentence[0].start, sentence[-1].end, begun, limit)
        begun = end
        if _claims_something(response[start:end], sentence):
            found.append(Claim(response[start:end], start, end))
    return found


def spread(found: Sequence[Claim], most: int) -> list[Claim]:
    """Return at most `most` of the claims, evenly spread from beginning to end."""
    if len(found) <= most:
        return list(found)
    return [found[number * len(found) // most] for number in range(most)]


def _sentences(text: str) -> list[list[Word]]:
    sentences: list[list[Word]] = []
    for word in words(text):
        if sentences and (word.sentence == sentences[-1][-1].sentence or _goes_on(text, sentences[-1], word)):
            sentences[-1].append(word)
        else:
            sentences.append([word])
    return sentences


def _goes_on(text: str, before: Sequence[Word], word: Word) -> bool:
    """Return whether the full stop before `word` belongs to an abbreviation, an initial or an ordinal."""
    last = before[-1]
    if last.sentence + 1 != word.sentence or not _SAME_LINE.fullmatch(text, last.end, word.start):
        return False
    shown = text[last.start : last.end]
    if shown.isdigit():
        return len(before) > 1 and len(shown) <= _ORDINAL_DIGITS
    dotted = text[max(last.start - 2, 0) : last.end].lower()  # "e.g", whose last word is "g"
    return (
        text[word.start].islower()
        or shown.lower() in _ABBREVIATIONS
        or dotted in _ABBREVIATIONS
        or (len(shown) == 1 and shown.isalpha())
    )


def _span(text: str, start: int, end: int, begun: int, limit: int) -> tuple[int, int]:
    """Extend the offsets of a sentence to the characters that belong to it on both sides."""
    while start > begun and text[start - 1] in _BEFORE:
        start -= 1
    while end < limit and not text[end].isspace() and unicodedata.category(text[end]) not in _OPENING:
        end += 1
    return start, end


def _claims_something(sentence: str, found: Sequence[Word]) -> bool:
    bare = sentence.rstrip(" \t*_\"')]\u201d\u2019\u00bb")
    if not any(word.content for word in found) or bare.endswith((*_QUESTION, *_COLON)):
        return False
    kept = (c if unicodedata.category(c)[0] in "LNM" else " " for c in unicodedata.normalize("NFKC", sentence))
    said = "".join(kept).casefold().split()
    plain = " ".join(said)
    greets = said[0] in _GREETINGS and len(said) <= _GREETING_WORDS
    return not (greets or plain in _PHRASES or plain.startswith(_BEGINNINGS))
