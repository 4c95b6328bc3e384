"""Masks the personal data of one case: one placeholder per value, wherever it occurs in the case. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict

from monitor.privacy.detectors import Piece, folded, pieces
from monitor.privacy.redaction.edits import Edit, Masked, apart, around, put


class DataType(StrEnum):
    """A type of data to mask: a closed set, used in the configuration and as the metric label `type`."""

    EMAIL = "email"
    PHONE = "phone"
    CARD = "card"
    IBAN = "iban"
    NATIONAL_ID = "national_id"
    PASSPORT = "passport"
    IP_ADDRESS = "ip_address"
    WALLET = "wallet"
    SECRET = "secret"  # noqa: S105 - the name of a type


def _each_once(given: tuple[DataType, ...]) -> tuple[DataType, ...]:
    if len(set(given)) < len(given):
        raise ValueError("a type is listed twice")
    if not given:
        raise ValueError("the list is empty; to mask nothing, set `enabled: false`")
    return given


class RedactionSettings(BaseModel):
    """Masks personal data for everything except the local evaluators: judges, sinks, the UI, stored results.

    The same value has the same placeholder within a case: `<EMAIL_1>` in the question is `<EMAIL_1>` in the answer.
    Data is found by form and check digits, as in the evaluator `pii_leak`; names, street addresses and data in words
    are not found. A user's id becomes a pseudonym. The spool keeps the original until a trace is processed. See
    docs/privacy.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = False
    """Whether to mask personal data."""

    types: Annotated[tuple[DataType, ...], AfterValidator(_each_once)] = tuple(DataType)
    """Types of data to mask: `email`, `phone`, `card`, `iban`, `national_id`, `passport`, `ip_address` (public only),
    `wallet` (cryptocurrency), `secret` (keys, tokens, passwords). Default: all."""


_OF_KIND: Final = {
    "e-mail address": DataType.EMAIL,
    "phone number": DataType.PHONE,
    "credit card number": DataType.CARD,
    "IBAN": DataType.IBAN,
    "passport number": DataType.PASSPORT,
    "IP address": DataType.IP_ADDRESS,
    "crypto wallet": DataType.WALLET,
}
"""Other kinds are secrets (by their level) or national ids."""

_NAMES: Final = {DataType.CARD: "CREDIT_CARD", DataType.WALLET: "CRYPTO_WALLET", DataType.SECRET: "REDACTED_SECRET"}
"""The names in placeholders, which `pii_leak` recognises."""

