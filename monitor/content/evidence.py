"""Documents from several spans made into one list, and which of them really stand in a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from monitor.model.case import Document

_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_HEAD: Final = 80
"""Characters of a document's beginning that suffice to find it in a prompt that holds only a part of it."""

_SHARE: Final = 0.5
_STEP: Final = 40


def merge(lists: Iterable[Sequence[Document]]) -> tuple[Document, ...]:
    """One list in order, each document once: by its text, or by its id where no text came."""
    by_text: dict[str, Document] = {}
    ids: set[str] = set()
    for document in (one for documents in lists for one in documents):
        key = folded(document.content) if document.content else f"\0{document.doc_id}"
        if document.content:
            by_text.setdefault(key, document)
            ids.add(document.doc_id)
        else:
            by_text.setdefault(key, document)
    return tuple(d for d in by_text.values() if d.content or d.doc_id not in ids or not d.doc_id)


def fill(documents: Sequence[Document], known: Sequence[Document]) -> tuple[Document, ...]:
    """Give documents that came as bare ids what `known` ones with the same id say, where only one text has that id."""
    texts: dict[str, dict[str, Document]] = {}
    for one in known:
        if one.content and one.doc_id:
            texts.setdefault(one.doc_id, {}).setdefault(one.content, one)
    filled = []
    for document in documents:
        same = list(texts.get(document.doc_id, {}).values()) if not document.content else []
        if len(same) == 1:
            score = document.score if document.score is not None else same[0].score
            filled.append(Document(same[0].content, document.doc_uri or same[0].doc_uri, document.doc_id, score))
        else:
            filled.append(document)
    return tuple(filled)


def share(first: Sequence[Document], second: Sequence[Document]) -> bool:
    """Whether two lists have a document in common, by id or by text."""
    return bool(_keys(first) & _keys(second))


def within(part: Sequence[Document], whole: Sequence[Document]) -> bool:
    """Whether every document of `part` is one of `whole`, by id or by text."""
    keys = _keys(whole)
    return all(_keys((one,)) & keys for one in part)


def reached(documents: Sequence[Document], prompts: Sequence[str]) -> tuple[Document, ...]:
    """Those of `documents` whose text stands in one of `prompts`, in the order in which they stand there."""
    texts = [(folded(prompt), at) for at, prompt in enumerate(prompts)]
    found: list[tuple[int, int, Document]] = []
    for document in documents:
        wanted = folded(document.content)
        for text, at in texts:
            position = _position(wanted, text) if wanted else -1
            if position >= 0:
                found.append((at, position, document))
                break
    return tuple(document for _, _, document in sorted(found, key=lambda one: one[:2]))


def folded(text: str) -> str:
    """A text by its words alone, so that quoting, JSON escapes and white space make no difference."""
    if "\\" in text:
        text = _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else " ", text)
    return re.sub(r"\W+", " ", text.lower()).strip()


def _position(wanted: str, text: str) -> int:
    at = text.find(wanted)
    if at < 0 and len(wanted) > _HEAD:
        at = text.find(wanted[:_HEAD])
    if at < 0 and len(wanted) > 2 * _HEAD:
        windows = [text.find(wanted[start : start + _STEP]) for start in range(0, len(wanted) - _STEP + 1, _STEP)]
        hits = [position for position in windows if position >= 0]
        at = min(hits) if len(hits) >= _SHARE * len(windows) else -1
    return at


def _keys(documents: Sequence[Document]) -> set[str]:
    ids = {f"\0{one.doc_id}" for one in documents if one.doc_id}
    return ids | {folded(one.content) for one in documents if one.content}
