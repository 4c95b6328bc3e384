"""A request record as bytes, and back. Fields with their default are left out: most records take about a kilobyte."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, TypeVar

import orjson

from monitor.model.case import Joined
from monitor.model.outcome import Attempt
from monitor.model.request_log import EvaluatorDecision, RequestRecord

T = TypeVar("T")


def _defaults(kind: type) -> dict[str, Any]:
    return {one.name: one.default for one in dataclasses.fields(kind)}


_RECORD: Final = _defaults(RequestRecord)
_CHOICE: Final = _defaults(EvaluatorDecision)


def pack(record: RequestRecord) -> bytes:
    """Write a record as the body of its row."""
    kept = _non_defaults(record, _RECORD)
    if record.joined:
        kept["joined"] = [list(one) for one in record.joined]
    if record.choices:
        kept["choices"] = [_choice(one) for one in record.choices]
    try:
        return orjson.dumps(kept)
    except TypeError:  # half a surrogate pair, in the name of an app or a span, is no UTF-8
        return json.dumps(kept).encode("ascii")


def unpack(body: bytes) -> RequestRecord:
    """Read what `pack` wrote; ignores unknown fields. Raises `ValueError`, `KeyError` or `TypeError`."""
    try:
        kept = orjson.loads(body)
    except orjson.JSONDecodeError:
        kept = json.loads(body)
    choices = []
    for one in kept.get("choices", ()):
        tries = tuple(Attempt(*each) for each in one.get("tries", ()))
        choices.append(EvaluatorDecision(**{**_known(one, _CHOICE), "tries": tries}))
    joined = tuple(Joined(*one) for one in kept.get("joined", ()))
    return RequestRecord(**{**_known(kept, _RECORD), "joined": joined, "choices": tuple(choices)})


def _choice(choice: EvaluatorDecision) -> dict[str, Any]:
    kept = _non_defaults(choice, _CHOICE)
    if choice.tries:
        kept["tries"] = [(one.seconds, one.result, one.detail) for one in choice.tries]
    return kept


def _non_defaults(value: object, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: given for name, default in defaults.items() if (given := getattr(value, name)) != default}


def _known(kept: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name in defaults}
