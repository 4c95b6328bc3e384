"""Explains a faulty configuration as its author sees it: the place, the fault, what is allowed, what may be meant.

`explain` rewrites pydantic's findings in our own words, without class names and without values that may be secrets.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

SECRETS: Final = frozenset(
    {"api_key", "api_base", "token", "password", "secret", "secret_key", "url", "urls", "endpoint", "headers"}
)
"""Options whose values no message repeats."""

_LONGEST: Final = 80  # characters of a value that are repeated
_MANY: Final = 3  # the fewest letters of a name that is taken for a typing error
_MOST_FAULTS: Final = 20  # that are explained

# Names that other tools use for an option, or that people guess. Only names whose meaning is certain.
_MEANT: Final[Mapping[str, str]] = {
    "apikey": "api_key",
    "key": "api_key",
    "base_url": "api_base",
    "endpoint": "url",
    "address": "host",
    "bind": "host",
    "listen": "host",
    "bootstrap_servers": "brokers",
    "group_id": "group",
    "directory": "path",
    "dir": "path",
    "folder": "path",
    "ttl": "retention",
    "max_retries": "max_attempts",
    "retries": "max_attempts",
    "concurrency": "max_concurrency",
    "warn": "warning",
    "crit": "critical",
    "threshold": "warning",
    "rate": "traces",
}

_WHAT: Final[Mapping[str, str]] = {
    "missing": "is required",
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "string_unicode": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "path_type": "must be a path",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "invalid_key": "its keys must be text",
    "none_required": "must be empty",
}
_MAPPINGS: Final = frozenset({"model_type", "model_attributes_type", "dict_type", "mapping_type", "dataclass_type"})
_LISTS: Final = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"})
_CHOICE: Final = re.compile(r"'([^']*)'")


def explain(
    error: ValidationError,
    model: type[BaseModel],
    data: object = None,
    *,
    place: str = "",
    file: str = "",
    also: Sequence[str] = (),
    meant: Mapping[str, str] | None = None,
) -> str:
    """Return a line for each fault in `data`, which `model` refused: the place, what is wrong, what is allowed.

    `place` is the place of the whole, such as `sources[0]`, and `file` its file. `also` are keys allowed in addition to
    those of `model`; `meant` has hints by unknown key. Values that may contain a secret are not repeated: those of
    secret options, and whole sections.
    """
    lines: dict[str, list[str]] = {}
    faults = error.errors(include_url=False)
    faults, more = faults[:_MOST_FAULTS], len(faults) - _MOST_FAULTS
    for fault in faults:
        if fault["type"] in ("too_short", "too_long") and any(_is_within(other, fault) for other in faults):
            continue  # its count includes only the valid entries
        where = f"{place}{_path(fault['loc'], data, fault['type'])}"
        allowed = (*_keys_at(model, fault["loc"][:-1]), *(also if len(fault["loc"]) == 1 else ()))
        message = _message(fault, model, allowed, meant or {})
        option, colon, rest = message.partition(": ")
        if colon and option in _keys_at(model, fault["loc"]):  # a rule about several options names the faulty one
            where, message = f"{where}.{option}", rest
        where = where if place else where.removeprefix(".")
        found = lines.setdefault(where, [])
        if message not in found:
            found.append(message)
    said = [": ".join(filter(None, (file, where, " or ".join(found)))) for where, found in lines.items()]
    return "\n".join(said if more <= 0 else [*said, f"{more:,} more faults"])


def _is_within(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    depth = len(other["loc"])
    return len(one["loc"]) > depth and one["loc"][:depth] == other["loc"]


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggest the one of `names` that `name` may have meant, in brackets; empty if none is similar."""
    found = _closest(name, names)
    return f" (did you mean {found!r}?)" if found else ""


def _closest(name: str, names: Iterable[str]) -> str:
    if len(name) > _LONGEST:
        return ""
    by_lower = {one.lower(): one for one in names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    found = difflib.get_close_matches(name.lower(), by_lower, n=1) if len(name) >= _MANY else []
    return by_lower[found[0]] if found else ""


def shown(value: object) -> str:
    """Format a value for an error message: plain values as written, sections only by kind."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "empty"
    return f"{value!r:.{_LONGEST}}"


def placed(error: Exception, place: str, options: Container[str]) -> str:
    """Return an error's message with its place, extended by an option if the message begins with an option's name."""
    option, _, rest = str(error).partition(": ")
    return f"{place}.{option}: {rest}" if rest and option in options else f"{place}: {error}"


def unknown_key(key: str, allowed: Sequence[str], meant: Mapping[str, str] | None = None) -> str:
    """Say that there is no such key, which one may have been meant, and which are allowed."""
    hint = (meant or {}).get(key.lower(), "")
    if not hint:
        called = _MEANT.get(key.lower(), "")
        close = called if called in allowed else _closest(key, allowed)
        hint = repr(close) if close else ""
    listed = f"; allowed: {', '.join(allowed)}" if allowed else ""
    return f"unknown key{f' (did you mean {hint}?)' if hint else ''}{listed}"


def _path(location: Sequence[int | str], data: object, kind: str) -> str:
    """Return the place as people write it: `.windows[0].length`. The names of pydantic's own branches are left out."""
    path, here = "", data
    for number, part in enumerate(location):
        last = number == len(location) - 1
        if isinstance(here, Mapping) and part in here:
            path, here = f"{path}.{part}", here[part]
        elif isinstance(part, int) and isinstance(here, (list, tuple)) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
        elif data is None or (last and kind in ("missing", "extra_forbidden")):
            path, here = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}", None
    return path


