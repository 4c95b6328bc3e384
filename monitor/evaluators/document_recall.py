"""How many of the documents that should have been found were found: no model, well below a millisecond."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import ClassVar, Final, Literal, NamedTuple

from monitor.model.case import Case, Document
from monitor.model.outcome import DefectRule, Evidence, Level, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

_LISTED, _SHOWN = 50, 120
_TELLING: Final = 20  # characters of text from which on being contained in another text is no accident


class DocumentRecall(Evaluator):
    """The share of the expected documents that are among the retrieved ones, 0 to 1, higher is better.

    A document is found if a retrieved one has the same `doc_uri`; the same `doc_id`, unless both name a `doc_uri` and
    these differ; or its text: the same, or one that contains it (texts of 20 characters and more), case and white space
    apart. So it compares documents where addresses are known, although another chunk of the document may have come. An
    expected document that is named twice counts once. Order and further documents do not matter: a search that brings
    everything scores 1. Where nothing was retrieved it is 0.
    """

    name: ClassVar[str] = "document_recall"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale(
        lowest=0.0,
        highest=1.0,
        better="higher",
        levels=(Level("missed", 0.0), Level("partial", 0.5), Level("complete", 1.0)),
    )
    needs: ClassVar[frozenset[Needs]] = frozenset({"reference"})
    cost: ClassVar[Literal["local", "judge"]] = "local"
    measures: ClassVar[Measures | None] = "retrieval"
    default_defect: ClassVar[DefectRule] = DefectRule("below", 0.5)
    """Less than half of what was expected. A place to start from."""
    definition: ClassVar[str] = (
        "recall over the expected documents (Cleverdon 1967, Cranfield); how two are matched: own"
    )

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped where it names no expected documents."""
        expected = _distinct(case.expected_retrieved_context or ())
        if not expected:
            return Skipped(SkippedReason.NO_REFERENCE)
        retrieved = [_known(document) for document in case.retrieved_context]
        evidence = []
        for one in expected:
            note = next((how for how in (_same(one, other) for other in retrieved) if how), "")
            evidence.append(Evidence(one.shown, "supported" if note else "absent", note=note))
        count = sum(one.verdict == "supported" for one in evidence)
        value = count / len(expected)
        nouns = "document" if len(expected) == 1 else "documents"
        explanation = f"{count} of {len(expected)} expected {nouns} found among {len(retrieved)} retrieved."
        return Score(value, explanation, self.scale.level(value), tuple(evidence[:_LISTED]))


class _Known(NamedTuple):
    """What a document is known by, in the form that is compared."""

    uri: str
    id: str
    text: str
    shown: str


def _known(document: Document) -> _Known:
    text = " ".join(unicodedata.normalize("NFKC", document.content).casefold().split())
    uri, given = document.doc_uri.strip(), document.doc_id.strip()
    shown = " ".join((uri or given or document.content[: 2 * _SHOWN]).split())
    return _Known(uri, given, text, "".join(c if c.isprintable() else " " for c in shown)[:_SHOWN])


def _distinct(documents: Sequence[Document]) -> list[_Known]:
    """Those that can be looked for at all, each once."""
    known = (_known(document) for document in documents)
    by_key = {one.uri or (one.id, one.text): one for one in known if one.uri or one.id or one.text}
    return list(by_key.values())


def _same(expected: _Known, retrieved: _Known) -> str:
    """By what the retrieved document is the expected one; empty where it is not."""
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
