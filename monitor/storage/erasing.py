"""Deleting rows from a database that another process may be writing, for `rag-monitor forget`."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from monitor.errors import MonitorError
from monitor.storage.files import make_private
from monitor.storage.sqlite import empty_log, marks

_WAIT_TO_ERASE: Final = 60.0
_ERASE_AT_ONCE: Final = 500


class Eraser:
    """Deletes rows of a file within one transaction, or only counts them with `dry_run`; keeps counts by table."""

    def __init__(self, db: sqlite3.Connection, *, dry_run: bool) -> None:
        self.db = db
        self._dry_run = dry_run
        self.rows: dict[str, int] = {}

    def has(self, table: str) -> bool:
        """Return whether the file has this table."""
        sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.db.execute(sql, (table,)).fetchone() is not None

    def delete(self, table: str, column: str, values: Collection[Any]) -> None:
        """Delete the rows with one of `values` in `column`. A missing table has no rows."""
        if not values or not self.has(table):
            return
        wanted, number = sorted(values), 0
        for at in range(0, len(wanted), _ERASE_AT_ONCE):
            part = wanted[at : at + _ERASE_AT_ONCE]
            where = f"FROM {table} WHERE {column} IN ({marks(part)})"
            if self._dry_run:
                number += int(self.db.execute(f"SELECT count(*) {where}", part).fetchone()[0])
            else:
                number += self.db.execute(f"DELETE {where}", part).rowcount
        if number:
            self.rows[table] = self.rows.get(table, 0) + number

    def requests_of(self, table: str, column: str, ids: Collection[str]) -> set[str]:
        """Return `ids` and the ids of all requests in `column` that are part of one of these traces or rows."""
        found = set(ids)
        if self.has(table):
            sql = f"SELECT DISTINCT {column} FROM {table} WHERE {column} > ? AND {column} < ?"  # noqa: S608 - ours
            for one in ids:
                found.update(name for (name,) in self.db.execute(sql, (f"{one}/", f"{one}0")))  # 0 comes after /
        return found


@contextmanager
def erasing(path: Path, *, dry_run: bool) -> Iterator[Eraser]:
    """Open the existing file `path` to delete from it, beside a running monitor.

    Deleted rows are overwritten on disk. Waits up to 60 s for another writer. Raises `MonitorError`; nothing is deleted
    then.
    """
    try:
        make_private(path)
        with closing(sqlite3.connect(path, isolation_level=None, timeout=_WAIT_TO_ERASE)) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN" if dry_run else "BEGIN IMMEDIATE")
            eraser = Eraser(db, dry_run=dry_run)
            yield eraser
            db.execute("COMMIT")
            if eraser.rows and not dry_run:
                empty_log(db, wait=True)
    except (sqlite3.Error, OSError) as error:
        raise MonitorError(f"{path} cannot be used: {error}") from error
