"""Differences between two readings of the configuration: the changed places, and those that need a restart."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from monitor.config.file import as_written, parse_text, read_text
from monitor.config.model import Config
from monitor.config.secrets import VARIABLE
from monitor.errors.reading import read_file

_MOST_NAMED: Final = 20
_LISTENING: Final = ("sources", "sinks")


class Loaded(NamedTuple):
    """One reading of the file.

    `data` is its content before environment variables are replaced. `files` has the digests of the files that it names,
    by their place in the configuration; `fingerprint` is a digest of them all.
    """

    config: Config
    data: Mapping[str, Any]
    files: Mapping[str, str]
    fingerprint: str = ""

    @classmethod
    def read(cls, path: Path | None, *, pipe: bool = True) -> Loaded:
        """Read the file at `path`, or a pipe if `pipe` allows it; None: the defaults. Raises `ConfigError`."""
        if path is None:
            return cls.of(Config())
        text = read_text(path, pipe=pipe)
        config, data = parse_text(text, str(path), path.parent), as_written(text)
        files = {place: _digest(file) for place, file in _named(config, data, path.parent)}
        return cls(config, data, files, " ".join([hashlib.sha256(text.encode()).hexdigest(), *files.values()]))

    @classmethod
    def of(cls, config: Config) -> Loaded:
        """Wrap a configuration that does not come from a file."""
        return cls(config, {}, {})


def fingerprint(path: Path, loaded: Loaded) -> str:
    """Return a digest of the file at `path` and of the files it named when it was read; an error is also a value."""
    named = _named(loaded.config, loaded.data, path.parent)
    return " ".join([_digest(path), *(_digest(file) for _, file in named)])


def changes(before: Loaded, after: Loaded) -> list[str]:
    """Return the places that differ, such as `alerts[0].warning`, without their values, which may be secrets."""
    found = list(_different(before.data, after.data, ""))
    named = {place for place in {*before.files, *after.files} if before.files.get(place) != after.files.get(place)}
    found += sorted(named.difference(found))
    more = len(found) - _MOST_NAMED
    return [*found[:_MOST_NAMED], f"{more} more"] if more > 0 else found


def needing_restart(before: Config, after: Config) -> list[str]:
    """Return the places that differ and cannot change while the process runs."""
    found: list[str] = []
    for name in Config.model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if name in _LISTENING:
            found += _of_listeners(name, old, new)
        elif isinstance(old, BaseModel):
            found += _fixed(name, old, new)
    return found


def _of_listeners(section: str, before: tuple[Any, ...], after: tuple[Any, ...]) -> Iterator[str]:
    """Compare the servers among sources or sinks, in their order."""
    old = [one for one in before if one.needs_restart]
    new = [(number, one) for number, one in enumerate(after) if one.needs_restart]
    if [type(one) for one in old] != [type(one) for _, one in new]:
        yield f"{section} (a server was added, removed or moved)"
        return
    for one, (number, other) in zip(old, new, strict=True):
        yield from _fixed(f"{section}[{number}]", one, other)


def _fixed(place: str, before: BaseModel, after: BaseModel) -> Iterator[str]:
    for name in type(before).model_fields:
        if name in getattr(before, "needs_restart", ()) and getattr(before, name) != getattr(after, name):
            yield f"{place}.{name}"


def _different(before: object, after: object, place: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            inner = f"{place}.{key}" if place else str(key)
            if key in before and key in after:
                yield from _different(before[key], after[key], inner)
            else:
                yield inner
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _different(old, new, f"{place}[{number}]")
    elif before != after or type(before) is not type(after):
        yield place


def _named(config: Config, data: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files read with the configuration: rubrics and canary cases. Other files are reread anyway."""
    entries = data.get("evaluators")
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping) and isinstance(name := entry.get("file"), str):
            yield f"evaluators[{number}].file", folder / VARIABLE.sub(lambda found: os.environ.get(found[1], ""), name)
    if config.canary.cases is not None:
        yield "canary.cases", config.canary.cases


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(read_file(file)).hexdigest()
    except OSError as error:
        return type(error).__name__
