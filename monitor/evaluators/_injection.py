"""Patterns of injected instructions, by family, for folded text (`_fold`). Pure functions, linear in the text.

Gaps between words are bounded, and a pattern runs only if one of its hints occurs in the text, so no text can make a
search cost more than a fixed amount per character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

Place = Literal["request", "document"]

_GAP = r"[^.!?{}\[\]]{0,60}?"

# "Ignore" and "instructions" (stems, if a language inflects) in the languages that most attacks are written in.
_IGNORE = (
    r"(?<!not )(?<!never )(?<!n't )\b(?:ignor(?:e[nrsz]?|ing|ar?|i|era|ati|ieren?|iert|uj)\b|disregard(?:ing)?\b"
    r"|forget(?! to\b)\b|overlook\b|bypass\b|override\b|neglect\b|discard\b|set aside|pay no attention to"
    r"|(?:do not|don't|stop) (?:follow|obey)(?:ing)?\b|bortse fran|glom\b|vergiss|vergessen sie|missachte\w*"
    r"|oublie[zr]?|olvid[ae]\w*|haz caso omiso"
    r"|dimentica\w*|esque[cç]\w*|desconsider\w*|zignoruj|zapomnij|negeer|vergeet|abaikan|lupakan|unut\w*|gormezden"
    "|yok say"
    r"|bo qua|игнор\w*|забуд\w*|ігнор\w*|αγνοησ\w*|ξεχασ\w*)"
    r"|تجاهل|अनदेख|भूल जा|忽略|忽視|无视|無視"
    r"|忘记|忘記|忘掉|忘れ|무시|잊어|התעלם|תתעלם|เพิกเฉย|ละเว้น|ไม่ต้องสนใจ"
)
_INSTRUCTIONS = (
    r"(?:\b(?:instruction|directive|guideline|prompt|anweisung|instruktion|vorgabe|consigne|instrucci|istruzion"
    "|instruc[aot]"
    r"|instrukcj|polecen|instructie|instruksi|petunjuk|talimat|huong dan|chi dan|инструкц|інструкц|указани|οδηγι)"
    r"|تعليمات|निर्देश|指示|指令|提示|命令|说明|지시|명령|הוראות|คำสั่ง"
    r"|\b(?:previous|prior|above|your|earlier|preceding|all|existing|initial|original|system)"
    r" (?:rules|programming|training|context|orders|commands?|constraints|restrictions|polic\w+|safety)\b)"
)
_NAMED = (
    "instru|directive|guideline|prompt|anweis|vorgabe|consigne|istruz|polecen|petunjuk|talimat|huong dan|chi dan"
    "|инструкц|указани"
    "|οδηγι|تعليمات|निर्देश|指示|指令|提示|命令|说明|지시|명령|הוראות|คำสั่ง|інструкц"
    "|rules|programming|training|context|orders|command"
    "|constraint"
    "|restriction|polic|safety"
)
_PROMPT = (
    r"(?:system (?:prompt|message|instructions?|rules)"
    r"|(?:initial|original|hidden|secret|internal|confidential|full|exact|entire|first)"
    r"(?: system)? (?:prompt|instructions?|directives|guidelines)|your (?:own )?(?:prompt|instructions|directives))"
)
_REPLY = (
    r"\byour (?:next |final |whole |entire )?(?:response|reply|replies|answer|output|message|elucidation|summary)\b"
)
_SECRETS = r"(?:pass ?word|pass ?code|pass ?phrase|secret|credential|api key|access (?:key|token|code)|private key)"
_LIMITS = r"(?:restriction|limit|filter|rule|guideline|censorship|boundar|constraint|polic|safeguard|safety)"


class Pattern(NamedTuple):
    """A pattern: its family, its weight as evidence (0 to 1), where to search for it, and the hints it requires."""

    family: str
    weight: float
    places: tuple[Place, ...]
    hints: tuple[str, ...]
    regex: re.Pattern[str]


class Hit(NamedTuple):
    """A family found in a text, with the matching stretch of folded text."""

    family: str
    weight: float
    shown: str


_BOTH: tuple[Place, ...] = ("request", "document")
_REQUEST: tuple[Place, ...] = ("request",)
_DOCUMENT: tuple[Place, ...] = ("document",)


def _made(family: str, weight: float, places: tuple[Place, ...], hints: str, regex: str) -> Pattern:
    # Normalise as `fold` does with the text: Thai vowels, for example, have two spellings.
    hints, regex = unicodedata.normalize("NFKC", hints), unicodedata.normalize("NFKC", regex)
    return Pattern(family, weight, places, tuple(hints.split("|")) if hints else (), re.compile(regex))


PATTERNS = (
    _made("override", 0.9, _BOTH, _NAMED, rf"(?:{_IGNORE}){_GAP}{_INSTRUCTIONS}"),
    # Languages that put the verb last.
    _made(
        "override", 0.9, _BOTH, "指示|命令|지시|명령|निर्देश|talimat|anweisung",
        r"(?:指示|命令|지시|명령|निर्देश|talimat|anweisung)[^.!?。]{0,30}?"
        r"(?:無視|忘れ|무시|잊|अनदेख|भूल|unut|yok say|gormezden|ignorier|vergess)",
    ),
    _made(
        "override", 0.9, _BOTH, "ignore|disregard|forget|overlook",
        r"(?<!not )(?<!n't )\b(?:ignore|disregard|forget(?! to\b)|overlook) (?:about )?(?:all|every\w*|everthing"
        "|anything|whatever|what)"
        r"\b[^.!?]{0,30}?\b(?:told|instructed|above|before|prior|previous\w*|learned|you know|said)\b",
    ),
    _made(
        "override", 0.75, _BOTH, "ignore|disregard",
        r"(?<!not )(?<!n't )\b(?:ignore|disregard) (?:the|this|all|any|everything)[^.!?]{0,40}? (?:and|instead"
        r"|then)(?: \w+)?"
        r" (?:say|state|write|print|output|respond|reply|answer|tell|claim)\b",
    ),
    _made(
        "override", 0.85, _BOTH, "above|previous|prior",
        r"(?<!not )(?<!n't )\b(?:ignore|disregard|forget) (?:about )?(?:all |everything )?(?:of )?(?:the )?(?:above"
        "|previous|prior)"
        r"(?: (?:and|then|text|request|question|messages?)\b| ?[.,:;!?-]|$)",
    ),
    _made("override", 0.6, _BOTH, "override",
        r"\b(?:override|overriding)(?: mode)? ?[:>\]]|\b(?:data|security|system|safety) override\b"),
    _made("jailbreak", 0.9, _BOTH, "do anything now|dan mode", r"\bdo anything now\b|\bdan mode\b"),
    _made(
        "jailbreak", 0.75, _BOTH, "mode",
        r"\b(?:now|am|i'm|you are|you're) (?:entering|activating|enabling|in) [^.!?]{0,40}?\bmode\b"
        r"|\b(?:override|god|jailbreak|unrestricted|unfiltered|evil|sudo) mode\b|[<\[] ?system[ _]mode",
    ),
    _made(
        "jailbreak", 0.8, _BOTH, "restriction|limit|filter|rule|guideline|censorship|boundar|constraint|polic|safe",
        r"\b(?:pretend|act|behave|respond|answer|imagine|role-?play|simulate|you are|you have|operate)\b[^.!?]{0,80}?\b"
        rf"(?:no|without(?: any)?|free (?:of|from)|not bound by|ignoring)(?: \w+){{0,2}} {_LIMITS}"
        r"|\b(?:disable|turn off|remove|drop|bypass)\b[^.!?]{0,12}?\byour (?:\w+ )?" + _LIMITS,
    ),
    _made(
        "jailbreak", 0.7, _BOTH, "abide|confines|jailb|unfiltered|uncensored|no longer",
        r"\bnot have to (?:abide|follow|obey)\b|\bfree of the (?:typical )?confines\b|\byou are no longer (?:bound"
        r"|an?|restricted)\b"
        r"|\bjailb(?:reak|roken)\w* (?:ai|chatgpt|gpt|llm|prompt|assistant|version|model)"
        r"|\b(?:unfiltered|uncensored|amoral) (?:ai|chatbot|assistant|model|version|bot|answer|response)",
    ),
    _made(
        "new_role", 0.45, _BOTH,
        "you are now|from now on|will now|du bist|bist du|maintenant|desormais|ahora eres|a partir de|ora sei"
        "|d'ora in|agora voce"
        "|adesso sei|теперь|现在|現在|今から|あなたは今|이제|지금부터",
        r"\b(?:you are now (?:an?\b|in\b|going to|the\b|free)|from now on,? you|you will now (?:act|be|play|pretend)"
        "|du bist (?:jetzt|nun|ab)"
        "|ab (?:jetzt|sofort) bist du|tu es (?:maintenant|desormais)|vous etes (?:maintenant|desormais)|ahora eres"
        "|a partir de ahora"
        r"|(?:ora|adesso) sei un|d'ora in poi|agora voce e|a partir de agora|ты теперь|теперь ты)"
        r"|(?:你现在|你現在|从现在开始你)是?|今からあなた|あなたは今|너는 이제|지금부터 (?:너|당신)",
    ),
    _made(
        "prompt_extraction", 0.85, _BOTH, "prompt|instruction|message|rules|directives|guidelines",
        r"\b(?:reveal|show|print|repeat|output|display|tell|give|write|leak|disclose|summari[sz]e|recite|copy|share"
        "|provide|expose"
        rf"|translate|encode|what(?:'s| is| are| was| were))\b[^.!?]{{0,40}}?\b{_PROMPT}",
    ),
    _made(
        "prompt_extraction", 0.8, _BOTH, "above",
        r"\b(?:repeat|print|output|copy|recite|show)\b(?: me)? (?:all|everything|the (?:words|text|content)"
        r"|what)\b[^.!?]{0,30}?\babove\b",
    ),
    _made(
        "prompt_extraction", 0.6, _REQUEST, "prompt|提示|プロンプト|프롬프트|промпт",
        r"\bsystem-?prompt|\bprompt (?:del?|du|do) s[iy]ste?m|系统提示|系統提示|システムプロンプト|시스템 프롬프트"
        r"|(?<!\w)системн\w++ промпт",
    ),
    _made(
        "secrets", 0.5, _REQUEST, "pass|secret|credential|key|code|access",
        rf"\byour (?:\w+ )?{_SECRETS}|\b(?:shared?|tell|give|reveal|confirm|know|print|send|about|is"
        rf"|what's) (?:me )?(?:the|our) (?:\w+ )?{_SECRETS}"
        r"(?: (?:for|to|of) (?:our|the|your) system)?(?: ?[?.!'\"]|$)",
    ),
    _made(
        "secrets", 0.45, _REQUEST,
        "contrasena|passwor|mot de passe|senha|kennwort|парол|密码|密碼|パスワード|비밀번호|wachtwoord|kata sandi"
        "|sifre|haslo"
        "|κωδικ|पासवर्ड|كلمة",
        r"\b(?:ihr|dein|tua|la tua|tu|su|votre|ton|sua|tua|твой|ваш) (?:contrasena|passwor[dt]|mot de passe|senha"
        r"|kennwort|пароль)\b"
        r"|\b(?:cual es|qual e|quel est|was ist|wie (?:lautet|ist)|какой) (?:(?:la|le|das|a|o|il) )?(?:contrasena"
        r"|passwor[dt]|mot de passe|senha|kennwort|пароль)\W*(?:$|[?.])"
        "|(?:你|您)的密[码碼]|あなたのパスワード|パスワード(?:は何|を教え|が必要)|(?:너|당신)의 비밀번호"
        "|비밀번호(?:가 필요|를 알려)|(?:jouw|uw|je|twoje) (?:wachtwoord|haslo)|kata sandi (?:anda|kamu)"
        "|sifren(?:iz)?\\b"
        r"|(?<!\w)κωδικ\w++ (?:\w+ )?(?:\u03c3\u03bf\u03c5|\u03c3\u03b1\u03c2)|(?:आपका|तुम्हारा) पासवर्ड"
        "|كلمة (?:المرور|السر) الخاصة بك",
    ),
    _made(
        "data_of_others", 0.4, _REQUEST, "user|database",
        r"\b(?:tell|give|share|show|list|what is|what's|where (?:is|does)|provide|reveal|send|translate"
        r"|using)\b[^.!?]{0,40}?\b"
        r"(?:the|other|all|different|every) users?(?:'s?)? (?:\w+ )?(?:e-?mail|address|pass|phone|name|birth|account"
        "|balance|data|live|living|location|city|bank|ssn|social|reside|currently)"
        r"|\blist of (?:all |the )*users\b|\busers in your (?:database|system)|\b(?:print|dump|show"
        "|export) (?:me )?your (?:whole |entire )?database",
    ),
    _made(
        "authority", 0.35, _BOTH,
        " god|i'm god|your developer|your creator|your boss|your admin|your owner|your master|your programmer"
        "|your manager|your supervisor|the president|the ceo|the admin|the system admin|the developer|police officer"
        "|law enforcement|developed by|openai|anthropic|o presidente|el presidente|chef|entwickler|私は",
        r"\b(?:i am|i'm|as) (?:god\b|your (?:developer|creator|boss|admin\w*|owner|master|programmer|manager"
        "|supervisor)"
        r"|the (?:president|ceo\b|admin\w*|system admin\w*|developer)|an? (?:police officer|law enforcement"
        "|ai developed by|openai|anthropic))"
        r"|\blaw enforcement override|\bsou o presidente|\bsoy el presidente|\bich bin (?:dein|ihr) (?:chef"
        "|entwickler)|私はあなたの上司",
    ),
    _made("bribe", 0.35, _REQUEST, "dollar|euro|usd|$",
        r"\b(?:give|pay|tip) you (?:\$ ?\d|\d+ (?:dollar|euro|usd))|\bich gebe (?:ihnen|dir) \d+"),
    _made(
        "forged_turn", 0.8, _BOTH, "<|[inst",
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|begin_of_text)\|>|\[/?inst\]"
        "|<</?sys>>",
    ),
    _made(
        "forged_turn", 0.5, _BOTH, "system|instruction|assistant",
        "(?<!#)#{2,}+ ?(?:system|new instructions?|assistant) ?(?:prompt|message)?:|</? ?system(?: ?prompt)?>"
        r"|[-=#*\[<]{1,6} ?(?:begin|end|start) (?:of )?(?:the )?(?:system|user|new)[ _]?(?:prompt|message"
        "|instructions?)",
    ),
    _made("forged_turn", 0.5, _REQUEST, "role", r"\"role\" ?: ?\"system\""),
    _made("many_turns", 0.35, _REQUEST, "a:", r"(?>\bq: .{1,400}?\ba: )(?>.{1,400}?\bq: )(?>.{1,400}?\ba: )"),
    _made("repetition", 0.35, _REQUEST, "", r"(?<!\w)(\w{1,30})(?: \1){19}(?!\w)"),
    _made("split_payload", 0.45, _REQUEST, "part 2|part two|part b",
        r"\bpart (?:1|one|a)\b.{1,200}?\bpart (?:2|two|b)\b"),
    _made(
        "encoding", 0.45, _BOTH, "morse|caesar|rot13|rot 13|base64|base 64|cipher",
        r"\b(?:decode|decipher|decrypt|encode|encrypt)\b[^!?]{0,60}?\b(?:morse|caesar|rot ?13|base ?64|\w*cipher)"
        r"|\b(?:reply|response|answer|it|them|part|this) (?:in|using|with|as) (?:base ?64|rot ?13|morse)"
        "|base ?64(?:로|で)",
    ),
    _made(
        "addresses_assistant", 0.5, _DOCUMENT, "response|reply|replies|answer|output|message|elucidation|summary",
        r"\b(?:add|include|integrate|modify|augment|enhance|encode|translate|render|replace|jumble|scramble|misspell"
        "|use"
        "|write|provide|respond|start|begin|end|finish|insert|mention|append|embed|incorporate|introduce|put|make"
        "|ensure|rewrite|deliver|"
        rf"convert|mix|remove|swap|change)\b(?:[^.!?]|[.!?](?=\w)){{0,100}}?{_REPLY}|\b(?:in"
        rf"|to) {_REPLY[2:]},? (?:add|include|mention|insert|say|use)\b",
    ),
    _made(
        "addresses_assistant", 0.6, _DOCUMENT, "user|model|chatbot|assistant| ai|llm",
        r"\b(?:tell|instruct|convince|urge|ask) the user (?:to|that)\b|\bnot (?:tell|inform|mention|reveal|show"
        r"|alert)\b[^.!?]{0,30}?\bthe user\b"
        r"|\b(?:if you are|note to|attention|dear|hey),? (?:an? |the |all |any )?(?:ai|llm|(?:large )?language model"
        r"|chatbot|chatgpt|ai (?:assistant|agent|model))s?\b",
    ),
    _made(
        "code_to_insert", 0.35, _DOCUMENT, "code",
        r"\bthe (?:following|subsequent|below) code (?:snippet|block|excerpt|section)\b[^.!?]{0,60}?\byour "
        r"(?:\w+ )?(?:solution|code|codebase|algorithm|implementation|response|reply|answer|elucidation)"
        r"|\byour (?:\w+(?:'s)? ){0,3}?(?:solution|code|codebase|algorithm|implementation|response|reply|answer"
        r"|elucidation)\b"
        r"[^.!?]{0,60}?\bthe (?:following|subsequent|below) code (?:snippet|block|excerpt|section)",
    ),
    _made(
        "dictated_answer", 0.35, _DOCUMENT, "the following|that the ",
        r"(?:^|[.!?:;>)\]\"',] ?|\bplease |\band |\blet's )(?:state|say|print|output|answer|respond|reply|admit)"
        r" (?:with )?(?:exactly )?(?:the following\b|that the (?:answer|conclusion|capital|sum)\b)",
    ),
    _made("exfiltration", 0.7, _DOCUMENT, "](http",
        r"!\[[^\]]{0,200}\]\(https?://[^) ]{1,300}?[?&][^) =]{1,60}=(?:\{|\$|%7b|<|\[)"),
)  # fmt: skip


def _of(place: Place, *, ascii_only: bool) -> tuple[tuple[tuple[str, ...], Pattern], ...]:
    """Return the patterns of a place, each with the hints that may occur: in an ASCII text, only ASCII hints."""
    of = (pattern for pattern in PATTERNS if place in pattern.places)
    found = ((tuple(hint for hint in one.hints if hint.isascii() or not ascii_only), one) for one in of)
    return tuple((hints, one) for hints, one in found if hints or not one.hints)


_PLACES: tuple[Place, ...] = ("request", "document")
_TRIED = {(place, plain): _of(place, ascii_only=plain) for place in _PLACES for plain in (False, True)}


def scan(folded: str, place: Place) -> Iterator[Hit]:
    """Return the patterns found in a folded text, one hit per pattern."""
    for hints, pattern in _TRIED[place, folded.isascii()]:
        for hint in hints:
            if hint in folded:
                break
        else:
            if hints:
                continue
        match = pattern.regex.search(folded)
        if match:
            yield Hit(pattern.family, pattern.weight, match[0])
