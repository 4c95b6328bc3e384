"""Packs the data that crosses the pipe between the monitor and a worker: pickles with a compact form of our classes.

By default, pickle turns a dataclass with slots into a dictionary, in Python code on both sides. Here such a value is
the number of its class followed by its fields in order, which takes half the time. Acks stay in the monitor.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from monitor.model import case as cases
from monitor.model import outcome
from monitor.model.external import ExternalScore
from monitor.model.row import Row
from monitor.model.span import Part
from monitor.pipeline.assembly import ClosedTrace
from monitor.pipeline.complete import WholeRow, WholeTrace
from monitor.pipeline.local_evaluation import LocalCase, LocalOutcome, ReadFault, RequestsRead

LENGTH: Final = struct.Struct("!I")
"""The head of each frame: the length of the rest, in bytes."""

_CLASSES: Final[tuple[type, ...]] = (
    *(WholeTrace, ClosedTrace, Part, WholeRow, Row),
    *(RequestsRead, ReadFault, LocalCase, LocalOutcome),
    *(cases.TraceReading, cases.Reading, cases.Joined, cases.Case, cases.Request, cases.Message, cases.Document),
    *(cases.Usage, ExternalScore, outcome.Score, outcome.Evidence, outcome.Skipped, outcome.Unscored),
)
_ACKS: Final = "acks"
_OURS: Final = ("monitor.model.", "monitor.pipeline.local_evaluation")

Packed = tuple[Callable[..., object], tuple[Any, ...]]


def frame(content: object) -> bytes:
    """Return an object as a frame. Raises `pickle.PicklingError`, `TypeError` or `AttributeError`."""
    target = io.BytesIO()
    target.write(bytes(LENGTH.size))
    _Packer(target, pickle.HIGHEST_PROTOCOL).dump(content)
    with target.getbuffer() as view:
        LENGTH.pack_into(view, 0, len(view) - LENGTH.size)
    return target.getvalue()


def read_request(content: bytes) -> Any:
    """Unpack a frame sent by the monitor. May raise any exception, as pickle does."""
    return pickle.loads(content)  # noqa: S301 - the pipe comes from the process that started this one


def read_answer(content: bytes) -> Any:
    """Unpack a frame sent by a worker. May raise any exception, as pickle does."""
    return _WorkerAnswers(io.BytesIO(content)).load()


def unpacked(number: int, *values: Any) -> object:
    """Rebuild a value from its packed form; `number` is its class. This function's name is in every frame: keep it."""
    return _MAKERS[number](values)


def _packing(number: int, cls: type) -> tuple[Callable[[Any], Packed], Callable[[tuple[Any, ...]], object]]:
    """Return functions that pack a value of this class and rebuild it from its fields, without checking them again."""
    if issubclass(cls, tuple):
        make: Callable[[tuple[Any, ...]], object] = cls._make  # type: ignore[attr-defined] # all are named tuples
        return lambda one: (unpacked, (number, *one)), make
    names = [one.name for one in fields(cls)]  # type: ignore[arg-type] # all others are dataclasses
    get, setters = attrgetter(*names), [getattr(cls, name).__set__ for name in names]

    def pack(one: Any) -> Packed:
        found = get(one)
        return unpacked, (number, *(found if several else (found,)))

    def pack_without_acks(one: Any) -> Packed:
        found = get(one)
        return unpacked, (number, *found[:acks], (), *found[acks + 1 :])

    def made(values: tuple[Any, ...]) -> object:
        one = object.__new__(cls)
        for put, value in zip(setters, values, strict=True):
            put(one, value)
        return one

    several = len(names) > 1
    if _ACKS not in names:
        return pack, made
    acks = names.index(_ACKS)
    return pack_without_acks, made


_PACKINGS: Final = [_packing(number, cls) for number, cls in enumerate(_CLASSES)]
_MAKERS: Final = [make for _, make in _PACKINGS]


class _Packer(pickle.Pickler):
    """Pickles values of our own classes in packed form, and everything else as pickle does."""

    dispatch_table: Mapping[type, Callable[[Any], Packed]] = {
        cls: pack for cls, (pack, _) in zip(_CLASSES, _PACKINGS, strict=True)
    }


@lru_cache(maxsize=256)
def _class_of_ours(module: str, name: str) -> Any:
    if (module, name) == (__name__, unpacked.__name__):
        return unpacked
    found = getattr(sys.modules.get(module), name, None) if module.startswith(_OURS) else None
    if not isinstance(found, type) or found.__module__ != module:
        raise pickle.UnpicklingError(f"{module}.{name} is not part of an answer")
    return found


class _WorkerAnswers(pickle.Unpickler):
    """Reads the answers of a worker: values of our own classes only, even if a text has taken over that process."""

    find_class = staticmethod(_class_of_ours)  # called once for each name in each answer
