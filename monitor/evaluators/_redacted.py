"""Finds what redaction leaves in a text: placeholders that name the kind of data, and marks that do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from monitor.privacy.detectors import Piece

_KINDS: tuple[tuple[str, Literal["personal", "secret"], str], ...] = (
    ("e-mail address", "personal", "E_?MAIL"),
    ("phone number", "personal", "PHONE|MOBILE|TELEPHONE|FAX"),
    ("credit card number", "personal", "CREDIT_?CARD|CARD_?NUMBER|DEBIT_?CARD"),
    ("IBAN", "personal", "IBAN|BANK_?ACCOUNT|ACCOUNT_?NUMBER|US_BANK_NUMBER"),
    ("US social security number", "personal", "(?:US_)?SSN|SOCIAL_SECURITY"),
    ("IP address", "personal", "IP_?ADDRESS|IP(?:V[46])?"),
    ("passport number", "personal", "(?:[A-Z]{2}_)?PASSPORT"),
    ("crypto wallet", "personal", "CRYPTO|WALLET|BITCOIN"),
    ("national id", "personal", "NATIONAL_?ID|(?:US_)?ITIN|(?:US_)?DRIVER_?LICENSE|TAX_?ID|ID_?NUMBER|GOVERNMENT_?ID"),
    ("national id", "personal", "UK_NINO|UK_NHS|ES_NI[EF]|IT_FISCAL_CODE|PL_PESEL|IN_(?:AADHAAR|PAN)|SG_NRIC_FIN|CPF"),
    # A bare `<TOKEN>` is mostly a placeholder in a line of code: only one marked as redacted counts.
    ("secret", "secret", "API_?KEY|SECRET|PASSWORD|ACCESS_?KEY|TOKEN|CREDENTIALS?|PRIVATE_?KEY"),
)
_OPEN, _CLOSE = r"(?:\[{1,2}|<{1,2}|\{{1,2}|\(|\*\*|__)", r"(?:\]{1,2}|>{1,2}|\}{1,2}|\)|\*\*|__)"
_MARK = "(?:redacted|masked|removed|hidden)"


def _bare(names: str) -> re.Pattern[str]:
    number = r"(?:[_ #-]?\d{1,4})?"
    return re.compile(rf"[\[<{{](?:{names})(?:_?(?:ADDRESS|NUMBER|CODE|ID))?{number}[\]>}}]")


def _marked(names: str) -> re.Pattern[str]:
    before, after = (
        rf"{_MARK}[_ :-]{{1,2}}(?:{names})[\w ]{{0,20}}",
        rf"(?:{names})[\w ]{{0,20}}?[_ :-]{_MARK}[_\d]{{0,5}}",
    )
    return re.compile(rf"{_OPEN}(?:{before}|{after}){_CLOSE}", re.IGNORECASE)


_placeholders = tuple(
    (kind, level, pattern)
    for kind, level, names in _KINDS
    for pattern in ((_marked(names),) if level == "secret" else (_bare(names), _marked(names)))
)
_stars = re.compile(
    r"(?<![\w*#])(?:[*xX\u2022#]{2,4}[ \-.]?){2,4}\d{2,4}(?!\w)"
    r"|(?<![\w*])\d{1,6}[ \-]?(?:[*\u2022]{2,6}[ \-]?){1,4}\d{2,4}(?!\w)"
)
_dropped = re.compile(
    rf"{_OPEN}(?:content |text |response |output |data |pii )?"
    rf"(?:redacted|removed|masked|filtered|dropped|scrubbed|withheld)(?: (?:by|for|due to) [\w ]{{1,40}})?{_CLOSE}"
    r"|__REDACTED__|\u2588{3,}|(?<![\w*])\*{5,}(?!\w)",
    re.IGNORECASE,
)
_letter = re.compile(r"[^\W_]")


def placeholders(text: str) -> Iterator[Piece]:
    """Find placeholders and what they stand for: `<EMAIL_ADDRESS>`, `[REDACTED_EMAIL]`, `[Phone redacted]`."""
    if any(c in text for c in "[<{(_*"):
        for kind, level, pattern in _placeholders:
            for match in pattern.finditer(text):
                yield Piece(kind, level, *match.span())
    for match in _stars.finditer(text):
        yield Piece("masked number", "personal", *match.span())


def dropped(text: str) -> bool:
    """Return whether something unnamed was removed from `text`: `[REDACTED]`, a black bar, a row of stars."""
    return _dropped.search(text) is not None


def only_dropped(text: str) -> bool:
    """Return whether `text` contains nothing but such marks."""
    return dropped(text) and not _letter.search(_dropped.sub(" ", text))