_OURS: Final = re.compile(rf"<({'|'.join(_NAMES.get(one, one.name) for one in DataType)})_(\d{{1,6}})>")
_KEY_END: Final = re.compile(r"-----END [A-Z ]{0,60}PRIVATE KEY-----")
_PASSPORT_NO: Final = re.compile(
    r"(?:passport|reisepass|pass|passeport|pasaporte|passaporto)\W{0,3}(?:no|nr|num|n[\u00b0\u00ba])\b[.:\s#]{0,4}"
    r"([A-Z]{0,2}\d{6,9}|[A-Z][A-Z0-9]{8})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_PASSPORT_NEAR_NO: Final = re.compile(r"pas[a-z]{0,7}\W{0,3}n[oru\u00b0\u00ba]")
"""Matches every folded text in which `_PASSPORT_NO` finds something; it begins with letters, so it searches fast."""

_ALL: Final = slice(None)

_WORD: Final = re.compile(r"[^\s\"'`,;()<>\[\]]+")
_LONGEST: Final = 10_000  # the longest value that is searched for elsewhere, in characters
_PASSES: Final = 8
_ROUNDS: Final = 4
_FRAGMENT: Final = 4
_LAST_DIGITS: Final = 8  # these are the same however a phone number is written
SURE: Final = 6
"""Minimum characters of a value that are masked wherever they occur. Fewer could be any word."""

_FEW: Final = 50
_DOCUMENT: Final = 4_096  # maximum characters of a document whose findings are cached


class Masking:
    """The findings in the texts of one case. `types` are masked; `found` counts the distinct values of each.

    The findings in `texts` that are also in `documents` are cached for the next case.
    """

    def __init__(self, types: Collection[DataType], texts: Iterable[str], documents: Collection[str] = ()) -> None:
        self._types = types
        self._documents = frozenset(one for one in documents if len(one) <= _DOCUMENT)
        self._names: dict[tuple[DataType, str], str] = {}
        self._values: dict[str, str] = {}
        self._last: Counter[DataType] = Counter()
        together = list(dict.fromkeys(text for text in texts if text))
        for text in together:
            for found in _OURS.finditer(text):  # masked earlier, by another program: do not reuse its numbers
                kind = next(one for one in DataType if _NAMES.get(one, one.name) == found[1])
                self._last[kind] = max(self._last[kind], int(found[2]))
        self._seen = {text: list(self._found(text)) for text in together}
        self._done: dict[str, Masked] = {}
        for _ in range(_ROUNDS):  # masking a value may reveal its neighbour, which may also occur elsewhere
            known = len(self._values)
            self._literal = Literals(self._values)
            self._done = {text: self._mask(text) for text in together} if self._names else {}
            if len(self._values) == known:
                break
        self._parts = stretches(self._values)

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return bool(self._names)

    @property
    def found(self) -> Counter[DataType]:
        """The number of distinct values by type."""
        return Counter(kind for kind, _ in self._names)

    def mask(self, text: str) -> Masked:
        """Mask a text of the case, or any other text."""
        if not self._values and not text:
            return Masked(text)
        return self._done.get(text) or self._mask(text)

    def loosely(self, text: str) -> str:
        """Mask a text about the case, including parts of values, in upper or lower case."""
        masked = self.mask(text).text
        lowered = masked.lower()
        if not self._values or len(lowered) != len(masked):
            return masked
        taken = _taken(masked)
        edits: list[Edit] = []
        for at in range(len(masked) - SURE + 1):
            name = self._parts.get(lowered[at : at + SURE])
            if name is not None and not any(taken[at : at + SURE]):
                edits.append(Edit(at, at + SURE, name))
        return put(masked, apart(edits))

    def fragment(self, text: str) -> str:
        """Mask a few words on their own: a word that is part of a value becomes its placeholder."""
        masked = self.loosely(text)
        if not self._values:
            return masked
        bare = {_bare(value): name for value, name in self._values.items()}

        def name_of(word: re.Match[str]) -> str:
            plain = _bare(word[0])
            if len(plain) < _FRAGMENT or _OURS.fullmatch(f"<{word[0]}>"):
                return word[0]
            return next((name for value, name in bare.items() if plain in value), word[0])

        return _WORD.sub(name_of, masked)

    def _mask(self, text: str) -> Masked:
        found = self._seen[text] if text in self._seen else list(self._found(text))
        passes: list[tuple[Edit, ...]] = []
        edits = apart([*found, *self._known(text)])
        while edits and len(passes) < _PASSES:
            passes.append(tuple(edits))
            text = put(text, edits)
            # Of two overlapping values only one is found; the other is found once the first is masked.
            edits = apart([one for part in around(text, edits) for one in self._found(text, part)])
        return Masked(text, tuple(passes))

    def _found(self, whole: str, part: slice = _ALL) -> Iterator[Edit]:
        """Find values by their form in a part of a text, and remember each."""
        text, at = whole[part], part.start or 0
        key_ends = 0
        for piece in (_pieces_of_document if text in self._documents else _pieces)(text):
            if piece.start < key_ends:
                continue  # a private key is one value, regardless of its content
            kind = DataType.SECRET if piece.level == "secret" else _OF_KIND.get(piece.kind, DataType.NATIONAL_ID)
            end = piece.end
            if piece.kind == "private key" and kind in self._types:
                end = key_ends = _end_of_key(text, end)
            value = text[piece.start : end]
            if kind not in self._types or (kind is DataType.PASSPORT and not any(map(str.isdigit, value))):
                continue
            yield Edit(at + piece.start, at + end, self._name(kind, value))

    def _known(self, text: str) -> Iterator[Edit]:
        """Find values known from elsewhere in the case that would not be recognised in this text alone."""
        taken = _taken(text)
        for start, end in self._literal.within(text):
            if not any(taken[start:end]):
                yield Edit(start, end, self._values[text[start:end]])

    def _name(self, kind: DataType, value: str) -> str:
        key = kind, _key(kind, value)
        if key not in self._names:
            self._last[kind] += 1
            self._names[key] = f"<{_NAMES.get(kind, kind.name)}_{self._last[kind]}>"
        if len(value) <= _LONGEST:
            self._values.setdefault(value, self._names[key])
        return self._names[key]


class Literals:
    """Searches a text for many values, in time linear in the text: a few one by one, many at once."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = [value for value in values if len(value) >= SURE]
        self._lengths: dict[str, list[int]] = {}
        self._known = frozenset(self._values)
        for value in self._values:
            lengths = self._lengths.setdefault(value[:SURE], [])
            if len(value) not in lengths:
                lengths.append(len(value))

    def within(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield every occurrence, including overlapping ones."""
        if len(self._values) > _FEW:
            for at in range(len(text) - SURE + 1):
                for length in self._lengths.get(text[at : at + SURE], ()):
                    if text[at : at + length] in self._known:
                        yield at, at + length
            return
        for value in self._values:
            at = text.find(value)
            while at >= 0:
                yield at, at + len(value)
                at = text.find(value, at + len(value))


def stretches(values: Mapping[str, str]) -> dict[str, str]:
    """Return every stretch of `SURE` characters of the values, in lower case, with the placeholder of its value."""
    found: dict[str, str] = {}
    for value, name in values.items():
        lowered = value.lower()
        for at in range(len(lowered) - SURE + 1):
            found.setdefault(lowered[at : at + SURE], name)
    return found


def _key(kind: DataType, value: str) -> str:
    """Return the part of a value that is the same however it is written."""
    if kind in (DataType.SECRET, DataType.WALLET, DataType.IP_ADDRESS):
        return value
    plain = _bare(value)
    return plain[-_LAST_DIGITS:] if kind is DataType.PHONE else plain


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _pieces(text: str) -> list[Piece]:
    """Find the pieces that may be masked, in order, outside of existing placeholders."""
    ours = [Piece("", "personal", *match.span()) for match in _OURS.finditer(text)] if "<" in text else []
    return sorted(chain(pieces(text, ours), _passports(text, ours)), key=lambda one: one.start)


_pieces_of_document: Final = lru_cache(maxsize=512)(_pieces)


def _passports(text: str, ours: Iterable[Piece]) -> Iterator[Piece]:
    """Find numbers after "passport no." and the like: in `detectors` the full stop ends the search."""
    for match in _PASSPORT_NO.finditer(text) if _PASSPORT_NEAR_NO.search(folded(text)) else ():
        if not any(match.start(1) < one.end and match.end(1) > one.start for one in ours):
            yield Piece("passport number", "personal", *match.span(1))


def _taken(text: str) -> bytearray:
    """Mark the characters that belong to placeholders."""
    taken = bytearray(len(text))
    for match in _OURS.finditer(text) if "<" in text else ():
        taken[match.start() : match.end()] = b"x" * (match.end() - match.start())
    return taken


def _end_of_key(text: str, at: int) -> int:
    """Return the end of a private key whose first line was found: its last line, or the end of the text."""
    last = _KEY_END.search(text, at)
    return last.end() if last else len(text)
