"""The features of a case that a diagnosis compares: short facts of its question, documents and answer, bounded in size.

They are kept once for each case, beside its results, and as long as these. They contain texts only if the history may:
otherwise a word, or a document's address, is a keyed hash, which is the same for the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from monitor.model.case import RESPONSE_ID, Case, Document
from monitor.model.service_version import ServiceVersion
from monitor.privacy.pseudonyms import UserKey
from monitor.storage.history.common_words import COMMON_WORDS
from monitor.storage.history.languages import language_of
from monitor.storage.history.rows import dump, load

MOST_BYTES: Final = 4096
"""The size of the features of one case. Beyond it words are left out, then documents, then slices."""

_WORDS, _WORD_LENGTH, _READ = 24, 32, 2000  # words kept, characters of one, characters of the question that are read
_DOCUMENTS, _ADDRESS_LENGTH = 12, 160
_SLICES, _VALUE_LENGTH = 24, 128
_SHORTEST: Final = 3
_SERVICE: Final = ("prompt", "index", "service")
_MARKS: Final = "\u0300-\u036f\u0591-\u05c2\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_TOKEN: Final = re.compile(rf"[\w{_MARKS}]+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
"""A word with its accents and vowel signs, which do not count as letters."""

_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words: two characters in a row stand for a word."""

_HANGUL: Final = "\uac00"  # the first syllable: Korean words are shorter

_HIRAGANA: Final = re.compile("[\u3040-\u309f]+")
"""The script of endings and particles in Japanese."""

_HASHED_CONTENT: Final = 4096  # characters of a document without an address by which it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFeatures:
    """The features of one case.

    `unit` is equal for the cases of one session, or otherwise of one question. `user` is a pseudonym. `versions` are
    those of the prompt, the index and the service. `number` counts the documents; `documents` has the addresses of the
    first ones. `score` is the retriever's highest, on its own scale, or None. The lengths are in characters. `used` has
    a digit for each of `documents`: 1 if the answer uses it, 0 if not; empty if that is not known.
    """

    unit: str
    user: str = ""
    model: str = ""
    context: str = ""
    slices: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    documents: tuple[str, ...] = ()
    used: str = ""
    number: int = 0
    score: float | None = None
    question_length: int = 0
    answer_length: int = 0
    words: tuple[str, ...] = ()
    language: str = ""


def features_of(
    case: Case,
    versions: ServiceVersion,
    key: UserKey | None,
    *,
    texts: bool = True,
    addresses: bool = True,
    used: str = "",
) -> CaseFeatures:
    """Read the features of a case.

    Args:
        case: as the history gets it: masked, and with the attributes that may leave the monitor.
        versions: the versions of its result.
        key: for hashes and pseudonyms; without it there are none.
        texts: whether words may be kept; otherwise their hashes are.
        addresses: whether the addresses of documents may be kept; otherwise their hashes are.
        used: as `Score.used_sources`: a digit for each source of the case.
    """
    hashed = key.word if key is not None else None
    documents = [one for one in case.retrieved_context if one.kind == "document"]
    digits = [digit for one, digit in zip(case.retrieved_context, used, strict=False) if one.kind == "document"]
    scores = [one.score for one in documents if one.score is not None]
    named: dict[str, str] = {}
    for place, one in enumerate(documents[: 4 * _DOCUMENTS]):
        address = _short(one.doc_uri or one.doc_id or _by_content(one, hashed))
        if address and (address in named or len(named) < _DOCUMENTS):
            named[address] = max(named.get(address, ""), *digits[place : place + 1], "")
    asked = case.request.query.casefold().strip()
    story = f"session {case.session_id}" if case.session_id else f"question {asked}" if asked else ""
    slices = {name: value for name, value in case.attributes.items() if name != RESPONSE_ID and value}
    parts = versions.parts
    return CaseFeatures(
        unit=hashed(story) if hashed is not None and story else case.request_id,
        user=key.of(case.user_id) if key is not None else "",
        model=case.model[:_VALUE_LENGTH],
        context=str(case.context_status),
        slices={name: slices[name][:_VALUE_LENGTH] for name in sorted(slices)[:_SLICES]},
        versions={name: parts[name][:_VALUE_LENGTH] for name in _SERVICE if parts.get(name)},
        documents=_kept(named, hashed, plain=addresses),
        used="".join(named.values()),
        number=len(documents),
        score=max(scores, default=None),
        question_length=len(case.request.query),
        answer_length=len(case.response),
        words=_kept(words_of(case.request.query), hashed, plain=texts),
        language=language_of(case.request.query),
    )


def _kept(found: Iterable[str], hashed: Callable[[str], str] | None, *, plain: bool) -> tuple[str, ...]:
    if plain:
        return tuple(found)
    return tuple(hashed(one) for one in found) if hashed is not None else ()


def _short(address: str) -> str:
    """Return an address; of a long one, only its beginning and its end."""
    half = _ADDRESS_LENGTH // 2
    return address if len(address) <= _ADDRESS_LENGTH else f"{address[: half - 1]}\u2026{address[-half:]}"


def _by_content(one: Document, hashed: Callable[[str], str] | None) -> str:
    """Name a document without an address by a hash of its text."""
    return f"text {hashed(one.content[:_HASHED_CONTENT])}" if hashed is not None and one.content else ""


def words_of(question: str) -> list[str]:
    """Return the first two dozen words of a question, each once, without short and common ones."""
    found: dict[str, None] = {}
    for token in _TOKEN.findall(question[:_READ].casefold()):
        if _UNSPACED.search(token):
            pairs = (token[at : at + 2] for at in range(len(token) - 1))
            found |= {pair: None for pair in pairs if pair[0].isalnum() and not _is_common_pair(pair)}
        elif _SHORTEST - (token[0] >= _HANGUL) <= len(token) <= _WORD_LENGTH and token not in COMMON_WORDS:
            found[token] = None
        if len(found) >= _WORDS:
            break
    return list(found)[:_WORDS]


def _is_common_pair(pair: str) -> bool:
    return pair in COMMON_WORDS or _HIRAGANA.fullmatch(pair) is not None


_FIELDS: Final = tuple(one.name for one in fields(CaseFeatures))
_EMPTY: Final[tuple[object, ...]] = ("", (), {})


def dump_features(features: CaseFeatures) -> bytes:
    """Write features as JSON of at most `MOST_BYTES`, without empty fields."""
    row = {name: value for name in _FIELDS if (value := getattr(features, name)) is not None and value not in _EMPTY}
    body = dump(row)
    for part in ("words", "documents", "slices", "versions", "model"):
        if len(body) <= MOST_BYTES:
            break
        row.pop(part, None)
        body = dump(row)
    return body


def load_features(body: bytes) -> CaseFeatures:
    """Read what `dump_features` wrote. Raises `ValueError`."""
    row: dict[str, Any] = load(body)
    try:
        for name in ("documents", "words"):
            row[name] = tuple(row.get(name, ()))
        return CaseFeatures(**row)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not features: {error}") from None
