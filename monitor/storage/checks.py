"""Finding damage in a database: content of the file that is not what was written to it."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Damaged(Exception):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """The content of the file is not what was written to it."""


def open_read_only(path: Path, *, untouched: bool = False) -> sqlite3.Connection:
    """Open an existing file for reading, even while another process writes it. Raises `sqlite3.Error`.

    `untouched`: create no companion files. SQLite otherwise leaves an empty log and its index there.
    """
    closed = untouched and not path.with_name(f"{path.name}-wal").exists()  # not in use, and the log is checkpointed
    options = "mode=ro&immutable=1" if closed else "mode=ro"
    db = sqlite3.connect(f"file:{quote(os.fspath(path))}?{options}", uri=True, timeout=5, check_same_thread=False)
    db.text_factory = readable
    return db


def readable(text: bytes) -> str:
    """Read a text of a database, even with damaged bytes, which SQLite does not notice."""
    return text.decode("utf-8", "replace")


def quick_check(db: sqlite3.Connection) -> None:
    """Read the structure of the whole file, not its content. Raises `Damaged`, `sqlite3.Error`.

    Without it a damaged inner page can hide rows from a search without an error.
    """
    _pragma_check(db, "quick_check")


def full_check(db: sqlite3.Connection) -> None:
    """Check the whole file as `quick_check` does, and its indexes against the tables. Raises the same errors."""
    _pragma_check(db, "integrity_check")


def _pragma_check(db: sqlite3.Connection, name: str) -> None:
    found = db.execute(f"PRAGMA {name}(1)").fetchone()[0]
    said = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    if said != "ok":
        raise Damaged(said)


def check_schema(db: sqlite3.Connection, schema: str) -> None:
    """Check that the tables and columns of `schema` exist; extra ones are allowed. Raises `Damaged`."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(schema)
        for table, columns in _columns(fresh).items():
            if missing := columns - _columns(db).get(table, set()):
                raise Damaged(f"table {table} lacks {', '.join(sorted(missing))}")


def _columns(db: sqlite3.Connection) -> dict[str, set[str]]:
    sql = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    found: dict[str, set[str]] = {}
    for table, column in db.execute(sql):
        found.setdefault(table, set()).add(column)
    return found


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, which its extended codes refine."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)) & 0xFF


def is_damage(error: Exception) -> bool:
    """Return whether the content of the file is at fault, rather than the disk or a lock."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in _DAMAGE
    return isinstance(error, Damaged | UnicodeDecodeError)


class BackgroundCheck:
    """A check of a whole file in a thread, on a connection of its own. `found` is the damage, once it `ended`."""

    def __init__(self, path: Path) -> None:
        self.ended = False
        self.found: Exception | None = None
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._stopped = False
        threading.Thread(target=self._run, name=f"check of {path.name}", daemon=True).start()

    def stop(self) -> None:
        """End it soon."""
        self._stopped = True
        with suppress(sqlite3.Error, AttributeError):
            self._db.interrupt()  # type: ignore[union-attr] # None before it began, and after its end

    def _run(self) -> None:
        try:
            with closing(open_read_only(self._path)) as self._db:
                if not self._stopped:
                    quick_check(self._db)
        except (sqlite3.Error, Damaged, UnicodeDecodeError) as error:
            self.found = error if is_damage(error) else None
        finally:
            self._db = None
            self.ended = True