def _message(  # noqa: PLR0911 - a table of faults
    fault: Mapping[str, Any], model: type[BaseModel], allowed: Sequence[str], meant: Mapping[str, str]
) -> str:
    kind, given, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(str(fault["loc"][-1]), allowed, meant)
    hidden = bool(SECRETS.intersection(map(str, fault["loc"])))
    plain = not hidden and not isinstance(given, (Mapping, list, tuple))
    if kind in _MAPPINGS or kind == "is_instance_of":
        return f"must be a mapping{_example(model, fault['loc'], given)}, not {kind_of(given)}"
    if kind in _LISTS:
        like = f", such as [{given}]" if plain and isinstance(given, str) and len(given) <= _LONGEST else ""
        return f"must be a list{like}, not {shown(given) if plain else kind_of(given)}"
    if kind in ("too_short", "too_long", "string_too_short", "string_too_long"):
        return _length(kind, context)
    if kind in ("literal_error", "enum"):
        choices = _CHOICE.findall(str(context.get("expected", "")))
        guess = nearest(str(given), choices) if plain else ""
        return f"must be one of: {', '.join(choices)}{guess}{_given(given) if plain else ''}"
    if kind in ("value_error", "assertion_error"):
        message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return f"{message}{_given(given) if plain and shown(given) not in message else ''}"
    message = _WHAT.get(kind, "is not valid").format_map(_Numbers(context))
    return f"{message}{_given(given) if plain and kind != 'missing' else ''}"


class _Numbers(dict[str, Any]):
    """The limits of a rule, as people write numbers."""

    def __getitem__(self, key: str) -> str:
        value = self.get(key)
        return f"{value:g}" if isinstance(value, float) else str(value)


def _given(value: object) -> str:
    return " (it is empty)" if value is None else f" (given: {shown(value)})"


def kind_of(value: object) -> str:
    """Return the kind of a value, without the value."""
    if value is None:
        return "empty"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (Mapping, "a mapping"),
        ((list, tuple), "a list"),
        (str, "text"),
        (bool, "true or false"),
        ((int, float), "a number"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "another value")


def _length(kind: str, context: Mapping[str, Any]) -> str:
    unit = "characters" if kind.startswith("string") else "entries"
    if kind.endswith("short"):
        least = context.get("min_length", 1)
        return "must not be empty" if least == 1 else f"must have at least {least} {unit}"
    return f"must have at most {context.get('max_length')} {unit}"


def _example(model: type[BaseModel], location: Sequence[int | str], given: object) -> str:
    """Show what a mapping there looks like, with the given value if it is a plain one and not a secret."""
    section = _model_at(model, location)
    if section is None or not section.model_fields:
        return ""
    required = [name for name, field in section.model_fields.items() if field.is_required()]
    name = (required or list(section.model_fields))[0]
    is_open = not SECRETS.intersection((*section.model_fields, *map(str, location)))
    plain = (
        is_open and isinstance(given, (str, int, float)) and not isinstance(given, bool) and len(str(given)) <= _LONGEST
    )
    shown_there = f"{{{name}: {given if plain else '...'}}}"
    return f", such as {{name: {shown_there}}}" if _is_by_name(model, location) else f", such as {shown_there}"


def _is_by_name(model: type[BaseModel], location: Sequence[int | str]) -> bool:
    """Return whether the place is a mapping of named sections, such as `judges`, and not one of its sections."""
    holder = _model_at(model, location[:-1])
    field = holder.model_fields.get(str(location[-1])) if holder is not None and location else None
    return field is not None and typing.get_origin(field.annotation) is dict


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    """Return the section at a place; None if there is none, or it is unknown."""
    here: type[BaseModel] | None = model
    for part in location:
        if here is not None and part in here.model_fields:
            here = _section_in(here.model_fields[str(part)].annotation)
    return here


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation, also from within a list, a mapping or a choice."""
    if hasattr(annotation, "model_fields"):
        found: type[BaseModel] = annotation
        return found
    return next(filter(None, map(_section_in, typing.get_args(annotation))), None)


def _keys_at(model: type[BaseModel], location: Sequence[int | str]) -> tuple[str, ...]:
    section = _model_at(model, location)
    return tuple(section.model_fields) if section is not None else ()
