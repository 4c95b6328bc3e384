"""Single JSON values turned into what a protobuf field takes, by the rules of protobuf's JSON mapping."""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

Converter: TypeAlias = Callable[[Any], Any]

_INTEGER = re.compile(r"-?[0-9]{1,20}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
_INT32, _UINT32 = (-(2**31), 2**31 - 1), (0, 2**32 - 1)
_INT64, _UINT64 = (-(2**63), 2**63 - 1), (0, 2**64 - 1)
_RANGES = {
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
}


class Misfit(Exception):  # noqa: N818 - never leaves the JSON mapping
    """A value that does not fit its field; the way to it is added, innermost first, while the exception rises."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []


def converter(field: FieldDescriptor) -> Converter:
    """The function from a JSON value to a value of `field`, a scalar. It raises `Misfit`."""
    if field.enum_type is not None:
        names = {value.name: value.number for value in field.enum_type.values}
        return functools.partial(_to_enum, names)
    if field.type in _RANGES:
        lowest, highest = _RANGES[field.type]
        return functools.partial(_to_integer, lowest, highest)
    return {
        FieldDescriptor.TYPE_STRING: _to_string,
        FieldDescriptor.TYPE_BOOL: _to_bool,
        FieldDescriptor.TYPE_BYTES: _to_bytes,
        FieldDescriptor.TYPE_DOUBLE: _to_double,
        FieldDescriptor.TYPE_FLOAT: _to_double,
    }[field.type]


def _to_string(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(f"a text is needed, got {shown(value)}")
    return value


def _to_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Misfit(f"true or false is needed, got {shown(value)}")
    return value


def _to_integer(lowest: int, highest: int, value: Any) -> int:
    number = value
    if (type(value) is str and _INTEGER.fullmatch(value)) or (type(value) is float and value.is_integer()):
        number = int(value)
    if type(number) is not int or not lowest <= number <= highest:
        raise Misfit(f"an integer from {lowest} to {highest} is needed, got {shown(value)}")
    return number


def _to_enum(names: dict[str, int], value: Any) -> int:
    return names[value] if type(value) is str and value in names else _to_integer(*_INT32, value)


def _to_double(value: Any) -> float:
    if type(value) in (float, int):
        return float(value)
    if type(value) is str and (value in _NOT_FINITE or _NUMBER.fullmatch(value)):
        return float(value)
    raise Misfit(f'a number (or "NaN", "Infinity", "-Infinity") is needed, got {shown(value)}')


def _to_bytes(value: Any) -> bytes:
    if type(value) is str:
        standard = value.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise Misfit(f"bytes in base64 are needed, got {shown(value)}")


def shown(value: Any) -> str:
    """What was given, without its text: texts may be prompts."""
    if isinstance(value, (dict, list, str)):
        return {dict: "an object", list: "a list", str: "a text"}[type(value)]
    return "null" if value is None else json.dumps(value)
