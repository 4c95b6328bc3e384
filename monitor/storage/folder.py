"""The storage folder as a whole: which version of rag-monitor wrote it last, and how a rollback is refused."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from monitor import __version__
from monitor.errors import ConfigError
from monitor.storage.files import write_whole

NAME: Final = "version.json"
"""The file with that version."""

FORMAT: Final = 1
"""The format number of all files that are not databases, from 1. Each database has a number of its own."""

_VERSION: Final = re.compile(r"[\w.+-]{1,40}", re.ASCII)
_MOST_BYTES: Final = 1000


class _Writer(NamedTuple):
    """The version that last wrote a folder; "" if that is not known."""

    version: str
    format: int


def refuse_newer(folder: Path) -> None:
    """Raise `ConfigError` if a newer version wrote the files beside the databases in a different format."""
    writer = _writer(folder)
    if writer.format > FORMAT:
        remedy = "start the newer version again, or set `storage.path` to another folder"
        raise rolled_back(folder / NAME, writer.format, FORMAT, remedy)


def rolled_back(
    path: Path,
    found: int,
    known: int,
    remedy: str = "start the newer version again, or move the file away to begin without it",
) -> ConfigError:
    """Return the error for a file of format `found`, given that this version reads formats up to `known`."""
    version = _writer(path.parent).version
    by = f" ({version})" if version not in ("", __version__) else ""
    return ConfigError(
        f"{path} was written by a newer version of rag-monitor{by}: it has format {found}, this version ({__version__})"
        f" reads up to {known}; {remedy}"
    )


def mark(folder: Path) -> None:
    """Record that this version writes the folder from now on. Disk errors are left for the databases to report."""
    if _writer(folder) != (__version__, FORMAT):
        with suppress(OSError):
            write_whole(folder / NAME, orjson.dumps({"version": __version__, "format": FORMAT}) + b"\n")


def _writer(folder: Path) -> _Writer:
    """Read the file; a missing or damaged one gives an unknown version."""
    try:
        with (folder / NAME).open("rb") as file:
            found = orjson.loads(file.read(_MOST_BYTES))
        version, number = found["version"], found["format"]
    except (OSError, ValueError, TypeError, KeyError):
        return _Writer("", 0)
    if not (isinstance(version, str) and _VERSION.fullmatch(version) and type(number) is int):
        return _Writer("", 0)
    return _Writer(version, number)
