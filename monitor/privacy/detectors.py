"""Finds personal data and secrets in a text, by form and check digits, with offsets. Pure functions, linear time."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

_BEFORE = 40


class Piece(NamedTuple):
    """A piece of personal data or a secret: its kind and level, and its offsets, end exclusive."""

    kind: str
    level: Literal["personal", "secret"]
    start: int
    end: int


_EMAIL = re.compile(
    r"(?<![\w.+%-])[\w+%*-]{1,64}(?:\.[\w+%*-]{1,64}){0,8}(?:@|\s?[(\[](?:at|@)[)\]]\s?)"
    r"(?:[\w*-]{1,63}(?:\.|\s?[(\[](?:dot|\.)[)\]]\s?)){1,6}[^\W\d_]{2,24}(?!\w)"
)
# Mailboxes of an office, not of a person (RFC 2142 and other common names), and names reserved for examples (RFC 2606).
_OFFICE = re.compile(
    r"(?:abuse|admin|billing|careers|contact|contacto|customer\W?service|feedback|hello|help|help\W?desk|hostmaster"
    "|info|jobs"
    r"|kontakt|mail|marketing|media|news|no\W?reply|office|orders|postmaster|press|privacy|sales|security|service"
    "|shop|support"
    r"|team|webmaster)@|.*(?:@|\.)(?:example\.(?:com|net|org)|example|test|invalid|localhost)$",
    re.IGNORECASE,
)
_PHONE_ABROAD = re.compile(
    r"(?<![\w+])(?<!\d )(?:\+|00(?=[1-9]\d[ ./-]))[1-9](?:[ .\-/()\u00a0]{0,3}\d){6,14}(?![\d\w])"
)
_PHONE_HOME = re.compile(
    r"(?<![\w.,$€£/-])(?<!\d )(?:\(\d{2,5}\)[ .\-]?\d{2,4}(?:[ .\-]\d{2,4}){1,4}"
    r"|(?:1[ .\-])?\d{3}[.\- ]\d{3}[.\- ]\d{4}"
    r"|0[1-9](?:[ .]\d{2}){4}|0\d{2,4}[ /\-.](?:\d{2,4}[ .\-]){1,4}\d{2,4}"
    r"|0\d{2,5}[ /\-]\d{5,9})(?![\w-]|[.,]\d)"
)
_PHONE_BARE = re.compile(r"(?<![\w.,$€£-])\d{7,12}(?![\w-]|[.,]\d)")
_PHONE_WORD = re.compile(
    r"(?:phone|call|mobile|cell|tel|fax|telefon\w*|handy\w*|rufnummer|tél\w*|portable|móvil|celular|cellulare"
    "|whatsapp|sms"
    r"|телефон|电话|手机|電話|전화|번호)\W[^.!?\n]{0,25}$",
    re.IGNORECASE,
)
_NO_PHONE_WORD = re.compile(
    "(?:order|invoice|ticket|ref(?:erence)?|case|article|item|part|serial|version|isbn|issn|account|tracking"
    r"|customer|bestell\w*|rechnung\w*|auftrag\w*|commande|facture|pedido|factura|ordine|fattura|\b(?:id|no|nr)|#)\W{0,3}"
    r"(?:(?:is|number|no|nr|id)\W{0,3}){0,2}$",
    re.IGNORECASE,
)
_TOLL_FREE = re.compile(r"^(?:1?8(?:00|33|44|55|66|77|88)|0800|00800|44800|49800)")
_CARD = re.compile(r"(?<![\w.,-])(?:\d[ -]?){12,18}\d(?![\w-]|[.,]\d)")
# Prefixes and lengths of the large card networks.
_CARD_FORM = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3[068]\d{12}|35\d{14}|6(?:011|5\d\d|4[4-9]\d|2\d\d)\d{12}"
)
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_SSN = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_VERSION_WORD = re.compile(r"(?:\bv|version|release|build|firmware|section|§)\W{0,3}$", re.IGNORECASE)
_PASSPORT = re.compile(
    r"(?:passport|reisepass\w{0,20}+|pass-?nr|passeport|pasaporte|passaporto|passaporte|паспорт\w{0,3}|护照|パスポート"
    r"|여권)[^.!?\n\d]{0,25}?"
    r"(?<![A-Za-z0-9])([A-Z]{0,2}\d{6,9}|[A-Z](?=[A-Z]{0,7}\d)[A-Z0-9]{8})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_WALLET = re.compile(r"(?<!\w)(?:0x[0-9a-fA-F]{40}|bc1[02-9ac-hj-np-z]{25,59}|[13][1-9A-HJ-NP-Za-km-z]{25,34})(?!\w)")
_FISCAL = re.compile(r"(?<!\w)[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z](?!\w)", re.IGNORECASE)
_API_KEYS = tuple(f"{sort}{sign}" for sort in ("sk", "pk", "rk") for sign in "-_")
_TOKENS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "AIza", "ya29.")
# Words grouped by a short word that occurs in all of them and in few texts, so that few words have to be searched for.
_PASSWORDS = {
    "pass": ("password", "pass word", "passwd", "passwort", "mot de passe"),
    "key": tuple(f"{one}{sign}key" for one in ("api", "secret") for sign in ("", "_", " ", "-")),
    "token": tuple(f"access{sign}token" for sign in ("", "_", " ", "-")),
    **{word: (word,) for word in ("pwd", "kennwort", "contraseña", "senha")},
}
# Each with hints, one of which every match contains. Only the first can match white space or fewer than 15 characters.
_SECRETS = (
    ("private key", ("-----BEGIN ",), re.compile(r"-----BEGIN (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----")),
    ("AWS key", ("AKIA", "ASIA"), re.compile(r"(?<!\w)(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)")),
    ("API key", _API_KEYS, re.compile(
        r"(?<![\w-])(?:sk|pk|rk)[-_](?:[a-z]{2,8}[-_]){0,3}(?=[\w-]{0,60}\d)[A-Za-z0-9_-]{20,200}(?![\w-])")),
    ("token", _TOKENS, re.compile(
        r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36,80}|github_pat_\w{22,100}|glpat-[\w-]{20,60}|xox[abeprs]-[\w-]{10,80}"
        r"|hf_[A-Za-z0-9]{30,60}|AIza[\w-]{35}|ya29\.[\w-]{20,200})(?![\w-])")),
    ("JSON web token", ("eyJ",), re.compile(r"(?<![\w-])eyJ[\w-]{8,2000}\.eyJ[\w-]{8,4000}\.[\w-]{8,2000}(?![\w-])")),
)  # fmt: skip
_PASSWORD = re.compile(
    r"\b(?:pass ?word|passwd|pwd|passwort|kennwort|contraseña|mot de passe|senha|api[_ -]?key|secret[_ -]?key"
    r"|access[_ -]?token)[\"']?\s{0,3}(?:[:=]|\bis\b|ist|est"
    r"|es)\s{0,3}[\"'`]?((?=[^\s\"'`]{0,40}[\d!@#$%^&*])[^\s\"'`<\[,;]{6,100})",
    re.IGNORECASE,
)
_URL_LOGIN = re.compile(r"(?<!\w)[a-z][a-z0-9+.-]{1,15}://[^\s/:@]{1,64}:([^\s/@$<{]{3,100})@")


def luhn(digits: str) -> bool:
    """Return whether the check digit is right (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled  # noqa: PLR2004
    return total % 10 == 0


def iban(plain: str) -> bool:
    """Return whether the check digits are right (ISO 13616: the rearranged number is 1 modulo 97)."""
    return len(plain) in range(15, 35) and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _cpf(digits: str) -> bool:
    """Check a CPF (Brazil): two check digits modulo 11."""
    if len(set(digits)) == 1:
        return False
    first = _weighted(digits, tuple(range(10, 1, -1))) * 10 % 11 % 10
    second = _weighted(digits, tuple(range(11, 1, -1))) * 10 % 11 % 10
    return digits[9:] == f"{first}{second}"


def _dni(text: str) -> bool:
    """Check a DNI or NIE (Spain): the letter is the number modulo 23."""
    number = text[:-1].upper().translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1].upper()


