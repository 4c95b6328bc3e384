"""An item of the queue as bytes: lossless JSON, compressed. A private format, not the row of `rag-monitor cases`."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from monitor.errors import InvalidData
from monitor.model.case import Case, ContextStatus, Document, Message, Request, Traffic, Usage
from monitor.model.outcome import result_id


class BackfillOrigin(StrEnum):
    """Where the case of a backfilled evaluation comes from: all values of the label `source`."""

    KAFKA = "kafka"
    SPOOL = "spool"
    FILE = "file"
    MISSED = "missed"  # it was due while the judge was unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One evaluation that is due: a case, its evaluator, and the probability with which it was sampled.

    `version` is the evaluator's version when the item was queued; `target` as in `stages.SamplingDecision`.
    """

    case: Case
    evaluator: str
    version: str
    origin: BackfillOrigin
    probability: float = 1.0
    target: float = 1.0

    @property
    def id(self) -> str:
        """The id of the result to come."""
        return result_id(self.case.request_id, self.evaluator, self.version)


def dump(item: Item) -> bytes:
    """Write an item as bytes."""
    case = {**asdict(item.case), "attributes": dict(item.case.attributes)}
    whole = {
        "case": case,
        "evaluator": item.evaluator,
        "version": item.version,
        "origin": item.origin,
        "probability": item.probability,
        "target": item.target,
    }
    # ASCII, because a span may contain half a surrogate pair, which is not valid UTF-8.
    return zlib.compress(json.dumps(whole).encode("ascii"), 1)


def load(data: bytes) -> Item:
    """Read what `dump` wrote. Raises `InvalidData` if these bytes are not an item."""
    try:
        whole = json.loads(zlib.decompress(data))
        return Item(
            case=_case(whole["case"]),
            evaluator=whole["evaluator"],
            version=whole["version"],
            origin=BackfillOrigin(whole["origin"]),
            probability=whole["probability"],
            target=whole["target"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise InvalidData(f"cannot read an item of the backfill queue: {type(error).__name__}") from None


def _case(given: dict[str, Any]) -> Case:
    expected = given["expected_retrieved_context"]
    request = given["request"]
    return Case(
        **{
            **given,
            "request": Request(request["query"], _messages(request["history"])),
            "retrieved_context": _documents(given["retrieved_context"]),
            "prompt": _messages(given["prompt"]),
            "usage": Usage(**given["usage"]),
            "expected_retrieved_context": None if expected is None else _documents(expected),
            "context_status": ContextStatus(given["context_status"]),
            "traffic": Traffic(given["traffic"]),
        }
    )


def _messages(given: list[dict[str, Any]]) -> tuple[Message, ...]:
    return tuple(Message(**one) for one in given)


def _documents(given: list[dict[str, Any]]) -> tuple[Document, ...]:
    return tuple(Document(**one) for one in given)
