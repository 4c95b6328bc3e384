"""Reads the worst answers of a monitor from its JSON API, in the leading order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

PATH: Final = "/api/v1/worst?since=24h&limit=3"
"""Answers of the last day that no judge has seen."""

AT_MOST: Final = 3
"""Maximum number of answers of one app."""

_LARGEST: Final = 2**53
_UNSUPPORTED: Final = ("absent", "contradicted")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedAnswer:
    """One of the worst answers. Texts are excerpts, empty if they are not stored.

    `score` is that of the leading order; `unsupported` are offsets into `response`, end exclusive.
    """

    request_id: str
    question: str
    response: str
    score: float
    explanation: str
    unsupported: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedOrder:
    """The worst answers of one app, and how well both orders predicted the verdicts on it.

    `order` is the leading evaluator, `before` the one that learning began with, `learned` the one that learns. The
    AUROCs are None until there are enough verdicts to compare them.
    """

    app: str
    order: str
    before: str
    learned: str
    verdicts: int
    defects: int
    auroc_before: float | None
    auroc_learned: float | None
    answers: tuple[WatchedAnswer, ...]


def read_orders(view: Mapping[str, Any] | None) -> tuple[WatchedOrder, ...]:
    """Read the response of `PATH`; leave out anything that another version of the monitor writes differently."""
    given = view or {}
    names = {"before": _text(given.get("before")), "learned": _text(given.get("learned"))}
    return tuple(
        WatchedOrder(
            app=_text(one.get("app")),
            order=_text(one.get("order")),
            **names,
            verdicts=int(_number(one.get("verdicts")) or 0),
            defects=int(_number(one.get("defects")) or 0),
            auroc_before=_number(one.get("auroc_before")),
            auroc_learned=_number(one.get("auroc_learned")),
            answers=tuple(_answers(one))[:AT_MOST],
        )
        for one in _objects(given.get("apps"))
        if isinstance(one.get("answers"), list)
    )


def _answers(order: Mapping[str, Any]) -> Iterator[WatchedAnswer]:
    for one in _objects(order.get("answers")):
        result = next(iter(_objects(one.get("results"))), {})
        score, response = _number(result.get("score")), _text(one.get("response"))
        if score is not None:
            yield WatchedAnswer(
                request_id=_text(one.get("request_id")),
                question=_text(one.get("question")),
                response=response,
                score=score,
                explanation=_text(result.get("explanation")),
                unsupported=tuple(_unsupported(result, len(response))),
            )


def _unsupported(result: Mapping[str, Any], length: int) -> Iterator[tuple[int, int]]:
    for one in _objects(result.get("evidence")):
        start, end = one.get("start"), one.get("end")
        if not (isinstance(start, int) and isinstance(end, int)) or one.get("verdict") not in _UNSUPPORTED:
            continue
        if 0 <= start < end <= length:
            yield start, end


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        return None
    return float(value)
