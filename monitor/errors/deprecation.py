"""Deprecated options: declared where the option is declared, and found in a user's configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Deprecated:
    """Marks an option of a section or component as deprecated, in its annotation.

        limit: Annotated[int, Deprecated(since="0.2.0", removed_in="0.3.0", instead="at_most")] = 10

    `rag-monitor check` and the log at start then report it to everyone who sets it. The reference marks it, too.

    Args:
        since: the first version in which it is deprecated.
        removed_in: the first version without it.
        instead: the option to use instead, from the same section or with its full path; "": none.
    """

    since: str
    removed_in: str
    instead: str = ""

    def __str__(self) -> str:
        """Return the notice, without the name of the option."""
        instead = f"use `{self.instead}` instead" if self.instead else "nothing replaces it"
        return f"deprecated since {self.since}, removed in {self.removed_in}; {instead}"


_OTHER_KEYS: Final[Mapping[str, str]] = {"configured": "", "evaluator": "", "sampler": "sample"}
"""The key in the file for an attribute of a configuration value; "": it has no key."""


def deprecated_options(value: object, place: str = "") -> Iterator[str]:
    """Yield a sentence for each deprecated option that was set in a configuration, or in a part of it at `place`."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if name in value.model_fields_set:
                where = _joined(place, name)
                yield from (f"{where}: {one}" for one in field.metadata if isinstance(one, Deprecated))
                yield from deprecated_options(getattr(value, name), where)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from deprecated_options(one, _joined(place, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from deprecated_options(one, f"{place}[{index}]")
    elif is_dataclass(value):
        for part in fields(value):
            yield from deprecated_options(getattr(value, part.name), _joined(place, part.name))


def _joined(place: str, name: str) -> str:
    return ".".join(filter(None, (place, _OTHER_KEYS.get(name, name))))
