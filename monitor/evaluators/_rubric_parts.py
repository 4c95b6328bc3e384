"""The building blocks of a rubric: the parts of a case that a judge sees, and the evidence that it writes down.

A score that can be counted from the evidence is counted here instead of asked for: models find single facts well and
add them up badly.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic import JsonValue

from monitor.evaluators._explain import one_line
from monitor.evaluators._quotes import QuotedText
from monitor.model.case import Case, Document
from monitor.model.outcome import Evidence

Part: TypeAlias = Literal["context", "history", "query", "reference", "response"]
Evidenced: TypeAlias = Literal["claims", "observations", "intents", "documents"]
Scored: TypeAlias = Literal["judged", "supported_share", "answered_intents", "relevant_share"]

_dumps: Final = json.JSONEncoder(ensure_ascii=False).encode
_ENTRY, _NOTE = 2_000, 500  # characters kept of a judge's texts
_DOCUMENT_TOKENS = 64  # tokens of the answer per entry of the kind `documents`


_WRITTEN: Final[Mapping[str, Callable[[Case], str]]] = {
    "context": lambda case: listed(
        {**heading(number, document), "text": document.content}
        for number, document in enumerate(case.retrieved_context, 1)
    ),
    "history": lambda case: listed({"role": turn.role, "content": turn.content} for turn in case.request.history),
    "query": lambda case: case.request.query,
    "reference": lambda case: case.expected_response or "",
    "response": lambda case: case.response,
}
MATERIALS: Final = tuple(_WRITTEN)
"""The parts of a case, in the order in which they are shown. Parts that several questions about one case share come
first, because providers charge less for a prefix that they have just seen."""


def material(case: Case, names: Iterable[str]) -> dict[str, str]:
    """Return these parts of the case, in the given order."""
    return {name: _WRITTEN[name](case) for name in names}


def heading(number: int, document: Document) -> dict[str, Any]:
    """Return what a judge sees of a document besides its text: its number, and its kind unless it was retrieved."""
    return {"document": number} | ({} if document.kind == "document" else {"kind": document.kind.replace("_", " ")})


def listed(items: Iterable[Mapping[str, Any]]) -> str:
    """Write items as JSON, so that a document cannot forge the border to the next one.

    The text is the same as from `json.dumps(..., indent=1)`, for which Python does not use its encoder in C.
    """
    found = list(items)
    if any(isinstance(value, (list, dict)) for item in found for value in item.values()):
        return json.dumps(found, ensure_ascii=False, indent=1)
    written = (",\n".join(f"  {_dumps(name)}: {_dumps(value)}" for name, value in item.items()) for item in found)
    whole = ",\n".join(f" {{\n{one}\n }}" for one in written)
    return f"[\n{whole}\n]" if whole else "[]"


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """The evidence of one answer. Of the `total` entries that count, `good` are in favour; `said` puts it in words.

    `not_found` counts claims quoted from the response that it does not contain. They are not in `total`.
    """

    evidence: tuple[Evidence, ...] = ()
    good: int = 0
    total: int = 0
    said: str = ""
    not_found: int = 0


class Kind(ABC):
    """One kind of evidence."""

    @abstractmethod
    def schema(self, case: Case) -> JsonValue:
        """Return the JSON Schema of the evidence in the answer."""

    def tokens(self, case: Case) -> int:  # noqa: ARG002 - most kinds need none
        """Return how many tokens longer than usual the answer may be."""
        return 0

    @abstractmethod
    def read(self, data: Mapping[str, Any], case: Case) -> EvidenceSummary:
        """Read the evidence from an answer that satisfies the schema."""


class _Claims(Kind):
    """Claims: stretches of the response, each with what the context says about it."""

    def schema(self, case: Case) -> JsonValue:  # noqa: ARG002 - the contract's signature
        return _array({"quote": _TEXT, "verdict": one_of(("supported", "contradicted", "absent")), "note": _TEXT})

    def tokens(self, case: Case) -> int:
        return len(case.response) // 2  # claims quote the response

    def read(self, data: Mapping[str, Any], case: Case) -> EvidenceSummary:
        found: list[Evidence] = []
        response = QuotedText(case.response)
        after = 0  # search in order, so that a repeated stretch is found twice
        for claim in data["claims"]:
            place = response.place(claim["quote"], after)
            if place is not None:
                start, end = place
                after = max(after, end)
                note = one_line(claim["note"], _NOTE)
                found.append(Evidence(case.response[start:end], claim["verdict"], start, end, note))
        good = sum(one.verdict == "supported" for one in found)
        said = f"{good} of {are(len(found), 'claim')} supported."
        return EvidenceSummary(tuple(found), good, len(found), said, len(data["claims"]) - len(found))


class _Observations(Kind):
    """Free notes. They make the judge look closely before it scores; they are not kept."""

    def schema(self, case: Case) -> JsonValue:  # noqa: ARG002 - the contract's signature
        return {"type": "array", "items": _TEXT}

    def read(self, data: Mapping[str, Any], case: Case) -> EvidenceSummary:  # noqa: ARG002 - the contract's signature
        return EvidenceSummary()


class _Intents(Kind):
    """The points of the question, each with the numbers of the documents that answer it."""

    def schema(self, case: Case) -> JsonValue:
        numbers = one_of(str(number) for number in range(1, len(case.retrieved_context) + 1))
        return _array({"intent": _TEXT, "documents": {"type": "array", "items": numbers}, "note": _TEXT})

    def read(self, data: Mapping[str, Any], case: Case) -> EvidenceSummary:  # noqa: ARG002 - the contract's signature
        found = []
        for intent in data["intents"]:
            numbers = sorted({int(number) for number in intent["documents"]})
            where = f"documents {', '.join(map(str, numbers))}" if numbers else "no document"
            note = one_line(f"{where}: {intent['note']}", _NOTE)
            found.append(Evidence(one_line(intent["intent"], _ENTRY), "supported" if numbers else "absent", note=note))
        good = sum(one.verdict == "supported" for one in found)
        return EvidenceSummary(tuple(found), good, len(found), f"{good} of {are(len(found), 'intent')} answered.")


class _Documents(Kind):
    """Every document by number, relevant or not. The schema is an object, so that none is left out or given twice."""

    def schema(self, case: Case) -> JsonValue:
        one = _object({"note": _TEXT, "relevant": {"type": "boolean"}})
        numbers = range(1, len(case.retrieved_context) + 1)
        return {**_object({str(number): one for number in numbers}), "additionalProperties": False}

    def tokens(self, case: Case) -> int:
        return _DOCUMENT_TOKENS * len(case.retrieved_context)

    def read(self, data: Mapping[str, Any], case: Case) -> EvidenceSummary:
        found = []
        for number, document in enumerate(case.retrieved_context, 1):
            entry = data["documents"][str(number)]
            name = one_line(document.doc_uri or document.doc_id, _NOTE)
            claim = f"document {number}" + (f" ({name})" if name else "")
            verdict: Literal["supported", "absent"] = "supported" if entry["relevant"] else "absent"
            found.append(Evidence(claim, verdict, note=one_line(entry["note"], _NOTE)))
        good = sum(one.verdict == "supported" for one in found)
        return EvidenceSummary(tuple(found), good, len(found), f"{good} of {are(len(found), 'document')} relevant.")


KINDS: Final[Mapping[Evidenced, Kind]] = {
    "claims": _Claims(),
    "observations": _Observations(),
    "intents": _Intents(),
    "documents": _Documents(),
}


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed score: the kind of evidence it is based on, and a function of the share of entries that are good.

    The result, 0 to 1, is mapped to the scale from its lowest to its highest value. It rises with the share, so higher
    is always better on such a scale.
    """

    evidence: Evidenced
    of_share: Callable[[float], float]


COMPUTED: Final[Mapping[Scored, Computed]] = {
    "supported_share": Computed("claims", lambda share: share),
    "relevant_share": Computed("documents", lambda share: share),
    # Squared: a search that misses one of two intents has done less than half its work.
    "answered_intents": Computed("intents", lambda share: share * share),
}


def are(number: int, noun: str) -> str:
    """Return a phrase such as `1 claim is` or `2 claims are`."""
    return f"1 {noun} is" if number == 1 else f"{number} {noun}s are"


_TEXT: Final[dict[str, JsonValue]] = {"type": "string"}


def one_of(words: Iterable[str]) -> JsonValue:
    """Return the schema of one word out of several. Numbers must be strings: some providers allow no other enum."""
    return {"type": "string", "enum": list(words)}


def _object(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _array(properties: dict[str, JsonValue]) -> JsonValue:
    return {"type": "array", "items": _object(properties)}
