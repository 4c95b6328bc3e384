"""One case as a reviewer sees it: question, sources and answer, and only afterwards what the judge said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, get_args

from monitor.model.case import Document, DocumentKind, Message
from monitor.model.label import Label, LabelDraw
from monitor.model.outcome import Evidence, Scale

LONGEST_TEXT: Final = 200_000
"""Characters shown of one text; of all sources together, five times as many."""
_SOURCES, _TURNS, _EVIDENCE = 200, 200, 500
_FAULTS: Final = (TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSays:
    """What the judge said about a case. `level` and `label` are empty if it gave none."""

    defect: bool
    score: float | None
    level: str
    label: str
    explanation: str
    evidence: Sequence[Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCase:
    """A result that a person reviews. All texts are untrusted, and masked as in the history.

    Attributes:
        result_id: names the case in all calls of the queue.
        request_id: id of the request.
        app: the service that answered.
        evaluator: the evaluator that judged; `version` is its version.
        version: see `evaluator`.
        answered_at: wall-clock second of the answer; 0.0 if it is not known.
        question: the user's question; empty if texts are not kept.
        turns: the conversation before the question, oldest first.
        sources: what the service was given to answer from.
        answer: the service's answer.
        stretches: passages of the answer that the judge looked at, by character, in order and without overlaps, without
            its opinion of them.
        levels: names of the levels of the evaluator's scale, ascending by score; empty if a label can only be good or
            defect.
        texts_kept: whether the texts are kept.
        cut: whether texts are shortened.
        draw: how the case was chosen: `uniform` and `stratified` measure the judge.
        own: this reviewer's label; None: not yet.
        others: other reviewers' labels; empty until `own` is set.
        judged: what the judge said; None in a blind review until `own` is set.
    """

    result_id: str
    request_id: str
    app: str
    evaluator: str
    version: str
    answered_at: float
    question: str
    turns: Sequence[Message]
    sources: Sequence[Document]
    answer: str
    stretches: Sequence[tuple[int, int]]
    levels: Sequence[str]
    texts_kept: bool
    cut: bool
    draw: LabelDraw
    own: Label | None
    others: Sequence[Label]
    judged: JudgeSays | None


def review_case(
    row: Mapping[str, Any],
    own: Label | None,
    labels: Sequence[Label],
    draw: LabelDraw,
    scale: Scale | None,
    *,
    blind: bool = True,
) -> ReviewCase:
    """Make the case of a row of the history. Fields missing from a damaged row are empty."""
    request = row.get("request")
    request = request if isinstance(request, Mapping) else {}
    texts = _CutTexts()
    answer = texts.text(row.get("response"))
    evidence = list(_evidence(row, len(answer)))
    return ReviewCase(
        result_id=_name(row.get("id")),
        request_id=_name(row.get("request_id")),
        app=_name(row.get("app")),
        evaluator=_name(row.get("evaluator")),
        version=_name(row.get("version")),
        answered_at=_number(row.get("answered_at")) or 0.0,
        question=texts.text(request.get("query")),
        turns=[
            Message(_name(one.get("role")), texts.text(one.get("content"))) for one in _maps(request.get("history"))
        ][-_TURNS:],
        sources=[
            Document(
                texts.source(one.get("content")),
                _name(one.get("doc_uri")),
                _name(one.get("doc_id")),
                kind=_kind(one.get("kind")),
            )
            for one in _maps(row.get("retrieved_context"))[:_SOURCES]
        ],
        answer=answer,
        stretches=_stretches(evidence),
        levels=[one.name for one in scale.levels] if scale is not None else [],
        texts_kept="response" in row,
        cut=texts.cut,
        draw=draw,
        own=own,
        others=[one for one in labels if one.reviewer != own.reviewer] if own is not None else [],
        judged=_judged(row, evidence, texts) if own is not None or not blind else None,
    )


class _CutTexts:
    """Shortens texts, and records whether it did."""

    def __init__(self) -> None:
        self.cut = False
        self._left = 5 * LONGEST_TEXT

    def text(self, value: object, longest: int = LONGEST_TEXT) -> str:
        text = value if isinstance(value, str) else ""
        self.cut = self.cut or len(text) > longest
        return text[:longest]

    def source(self, value: object) -> str:
        text = self.text(value, min(LONGEST_TEXT, self._left))
        self._left -= len(text)
        return text


def _judged(row: Mapping[str, Any], evidence: Sequence[Evidence], texts: _CutTexts) -> JudgeSays:
    return JudgeSays(
        defect=bool(row.get("defect")),
        score=_number(row.get("score")),
        level=_name(row.get("level")),
        label=_name(row.get("label")),
        explanation=texts.text(row.get("explanation")),
        evidence=evidence,
    )


def _evidence(row: Mapping[str, Any], length: int) -> Iterator[Evidence]:
    for one in _maps(row.get("evidence"))[:_EVIDENCE]:
        with suppress(*_FAULTS):
            found = Evidence(**one)
            place = found.place
            if place is None or 0 <= place[0] < place[1] <= length:
                yield found


def _stretches(evidence: Sequence[Evidence]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(one.place for one in evidence if one.place is not None):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _kind(value: object) -> DocumentKind:
    return next((one for one in get_args(DocumentKind) if one == value), "document")


def _name(value: object) -> str:
    return value[:1_000] if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
