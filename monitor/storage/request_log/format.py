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


_TRAIL: Final = _defaults(RequestRecord)
_CHOICE: Final = _defaults(EvaluatorDecision)


def pack(trail: RequestRecord) -> bytes:
    """Write a record as the body of its row."""
    told = _told(trail, _TRAIL)
    if trail.joined:
        told["joined"] = [list(one) for one in trail.joined]
    if trail.choices:
        told["choices"] = [_choice(one) for one in trail.choices]
    try:
        return orjson.dumps(told)
    except TypeError:  # half a surrogate pair, in the name of an app or a span, is no UTF-8
        return json.dumps(told).encode("ascii")


def unpack(body: bytes) -> RequestRecord:
    """Read what `pack` wrote; ignores unknown fields. Raises `ValueError`, `KeyError` or `TypeError`."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = json.loads(body)
    choices = []
    for one in told.get("choices", ()):
        tries = tuple(Attempt(*each) for each in one.get("tries", ()))
        choices.append(EvaluatorDecision(**{**_known(one, _CHOICE), "tries": tries}))
    joined = tuple(Joined(*one) for one in told.get("joined", ()))
    return RequestRecord(**{**_known(told, _TRAIL), "joined": joined, "choices": tuple(choices)})


def _choice(choice: EvaluatorDecision) -> dict[str, Any]:
    told = _told(choice, _CHOICE)
    if choice.tries:
        told["tries"] = [(one.seconds, one.result, one.detail) for one in choice.tries]
    return told


def _told(value: object, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: given for name, default in defaults.items() if (given := getattr(value, name)) != default}


def _known(told: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name in defaults}
