"""Measures how many of the expected documents were retrieved. No model; well below a millisecond."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from monitor.model.case import Case, ContextStatus, Document
from monitor.model.outcome import DefectRule, Evidence, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

_LISTED, _SHOWN = 50, 120
_TELLING: Final = 20  # characters from which a text is not contained in another by accident


class DocumentRecall(Evaluator):
    """The share of the expected documents that are among the retrieved ones, 0 to 1, higher is better.

    A document is found if a retrieved one has the same `doc_uri`; or the same `doc_id`, unless both have a `doc_uri`
    and these differ; or the same text, or a text that contains it (if it has at least 20 characters), ignoring case and
    white space. So if `doc_uri` is known, a document is found even if another chunk of it was retrieved. A document
    that is expected twice counts once. Order and additional documents do not matter: a search that returns everything
    scores 1. If nothing was retrieved, the score is 0.
    """

    name: ClassVar[str] = "document_recall"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(missed=0.0, partial=0.5, complete=1.0)
    needs: ClassVar[frozenset[Needs]] = frozenset({"reference"})
    measures: ClassVar[Measures | None] = "retrieval"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)
    """Less than half of the expected documents. A starting point."""
    definition: ClassVar[str] = (
        "recall over the expected documents (Cleverdon 1967, Cranfield); the matching of documents is our own"
    )

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped if it names no expected documents, or if it is unknown which were retrieved."""
        expected = _distinct(case.expected_retrieved_context or ())
        if not expected:
            return Skipped(SkippedReason.NO_REFERENCE)
        retrieved = [_known(document) for document in case.retrieved_context]
        unknown = not retrieved or not all(one.uri or one.id or one.text for one in retrieved)
        if unknown and case.context_status is ContextStatus.NOT_RECORDED:
            return Skipped(SkippedReason.CONTEXT_NOT_RECORDED)
        evidence = []
        for one in expected:
            note = next((how for how in (_same(one, other) for other in retrieved) if how), "")
            evidence.append(Evidence(one.shown, "supported" if note else "absent", note=note))
        count = sum(one.verdict == "supported" for one in evidence)
        value = count / len(expected)
        nouns = "document" if len(expected) == 1 else "documents"
        explanation = f"{count} of {len(expected)} expected {nouns} found among {len(retrieved)} retrieved."
        return Score(value, explanation, self.scale.level(value), tuple(evidence[:_LISTED]))


class _DocumentKey(NamedTuple):
    """What identifies a document, normalised for comparison."""

    uri: str
    id: str
    text: str
    shown: str


def _known(document: Document) -> _DocumentKey:
    text = " ".join(unicodedata.normalize("NFKC", document.content).casefold().split())
    uri, given = document.doc_uri.strip(), document.doc_id.strip()
    shown = " ".join((uri or given or document.content[: 2 * _SHOWN]).split())
    return _DocumentKey(uri, given, text, "".join(c if c.isprintable() else " " for c in shown)[:_SHOWN])


def _distinct(documents: Sequence[Document]) -> list[_DocumentKey]:
    """Return the documents that can be searched for, each once."""
    known = (_known(document) for document in documents)
    by_key = {one.uri or (one.id, one.text): one for one in known if one.uri or one.id or one.text}
    return list(by_key.values())


def _same(expected: _DocumentKey, retrieved: _DocumentKey) -> str:
    """Return what identifies the retrieved document as the expected one; empty if it is a different one."""
    if expected.uri and expected.uri == retrieved.uri:
        return "by doc_uri"
    other_place = expected.uri and retrieved.uri
    if expected.id and expected.id == retrieved.id and not other_place:
        return "by doc_id"
    if expected.text and expected.text == retrieved.text:
        return "by text"
    if len(expected.text) >= _TELLING and expected.text in retrieved.text:
        return "by text"
    return ""