def _nir(digits: str) -> bool:
    """Check a NIR (France): 97 minus the number modulo 97."""
    return 97 - int(digits[:13]) % 97 == int(digits[13:])


def _resident(text: str) -> bool:
    """Check a resident number (China): ISO 7064 MOD 11-2."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[_weighted(text, weights) % 11] == text[-1].upper()


def _fiscal(text: str) -> bool:
    """Check a codice fiscale (Italy): odd and even places have different weights; the last letter is the sum mod 26."""
    odd = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
    values = [int(c) if c.isdigit() else ord(c) - 65 for c in text.upper()]
    return (sum(odd[v] for v in values[0:15:2]) + sum(values[1:15:2])) % 26 == values[15]


def _pesel(digits: str) -> bool:
    """Check a PESEL (Poland): a weighted sum, and a plausible date of birth."""
    check = (10 - _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10) % 10
    month, day = int(digits[2:4]) % 20, int(digits[4:6])
    return check == int(digits[10]) and month in range(1, 13) and day in range(1, 32)


_TURN = ((0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 5, 7, 6, 2, 8, 3, 0, 9, 4))
_TIMES = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip


def _aadhaar(digits: str) -> bool:
    """Check an Aadhaar number (India): the Verhoeff scheme."""
    check = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        turned = digit
        for _ in range(place % 8):
            turned = _TURN[1][turned]
        check = int(_TIMES[check][turned])
    return check == 0


def _card(digits: str) -> bool:
    return _CARD_FORM.fullmatch(digits) is not None and luhn(digits) and len(set(digits)) > 1


_separators = re.compile(r"[ .\-]")

# Parts that a match must contain. These patterns begin with a character, so the search skips all others quickly: 800
# characters of prose take 15 us, instead of 350 us with the patterns above, which begin with a lookbehind.
_DIGITS = re.compile(r"\d(?:[ .\-/()\u00a0]{0,3}\d)*+")
_DOTTED = re.compile(r"\d\.\d{1,3}\.\d")
_COLONS = re.compile(r":[0-9A-Fa-f]{0,4}:")
_SHORTEST_SECRET, _SHORTEST_WALLET, _SHORTEST_FISCAL, _SHORTEST_NUMBER = 15, 26, 16, 6
_PASSPORTS = ("passport", "reisepass", "passnr", "pass-nr", "passeport", "passaporto", "passaporte")  # all with "pass"
_OTHER_PASSPORTS = ("паспорт", "护照", "パスポート", "여권")


def folded(text: str) -> str:
    """Return the text in lower case, so that a plain search finds every word that `re.IGNORECASE` would match."""
    if text.isascii():
        return text.lower()
    return text.casefold().replace("\u0131", "i").replace("\u0307", "")  # `re.IGNORECASE` also matches a dotless i as i


def _bytes_by(of: Callable[[str], str]) -> bytes:
    return "".join(of(chr(code)) for code in range(256)).encode("latin-1")


_BETWEEN_DIGITS = b" .-/()\xa0"
_AS_DIGITS = _bytes_by(lambda sign: "0" if sign in "0123456789" else "x")
_AS_KINDS = _bytes_by(
    lambda sign: "A" if "A" <= sign <= "Z" else "0" if sign in "0123456789" else "." if sign == "." else " "
)
_AS_WORDS = _bytes_by(lambda sign: " " if sign.isspace() else "x")


class _Shape:
    """What a text may contain, by the kinds of its characters: each question is one search in C, without a pattern.

    `digit`: it has an ASCII digit. `number`: it has six digits or more in a row, with separators allowed between them.
    """

    def __init__(self, text: str) -> None:
        plain = text.encode("latin-1", "replace")
        # Patterns also match digits of other scripts. White space outside Latin-1 counts as part of a word.
        exact = text.isascii() or not any(sign.isdecimal() and sign > "9" for sign in set(text))
        self._kinds = plain.translate(_AS_KINDS)
        self._words = plain.translate(_AS_WORDS)
        self._exact = exact
        self.digit = b"0" in self._kinds
        self.number = not exact or (
            self.digit and b"0" * _SHORTEST_NUMBER in plain.translate(_AS_DIGITS, _BETWEEN_DIGITS)
        )

    def word(self, length: int) -> bool:
        """Return whether there may be a run of `length` characters without white space."""
        return b"x" * length in self._words

    def has(self, kinds: bytes) -> bool:
        """Return whether such a sequence may occur: `A` stands for A to Z, `0` for a digit, `.` for a full stop."""
        return not self._exact or kinds in self._kinds


# Each with the minimum number of digits in a match, which may have separators between them; 0: see `_numbers`.
_CHECKED: tuple[tuple[str, int, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("crypto wallet", 0, _WALLET, lambda wallet: any(map(str.isdigit, wallet))),
    ("IBAN", 0, _IBAN, iban),
    ("credit card number", 13, _CARD, _card),
    ("US social security number", 9, _SSN, lambda _: True),
    ("CPF (Brazil)", 11, re.compile(r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?!\w)"), _cpf),
    ("DNI or NIE (Spain)", 7, re.compile(r"(?<!\w)(?:\d{8}|[XYZ]-?\d{7})-?[A-Z](?!\w)", re.IGNORECASE), _dni),
    ("NIR (France)", 15, re.compile(
        r"(?<!\w)[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?\d{2} ?\d{3} ?\d{3} ?\d{2}(?!\w)"), _nir),
    ("resident number (China)", 17, re.compile(
        r"(?<!\w)[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])[0-3]\d{4}[\dX](?!\w)", re.IGNORECASE), _resident),
    ("codice fiscale (Italy)", 0, _FISCAL, _fiscal),
    ("PESEL (Poland)", 11, re.compile(r"(?<![\w.,+-])\d{11}(?![\w-]|[.,]\d)"), _pesel),
    ("Aadhaar (India)", 12, re.compile(r"(?<![\w.,+-])[2-9]\d{3} \d{4} \d{4}(?![\w-]| \d)"), _aadhaar),
    ("national insurance number (UK)", 6, re.compile(
        r"(?<!\w)(?!BG|GB|NK|KN|TN|NT"
        r"|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"), lambda _: True),
)  # fmt: skip


def pieces(text: str, beside: Iterable[Piece] = ()) -> list[Piece]:
    """Find personal data and secrets in `text`. Of overlapping pieces the first counts; none overlaps `beside`."""
    taken = bytearray(len(text))
    for piece in beside:
        taken[piece.start : piece.end] = b"x" * (piece.end - piece.start)
    kept = []
    for piece in _candidates(text):
        if not any(taken[piece.start : piece.end]):
            taken[piece.start : piece.end] = b"x" * (piece.end - piece.start)
            kept.append(piece)
    return kept


def _candidates(text: str) -> Iterator[Piece]:
    lowered, shape = folded(text), _Shape(text)
    for kind, hints, pattern in _SECRETS if shape.word(_SHORTEST_SECRET) else _SECRETS[:1]:
        for match in pattern.finditer(text) if any(hint in text for hint in hints) else ():
            yield Piece(kind, "secret", *match.span())
    for match in _PASSWORD.finditer(text) if _has_password(lowered) else ():
        yield Piece("password", "secret", *match.span(1))
    if "://" in text:
        for match in _URL_LOGIN.finditer(text):
            yield Piece("password", "secret", *match.span(1))
    if "@" in text or "at)" in text or "at]" in text:
        found = (match for match in _EMAIL.finditer(text) if not _OFFICE.match(match[0]))
        yield from (Piece("e-mail address", "personal", *match.span()) for match in found)
    for match in _PASSPORT.finditer(text) if _has_passport(lowered) else ():
        yield Piece("passport number", "personal", *match.span(1))
    if shape.digit or (not text.isascii() and any(map(str.isdigit, text))):
        yield from _numbers(text, shape)


def _has_password(lowered: str) -> bool:
    stand = [words for within, words in _PASSWORDS.items() if within in lowered]
    return any(word in lowered for words in stand for word in words)


def _has_passport(lowered: str) -> bool:
    if "pasaporte" in lowered or ("pass" in lowered and any(word in lowered for word in _PASSPORTS)):
        return True
    return not lowered.isascii() and any(word in lowered for word in _OTHER_PASSPORTS)


def _numbers(text: str, shape: _Shape) -> Iterator[Piece]:
    digits = 0
    if shape.number:
        long = (found for found in _DIGITS.findall(text) if len(found) >= _SHORTEST_NUMBER)
        digits = max((sum(map(str.isdecimal, found)) for found in long), default=0)
    possible = {
        _WALLET: shape.word(_SHORTEST_WALLET),
        _IBAN: shape.has(b"AA00"),
        _FISCAL: shape.word(_SHORTEST_FISCAL),
    }
    for kind, least, pattern, holds in _CHECKED:
        for match in pattern.finditer(text) if digits >= least and possible.get(pattern, True) else ():
            if holds(_separators.sub("", match[0])):
                yield Piece(kind, "personal", *match.span())
    dotted = shape.has(b"0.0") and _DOTTED.search(text) is not None
    for pattern, likely in ((_IPV4, dotted), (_IPV6, _COLONS.search(text) is not None)):
        for match in pattern.finditer(text) if likely else ():
            if _public(match[0]) and not _VERSION_WORD.search(text, max(0, match.start() - _BEFORE), match.start()):
                yield Piece("IP address", "personal", *match.span())
    if digits >= _SHORTEST_NUMBER:
        yield from _phones(text)


def _phones(text: str) -> Iterator[Piece]:
    for pattern in (_PHONE_ABROAD, _PHONE_HOME, _PHONE_BARE):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - _BEFORE) : match.start()]
            called = _PHONE_WORD.search(before) is not None
            if _TOLL_FREE.match(_digits(match[0])) or (pattern is _PHONE_BARE and not called):
                continue
            if called or pattern is _PHONE_ABROAD or not _NO_PHONE_WORD.search(before):
                yield Piece("phone number", "personal", *match.span())


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def _public(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False
